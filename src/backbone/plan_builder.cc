#include "backbone/plan_builder.h"

#include <utility>

#include "backbone/attributes.h"

namespace contcore {

const std::string& output_name(const Node& node) {
  if (node.outputs.empty()) fail(node, "has no output");
  return node.outputs.front();
}

Step new_step(const Node& node, Step::Kind kind) {
  Step step;
  step.kind = kind;
  step.node = node;
  if (kind != Step::Kind::kHost) step.node.attributes.clear();
  return step;
}

void set_whole_window(const Shape& map, Step& step) {
  step.kernel = {map[2], map[3]};
  step.strides = step.dilations = {1, 1};
  step.pads_begin = step.pads_end = {0, 0};
}

PlanBuilder::PlanBuilder(const Graph& graph, std::int64_t height, std::int64_t width)
    : graph_(graph) {
  plan_.opset = graph.opset;
  plan_.input = add_value(graph.input, image_shape(height, width));
}

Shape PlanBuilder::image_shape(std::int64_t height, std::int64_t width) {
  const Shape& declared = graph_.input_shape;
  const bool last = declared.size() == 4 && declared[3] == 3 && declared[1] != 3;
  if (!last && declared.size() == 4 && declared[1] != 3 && declared[1] != -1) {
    throw Error(Error::Kind::kInput,
                fmt::format("its input '{}' takes {} channels; a backbone takes images of 3",
                            graph_.input, declared[1]));
  }
  plan_.channels_last = last;
  return last ? Shape{1, height, width, 3} : Shape{1, 3, height, width};
}

// ---- values ------------------------------------------------------------------------------------

std::size_t PlanBuilder::add_value(const std::string& name, Shape shape) {
  plan_.values.push_back({name, std::move(shape), std::nullopt, std::nullopt});
  plan_.names[name] = plan_.values.size() - 1;
  return plan_.values.size() - 1;
}

void PlanBuilder::add_constant(const std::string& name, Tensor tensor) {
  if (name.empty()) return;
  const std::size_t id = add_value(name, tensor.shape);
  plan_.values[id].constant = std::move(tensor);
}

std::size_t PlanBuilder::value(const Node& node, std::size_t i) {
  if (!has_input(node, i)) fail(node, fmt::format("its input {} is missing", i));
  const std::string& name = node.inputs[i];
  const auto known = plan_.names.find(name);
  if (known != plan_.names.end()) return known->second;
  const auto weight = graph_.weights.find(name);
  if (weight == graph_.weights.end()) fail(node, fmt::format("'{}' is not there", name));
  add_constant(name, weight->second);
  return plan_.names[name];
}

const Tensor* PlanBuilder::constant(const Node& node, std::size_t i) {
  if (!has_input(node, i)) return nullptr;
  const auto& tensor = plan_.values[value(node, i)].constant;
  return tensor ? &*tensor : nullptr;
}

const Tensor& PlanBuilder::float_constant(const Node& node, std::size_t i, const char* what) {
  const Tensor* tensor = constant(node, i);
  if (tensor == nullptr || !tensor->is_float()) {
    fail(node, fmt::format("its {} must be constant float numbers", what));
  }
  return *tensor;
}

std::vector<const Tensor*> PlanBuilder::constants(const Node& node) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (has_input(node, i)) value(node, i);  // all are there before the first is pointed at
  }
  std::vector<const Tensor*> all;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) all.push_back(constant(node, i));
  return all;
}

float PlanBuilder::number(const Node& node, std::size_t i, float otherwise) {
  if (!has_input(node, i)) return otherwise;
  const Tensor& tensor = float_constant(node, i, "limits");
  if (tensor.size() != 1) fail(node, fmt::format("its input {} must be one number", i));
  return tensor.floats->front();
}

const Shape& PlanBuilder::map_shape(const Node& node) {
  const Shape& in = shape(node, 0);
  if (in.size() != 4) {
    fail(node, fmt::format("is supported on maps (N, C, height, width) only, not on [{}]",
                           fmt::join(in, ", ")));
  }
  return in;
}

// ---- steps -------------------------------------------------------------------------------------

void PlanBuilder::add_step(Step step, Shape shape, const std::string& name) {
  if (count_of(step.node, shape) == 0) fail(step.node, "makes an empty tensor; use larger images");
  step.out = add_value(name, std::move(shape));
  plan_.steps.push_back(std::move(step));
}

void PlanBuilder::add_functions(const Node& node, std::size_t i,
                                const std::vector<Unary>& functions) {
  Step step = new_step(node, Step::Kind::kUnary);
  step.in = {value(node, i)};
  for (const Unary& function : functions) step.post_ops.push_back({function, 0});
  Shape result = shape(node, i);
  add_step(node, std::move(step), std::move(result));
}

void PlanBuilder::add_reshape(const Node& node, std::size_t in, Shape shape,
                              const std::string& name) {
  if (plan_.values[in].shape == shape) {
    plan_.names[name] = in;
    return;
  }
  Step step = new_step(node, Step::Kind::kReshape);
  step.in = {in};
  add_step(std::move(step), std::move(shape), name);
}

}  // namespace contcore
