#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "backbone/attributes.h"
#include "backbone/constants.h"
#include "backbone/plan.h"
#include "backbone/shapes.h"

namespace contcore {
namespace {

using Ints = std::vector<std::int64_t>;
using Kind = Step::Kind;

constexpr std::int64_t kLargestWindow = 1 << 20;

class Tracer {
 public:
  Tracer(const Graph& graph, std::int64_t height, std::int64_t width) : graph_(graph) {
    plan_.opset = graph.opset;
    plan_.input = add_value(graph.input, image_shape(height, width));
  }

  void add(const Node& node);
  void forget(const Node& node) { lost_.insert(node.outputs.begin(), node.outputs.end()); }
  bool depends_on_lost(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [this](const std::string& name) { return lost_.contains(name); });
  }
  Plan finish() { return std::move(plan_); }
  Plan& plan() { return plan_; }

 private:
  using Handler = void (Tracer::*)(const Node&);
  friend bool contcore::known_operator(const std::string& op);
  static const std::unordered_map<std::string, Handler>& handlers();

  Shape image_shape(std::int64_t height, std::int64_t width) {
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

  // ---- values ----
  std::size_t add_value(const std::string& name, Shape shape) {
    plan_.values.push_back({name, std::move(shape), std::nullopt});
    plan_.names[name] = plan_.values.size() - 1;
    return plan_.values.size() - 1;
  }
  void add_constant(const std::string& name, Tensor tensor) {
    if (name.empty()) return;
    const std::size_t id = add_value(name, tensor.shape);
    plan_.values[id].constant = std::move(tensor);
  }
  bool has_input(const Node& node, std::size_t i) const {
    return i < node.inputs.size() && !node.inputs[i].empty();
  }
  std::size_t value(const Node& node, std::size_t i) {
    if (!has_input(node, i)) fail(node, fmt::format("its input {} is missing", i));
    const std::string& name = node.inputs[i];
    const auto known = plan_.names.find(name);
    if (known != plan_.names.end()) return known->second;
    const auto weight = graph_.weights.find(name);
    if (weight == graph_.weights.end()) fail(node, fmt::format("'{}' is not there", name));
    add_constant(name, weight->second);
    return plan_.names[name];
  }
  const Shape& shape(const Node& node, std::size_t i) { return plan_.values[value(node, i)].shape; }
  const Tensor* constant(const Node& node, std::size_t i) {
    if (!has_input(node, i)) return nullptr;
    const auto& tensor = plan_.values[value(node, i)].constant;
    return tensor ? &*tensor : nullptr;
  }
  const Tensor& float_constant(const Node& node, std::size_t i, const char* what) {
    const Tensor* tensor = constant(node, i);
    if (tensor == nullptr || !tensor->is_float()) {
      fail(node, fmt::format("its {} must be constant float numbers", what));
    }
    return *tensor;
  }
  // The node's inputs, null where they depend on the image.
  std::vector<const Tensor*> constants(const Node& node) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (has_input(node, i)) value(node, i);  // may add to, and so move, the values
    }
    std::vector<const Tensor*> all;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) all.push_back(constant(node, i));
    return all;
  }
  float number(const Node& node, std::size_t i, float otherwise) {
    if (!has_input(node, i)) return otherwise;
    const Tensor& tensor = float_constant(node, i, "limits");
    if (tensor.size() != 1) fail(node, fmt::format("its input {} must be one number", i));
    return tensor.floats->front();
  }

  // ---- steps ----
  Step start(const Node& node, Kind kind) {
    Step step;
    step.kind = kind;
    step.node = node;
    step.node.attributes.clear();
    if (kind == Kind::kHost) step.node.attributes = node.attributes;
    return step;
  }
  void finish(Step step, Shape shape, const std::string& name) {
    if (count_of(step.node, shape) == 0)
      fail(step.node, "makes an empty tensor; use larger images");
    step.out = add_value(name, std::move(shape));
    plan_.steps.push_back(std::move(step));
  }
  void finish(const Node& node, Step step, Shape shape) {
    finish(std::move(step), std::move(shape), output(node));
  }
  const std::string& output(const Node& node) {
    if (node.outputs.empty()) fail(node, "has no output");
    return node.outputs.front();
  }
  void alias(const Node& node) { plan_.names[output(node)] = value(node, 0); }
  void unary(const Node& node, std::vector<Unary> functions) {
    Step step = start(node, Kind::kUnary);
    step.in = {value(node, 0)};
    for (const Unary& function : functions) step.after.push_back({function, 0});
    const Shape result = shape(node, 0);
    finish(node, std::move(step), result);
  }
  const Shape& image_input(const Node& node) {
    const Shape& in = shape(node, 0);
    if (in.size() != 4) {
      fail(node, fmt::format("is supported on maps (N, C, height, width) only, not on [{}]",
                             fmt::join(in, ", ")));
    }
    return in;
  }

  // ---- operators ----
  void conv(const Node& node);
  void pool(const Node& node);
  void global_pool(const Node& node);
  void batch_norm(const Node& node);
  void function(const Node& node);
  void clip(const Node& node);
  void binary(const Node& node);
  void pow(const Node& node);
  void concat(const Node& node);
  void matmul(const Node& node);
  void gemm(const Node& node);
  void layer_norm(const Node& node);
  void softmax(const Node& node);
  void reshape(const Node& node);
  void transpose(const Node& node);
  void slice(const Node& node);
  void split_up(const Node& node);
  void gather(const Node& node);
  void mean(const Node& node);
  void cast(const Node& node);
  void shape_of(const Node& node);
  void host(const Node& node);

  void window(const Node& node, const Shape& in, const Ints& kernel, Step& step, Shape& out);
  void reshape_to(const Node& node, std::size_t in, Shape shape, const std::string& name);

  const Graph& graph_;
  Plan plan_;
  std::unordered_set<std::string> lost_;
  std::int64_t computed_ = 0;  // constants, in numbers
};

