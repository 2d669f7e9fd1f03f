#include "backbone/quantize.h"

#include <algorithm>
#include <cmath>

#include "backbone/attributes.h"

namespace contcore {
namespace {

using Width = Tensor::Width;

void check_scales(const Node& node, const Tensor& scale) {
  if (!scale.is_float()) fail(node, "its scale must be of float numbers; quantise the model again");
  for (const float s : *scale.floats) {
    // The reciprocal is used too, so the smallest numbers will not do.
    if (std::isnormal(s) && s > 0 && std::isnormal(1 / s)) continue;
    fail(node, fmt::format("its scale is {}, not a positive number of usual size; quantise the "
                           "model again, or the file is damaged",
                           s));
  }
}

// How many scales there are, and along which axis.
void set_scales(const Node& node, const Shape& shape, const Tensor& scale, Levels& levels) {
  levels.scale = *scale.floats;
  if (scale.shape.empty() || (scale.shape.size() == 1 && scale.shape[0] == 1)) return;
  if (scale.shape.size() != 1) {
    fail(node, fmt::format("its scale has the shape [{}]; one number, or one for each channel, is "
                           "supported; quantise the model without blocks",
                           fmt::join(scale.shape, ", ")));
  }
  levels.axis = axis_of(node, int_attribute(node, "axis", 1), shape.size());
  if (shape[levels.axis] != scale.shape[0]) {
    fail(node, fmt::format("has {} scales for axis {} of a tensor [{}]; the file is damaged",
                           scale.shape[0], levels.axis, fmt::join(shape, ", ")));
  }
}

void set_zeros(const Node& node, const Tensor& zero, Levels& levels) {
  if (zero.is_float() || zero.width == Width::kOther) {
    fail(node, "its zero point must be of type uint8 or int8; quantise the model to 8 bits");
  }
  if (zero.size() != levels.scale.size() || zero.shape.size() > 1) {
    fail(node, fmt::format("has {} zero points for {} scales; the file is damaged", zero.size(),
                           levels.scale.size()));
  }
  levels.width = zero.width;
  levels.zero = *zero.ints;
  if (zero.width == Width::kInt32 &&
      std::any_of(zero.ints->begin(), zero.ints->end(), [](auto z) { return z != 0; })) {
    fail(node, "its zero point of type int32 is not 0; quantise the model again");
  }
}

std::size_t places_behind(const Shape& shape, std::size_t axis) {
  std::size_t count = 1;
  for (std::size_t i = axis + 1; i < shape.size(); ++i) count *= static_cast<std::size_t>(shape[i]);
  return count;
}

// Calls visit(i, j): number i has scale and zero point j.
template <typename Visit>
void each_level(const Levels& levels, const Shape& shape, std::size_t count, const Visit& visit) {
  const std::size_t run = levels.per_axis() ? places_behind(shape, levels.axis) : count;
  for (std::size_t begin = 0, j = 0; begin < count; begin += run) {
    for (std::size_t i = begin; i < begin + run; ++i) visit(i, j);
    if (++j == levels.scale.size()) j = 0;
  }
}

// The codes less their zero points, if a signed byte holds them and the scales go with the first
// axis: then a convolution can work on them.
std::shared_ptr<const Codes> weight_codes(const Tensor& tensor, const Levels& levels) {
  if (levels.width == Width::kInt32 || (levels.per_axis() && levels.axis != 0)) return nullptr;
  Codes codes;
  codes.numbers.resize(tensor.size());
  bool fits = true;
  each_level(levels, tensor.shape, tensor.size(), [&](std::size_t i, std::size_t j) {
    const std::int64_t code = (*tensor.ints)[i] - levels.zero[j];
    fits = fits && code >= -128 && code <= 127;
    codes.numbers[i] = static_cast<std::int8_t>(std::clamp<std::int64_t>(code, -128, 127));
  });
  codes.scale = levels.scale;
  return fits ? std::make_shared<const Codes>(std::move(codes)) : nullptr;
}

}  // namespace

Grid Levels::grid() const {
  return {scale.front(), static_cast<std::int32_t>(zero.front() - lowest())};
}

Levels levels_of(const Node& node, const Shape& shape, Inputs inputs) {
  const Tensor& scale = required_input(node, inputs, 1);
  if (scale.size() == 0) fail(node, "has no scale; the file is damaged");
  if (int_attribute(node, "block_size", 0) != 0) {
    fail(node, "has a scale for each block; quantise the model without blocks");
  }
  check_scales(node, scale);
  Levels levels;
  set_scales(node, shape, scale, levels);
  levels.zero.assign(levels.scale.size(), 0);
  if (const Tensor* zero = optional_input(inputs, 2)) {
    set_zeros(node, *zero, levels);
  } else if (const std::int64_t type = int_attribute(node, "output_dtype", 0); type == 3) {
    levels.width = Width::kInt8;  // by ONNX's number for the type
  } else if (type != 0 && type != 2) {
    fail(node, "has levels that are not of 8 bits; quantise the model to uint8 or int8");
  }
  return levels;
}

Tensor quantized(const Node& node, std::int64_t, Inputs inputs) {
  const Tensor& tensor = required_input(node, inputs, 0);
  if (!tensor.is_float()) fail(node, "takes float numbers only");
  const Levels levels = levels_of(node, tensor.shape, inputs);
  if (levels.width == Width::kInt32) {
    fail(node, "its zero point must be of type uint8 or int8; quantise the model to 8 bits");
  }
  std::vector<std::int64_t> codes(tensor.size());
  each_level(levels, tensor.shape, tensor.size(), [&](std::size_t i, std::size_t j) {
    // Rounded as floats, of two the even one, and bounded before it becomes a whole number.
    const float level = std::nearbyint((*tensor.floats)[i] / levels.scale[j]);
    const float bounded = std::isnan(level) ? 0.0f : std::clamp(level, -512.0f, 512.0f);
    codes[i] = std::clamp(static_cast<std::int64_t>(bounded) + levels.zero[j], levels.lowest(),
                          levels.highest());
  });
  return Tensor::of(tensor.shape, std::move(codes), levels.width);
}

Tensor dequantized(const Node& node, std::int64_t, Inputs inputs) {
  const Tensor& tensor = required_input(node, inputs, 0);
  if (tensor.is_float() || tensor.width == Width::kOther) {
    fail(node, "takes numbers of type int8, uint8 or int32 only; quantise the model to 8 bits");
  }
  Levels levels = levels_of(node, tensor.shape, inputs);
  if (optional_input(inputs, 2) == nullptr) levels.width = tensor.width;
  if (levels.width != tensor.width) {
    fail(node, "its zero point is not of the type of its numbers; the file is damaged");
  }
  std::vector<float> numbers(tensor.size());
  each_level(levels, tensor.shape, tensor.size(), [&](std::size_t i, std::size_t j) {
    const std::int64_t code = (*tensor.ints)[i] - levels.zero[j];
    numbers[i] = static_cast<float>(code) * levels.scale[j];
  });
  Tensor result = Tensor::of(tensor.shape, std::move(numbers));
  result.codes = weight_codes(tensor, levels);
  return result;
}

}  // namespace contcore
