// Operators on one number at a time: functions, arithmetic with broadcasting, batch norm.
//
// In: a node on tensors of any shape. Out: one step: a function where the other operand is one
// number, scale and shift for each channel where it is a constant for each channel, and otherwise
// two tensors of which the second is broadcast; the host's way where none of these fits. Fails:
// shapes that do not fit together, limits and parameters that are not constant.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backbone/attributes.h"
#include "backbone/lower.h"
#include "backbone/shapes.h"

namespace contcore {
namespace {

constexpr float kLargestFloat = std::numeric_limits<float>::max();

std::optional<float> scalar(const Tensor* tensor) {
  if (tensor == nullptr || tensor->size() != 1) return std::nullopt;
  return tensor->is_float() ? tensor->floats->front() : static_cast<float>(tensor->ints->front());
}

// With one number, an operator on two tensors is a function of the other; {} where it is not.
std::vector<Unary> with_number(const std::string& op, float c, bool first) {
  using K = Unary::Kind;
  if (op == "Add") return {{K::kLinear, 1, c}};
  if (op == "Sub") return {{K::kLinear, first ? -1.0f : 1.0f, first ? c : -c}};
  if (op == "Mul") return {{K::kLinear, c, 0}};
  if (op == "Min") return {{K::kClip, -kLargestFloat, c}};
  if (op == "Max") return {{K::kClip, c, kLargestFloat}};
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

// An operator with a constant for each channel, which comes `first` or second, as scale and shift.
Step per_channel(const Node& node, const std::vector<float>& numbers, bool first) {
  const bool sum = node.op == "Add" || node.op == "Sub";
  const bool negated = node.op == "Sub" && first;
  Step step = new_step(node, Step::Kind::kAffine);
  for (const float c : numbers) {
    step.scale.push_back(sum ? (negated ? -1.0f : 1.0f) : node.op == "Mul" ? c : 1 / c);
    step.bias.push_back(sum ? (node.op == "Sub" && !first ? -c : c) : 0.0f);
  }
  return step;
}

// Two tensors, the second broadcast to the first.
void lower_two_tensors(PlanBuilder& plan, const Node& node, const Shape& out) {
  Step step = new_step(node, Step::Kind::kBinary);
  step.combine = combination(node.op);
  step.in = {plan.value(node, 0), plan.value(node, 1)};
  const bool commutes = node.op != "Sub" && node.op != "Div";
  if (plan.shape(node, 0) != out && plan.shape(node, 1) == out && commutes) {
    std::swap(step.in[0], step.in[1]);
  }
  if (plan.plan().values[step.in[0]].shape != out) return lower_host(plan, node);
  for (const std::size_t id : step.in) {
    const auto& tensor = plan.plan().values[id].constant;
    if (tensor && !tensor->is_float()) return lower_host(plan, node);
  }
  plan.add_step(node, std::move(step), out);
}

}  // namespace

void lower_function(PlanBuilder& plan, const Node& node) {
  using K = Unary::Kind;
  const std::string& op = node.op;
  const auto is = [&](K kind, float alpha = 0, float beta = 0) {
    plan.add_functions(node, 0, {{kind, alpha, beta}});
  };
  if (op == "Relu") return is(K::kRelu);
  if (op == "LeakyRelu") return is(K::kRelu, float_attribute(node, "alpha", 0.01f));
  if (op == "Elu") return is(K::kElu, float_attribute(node, "alpha", 1));
  if (op == "Sigmoid") return is(K::kSigmoid);
  if (op == "HardSwish") return is(K::kHardSwish);
  if (op == "Tanh") return is(K::kTanh);
  if (op == "Sqrt") return is(K::kSqrt);
  if (op == "Exp") return is(K::kExp);
  if (op == "Log") return is(K::kLog);
  if (op == "Abs") return is(K::kAbs);
  if (op == "Neg") return is(K::kLinear, -1);
  if (op == "Reciprocal") return is(K::kPower, 1, -1);
  if (op == "Gelu" || op == "com.microsoft.Gelu") {
    const bool tanh = string_attribute(node, "approximate", "none") == "tanh";
    return is(tanh ? K::kGeluTanh : K::kGelu);
  }
  // HardSigmoid
  const float alpha = float_attribute(node, "alpha", 0.2f);
  const float beta = float_attribute(node, "beta", 0.5f);
  plan.add_functions(node, 0, {{K::kLinear, alpha, beta}, {K::kClip, 0, 1}});
}

void lower_clip(PlanBuilder& plan, const Node& node) {
  float low = float_attribute(node, "min", -kLargestFloat);
  float high = float_attribute(node, "max", kLargestFloat);
  low = plan.number(node, 1, low);
  high = plan.number(node, 2, high);
  if (std::isnan(low) || std::isnan(high)) fail(node, "its limits are not numbers");
  low = std::max(low, -kLargestFloat);
  high = std::min(high, kLargestFloat);
  if (low == 0 && high == kLargestFloat) {
    return plan.add_functions(node, 0, {{Unary::Kind::kRelu, 0, 0}});
  }
  // With crossed limits ONNX means min(max(x, low), high), which is high.
  plan.add_functions(node, 0, {{Unary::Kind::kClip, std::min(low, high), high}});
}

void lower_binary(PlanBuilder& plan, const Node& node) {
  if (node.inputs.size() != 2) return lower_host(plan, node);  // Min and Max of many
  const auto constants = plan.constants(node);
  const Shape out = broadcast_shape(node, plan.shape(node, 0), plan.shape(node, 1));
  const bool first = constants[0] != nullptr;  // the constant, if there is one
  const Tensor* fixed = constants[first ? 0 : 1];
  const std::size_t moving = first ? 1 : 0;
  if (plan.shape(node, moving) != out) return lower_two_tensors(plan, node, out);
  if (const auto c = scalar(fixed); c && std::isfinite(*c)) {
    const auto functions = with_number(node.op, *c, first);
    if (!functions.empty()) return plan.add_functions(node, moving, functions);
  }
  const bool linear =
      node.op == "Add" || node.op == "Sub" || node.op == "Mul" || (node.op == "Div" && !first);
  if (linear && is_per_channel(fixed, out)) {
    Step step = per_channel(node, *fixed->floats, first);
    step.in = {plan.value(node, moving)};
    return plan.add_step(node, std::move(step), out);
  }
  lower_two_tensors(plan, node, out);
}

void lower_pow(PlanBuilder& plan, const Node& node) {
  plan.value(node, 0);
  plan.value(node, 1);
  const auto exponent = scalar(plan.constant(node, 1));
  const bool same = plan.shape(node, 1).size() <= plan.shape(node, 0).size();
  if (!exponent || !same) return lower_host(plan, node);
  plan.add_functions(node, 0, {{Unary::Kind::kPower, 1, *exponent}});
}

void lower_batch_norm(PlanBuilder& plan, const Node& node) {
  if (int_attribute(node, "training_mode", 0) != 0) {
    fail(node, "is in training mode; export the model in evaluation mode (model.eval())");
  }
  const Shape in = plan.shape(node, 0);
  if (in.size() < 2) fail(node, "needs an input with channels");
  const auto channels = static_cast<std::size_t>(in[1]);
  const std::vector<float>* parts[4];  // scale, shift, mean, variance
  for (std::size_t i = 0; i < 4; ++i) {
    parts[i] = plan.float_constant(node, i + 1, "parameters").floats.get();
    if (parts[i]->size() != channels) {
      fail(node, fmt::format("its parameters are for {} channels, its input has {}",
                             parts[i]->size(), channels));
    }
  }
  const auto epsilon = static_cast<double>(float_attribute(node, "epsilon", 1e-5f));
  Step step = new_step(node, Step::Kind::kAffine);
  step.in = {plan.value(node, 0)};
  for (std::size_t c = 0; c < channels; ++c) {
    const double scale = static_cast<double>((*parts[0])[c]) /
                         std::sqrt(static_cast<double>((*parts[3])[c]) + epsilon);
    const double shift =
        static_cast<double>((*parts[1])[c]) - static_cast<double>((*parts[2])[c]) * scale;
    step.scale.push_back(static_cast<float>(scale));
    step.bias.push_back(static_cast<float>(shift));
  }
  plan.add_step(node, std::move(step), in);
}

}  // namespace contcore