// ---- windows -----------------------------------------------------------------------------------

Ints two(const Node& node, const char* name, std::int64_t otherwise, std::int64_t least) {
  Ints values = ints_attribute(node, name, {otherwise, otherwise});
  if (values.size() != 2) {
    fail(node, fmt::format("its {} must be two numbers (only 2-D is supported)", name));
  }
  for (const std::int64_t x : values) {
    if (x < least || x > kLargestWindow) fail(node, fmt::format("its {} make no sense", name));
  }
  return values;
}

void Tracer::window(const Node& node, const Shape& in, const Ints& kernel, Step& step, Shape& out) {
  step.kernel = kernel;
  step.strides = two(node, "strides", 1, 1);
  step.dilations = two(node, "dilations", 1, 1);
  Ints pads = ints_attribute(node, "pads", {0, 0, 0, 0});
  if (pads.size() != 4) fail(node, "its pads must be four numbers");
  for (const std::int64_t x : pads) {
    if (x < 0 || x > kLargestWindow) fail(node, "its pads make no sense");
  }
  const std::string automatic = string_attribute(node, "auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (automatic == "VALID") pads = {0, 0, 0, 0};
  const bool up = int_attribute(node, "ceil_mode", 0) != 0;
  step.before.resize(2);
  step.behind.resize(2);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t length = in[i + 2];
    const std::int64_t reach = (kernel[i] - 1) * step.dilations[i] + 1;
    const std::int64_t stride = step.strides[i];
    if (same) {
      const std::int64_t places = (length + stride - 1) / stride;
      const std::int64_t total = std::max<std::int64_t>(0, (places - 1) * stride + reach - length);
      pads[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads[i + 2] = total - pads[i];
    }
    const std::int64_t room = length + pads[i] + pads[i + 2] - reach;
    if (room < 0) {
      fail(node, fmt::format("its window of {} does not fit into {} places; use larger images",
                             reach, length + pads[i] + pads[i + 2]));
    }
    std::int64_t places = room / stride + 1;
    // A last, partial window counts if it starts inside the map or the padding before it.
    if (up && room % stride != 0 && places * stride < length + pads[i]) ++places;
    step.before[i] = pads[i];
    step.behind[i] = pads[i + 2];
    out.push_back(places);
  }
}

void Tracer::conv(const Node& node) {
  const Shape in = image_input(node);
  const Tensor weights = float_constant(node, 1, "weights");
  Step step = start(node, Kind::kConv);
  step.in = {value(node, 0)};
  step.group = int_attribute(node, "group", 1);
  const Shape& form = weights.shape;
  if (form.size() != 4 || step.group < 1 || form[0] < 1 || form[0] % step.group != 0 ||
      form[1] < 1 || in[1] % step.group != 0 || in[1] / step.group != form[1]) {
    fail(node, fmt::format("weights of shape [{}] in {} groups do not fit an input of shape [{}]",
                           fmt::join(form, ", "), step.group, fmt::join(in, ", ")));
  }
  const Ints kernel{form[2], form[3]};
  if (ints_attribute(node, "kernel_shape", kernel) != kernel || kernel[0] < 1 || kernel[1] < 1) {
    fail(node, "its kernel_shape is not that of its weights");
  }
  step.weights = weights;
  step.shared = graph_.weights.contains(node.inputs[1]);
  if (has_input(node, 2)) {
    const Tensor& bias = float_constant(node, 2, "bias");
    if (bias.size() != static_cast<std::size_t>(form[0])) fail(node, "its bias has the wrong size");
    step.bias = *bias.floats;
  }
  Shape out{1, form[0]};
  window(node, in, kernel, step, out);
  finish(node, std::move(step), std::move(out));
}

// With ceil_mode the last window may reach beyond the padding. Where padding counts, what lies
// beyond does not: the factors that put oneDNN's means right. Empty: nothing to put right.
std::vector<float> partial_windows(const Step& step, const Shape& in, const Shape& out) {
  if (step.kind != Kind::kMeanPool || !step.count_padding) return {};
  std::vector<float> factors[2];
  bool partial = false;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t end = in[i + 2] + step.before[i] + step.behind[i];
    for (std::int64_t place = 0; place < out[i + 2]; ++place) {
      std::int64_t count = 0;
      for (std::int64_t k = 0; k < step.kernel[i]; ++k) {
        count += place * step.strides[i] + k * step.dilations[i] < end ? 1 : 0;
      }
      partial = partial || count < step.kernel[i];
      factors[i].push_back(static_cast<float>(step.kernel[i]) / static_cast<float>(count));
    }
  }
  std::vector<float> product;
  for (const float row : factors[0]) {
    for (const float column : factors[1]) product.push_back(row * column);
  }
  return partial ? product : std::vector<float>{};
}

