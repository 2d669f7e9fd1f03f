// Operators that move a window over a map: convolutions and pooling.
//
// In: a node on a map (N, C, height, width). Out: one step with its kernel, strides, dilations and
// padding; two where a mean has partial windows. Fails: windows that do not fit, shapes of weights
// that do not go with the input, what is not 2-D.
#include <algorithm>

#include "backbone/attributes.h"
#include "backbone/lower.h"

namespace contcore {
namespace {

constexpr std::int64_t kLargestWindow = 1 << 20;

Shape two_numbers(const Node& node, const char* name, std::int64_t otherwise, std::int64_t least) {
  Shape values = ints_attribute(node, name, {otherwise, otherwise});
  if (values.size() != 2) {
    fail(node, fmt::format("its {} must be two numbers (only 2-D is supported)", name));
  }
  for (const std::int64_t x : values) {
    if (x < least || x > kLargestWindow) fail(node, fmt::format("its {} make no sense", name));
  }
  return values;
}

// The padding that attributes give: before and after height and width.
void set_pads(const Node& node, Step& step) {
  Shape pads = ints_attribute(node, "pads", {0, 0, 0, 0});
  if (pads.size() != 4) fail(node, "its pads must be four numbers");
  for (const std::int64_t x : pads) {
    if (x < 0 || x > kLargestWindow) fail(node, "its pads make no sense");
  }
  if (string_attribute(node, "auto_pad", "NOTSET") == "VALID") pads = {0, 0, 0, 0};
  step.pads_begin = {pads[0], pads[1]};
  step.pads_end = {pads[2], pads[3]};
}

// How far a window reaches along an axis, with its holes.
std::int64_t window_reach(const Step& step, std::size_t axis) {
  return (step.kernel[axis] - 1) * step.dilations[axis] + 1;
}

// Padding that makes as many windows as there are strides in the input.
void set_same_pads(bool upper, std::int64_t length, std::size_t axis, Step& step) {
  const std::int64_t stride = step.strides[axis];
  const std::int64_t places = (length + stride - 1) / stride;
  const std::int64_t total =
      std::max<std::int64_t>(0, (places - 1) * stride + window_reach(step, axis) - length);
  step.pads_begin[axis] = upper ? total / 2 : total - total / 2;
  step.pads_end[axis] = total - step.pads_begin[axis];
}

// How many windows fit along an axis.
std::int64_t count_windows(const Node& node, const Step& step, std::int64_t length,
                           std::size_t axis, bool round_up) {
  const std::int64_t reach = window_reach(step, axis), stride = step.strides[axis];
  const std::int64_t padded = length + step.pads_begin[axis] + step.pads_end[axis];
  const std::int64_t room = padded - reach;
  if (room < 0) {
    fail(node, fmt::format("its window of {} does not fit into {} places; use larger images", reach,
                           padded));
  }
  const std::int64_t windows = room / stride + 1;
  // A last, partial window counts if it starts inside the map or the padding before it.
  const bool partial =
      round_up && room % stride != 0 && windows * stride < length + step.pads_begin[axis];
  return windows + (partial ? 1 : 0);
}

// Fills in the step's window; returns the shape it makes of the input, with so many channels.
Shape set_window(const Node& node, const Shape& in, const Shape& kernel, std::int64_t channels,
                 Step& step) {
  step.kernel = kernel;
  step.strides = two_numbers(node, "strides", 1, 1);
  step.dilations = two_numbers(node, "dilations", 1, 1);
  set_pads(node, step);
  const std::string automatic = string_attribute(node, "auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  const bool round_up = int_attribute(node, "ceil_mode", 0) != 0;
  Shape out{1, channels};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t length = in[axis + 2];
    if (same) set_same_pads(automatic == "SAME_UPPER", length, axis, step);
    out.push_back(count_windows(node, step, length, axis, round_up));
  }
  return out;
}

// With ceil_mode the last window may reach beyond the padding. Where padding counts, what lies
// beyond does not, but kMeanPool divides by the whole window: the factors that put its means
// right. Empty: nothing to put right.
std::vector<float> partial_windows(const Step& step, const Shape& in, const Shape& out) {
  if (step.kind != Step::Kind::kMeanPool || !step.count_padding) return {};
  std::vector<float> factors[2];
  bool partial = false;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t end = in[i + 2] + step.pads_begin[i] + step.pads_end[i];
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

void check_weights(const Node& node, const Shape& in, const Shape& weights, std::int64_t group) {
  if (weights.size() != 4 || group < 1 || weights[0] < 1 || weights[0] % group != 0 ||
      weights[1] < 1 || in[1] % group != 0 || in[1] / group != weights[1]) {
    fail(node, fmt::format("weights of shape [{}] in {} groups do not fit an input of shape [{}]",
                           fmt::join(weights, ", "), group, fmt::join(in, ", ")));
  }
  const Shape kernel{weights[2], weights[3]};
  if (ints_attribute(node, "kernel_shape", kernel) != kernel || kernel[0] < 1 || kernel[1] < 1) {
    fail(node, "its kernel_shape is not that of its weights");
  }
}

}  // namespace

void lower_conv(PlanBuilder& plan, const Node& node) {
  const Shape in = plan.map_shape(node);
  const Tensor weights = plan.float_constant(node, 1, "weights");
  Step step = new_step(node, Step::Kind::kConv);
  step.in = {plan.value(node, 0)};
  step.group = int_attribute(node, "group", 1);
  const Shape& form = weights.shape;
  check_weights(node, in, form, step.group);
  step.weights = weights;
  step.shared = plan.is_weight(node, 1);
  if (has_input(node, 2)) {
    const Tensor& bias = plan.float_constant(node, 2, "bias");
    if (bias.size() != static_cast<std::size_t>(form[0])) fail(node, "its bias has the wrong size");
    step.bias = *bias.floats;
  }
  Shape out = set_window(node, in, {form[2], form[3]}, form[0], step);
  plan.add_step(node, std::move(step), std::move(out));
}

void lower_pool(PlanBuilder& plan, const Node& node) {
  if (node.outputs.size() > 1 && !node.outputs[1].empty()) {
    fail(node, "its second output (indices) is not supported");
  }
  const bool max = node.op == "MaxPool";
  const Shape in = plan.map_shape(node);
  Step step = new_step(node, max ? Step::Kind::kMaxPool : Step::Kind::kMeanPool);
  step.in = {plan.value(node, 0)};
  step.count_padding = int_attribute(node, "count_include_pad", 0) != 0;
  Shape out = set_window(node, in, two_numbers(node, "kernel_shape", 0, 1), in[1], step);
  for (std::size_t i = 0; i < 2; ++i) {
    if (step.pads_begin[i] >= window_reach(step, i) || step.pads_end[i] >= window_reach(step, i)) {
      fail(node, "is padded by more than its window");
    }
  }
  const std::vector<float> correction = partial_windows(step, in, out);
  if (correction.empty()) return plan.add_step(node, std::move(step), std::move(out));
  const std::string name = output_name(node);
  plan.add_step(std::move(step), out, name + "/windows");
  plan.add_constant(name + "/correction", Tensor::of({1, 1, out[2], out[3]}, correction));
  Step scale = new_step(node, Step::Kind::kBinary);
  scale.combine = Step::Combine::kMul;
  scale.in = {plan.value(name + "/windows"), plan.value(name + "/correction")};
  plan.add_step(node, std::move(scale), std::move(out));
}

void lower_global_pool(PlanBuilder& plan, const Node& node) {
  const Shape in = plan.map_shape(node);
  const bool max = node.op == "GlobalMaxPool";
  Step step = new_step(node, max ? Step::Kind::kMaxPool : Step::Kind::kMeanPool);
  step.in = {plan.value(node, 0)};
  set_whole_window(in, step);
  plan.add_step(node, std::move(step), {1, in[1], 1, 1});
}

}  // namespace contcore
