#include "backbone/shapes.h"

#include <algorithm>
#include <numeric>

#include "backbone/attributes.h"

namespace contcore {
namespace {

using Ints = std::vector<std::int64_t>;

}  // namespace

const Tensor* optional_input(Inputs inputs, std::size_t i) {
  return i < inputs.size() ? inputs[i] : nullptr;
}

const Tensor& required_input(const Node& node, Inputs inputs, std::size_t i) {
  const Tensor* tensor = optional_input(inputs, i);
  if (tensor == nullptr) fail(node, fmt::format("its input {} is missing or not constant", i));
  return *tensor;
}

const Ints& int_input(const Node& node, Inputs inputs, std::size_t i) {
  const Tensor& tensor = required_input(node, inputs, i);
  if (tensor.is_float()) fail(node, fmt::format("its input {} must be of whole numbers", i));
  return *tensor.ints;
}

namespace {

// An attribute that became an input in a later operator set. Empty: neither is there.
Ints ints_either_way(const Node& node, const char* name, Inputs inputs, std::size_t i) {
  if (optional_input(inputs, i) != nullptr) return int_input(node, inputs, i);
  return ints_attribute(node, name, {});
}

}  // namespace

Shape broadcast_shape(const Node& node, const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < shape.size(); ++i) {  // from the back
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      fail(node,
           fmt::format("the shapes [{}] and [{}] do not fit together; the graph may be made for "
                       "another image size",
                       fmt::join(a, ", "), fmt::join(b, ", ")));
    }
    shape[shape.size() - 1 - i] = x == 1 ? y : x;
  }
  count_of(node, shape);
  return shape;
}

namespace {

Shape flattened(const Node& node, const Shape& shape) {
  const std::int64_t given = int_attribute(node, "axis", 1);
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (given < -rank || given > rank) fail(node, fmt::format("axis {} does not exist", given));
  const std::int64_t axis = given < 0 ? given + rank : given;
  const Shape front(shape.begin(), shape.begin() + axis);
  const Shape back(shape.begin() + axis, shape.end());
  return {count_of(node, front), count_of(node, back)};
}

Shape squeezed(const Node& node, const Shape& shape, Inputs inputs) {
  std::vector<bool> gone(shape.size(), false);
  const Ints axes = ints_either_way(node, "axes", inputs, 1);
  for (const std::int64_t axis : axes) {
    const std::size_t at = axis_of(node, axis, shape.size());
    if (shape[at] != 1) fail(node, fmt::format("axis {} has length {}", axis, shape[at]));
    gone[at] = true;
  }
  Shape out;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!(axes.empty() ? shape[i] == 1 : gone[i])) out.push_back(shape[i]);
  }
  return out;
}

Shape unsqueezed(const Node& node, const Shape& shape, Inputs inputs) {
  const Ints axes = ints_either_way(node, "axes", inputs, 1);
  Shape out(shape.size() + axes.size(), 0);
  for (const std::int64_t axis : axes) {
    std::int64_t& place = out[axis_of(node, axis, out.size())];
    if (place == 1) fail(node, "names an axis twice");
    place = 1;
  }
  auto next = shape.begin();
  for (auto& dim : out) {
    if (dim != 1) dim = *next++;
  }
  return out;
}

Shape reshaped_to(const Node& node, const Shape& shape, const Ints& wanted) {
  const bool keep_zero = int_attribute(node, "allowzero", 0) != 0;
  const std::int64_t count = count_of(node, shape);
  Shape out = wanted;
  std::int64_t* open = nullptr;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] == 0 && !keep_zero) {
      if (i >= shape.size()) fail(node, "copies a dimension that is not there");
      out[i] = shape[i];
    }
    if (out[i] != -1) continue;
    if (open != nullptr) fail(node, "leaves two dimensions open");
    open = &out[i];
  }
  if (open != nullptr) {
    *open = 1;
    const std::int64_t known = count_of(node, out);
    if (known == 0 || count % known != 0) {
      fail(node, fmt::format("cannot bring the shape [{}] to [{}]", fmt::join(shape, ", "),
                             fmt::join(wanted, ", ")));
    }
    *open = count / known;
  }
  if (count_of(node, out) != count) {
    fail(node, fmt::format("cannot bring the shape [{}] to [{}]; the graph may be made for another "
                           "image size",
                           fmt::join(shape, ", "), fmt::join(wanted, ", ")));
  }
  return out;
}

}  // namespace

Shape reshaped(const Node& node, std::int64_t, const Shape& shape, Inputs inputs) {
  if (node.op == "Flatten") return flattened(node, shape);
  if (node.op == "Squeeze") return squeezed(node, shape, inputs);
  if (node.op == "Unsqueeze") return unsqueezed(node, shape, inputs);
  return reshaped_to(node, shape, int_input(node, inputs, 1));
}