void Tracer::pool(const Node& node) {
  if (node.outputs.size() > 1 && !node.outputs[1].empty()) {
    fail(node, "its second output (indices) is not supported");
  }
  const bool max = node.op == "MaxPool";
  const Shape in = image_input(node);
  Step step = start(node, max ? Kind::kMaxPool : Kind::kMeanPool);
  step.in = {value(node, 0)};
  step.count_padding = int_attribute(node, "count_include_pad", 0) != 0;
  Shape out{1, in[1]};
  window(node, in, two(node, "kernel_shape", 0, 1), step, out);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t reach = (step.kernel[i] - 1) * step.dilations[i] + 1;
    if (step.before[i] >= reach || step.behind[i] >= reach) {
      fail(node, "is padded by more than its window");
    }
  }
  const std::vector<float> correction = partial_windows(step, in, out);
  if (correction.empty()) return finish(node, std::move(step), std::move(out));
  const std::string name = output(node);
  finish(std::move(step), out, name + "/windows");
  add_constant(name + "/correction", Tensor::of({1, 1, out[2], out[3]}, correction));
  Step scale = start(node, Kind::kBinary);
  scale.combine = Step::Combine::kMul;
  scale.in = {plan_.names[name + "/windows"], plan_.names[name + "/correction"]};
  finish(node, std::move(scale), std::move(out));
}

void Tracer::global_pool(const Node& node) {
  const Shape in = image_input(node);
  Step step = start(node, node.op == "GlobalMaxPool" ? Kind::kMaxPool : Kind::kMeanPool);
  step.in = {value(node, 0)};
  step.kernel = {in[2], in[3]};
  step.strides = step.dilations = {1, 1};
  step.before = step.behind = {0, 0};
  finish(node, std::move(step), {1, in[1], 1, 1});
}

void Tracer::batch_norm(const Node& node) {
  if (int_attribute(node, "training_mode", 0) != 0) {
    fail(node, "is in training mode; export the model in evaluation mode (model.eval())");
  }
  const Shape in = shape(node, 0);
  if (in.size() < 2) fail(node, "needs an input with channels");
  const auto channels = static_cast<std::size_t>(in[1]);
  const std::vector<float>* parts[4];
  for (std::size_t i = 0; i < 4; ++i) {
    float_constant(node, i + 1, "parameters");  // may move the values
  }
  for (std::size_t i = 0; i < 4; ++i) {
    parts[i] = float_constant(node, i + 1, "parameters").floats.get();
    if (parts[i]->size() != channels) {
      fail(node, fmt::format("its parameters are for {} channels, its input has {}",
                             parts[i]->size(), channels));
    }
  }
  const auto epsilon = static_cast<double>(float_attribute(node, "epsilon", 1e-5f));
  Step step = start(node, Kind::kAffine);
  step.in = {value(node, 0)};
  for (std::size_t c = 0; c < channels; ++c) {
    const double scale = static_cast<double>((*parts[0])[c]) /
                         std::sqrt(static_cast<double>((*parts[3])[c]) + epsilon);
    const double shift =
        static_cast<double>((*parts[1])[c]) - static_cast<double>((*parts[2])[c]) * scale;
    step.scale.push_back(static_cast<float>(scale));
    step.bias.push_back(static_cast<float>(shift));
  }
  finish(node, std::move(step), in);
}

// ---- one number at a time ----------------------------------------------------------------------

