// Operators that sum along an axis: matrix products, means, layer norm, softmax.
//
// In: a node on tensors of any shape; parameters are constant. Out: one step, with reshapes around
// it where the step keeps an axis that the operator drops or joins. Fails: shapes and axes that do
// not fit, a transposed first matrix, layer norm along other axes than the last.
#include <algorithm>

#include "backbone/attributes.h"
#include "backbone/lower.h"
#include "backbone/shapes.h"

namespace contcore {
namespace {

// A matrix times alpha, rows and columns exchanged where it is `transposed`.
std::vector<float> scaled_matrix(const std::vector<float>& numbers, std::size_t rows,
                                 std::size_t cols, bool transposed, float alpha) {
  std::vector<float> scaled(rows * cols);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) {
      scaled[i * cols + j] = alpha * numbers[transposed ? j * rows + i : i * cols + j];
    }
  }
  return scaled;
}

std::vector<float> gemm_bias(PlanBuilder& plan, const Node& node, std::size_t cols) {
  if (!has_input(node, 2)) return {};
  const Tensor& numbers = plan.float_constant(node, 2, "bias");
  if (numbers.size() != cols && numbers.size() != 1) fail(node, "its bias has the wrong size");
  const float beta = float_attribute(node, "beta", 1);
  std::vector<float> bias(cols, beta * numbers.floats->front());
  for (std::size_t i = 0; i < cols && numbers.size() == cols; ++i) {
    bias[i] = beta * (*numbers.floats)[i];
  }
  return bias;
}

}  // namespace

void lower_matmul(PlanBuilder& plan, const Node& node) {
  plan.value(node, 0);
  plan.value(node, 1);
  const Shape a = plan.shape(node, 0);
  const Shape b = plan.shape(node, 1);
  if (a.size() < 2 || b.size() < 2 || a.back() != b[b.size() - 2]) {
    fail(node, fmt::format("the shapes [{}] and [{}] do not fit together", fmt::join(a, ", "),
                           fmt::join(b, ", ")));
  }
  Shape out = broadcast_shape(node, Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  out.push_back(a[a.size() - 2]);
  out.push_back(b.back());
  Step step = new_step(node, Step::Kind::kMatMul);
  step.in = {plan.value(node, 0)};
  if (plan.constant(node, 1) != nullptr && b.size() == 2) {
    step.weights = plan.float_constant(node, 1, "weights");
    step.shared = plan.is_weight(node, 1);
  } else {
    step.in.push_back(plan.value(node, 1));
  }
  plan.add_step(node, std::move(step), std::move(out));
}

void lower_gemm(PlanBuilder& plan, const Node& node) {
  const Shape a = plan.shape(node, 0);
  const Tensor weights = plan.float_constant(node, 1, "second matrix");
  const bool transposed = int_attribute(node, "transB", 0) != 0;
  if (a.size() != 2 || weights.shape.size() != 2 || int_attribute(node, "transA", 0) != 0) {
    fail(node, "is supported on an untransposed matrix with constant weights only");
  }
  const auto rows = static_cast<std::size_t>(weights.shape[transposed ? 1 : 0]);
  const auto cols = static_cast<std::size_t>(weights.shape[transposed ? 0 : 1]);
  if (a[1] != static_cast<std::int64_t>(rows)) {
    fail(node,
         fmt::format("needs {} inputs and has {}; the graph may be made for another image size",
                     rows, a[1]));
  }
  Step step = new_step(node, Step::Kind::kMatMul);
  step.in = {plan.value(node, 0)};
  step.weights = Tensor::of(
      {a[1], static_cast<std::int64_t>(cols)},
      scaled_matrix(*weights.floats, rows, cols, transposed, float_attribute(node, "alpha", 1)));
  step.bias = gemm_bias(plan, node, cols);
  plan.add_step(node, std::move(step), {a[0], static_cast<std::int64_t>(cols)});
}

void lower_layer_norm(PlanBuilder& plan, const Node& node) {
  const Shape in = plan.shape(node, 0);
  const std::size_t axis = axis_of(node, int_attribute(node, "axis", -1), in.size());
  if (axis + 1 != in.size()) fail(node, "is supported along the last axis only");
  Step step = new_step(node, Step::Kind::kLayerNorm);
  step.in = {plan.value(node, 0)};
  step.epsilon = float_attribute(node, "epsilon", 1e-5f);
  step.scale = *plan.float_constant(node, 1, "scale").floats;
  if (has_input(node, 2)) step.bias = *plan.float_constant(node, 2, "bias").floats;
  const auto channels = static_cast<std::size_t>(in.back());
  if (step.bias.empty()) step.bias.assign(channels, 0.0f);
  if (step.scale.size() != channels || step.bias.size() != channels) {
    fail(node, "its scale or bias has the wrong size");
  }
  plan.add_step(node, std::move(step), in);
}

void lower_softmax(PlanBuilder& plan, const Node& node) {
  const Shape in = plan.shape(node, 0);
  const bool flat = plan.plan().opset < 13;
  const std::size_t axis = axis_of(node, int_attribute(node, "axis", flat ? 1 : -1), in.size());
  Step step = new_step(node, Step::Kind::kSoftmax);
  step.in = {plan.value(node, 0)};
  step.axes = {static_cast<std::int64_t>(axis)};
  if (!flat || axis + 1 == in.size()) return plan.add_step(node, std::move(step), in);
  // Before operator set 13 all axes from `axis` on were one.
  const Shape before(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(axis));
  const std::int64_t rows = count_of(node, before);
  const Shape matrix{rows, count_of(node, in) / rows};
  const std::string name = output_name(node);
  plan.add_reshape(node, step.in[0], matrix, name + "/flat");
  step.in = {plan.value(name + "/flat")};
  step.axes = {1};
  plan.add_step(std::move(step), matrix, name + "/softmax");
  plan.add_reshape(node, plan.value(name + "/softmax"), in, name);
}

void lower_mean(PlanBuilder& plan, const Node& node) {
  const auto inputs = plan.constants(node);
  const Shape in = plan.shape(node, 0);
  const std::vector<std::int64_t> axes = reduced_axes(node, in.size(), inputs);
  if (axes.empty()) return plan.add_alias(node);
  Shape kept = in, out;
  for (const std::int64_t axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
  const bool keep = int_attribute(node, "keepdims", 1) != 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool gone = std::binary_search(axes.begin(), axes.end(), static_cast<std::int64_t>(i));
    if (!gone || keep) out.push_back(kept[i]);
  }
  const bool whole_map = in.size() == 4 && axes == Shape{2, 3};
  Step step = new_step(node, whole_map ? Step::Kind::kMeanPool : Step::Kind::kMean);
  step.in = {plan.value(node, 0)};
  if (whole_map) {
    set_whole_window(in, step);
  } else {
    step.axes = axes;
  }
  const std::string name = output_name(node);
  const std::string part = keep ? name : name + "/kept";
  plan.add_step(std::move(step), kept, part);
  if (!keep) plan.add_reshape(node, plan.value(part), std::move(out), name);
}

}  // namespace contcore
