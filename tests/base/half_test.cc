#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace contcore {
namespace {

// From the definition: (−1)^s · 2^(e − 15) · 1.m, or 2^−14 · 0.m where e is zero.
float by_definition(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  float magnitude = 0;
  if (exponent == 31) {
    magnitude = mantissa == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  }
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

std::vector<std::uint16_t> all_halves() {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  return halves;
}

TEST(Half, EveryValueIsWidenedExactly) {
  const std::vector<std::uint16_t> halves = all_halves();
  std::vector<float> wide(halves.size());
  widen_half(halves.data(), halves.size(), wide.data());
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const float expected = by_definition(halves[i]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide[i])) << "half " << i;
    } else {
      // As bits: minus zero is not zero.
      ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::bit_cast<std::uint32_t>(expected))
          << "half " << i;
    }
  }
}

// Whatever is done several at a time must not spill over the end or skip the last few.
TEST(Half, AnyCountFromAnyPlaceWritesThatMany) {
  const std::vector<std::uint16_t> halves = all_halves();
  constexpr float kUntouched = 12345.0f;
  for (std::size_t first = 0x3c00; first < 0x3c05; ++first) {
    for (std::size_t count = 0; count <= 70; ++count) {
      std::vector<float> wide(count + 1, kUntouched);
      widen_half(halves.data() + first, count, wide.data());
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(wide[i], by_definition(halves[first + i])) << first << " " << count << " " << i;
      }
      ASSERT_EQ(wide[count], kUntouched);
    }
  }
}

}  // namespace
}  // namespace contcore