void Tracer::function(const Node& node) {
  using K = Unary::Kind;
  const std::string& op = node.op;
  if (op == "Relu") return unary(node, {{K::kRelu, 0, 0}});
  if (op == "LeakyRelu") {
    return unary(node, {{K::kRelu, float_attribute(node, "alpha", 0.01f), 0}});
  }
  if (op == "Elu") return unary(node, {{K::kElu, float_attribute(node, "alpha", 1), 0}});
  if (op == "Sigmoid") return unary(node, {{K::kSigmoid, 0, 0}});
  if (op == "HardSwish") return unary(node, {{K::kHardSwish, 0, 0}});
  if (op == "Tanh") return unary(node, {{K::kTanh, 0, 0}});
  if (op == "Sqrt") return unary(node, {{K::kSqrt, 0, 0}});
  if (op == "Exp") return unary(node, {{K::kExp, 0, 0}});
  if (op == "Log") return unary(node, {{K::kLog, 0, 0}});
  if (op == "Abs") return unary(node, {{K::kAbs, 0, 0}});
  if (op == "Neg") return unary(node, {{K::kLinear, -1, 0}});
  if (op == "Reciprocal") return unary(node, {{K::kPower, 1, -1}});
  if (op == "Gelu" || op == "com.microsoft.Gelu") {
    const bool tanh = string_attribute(node, "approximate", "none") == "tanh";
    return unary(node, {{tanh ? K::kGeluTanh : K::kGelu, 0, 0}});
  }
  // HardSigmoid
  const float alpha = float_attribute(node, "alpha", 0.2f);
  const float beta = float_attribute(node, "beta", 0.5f);
  unary(node, {{K::kLinear, alpha, beta}, {K::kClip, 0, 1}});
}

void Tracer::clip(const Node& node) {
  constexpr float kMost = std::numeric_limits<float>::max();
  float low = float_attribute(node, "min", -kMost);
  float high = float_attribute(node, "max", kMost);
  low = number(node, 1, low);
  high = number(node, 2, high);
  if (std::isnan(low) || std::isnan(high)) fail(node, "its limits are not numbers");
  low = std::max(low, -kMost);
  high = std::min(high, kMost);
  if (low == 0 && high == kMost) return unary(node, {{Unary::Kind::kRelu, 0, 0}});
  // With crossed limits ONNX means min(max(x, low), high), which is high.
  unary(node, {{Unary::Kind::kClip, std::min(low, high), high}});
}

std::optional<float> scalar(const Tensor* tensor) {
  if (tensor == nullptr || tensor->size() != 1) return std::nullopt;
  return tensor->is_float() ? tensor->floats->front() : static_cast<float>(tensor->ints->front());
}

// With one number, an operator on two tensors is a function of the other; {} where it is not.
std::vector<Unary> with_number(const std::string& op, float c, bool first) {
  using K = Unary::Kind;
  constexpr float kMost = std::numeric_limits<float>::max();
  if (op == "Add") return {{K::kLinear, 1, c}};
  if (op == "Sub") return {{K::kLinear, first ? -1.0f : 1.0f, first ? c : -c}};
  if (op == "Mul") return {{K::kLinear, c, 0}};
  if (op == "Min") return {{K::kClip, -kMost, c}};
  if (op == "Max") return {{K::kClip, c, kMost}};
  if (first) return {{K::kPower, c, -1}};
  return c == 0 ? std::vector<Unary>{} : std::vector<Unary>{{K::kLinear, 1 / c, 0}};
}

Step::Combine combination(const std::string& op) {
  if (op == "Add") return Step::Combine::kAdd;
  if (op == "Sub") return Step::Combine::kSub;
  if (op == "Mul") return Step::Combine::kMul;
  if (op == "Div") return Step::Combine::kDiv;
  return op == "Min" ? Step::Combine::kMin : Step::Combine::kMax;
}

// Whether a constant has one number for each channel of a map, and nothing else.
bool is_per_channel(const Tensor* tensor, const Shape& map) {
  if (tensor == nullptr || !tensor->is_float() || map.size() != 4) return false;
  const Shape& shape = tensor->shape;
  if (shape.size() < 3 || shape.size() > 4) return false;
  if (shape.size() == 4 && shape[0] != 1) return false;
  const std::size_t channel = shape.size() - 3;
  return shape[channel] == map[1] && shape[channel + 1] == 1 && shape[channel + 2] == 1;
}

