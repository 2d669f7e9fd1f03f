#include "detector/hold_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace contcore {
namespace {

TEST(HoldOut, IsAPartOfTheImagesEvenlySpread) {
  for (std::size_t n = 0; n < 400; ++n) {
    for (const double part : {0.0, 0.01, 0.2, 0.5, 1.0}) {
      std::vector<std::size_t> held;
      for (std::size_t i = 0; i < n; ++i) {
        if (is_held_out(i, n, part)) held.push_back(i);
      }
      if (n < 2 || part == 0) {
        ASSERT_TRUE(held.empty()) << n << " " << part;
        continue;
      }
      const auto wanted = static_cast<std::size_t>(std::lround(part * static_cast<double>(n)));
      ASSERT_EQ(held.size(), std::clamp<std::size_t>(wanted, 1, std::min<std::size_t>(64, n - 1)));
      // Between two that are held out there are as many everywhere, but for one.
      std::size_t least = n;
      std::size_t most = 0;
      for (std::size_t i = 1; i < held.size(); ++i) {
        least = std::min(least, held[i] - held[i - 1]);
        most = std::max(most, held[i] - held[i - 1]);
      }
      if (held.size() > 1) {
        ASSERT_LE(most - least, 1u) << n << " " << part;
      }
    }
  }
}

TEST(HoldOut, OfAStreamIsEveryFifthUntilThereAreEnough) {
  std::size_t held = 0;
  for (std::uint64_t before = 0; before < 1000; ++before) {
    const bool hold = is_next_held_out(before, held);
    ASSERT_EQ(hold, before % 5 == 4 && before < 64 * 5) << before;
    held += hold ? 1 : 0;
  }
  EXPECT_EQ(held, 64u);
}

}  // namespace
}  // namespace contcore
