// Vectors of bytes so long that no whole numbers are left for the sketch's directions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "contcore/distance.h"
#include "contcore/greedy.h"
#include "coreset/naive.h"

namespace contcore {
namespace {

TEST(LongBytes, AreSampledAsThePlainLoopDoes) {
  constexpr std::size_t kRows = 600;  // enough for a sketch
  constexpr std::size_t kPicks = 6;
  for (const std::size_t d : {70000u, 133000u}) {
    Vectors points(kRows, d, Scalar::kUint8);
    naive::Dice dice(d);
    for (std::size_t i = 0; i < kRows; ++i) {
      std::uint8_t* row = points.byte_row(i);
      for (std::size_t j = 0; j < d; j += 997) {
        row[j] = static_cast<std::uint8_t>(dice.between(0, 9) + i % 7);
      }
    }
    GreedyOptions options;
    options.count = kPicks;
    options.start = GreedyOptions::Start::kIndex;
    options.start_index = 3;
    const GreedyResult found = greedy_sample(points.view(), {}, options, naive::crew(0));
    std::vector<float> least(kRows, std::numeric_limits<float>::infinity());
    std::size_t pick = 3;
    ASSERT_EQ(found.picks.size(), kPicks);
    for (std::size_t p = 0; p < kPicks; ++p) {
      ASSERT_EQ(found.picks[p], static_cast<std::int64_t>(pick)) << "d " << d << ", pick " << p;
      ASSERT_EQ(found.radii[p], std::sqrt(least[pick])) << "d " << d << ", pick " << p;
      std::size_t next = 0;
      for (std::size_t i = 0; i < kRows; ++i) {
        least[i] =
            std::min(least[i], squared_distance(points.byte_row(i), points.byte_row(pick), d));
        if (least[i] > least[next]) next = i;
      }
      pick = next;
    }
  }
}

}  // namespace
}  // namespace contcore