void Tracer::binary(const Node& node) {
  if (node.inputs.size() != 2) return host(node);  // Min and Max of many
  value(node, 0);
  value(node, 1);
  const Tensor* constant_a = constant(node, 0);
  const Tensor* constant_b = constant(node, 1);
  const Shape out = broadcast_shape(node, shape(node, 0), shape(node, 1));
  const bool first = constant_a != nullptr;  // the constant, if there is one
  const Tensor* fixed = first ? constant_a : constant_b;
  const std::size_t moving = first ? 1 : 0;
  const bool same = shape(node, moving) == out;
  if (const auto c = scalar(fixed); c && same && std::isfinite(*c)) {
    const auto functions = with_number(node.op, *c, first);
    if (!functions.empty()) {
      Step step = start(node, Kind::kUnary);
      step.in = {value(node, moving)};
      for (const Unary& f : functions) step.after.push_back({f, 0});
      return finish(node, std::move(step), out);
    }
  }
  const bool linear =
      node.op == "Add" || node.op == "Sub" || node.op == "Mul" || (node.op == "Div" && !first);
  if (same && linear && is_per_channel(fixed, out)) {
    Step step = start(node, Kind::kAffine);
    step.in = {value(node, moving)};
    for (const float c : *fixed->floats) {
      const bool sum = node.op == "Add" || node.op == "Sub";
      const bool negated = node.op == "Sub" && first;
      step.scale.push_back(sum ? (negated ? -1.0f : 1.0f) : node.op == "Mul" ? c : 1 / c);
      step.bias.push_back(sum ? (node.op == "Sub" && !first ? -c : c) : 0.0f);
    }
    return finish(node, std::move(step), out);
  }
  Step step = start(node, Kind::kBinary);
  step.combine = combination(node.op);
  step.in = {value(node, 0), value(node, 1)};
  // oneDNN spreads the second only.
  const bool commutes = node.op != "Sub" && node.op != "Div";
  if (shape(node, 0) != out && shape(node, 1) == out && commutes) std::swap(step.in[0], step.in[1]);
  if (plan_.values[step.in[0]].shape != out) return host(node);
  for (const std::size_t id : step.in) {
    const auto& tensor = plan_.values[id].constant;
    if (tensor && !tensor->is_float()) return host(node);
  }
  finish(node, std::move(step), out);
}

void Tracer::pow(const Node& node) {
  value(node, 0);
  value(node, 1);
  const auto exponent = scalar(constant(node, 1));
  const bool same = has_input(node, 1) && shape(node, 1).size() <= shape(node, 0).size();
  if (!exponent || !same) return host(node);
  unary(node, {{Unary::Kind::kPower, 1, *exponent}});
}

// ---- putting together and apart ----------------------------------------------------------------

void Tracer::concat(const Node& node) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) value(node, i);
  Shape out = shape(node, 0);
  const std::size_t axis = axis_of(node, int_attribute(node, "axis", 1), out.size());
  out[axis] = 0;
  Step step = start(node, Kind::kConcat);
  step.axes = {static_cast<std::int64_t>(axis)};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    Shape other = shape(node, i);
    const bool fits = other.size() == out.size();
    if (fits) {
      out[axis] += other[axis];
      other[axis] = out[axis];
    }
    if (!fits || other != out) {
      fail(node,
           fmt::format("its inputs do not fit together: [{}]", fmt::join(shape(node, i), ", ")));
    }
    const Tensor* tensor = constant(node, i);
    if (tensor != nullptr && !tensor->is_float()) fail(node, "mixes whole numbers and floats");
    step.in.push_back(value(node, i));
  }
  if (step.in.size() == 1) return alias(node);
  finish(node, std::move(step), std::move(out));
}

void Tracer::reshape_to(const Node& node, std::size_t in, Shape shape, const std::string& name) {
  if (plan_.values[in].shape == shape) {
    plan_.names[name] = in;
    return;
  }
  Step step = start(node, Kind::kReshape);
  step.in = {in};
  finish(std::move(step), std::move(shape), name);
}

void Tracer::reshape(const Node& node) {
  const auto inputs = constants(node);
  reshape_to(node, value(node, 0), reshaped(node, plan_.opset, shape(node, 0), inputs),
             output(node));
}

void Tracer::transpose(const Node& node) {
  const Shape in = shape(node, 0);
  Step step = start(node, Kind::kTranspose);
  step.in = {value(node, 0)};
  step.axes = permutation(node, in.size());
  Shape out;
  for (const std::int64_t axis : step.axes) out.push_back(in[static_cast<std::size_t>(axis)]);
  // Where only axes of length 1 move, the numbers stay in place.
  Ints moved;
  for (const std::int64_t axis : step.axes) {
    if (in[static_cast<std::size_t>(axis)] != 1) moved.push_back(axis);
  }
  if (std::is_sorted(moved.begin(), moved.end())) {
    return reshape_to(node, step.in[0], std::move(out), output(node));
  }
  finish(node, std::move(step), std::move(out));
}

void Tracer::slice(const Node& node) {
  const auto inputs = constants(node);
  const Region region = sliced(node, plan_.opset, shape(node, 0), inputs);
  if (region.shape == shape(node, 0) &&
      std::all_of(region.steps.begin(), region.steps.end(), [](auto s) { return s > 0; })) {
    return alias(node);
  }
  if (std::any_of(region.steps.begin(), region.steps.end(), [](auto s) { return s != 1; })) {
    return host(node);
  }
  Step step = start(node, Kind::kSlice);
  step.in = {value(node, 0)};
  step.starts = region.starts;
  finish(node, std::move(step), region.shape);
}

void Tracer::split_up(const Node& node) {
  const auto inputs = constants(node);
  const std::vector<Region> regions = split(node, shape(node, 0), inputs);
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    Step step = start(node, Kind::kSlice);
    step.in = {value(node, 0)};
    step.starts = regions[i].starts;
    finish(std::move(step), regions[i].shape, node.outputs[i]);
  }
}

