#include "backbone/resize.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "backbone/attributes.h"

namespace contcore {
namespace {

using Inputs = std::span<const Tensor* const>;

struct Method {
  std::string mode, coordinates, nearest;
  double cubic = -0.75;
  bool exclude_outside = false;
};

// Each output place is a weighted sum of a few input places.
struct Tap {
  std::int64_t from;
  float weight;
};
using Taps = std::vector<std::vector<Tap>>;

double source_of(const Method& how, double x, double scale, std::int64_t in, std::int64_t out) {
  if (how.coordinates == "asymmetric") return x / scale;
  if (how.coordinates == "align_corners") {
    return out == 1 ? 0 : x * static_cast<double>(in - 1) / static_cast<double>(out - 1);
  }
  if (how.coordinates == "pytorch_half_pixel" && out == 1) return 0;
  return (x + 0.5) / scale - 0.5;
}

std::int64_t nearest_of(const Method& how, double x) {
  if (how.nearest == "floor") return static_cast<std::int64_t>(std::floor(x));
  if (how.nearest == "ceil") return static_cast<std::int64_t>(std::ceil(x));
  if (how.nearest == "round_prefer_ceil") return static_cast<std::int64_t>(std::floor(x + 0.5));
  return static_cast<std::int64_t>(std::ceil(x - 0.5));  // round_prefer_floor
}

double cubic_weight(double a, double distance) {
  const double d = std::abs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

std::vector<Tap> taps_at(const Method& how, double x, std::int64_t in) {
  const auto inside = [in](std::int64_t at) { return std::clamp<std::int64_t>(at, 0, in - 1); };
  if (how.mode == "nearest") return {{inside(nearest_of(how, x)), 1.0f}};
  const auto left = static_cast<std::int64_t>(std::floor(x));
  const double part = x - std::floor(x);
  if (how.mode == "linear") {
    return {{inside(left), static_cast<float>(1 - part)},
            {inside(left + 1), static_cast<float>(part)}};
  }
  std::vector<Tap> taps;
  double sum = 0;
  double weights[4];
  for (std::int64_t i = -1; i <= 2; ++i) {
    const bool out = left + i < 0 || left + i >= in;
    double& weight = weights[i + 1];
    weight =
        how.exclude_outside && out ? 0 : cubic_weight(how.cubic, static_cast<double>(i) - part);
    sum += weight;
  }
  for (std::int64_t i = -1; i <= 2; ++i) {
    const double weight = how.exclude_outside ? weights[i + 1] / sum : weights[i + 1];
    taps.push_back({inside(left + i), static_cast<float>(weight)});
  }
  return taps;
}

std::vector<float> along_axis(const std::vector<float>& from, std::size_t outer, std::size_t in,
                              std::size_t inner, const Taps& taps) {
  std::vector<float> to(outer * taps.size() * inner, 0.0f);
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < taps.size(); ++i) {
      float* row = to.data() + (o * taps.size() + i) * inner;
      for (const Tap& tap : taps[i]) {
        const float* source = from.data() + (o * in + static_cast<std::size_t>(tap.from)) * inner;
        for (std::size_t j = 0; j < inner; ++j) row[j] += tap.weight * source[j];
      }
    }
  }
  return to;
}

Method method_of(const Node& node, std::int64_t opset) {
  Method how;
  how.mode = string_attribute(node, "mode", "nearest");
  const bool old = node.op == "Upsample" || opset < 11;
  how.coordinates =
      old ? "asymmetric" : string_attribute(node, "coordinate_transformation_mode", "half_pixel");
  how.nearest = old ? "floor" : string_attribute(node, "nearest_mode", "round_prefer_floor");
  how.cubic = static_cast<double>(float_attribute(node, "cubic_coeff_a", -0.75f));
  how.exclude_outside = int_attribute(node, "exclude_outside", 0) != 0;
  if (how.mode != "nearest" && how.mode != "linear" && how.mode != "cubic") {
    fail(node, fmt::format("its mode '{}' is not supported", how.mode));
  }
  static const char* const kKnown[] = {"half_pixel", "asymmetric", "align_corners",
                                       "pytorch_half_pixel"};
  if (std::find(std::begin(kKnown), std::end(kKnown), how.coordinates) == std::end(kKnown)) {
    fail(node,
         fmt::format("its coordinate_transformation_mode '{}' is not supported", how.coordinates));
  }
  if (int_attribute(node, "antialias", 0) != 0) fail(node, "antialias is not supported");
  return how;
}

const Tensor* given(Inputs inputs, std::size_t i) {
  return i < inputs.size() && inputs[i] != nullptr && inputs[i]->size() > 0 ? inputs[i] : nullptr;
}

struct Target {
  Shape shape;
  std::vector<double> scales;
};

Target target_of(const Node& node, std::int64_t opset, const Shape& shape, Inputs inputs) {
  const bool old = node.op == "Upsample" || opset < 11;
  const Tensor* scales = given(inputs, old ? 1 : 2);
  const Tensor* sizes = old ? nullptr : given(inputs, 3);
  Target target;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto in = static_cast<double>(shape[i]);
    if (sizes != nullptr && !sizes->is_float() && sizes->size() == shape.size()) {
      target.shape.push_back((*sizes->ints)[i]);
      target.scales.push_back(static_cast<double>((*sizes->ints)[i]) / in);
    } else if (scales != nullptr && scales->is_float() && scales->size() == shape.size()) {
      const auto scale = static_cast<double>((*scales->floats)[i]);
      if (!(scale > 0 && scale * in < static_cast<double>(kMostNumbers))) {
        fail(node, "its scales make no sense");
      }
      target.shape.push_back(static_cast<std::int64_t>(std::floor(in * scale)));
      target.scales.push_back(scale);
    } else {
      fail(node, "needs constant scales or sizes, one for each axis");
    }
  }
  return target;
}

}  // namespace

Tensor resize(const Node& node, std::int64_t opset, Inputs inputs) {
  const Method how = method_of(node, opset);
  Shape shape = inputs[0]->shape;
  const Target target = target_of(node, opset, shape, inputs);
  if (count_of(node, shape) == 0 || count_of(node, target.shape) == 0) fail(node, "is empty");
  std::vector<float> numbers = *inputs[0]->floats;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (target.scales[axis] == 1 && target.shape[axis] == shape[axis]) continue;
    Taps taps;
    for (std::int64_t i = 0; i < target.shape[axis]; ++i) {
      const double x = source_of(how, static_cast<double>(i), target.scales[axis], shape[axis],
                                 target.shape[axis]);
      taps.push_back(taps_at(how, x, shape[axis]));
    }
    const auto at = static_cast<std::ptrdiff_t>(axis);
    const std::int64_t outer = count_of(node, Shape(shape.begin(), shape.begin() + at));
    const std::int64_t inner = count_of(node, Shape(shape.begin() + at + 1, shape.end()));
    count_of(node, {outer, target.shape[axis], inner});
    numbers =
        along_axis(numbers, static_cast<std::size_t>(outer), static_cast<std::size_t>(shape[axis]),
                   static_cast<std::size_t>(inner), taps);
    shape[axis] = target.shape[axis];
  }
  return Tensor::of(std::move(shape), std::move(numbers));
}

}  // namespace contcore
