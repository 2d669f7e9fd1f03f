// The distance of bytes: the exact sum, on every target, and the float definition up to 512.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "contcore/distance.h"
#include "coreset/kernels.h"
#include "coreset/naive.h"

namespace contcore {
namespace {

std::uint64_t naive_sum(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const int difference = int{a[i]} - int{b[i]};
    sum += static_cast<std::uint64_t>(difference * difference);
  }
  return sum;
}

TEST(ByteDistance, IsTheExactSumOnEveryTarget) {
  for (const std::string& target : kernels::targets()) {
    const naive::ForcedTarget forced(target);
    for (const std::size_t d : {1u, 2u, 3u, 31u, 32u, 33u, 63u, 64u, 65u, 127u, 511u, 512u, 513u,
                                1024u, 4096u, 16384u, 16385u, 70000u}) {
      for (std::size_t seed = 0; seed < 6; ++seed) {
        naive::Dice dice(seed * 1000 + d);
        std::vector<std::uint8_t> a(d);
        std::vector<std::uint8_t> b(d);
        for (std::uint8_t& x : a) x = static_cast<std::uint8_t>(dice.between(0, 255));
        for (std::uint8_t& x : b) x = static_cast<std::uint8_t>(dice.between(0, 255));
        if (seed == 0) {  // as far as can be
          a.assign(d, 0);
          b.assign(d, 255);
        }
        ASSERT_EQ(squared_distance(a.data(), b.data(), d), static_cast<float>(naive_sum(a, b)))
            << target << ", dimension " << d;
        if (d > 512) continue;
        const std::vector<float> wide_a(a.begin(), a.end());
        const std::vector<float> wide_b(b.begin(), b.end());
        ASSERT_EQ(squared_distance(a.data(), b.data(), d),
                  squared_distance(wide_a.data(), wide_b.data(), d))
            << target << ", dimension " << d;
      }
    }
  }
}

}  // namespace
}  // namespace contcore
