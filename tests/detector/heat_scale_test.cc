// What the colours of pictures mean.
#include "detector/heat_scale.h"

#include <gtest/gtest.h>

#include <limits>

#include "contcore/verdict.h"

namespace contcore {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(HeatScale, BeginsAtTheThreshold) {
  const Map map{2, 1, {1, 9}};
  const HeatRange range = heat_range(map, 5);
  EXPECT_EQ(range.low, 5);
  EXPECT_GT(range.high, 5);
}

TEST(HeatScale, WithoutAThresholdTheUpperHalfIsWarm) {
  const Map map{3, 1, {1, 9, 4}};
  const HeatRange range = heat_range(map, kInfinity);
  EXPECT_EQ(range.low, 5);
  EXPECT_EQ(range.high, 9);
}

// A good part looks clean: not a pixel is coloured, however near to the threshold it comes.
TEST(HeatScale, AGoodPartIsShownAsItIs) {
  const Image image{400, 300, std::vector<std::uint8_t>(3 * 400 * 300, 90)};
  Inspection seen;
  seen.map = {400, 300, std::vector<float>(400 * 300, 3)};
  seen.map.values[5000] = 3.99F;
  seen.score = 3.99F;
  seen.threshold.emplace();
  seen.threshold->score = 4;
  seen.level = outline_level(Score::kMap, seen.score, 4, 3.99F);
  const Image clean = draw_inspection(image, seen);
  EXPECT_TRUE(std::equal(image.rgb.begin(), image.rgb.end(), clean.rgb.begin()));
  // And above it there is heat, there alone.
  seen.map.values[5000] = 6;
  seen.rejected = true;
  const Image marked = draw_inspection(image, seen);
  EXPECT_NE(marked.rgb[3 * 5000], 90);
  EXPECT_EQ(marked.rgb[3 * 50000], 90);
}

}  // namespace
}  // namespace contcore