// One index is a slice without its axis; several go the slow way.
void Tracer::gather(const Node& node) {
  value(node, 0);
  const Tensor* indices = (value(node, 1), constant(node, 1));
  const Shape in = shape(node, 0);
  const std::size_t axis = axis_of(node, int_attribute(node, "axis", 0), in.size());
  if (indices == nullptr || indices->is_float()) fail(node, "its indices must be constant");
  if (indices->size() != 1) return host(node);
  std::int64_t index = indices->ints->front();
  if (index < -in[axis] || index >= in[axis]) {
    fail(node, fmt::format("takes index {} of an axis of length {}", index, in[axis]));
  }
  if (index < 0) index += in[axis];
  Shape cut = in;
  cut[axis] = 1;
  Shape out(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(axis));
  out.insert(out.end(), indices->shape.begin(), indices->shape.end());
  out.insert(out.end(), in.begin() + static_cast<std::ptrdiff_t>(axis) + 1, in.end());
  Step step = start(node, Kind::kSlice);
  step.in = {value(node, 0)};
  step.starts.assign(in.size(), 0);
  step.starts[axis] = index;
  const std::string part = output(node) + "/slice";
  finish(std::move(step), std::move(cut), part);
  reshape_to(node, plan_.names[part], std::move(out), output(node));
}

// ---- matrices ----------------------------------------------------------------------------------

void Tracer::matmul(const Node& node) {
  value(node, 0);
  value(node, 1);
  const Shape a = shape(node, 0);
  const Shape b = shape(node, 1);
  if (a.size() < 2 || b.size() < 2 || a.back() != b[b.size() - 2]) {
    fail(node, fmt::format("the shapes [{}] and [{}] do not fit together", fmt::join(a, ", "),
                           fmt::join(b, ", ")));
  }
  const Shape batch =
      broadcast_shape(node, Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  Shape out = batch;
  out.push_back(a[a.size() - 2]);
  out.push_back(b.back());
  Step step = start(node, Kind::kMatMul);
  step.in = {value(node, 0)};
  const Tensor* weights = constant(node, 1);
  if (weights != nullptr && b.size() == 2) {
    step.weights = float_constant(node, 1, "weights");
    step.shared = graph_.weights.contains(node.inputs[1]);
  } else {
    step.in.push_back(value(node, 1));
  }
  finish(node, std::move(step), std::move(out));
}

void Tracer::gemm(const Node& node) {
  const Shape a = shape(node, 0);
  const Tensor weights = float_constant(node, 1, "second matrix");
  const bool turned = int_attribute(node, "transB", 0) != 0;
  if (a.size() != 2 || weights.shape.size() != 2 || int_attribute(node, "transA", 0) != 0) {
    fail(node, "is supported on an untransposed matrix with constant weights only");
  }
  const auto rows = static_cast<std::size_t>(weights.shape[turned ? 1 : 0]);
  const auto cols = static_cast<std::size_t>(weights.shape[turned ? 0 : 1]);
  if (a[1] != static_cast<std::int64_t>(rows)) {
    fail(node,
         fmt::format("needs {} inputs and has {}; the graph may be made for another image size",
                     rows, a[1]));
  }
  const float alpha = float_attribute(node, "alpha", 1);
  const float beta = float_attribute(node, "beta", 1);
  std::vector<float> numbers(rows * cols);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) {
      numbers[i * cols + j] = alpha * (*weights.floats)[turned ? j * rows + i : i * cols + j];
    }
  }
  Step step = start(node, Kind::kMatMul);
  step.in = {value(node, 0)};
  step.weights = Tensor::of({a[1], static_cast<std::int64_t>(cols)}, std::move(numbers));
  if (has_input(node, 2)) {
    const Tensor& bias = float_constant(node, 2, "bias");
    if (bias.size() != cols && bias.size() != 1) fail(node, "its bias has the wrong size");
    step.bias.assign(cols, beta * bias.floats->front());
    for (std::size_t i = 0; i < bias.size() && bias.size() == cols; ++i) {
      step.bias[i] = beta * (*bias.floats)[i];
    }
  }
  finish(node, std::move(step), {a[0], static_cast<std::int64_t>(cols)});
}

void Tracer::layer_norm(const Node& node) {
  const Shape in = shape(node, 0);
  const std::size_t axis = axis_of(node, int_attribute(node, "axis", -1), in.size());
  if (axis + 1 != in.size()) fail(node, "is supported along the last axis only");
  Step step = start(node, Kind::kLayerNorm);
  step.in = {value(node, 0)};
  step.epsilon = float_attribute(node, "epsilon", 1e-5f);
  step.scale = *float_constant(node, 1, "scale").floats;
  if (has_input(node, 2)) step.bias = *float_constant(node, 2, "bias").floats;
  const auto channels = static_cast<std::size_t>(in.back());
  if (step.bias.empty()) step.bias.assign(channels, 0.0f);
  if (step.scale.size() != channels || step.bias.size() != channels) {
    fail(node, "its scale or bias has the wrong size");
  }
  finish(node, std::move(step), in);
}

