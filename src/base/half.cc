#include "base/half.h"

#include <bit>

namespace contcore {
namespace {

// Shift exponent and mantissa into place and rebase the exponent with one exact multiplication by
// 2^112, which also normalises subnormals; infinities and NaNs get their exponent by hand.
float widen(std::uint16_t half) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7fffu) << 13;
  float value = std::bit_cast<float>(magnitude) * 0x1p112f;
  if ((half & 0x7c00u) == 0x7c00u) value = std::bit_cast<float>(magnitude | 0x7f800000u);
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

}  // namespace

void widen_half(const std::uint16_t* half, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = widen(half[i]);
}

}  // namespace contcore
