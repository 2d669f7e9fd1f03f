// Operators that move numbers without changing them: joined, cut, reordered, seen in another shape.
//
// In: a node on tensors of any shape; what says where to (shapes, axes, indices) is constant. Out:
// steps, or none where no number moves. Fails: shapes, axes and indices that do not fit.
#include <algorithm>

#include "backbone/attributes.h"
#include "backbone/lower.h"
#include "backbone/shapes.h"

namespace contcore {

void lower_concat(PlanBuilder& plan, const Node& node) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) plan.value(node, i);
  Shape out = plan.shape(node, 0);
  const std::size_t axis = axis_of(node, int_attribute(node, "axis", 1), out.size());
  out[axis] = 0;
  Step step = new_step(node, Step::Kind::kConcat);
  step.axes = {static_cast<std::int64_t>(axis)};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    Shape other = plan.shape(node, i);
    const bool fits = other.size() == out.size();
    if (fits) {
      out[axis] += other[axis];
      other[axis] = out[axis];
    }
    if (!fits || other != out) {
      fail(node, fmt::format("its inputs do not fit together: [{}]",
                             fmt::join(plan.shape(node, i), ", ")));
    }
    const Tensor* tensor = plan.constant(node, i);
    if (tensor != nullptr && !tensor->is_float()) fail(node, "mixes whole numbers and floats");
    step.in.push_back(plan.value(node, i));
  }
  if (step.in.size() == 1) return plan.add_alias(node);
  plan.add_step(node, std::move(step), std::move(out));
}

void lower_reshape(PlanBuilder& plan, const Node& node) {
  const auto inputs = plan.constants(node);
  plan.add_reshape(node, plan.value(node, 0),
                   reshaped(node, plan.plan().opset, plan.shape(node, 0), inputs),
                   output_name(node));
}

void lower_transpose(PlanBuilder& plan, const Node& node) {
  const Shape in = plan.shape(node, 0);
  Step step = new_step(node, Step::Kind::kTranspose);
  step.in = {plan.value(node, 0)};
  step.axes = permutation(node, in.size());
  Shape out;
  for (const std::int64_t axis : step.axes) out.push_back(in[static_cast<std::size_t>(axis)]);
  // Where only axes of length 1 move, the numbers stay in place.
  std::vector<std::int64_t> moved;
  for (const std::int64_t axis : step.axes) {
    if (in[static_cast<std::size_t>(axis)] != 1) moved.push_back(axis);
  }
  if (std::is_sorted(moved.begin(), moved.end())) {
    return plan.add_reshape(node, step.in[0], std::move(out), output_name(node));
  }
  plan.add_step(node, std::move(step), std::move(out));
}

void lower_slice(PlanBuilder& plan, const Node& node) {
  const auto inputs = plan.constants(node);
  const Slice slice = sliced(node, plan.plan().opset, plan.shape(node, 0), inputs);
  if (slice.shape == plan.shape(node, 0) &&
      std::all_of(slice.steps.begin(), slice.steps.end(), [](auto s) { return s > 0; })) {
    return plan.add_alias(node);
  }
  if (std::any_of(slice.steps.begin(), slice.steps.end(), [](auto s) { return s != 1; })) {
    return lower_host(plan, node);
  }
  Step step = new_step(node, Step::Kind::kSlice);
  step.in = {plan.value(node, 0)};
  step.starts = slice.starts;
  plan.add_step(node, std::move(step), slice.shape);
}

void lower_split(PlanBuilder& plan, const Node& node) {
  const auto inputs = plan.constants(node);
  const std::vector<Slice> slices = split(node, plan.shape(node, 0), inputs);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    Step step = new_step(node, Step::Kind::kSlice);
    step.in = {plan.value(node, 0)};
    step.starts = slices[i].starts;
    plan.add_step(std::move(step), slices[i].shape, node.outputs[i]);
  }
}

// One index is a slice without its axis; several go the host's way.
void lower_gather(PlanBuilder& plan, const Node& node) {
  plan.value(node, 0);
  const Tensor* indices = (plan.value(node, 1), plan.constant(node, 1));
  const Shape in = plan.shape(node, 0);
  const std::size_t axis = axis_of(node, int_attribute(node, "axis", 0), in.size());
  if (indices == nullptr || indices->is_float()) fail(node, "its indices must be constant");
  if (indices->size() != 1) return lower_host(plan, node);
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
  Step step = new_step(node, Step::Kind::kSlice);
  step.in = {plan.value(node, 0)};
  step.starts.assign(in.size(), 0);
  step.starts[axis] = index;
  const std::string part = output_name(node) + "/slice";
  plan.add_step(std::move(step), std::move(cut), part);
  plan.add_reshape(node, plan.value(part), std::move(out), output_name(node));
}

}  // namespace contcore