void Tracer::softmax(const Node& node) {
  const Shape in = shape(node, 0);
  const bool flat = plan_.opset < 13;
  const std::size_t axis = axis_of(node, int_attribute(node, "axis", flat ? 1 : -1), in.size());
  Step step = start(node, Kind::kSoftmax);
  step.in = {value(node, 0)};
  step.axes = {static_cast<std::int64_t>(axis)};
  if (!flat || axis + 1 == in.size()) return finish(node, std::move(step), in);
  // Before operator set 13 all axes from `axis` on were one.
  const Shape before(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(axis));
  const std::int64_t rows = count_of(node, before);
  const Shape matrix{rows, count_of(node, in) / rows};
  const std::string name = output(node);
  reshape_to(node, step.in[0], matrix, name + "/flat");
  step.in = {plan_.names[name + "/flat"]};
  step.axes = {1};
  finish(std::move(step), matrix, name + "/softmax");
  reshape_to(node, plan_.names[name + "/softmax"], in, name);
}

void Tracer::mean(const Node& node) {
  const auto inputs = constants(node);
  const Shape in = shape(node, 0);
  const Ints axes = reduced_axes(node, in.size(), inputs);
  if (axes.empty()) return alias(node);
  Shape kept = in, out;
  for (const std::int64_t axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
  const bool keep = int_attribute(node, "keepdims", 1) != 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool gone = std::binary_search(axes.begin(), axes.end(), static_cast<std::int64_t>(i));
    if (!gone || keep) out.push_back(kept[i]);
  }
  const std::string name = output(node);
  const std::string part = keep ? name : name + "/kept";
  if (in.size() == 4 && axes == Ints{2, 3}) {
    Step step = start(node, Kind::kMeanPool);
    step.in = {value(node, 0)};
    step.kernel = {in[2], in[3]};
    step.strides = step.dilations = {1, 1};
    step.before = step.behind = {0, 0};
    finish(std::move(step), kept, part);
  } else {
    Step step = start(node, Kind::kMean);
    step.in = {value(node, 0)};
    step.axes = axes;
    finish(std::move(step), kept, part);
  }
  if (!keep) reshape_to(node, plan_.names[part], std::move(out), name);
}

// ---- the rest ----------------------------------------------------------------------------------

void Tracer::cast(const Node& node) {
  const std::int64_t to = int_attribute(node, "to", 1);
  if (to != 1 && to != 10 && to != 11) fail(node, "turns image features into whole numbers");
  alias(node);
}

void Tracer::shape_of(const Node& node) {
  // The numbers are not read: an empty tensor of that shape will do.
  Tensor form = Tensor::of(shape(node, 0), std::vector<float>{});
  const Tensor* inputs[] = {&form};
  add_constant(output(node), evaluate(node, plan_.opset, inputs).front());
}

// Its shape is found by running it on zeros.
void Tracer::host(const Node& node) {
  auto inputs = constants(node);
  std::vector<Tensor> zeros(inputs.size());
  Step step = start(node, Kind::kHost);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!has_input(node, i)) continue;
    step.in.push_back(value(node, i));
    if (inputs[i] != nullptr) continue;
    const auto count = static_cast<std::size_t>(count_of(node, shape(node, i)));
    zeros[i] = Tensor::of(shape(node, i), std::vector<float>(count, 0.0f));
    inputs[i] = &zeros[i];
  }
  const std::vector<Tensor> results = evaluate(node, plan_.opset, inputs);
  if (!results.front().is_float()) fail(node, "turns image features into whole numbers");
  finish(node, std::move(step), results.front().shape);
}

const std::unordered_map<std::string, Tracer::Handler>& Tracer::handlers() {
  static const std::unordered_map<std::string, Handler> kHandlers = [] {
    std::unordered_map<std::string, Handler> all;
    all["Conv"] = &Tracer::conv;
    all["MaxPool"] = all["AveragePool"] = &Tracer::pool;
    all["GlobalAveragePool"] = all["GlobalMaxPool"] = &Tracer::global_pool;
    all["BatchNormalization"] = &Tracer::batch_norm;
    for (const char* op :
         {"Relu", "LeakyRelu", "Elu", "Sigmoid", "HardSwish", "Tanh", "Sqrt", "Exp", "Log", "Abs",
          "Neg", "Reciprocal", "Gelu", "com.microsoft.Gelu", "HardSigmoid"}) {
      all[op] = &Tracer::function;
    }
    all["Clip"] = &Tracer::clip;
    for (const char* op : {"Add", "Sub", "Mul", "Div", "Min", "Max"}) all[op] = &Tracer::binary;
    all["Pow"] = &Tracer::pow;
    all["Concat"] = &Tracer::concat;
    all["MatMul"] = &Tracer::matmul;
    all["Gemm"] = &Tracer::gemm;
    all["LayerNormalization"] = &Tracer::layer_norm;
    all["Softmax"] = &Tracer::softmax;
    for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze"}) {
      all[op] = &Tracer::reshape;
    }
    all["Transpose"] = &Tracer::transpose;
    all["Slice"] = &Tracer::slice;
    all["Split"] = &Tracer::split_up;
    all["Gather"] = &Tracer::gather;
    all["ReduceMean"] = &Tracer::mean;
    all["Cast"] = &Tracer::cast;
    all["Identity"] = all["Dropout"] = &Tracer::alias;
    all["Shape"] = all["Size"] = &Tracer::shape_of;
    for (const char* op :
         {"Pad", "Resize", "Upsample", "Expand", "Tile", "Where", "Erf", "Floor", "Ceil", "Round",
          "Sin", "Cos", "Mod", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"}) {
      all[op] = &Tracer::host;
    }
    return all;
  }();
  return kHandlers;
}

