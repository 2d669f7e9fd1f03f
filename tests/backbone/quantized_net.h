// Building small networks in 8 bits in a test.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "backbone/net.h"

namespace contcore::testing {

using Width = Tensor::Width;

// A net whose tensors pass through 8 bits.
class QuantizedNet : public Net {
 public:
  using Net::Net;

  std::string scales(std::vector<float> values) {
    if (values.size() == 1) return number(values[0]);
    const auto n = static_cast<std::int64_t>(values.size());
    return constant(Tensor::of({n}, std::move(values)));
  }
  std::string zeros(Ints values, Width width) {
    const Shape shape =
        values.size() == 1 ? Shape{} : Shape{static_cast<std::int64_t>(values.size())};
    return constant(Tensor::of(shape, std::move(values), width));
  }
  /// x in steps of `scale`, as a QuantizeLinear and a DequantizeLinear.
  std::string rounded(const std::string& x, float scale, std::int64_t zero,
                      Width width = Width::kUint8) {
    const std::string s = scales({scale});
    const std::string z = zeros({zero}, width);
    return add("DequantizeLinear", {add("QuantizeLinear", {x, s, z}), s, z});
  }
  /// 8-bit weights with a scale for each output channel, or one for all.
  std::string codes(Shape shape, bool per_channel, float size, Width width = Width::kInt8) {
    std::int64_t n = 1;
    for (const std::int64_t dim : shape) n *= dim;
    const std::int64_t low = width == Width::kInt8 ? -128 : 0;
    Ints numbers(static_cast<std::size_t>(n));
    for (auto& x : numbers) x = low + static_cast<std::int64_t>(random().below(256));
    std::vector<float> scale(per_channel ? static_cast<std::size_t>(shape[0]) : 1);
    for (float& s : scale) s = size * (0.5f + static_cast<float>(random().uniform())) / 128;
    const Ints zero(scale.size(), width == Width::kInt8 ? 0 : 128);
    const std::string w = constant(Tensor::of(std::move(shape), std::move(numbers), width));
    return add("DequantizeLinear", {w, scales(scale), zeros(zero, width)},
               {{"axis", std::int64_t{0}}});
  }
  std::string integer_conv(const std::string& x, std::int64_t in, std::int64_t out,
                           std::int64_t kernel, Attributes attributes = {}, bool per_channel = true,
                           Width width = Width::kInt8) {
    const auto group =
        attributes.contains("group") ? std::get<std::int64_t>(attributes["group"]) : 1;
    const auto taps = static_cast<float>(in / group * kernel * kernel);
    return add(
        "Conv",
        {x, codes({out, in / group, kernel, kernel}, per_channel, 1.5f / std::sqrt(taps), width),
         weight({out}, 0.1f)},
        std::move(attributes));
  }
};

}  // namespace contcore::testing