Slice sliced(const Node& node, std::int64_t opset, const Shape& shape, Inputs inputs) {
  const bool attributes = opset < 10;
  const Ints starts = attributes ? ints_attribute(node, "starts", {}) : int_input(node, inputs, 1);
  const Ints ends = attributes ? ints_attribute(node, "ends", {}) : int_input(node, inputs, 2);
  Ints axes = ints_either_way(node, "axes", inputs, 3);
  Ints steps =
      optional_input(inputs, 4) != nullptr ? int_input(node, inputs, 4) : Ints(starts.size(), 1);
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), std::int64_t{0});
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    fail(node, "its starts, ends, axes and steps differ in number");
  }
  Slice slice{Ints(shape.size(), 0), Ints(shape.size(), 1), shape};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t axis = axis_of(node, axes[i], shape.size());
    const std::int64_t length = shape[axis];
    const std::int64_t step = std::clamp<std::int64_t>(steps[i], -kMostNumbers, kMostNumbers);
    if (step == 0) fail(node, "takes steps of 0");
    const auto bounded = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
      at = std::clamp<std::int64_t>(at, -kMostNumbers - 1, kMostNumbers);
      return std::clamp(at < 0 ? at + length : at, low, high);
    };
    const std::int64_t start = step > 0
                                   ? bounded(starts[i], 0, length)
                                   : bounded(starts[i], 0, std::max<std::int64_t>(length - 1, 0));
    const std::int64_t end =
        step > 0 ? bounded(ends[i], 0, length) : bounded(ends[i], -1, length - 1);
    const std::int64_t span = step > 0 ? end - start : start - end;
    const std::int64_t stride = step > 0 ? step : -step;
    slice.starts[axis] = start;
    slice.steps[axis] = step;
    slice.shape[axis] = length == 0 ? 0 : std::max<std::int64_t>(0, (span + stride - 1) / stride);
  }
  return slice;
}

std::vector<Slice> split(const Node& node, const Shape& shape, Inputs inputs) {
  const std::size_t axis = axis_of(node, int_attribute(node, "axis", 0), shape.size());
  const std::int64_t length = shape[axis];
  Ints sizes = ints_either_way(node, "split", inputs, 1);
  if (sizes.empty()) {
    const auto parts = static_cast<std::int64_t>(node.outputs.size());
    if (parts == 0) fail(node, "has no outputs");
    const std::int64_t each = (length + parts - 1) / parts;
    for (std::int64_t i = 0; i < parts; ++i) {
      sizes.push_back(std::clamp<std::int64_t>(length - i * each, 0, each));
    }
  }
  if (sizes.size() != node.outputs.size()) fail(node, "has not one size for each output");
  std::vector<Slice> slices;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > length - start) fail(node, "its parts do not add up");
    Slice slice{Ints(shape.size(), 0), Ints(shape.size(), 1), shape};
    slice.starts[axis] = start;
    slice.shape[axis] = size;
    start += size;
    slices.push_back(std::move(slice));
  }
  if (start != length) fail(node, "its parts do not add up");
  return slices;
}

std::vector<std::int64_t> permutation(const Node& node, std::size_t rank) {
  Ints backwards(rank);
  std::iota(backwards.rbegin(), backwards.rend(), std::int64_t{0});
  const Ints order = ints_attribute(node, "perm", backwards);
  Ints sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::reverse(backwards.begin(), backwards.end());
  if (sorted != backwards) fail(node, "its perm is not an order of the axes");
  return order;
}

std::vector<std::int64_t> reduced_axes(const Node& node, std::size_t rank, Inputs inputs) {
  Ints axes = ints_either_way(node, "axes", inputs, 1);
  for (auto& axis : axes) axis = static_cast<std::int64_t>(axis_of(node, axis, rank));
  if (axes.empty() && int_attribute(node, "noop_with_empty_axes", 0) == 0) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), std::int64_t{0});
  }
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

std::vector<std::int64_t> padding(const Node& node, std::size_t rank, Inputs inputs) {
  const Ints given = ints_either_way(node, "pads", inputs, 1);
  Ints axes(rank);
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  if (optional_input(inputs, 3) != nullptr) axes = int_input(node, inputs, 3);
  if (given.size() != 2 * axes.size()) fail(node, "needs two pads for each axis");
  Ints pads(2 * rank, 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t axis = axis_of(node, axes[i], rank);
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      const std::int64_t pad = given[i + side * axes.size()];
      if (pad < -kMostNumbers || pad > kMostNumbers) fail(node, "is too large");
      pads[axis + side * rank] = pad;
    }
  }
  return pads;
}

float padding_value(const Node& node, Inputs inputs) {
  const Tensor* value = optional_input(inputs, 2);
  if (value == nullptr) return float_attribute(node, "value", 0);
  if (value->size() != 1) fail(node, "its value must be one number");
  return value->is_float() ? value->floats->front() : static_cast<float>(value->ints->front());
}

}  // namespace contcore
