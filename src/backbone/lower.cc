// A graph at one image size as a plan: node after node, constants computed at once, the others
// lowered to steps by the function for their operator.
#include "backbone/lower.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "backbone/attributes.h"
#include "backbone/constants.h"

namespace contcore {
namespace {

using Lower = void (*)(PlanBuilder&, const Node&);

const std::unordered_map<std::string, Lower>& lowerings() {
  static const std::unordered_map<std::string, Lower> kLowerings = [] {
    std::unordered_map<std::string, Lower> all;
    all["Conv"] = lower_conv;
    all["MaxPool"] = all["AveragePool"] = lower_pool;
    all["GlobalAveragePool"] = all["GlobalMaxPool"] = lower_global_pool;
    all["BatchNormalization"] = lower_batch_norm;
    for (const char* op :
         {"Relu", "LeakyRelu", "Elu", "Sigmoid", "HardSwish", "Tanh", "Sqrt", "Exp", "Log", "Abs",
          "Neg", "Reciprocal", "Gelu", "com.microsoft.Gelu", "HardSigmoid"}) {
      all[op] = lower_function;
    }
    all["Clip"] = lower_clip;
    for (const char* op : {"Add", "Sub", "Mul", "Div", "Min", "Max"}) all[op] = lower_binary;
    all["Pow"] = lower_pow;
    all["Concat"] = lower_concat;
    all["MatMul"] = lower_matmul;
    all["Gemm"] = lower_gemm;
    all["LayerNormalization"] = lower_layer_norm;
    all["Softmax"] = lower_softmax;
    for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}) all[op] = lower_reshape;
    all["Transpose"] = lower_transpose;
    all["Slice"] = lower_slice;
    all["Split"] = lower_split;
    all["Gather"] = lower_gather;
    all["ReduceMean"] = lower_mean;
    all["QuantizeLinear"] = lower_quantize;
    all["DequantizeLinear"] = lower_dequantize;
    all["Cast"] = lower_cast;
    all["Identity"] = all["Dropout"] = lower_alias;
    all["Shape"] = all["Size"] = lower_shape;
    for (const char* op :
         {"Pad", "Resize", "Upsample", "Expand", "Tile", "Where", "Erf", "Floor", "Ceil", "Round",
          "Sin", "Cos", "Mod", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"}) {
      all[op] = lower_host;
    }
    return all;
  }();
  return kLowerings;
}

class Lowering {
 public:
  Lowering(const Graph& graph, std::int64_t height, std::int64_t width)
      : plan_(graph, height, width) {}

  void add(const Node& node) {
    if (add_constants(node)) return;
    const auto found = lowerings().find(node.op);
    if (found == lowerings().end()) {
      fail(node,
           "the operator is not supported; export the model without it, or choose layers before "
           "it");
    }
    // Whole numbers are no step's affair; where they occur they are shapes, and constant, or stand
    // for floats between QuantizeLinear and DequantizeLinear.
    check_whole(plan_, node);
    found->second(plan_, node);
    hand_on_whole(plan_, node);
  }

  // Leaves the node out, if it cannot be run or depends on one that was left out.
  void try_add(const Node& node) {
    const bool orphaned =
        std::any_of(node.inputs.begin(), node.inputs.end(),
                    [this](const std::string& name) { return left_out_.contains(name); });
    try {
      if (!orphaned) return add(node);
    } catch (const Error&) {
    }
    left_out_.insert(node.outputs.begin(), node.outputs.end());
  }

  Plan take() { return plan_.take(); }

 private:
  // Computes a node that does not depend on the image. Returns whether it was one.
  bool add_constants(const Node& node) {
    const auto inputs = plan_.constants(node);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == nullptr && has_input(node, i)) return false;
    }
    if (!can_evaluate(node.op)) return false;
    const std::vector<Tensor> results = evaluate(node, plan_.plan().opset, inputs);
    for (std::size_t i = 0; i < results.size() && i < node.outputs.size(); ++i) {
      computed_ += static_cast<std::int64_t>(results[i].size());
      if (computed_ > kMostNumbers) fail(node, "the graph's constants take over 2 GiB");
      plan_.add_constant(node.outputs[i], results[i]);
    }
    return true;
  }

  PlanBuilder plan_;
  std::unordered_set<std::string> left_out_;  // tensors
  std::int64_t computed_ = 0;                 // constants, in numbers
};

}  // namespace

void lower_alias(PlanBuilder& plan, const Node& node) { plan.add_alias(node); }

void lower_cast(PlanBuilder& plan, const Node& node) {
  const std::int64_t to = int_attribute(node, "to", 1);
  if (to != 1 && to != 10 && to != 11) fail(node, "turns image features into whole numbers");
  plan.add_alias(node);
}

void lower_shape(PlanBuilder& plan, const Node& node) {
  // The numbers are not read: an empty tensor of that shape will do.
  const Tensor form = Tensor::of(plan.shape(node, 0), std::vector<float>{});
  const Tensor* inputs[] = {&form};
  plan.add_constant(output_name(node), evaluate(node, plan.plan().opset, inputs).front());
}

// Its shape is found by running it on zeros.
void lower_host(PlanBuilder& plan, const Node& node) {
  auto inputs = plan.constants(node);
  std::vector<Tensor> zeros(inputs.size());
  Step step = new_step(node, Step::Kind::kHost);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!has_input(node, i)) continue;
    step.in.push_back(plan.value(node, i));
    if (inputs[i] != nullptr) continue;
    const auto count = static_cast<std::size_t>(count_of(node, plan.shape(node, i)));
    zeros[i] = Tensor::of(plan.shape(node, i), std::vector<float>(count, 0.0f));
    inputs[i] = &zeros[i];
  }
  const std::vector<Tensor> results = evaluate(node, plan.plan().opset, inputs);
  if (!results.front().is_float()) fail(node, "turns image features into whole numbers");
  plan.add_step(node, std::move(step), results.front().shape);
}

bool known_operator(const std::string& op) { return lowerings().contains(op) || can_evaluate(op); }

Plan lower(const Graph& graph, const std::vector<std::size_t>& nodes, std::int64_t height,
           std::int64_t width, bool tolerant) {
  Lowering lowering(graph, height, width);
  for (const std::size_t i : nodes) {
    if (tolerant) {
      lowering.try_add(graph.nodes[i]);
    } else {
      lowering.add(graph.nodes[i]);
    }
  }
  return lowering.take();
}

}  // namespace contcore