void Tracer::add(const Node& node) {
  const auto inputs = constants(node);
  bool fixed = true;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    fixed = fixed && (inputs[i] != nullptr || !has_input(node, i));
  }
  if (fixed && can_evaluate(node.op)) {
    const std::vector<Tensor> results = evaluate(node, plan_.opset, inputs);
    for (std::size_t i = 0; i < results.size() && i < node.outputs.size(); ++i) {
      computed_ += static_cast<std::int64_t>(results[i].size());
      if (computed_ > kMostNumbers) fail(node, "the graph's constants take over 2 GiB");
      add_constant(node.outputs[i], results[i]);
    }
    return;
  }
  const auto handler = handlers().find(node.op);
  if (handler == handlers().end()) {
    fail(node,
         "the operator is not supported; export the model without it, or choose layers before "
         "it");
  }
  // Whole numbers cannot go through oneDNN; where they occur they are shapes, and constant.
  (this->*handler->second)(node);
}

}  // namespace

bool known_operator(const std::string& op) {
  return Tracer::handlers().contains(op) || can_evaluate(op);
}

std::vector<std::size_t> needed_nodes(const Graph& graph, const std::vector<std::string>& targets) {
  std::unordered_set<std::string> needed(targets.begin(), targets.end());
  std::vector<std::size_t> nodes;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (std::none_of(node.outputs.begin(), node.outputs.end(),
                     [&](const std::string& name) { return needed.contains(name); })) {
      continue;
    }
    nodes.push_back(i);
    needed.insert(node.inputs.begin(), node.inputs.end());
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

Plan trace(const Graph& graph, const std::vector<std::size_t>& nodes, std::int64_t height,
           std::int64_t width, bool tolerant) {
  Tracer tracer(graph, height, width);
  for (const std::size_t i : nodes) {
    const Node& node = graph.nodes[i];
    if (!tolerant) {
      tracer.add(node);
      continue;
    }
    if (tracer.depends_on_lost(node)) {
      tracer.forget(node);
      continue;
    }
    try {
      tracer.add(node);
    } catch (const Error& error) {
      if (tracer.plan().stopped.empty()) tracer.plan().stopped = error.what();
      tracer.forget(node);
    }
  }
  return tracer.finish();
}

void fold_constants(Graph& graph) {
  constexpr std::size_t kMostFolded = std::size_t{1} << 28;
  std::size_t folded = 0;
  std::vector<Node> rest;
  for (Node& node : graph.nodes) {
    std::vector<const Tensor*> inputs;
    bool fixed = can_evaluate(node.op);
    for (const std::string& name : node.inputs) {
      const auto weight = graph.weights.find(name);
      inputs.push_back(weight == graph.weights.end() ? nullptr : &weight->second);
      fixed = fixed && (name.empty() || inputs.back() != nullptr);
    }
    try {
      const auto results = fixed ? evaluate(node, graph.opset, inputs) : std::vector<Tensor>{};
      for (const Tensor& result : results) folded += result.size();
      fixed = fixed && folded <= kMostFolded;
      for (std::size_t i = 0; fixed && i < results.size() && i < node.outputs.size(); ++i) {
        graph.weights[node.outputs[i]] = results[i];
      }
    } catch (const Error&) {
      fixed = false;  // a fault to report when the node is needed
    }
    if (!fixed) rest.push_back(std::move(node));
  }
  graph.nodes = std::move(rest);
}

double flops(const Plan& plan, const Step& step) {
  double out = 1;
  for (const std::int64_t dim : plan.values[step.out].shape) out *= static_cast<double>(dim);
  if (step.kind == Kind::kConv) {
    const Shape& form = step.weights.shape;
    return 2 * out * static_cast<double>(form[1]) * static_cast<double>(form[2]) *
           static_cast<double>(form[3]);
  }
  if (step.kind == Kind::kMatMul) {
    return 2 * out * static_cast<double>(plan.values[step.in[0]].shape.back());
  }
  return 0;
}

}  // namespace contcore
