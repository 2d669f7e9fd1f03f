#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/random.h"
#include "contcore/error.h"
#include "contcore/image.h"

namespace contcore {
namespace {

// By flooding each region from its first pixel.
std::vector<Region> plain_twin(const Map& map, float level) {
  std::vector<bool> seen(map.values.size());
  std::vector<Region> regions;
  for (std::size_t first = 0; first < map.values.size(); ++first) {
    if (seen[first] || !(map.values[first] > level)) continue;
    std::vector<std::size_t> open = {first};
    seen[first] = true;
    std::size_t left = map.width, right = 0, top = map.height, bottom = 0;
    Region region;
    region.score = -std::numeric_limits<float>::infinity();
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      const std::size_t x = at % map.width, y = at / map.width;
      left = std::min(left, x);
      right = std::max(right, x);
      top = std::min(top, y);
      bottom = std::max(bottom, y);
      ++region.area;
      region.score = std::max(region.score, map.values[at]);
      for (std::size_t v = y - std::min<std::size_t>(y, 1); v < std::min(y + 2, map.height); ++v) {
        for (std::size_t u = x - std::min<std::size_t>(x, 1); u < std::min(x + 2, map.width); ++u) {
          const std::size_t next = v * map.width + u;
          if (seen[next] || !(map.values[next] > level)) continue;
          seen[next] = true;
          open.push_back(next);
        }
      }
    }
    region.x = left;
    region.y = top;
    region.width = right + 1 - left;
    region.height = bottom + 1 - top;
    regions.push_back(region);
  }
  std::stable_sort(regions.begin(), regions.end(),
                   [](const Region& a, const Region& b) { return a.score > b.score; });
  return regions;
}

TEST(Regions, AreThoseOfThePlainTwin) {
  Random random(7);
  for (int round = 0; round < 400; ++round) {
    Map map{1 + random.below(24), 1 + random.below(24), {}};
    map.values.resize(map.width * map.height);
    // Few values, so that scores tie; from almost nothing above the level to almost all.
    for (float& value : map.values) value = static_cast<float>(random.below(8));
    const auto level = static_cast<float>(random.below(9)) - 1;
    EXPECT_EQ(regions_above(map, level), plain_twin(map, level)) << map.width << "x" << map.height;
  }
}

TEST(Regions, AComb) {  // joined by its last row alone
  const Map map{5, 3, {9, 0, 7, 0, 8, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1}};
  EXPECT_EQ(regions_above(map, 0), (std::vector<Region>{{0, 0, 5, 3, 11, 9}}));
  EXPECT_EQ(regions_above(map, 6),
            (std::vector<Region>{{0, 0, 1, 1, 1, 9}, {4, 0, 1, 1, 1, 8}, {2, 0, 1, 1, 1, 7}}));
}

TEST(Regions, NothingAndNoNumbers) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  const float most = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(regions_above({2, 1, {1, none}}, 1).empty());
  EXPECT_TRUE(regions_above({2, 1, {1, 2}}, most).empty());
  EXPECT_TRUE(regions_above({2, 1, {1, 2}}, none).empty());
  EXPECT_THROW(regions_above({2, 2, {1, 2}}, 0), Error);
}

TEST(Regions, InTheImagesPixels) {
  NetworkInput input;
  input.width = input.height = 100;
  input.right = 400;  // four pixels across for each, two down
  input.bottom = 200;
  const Region region{10, 20, 5, 3, 12, 7.5f};
  EXPECT_EQ(to_original(region, input, 400, 200), (Region{40, 40, 20, 6, 96, 7.5f}));
  input.left = 100;  // of a crop
  input.right = 300;
  EXPECT_EQ(to_original(region, input, 400, 200), (Region{120, 40, 10, 6, 48, 7.5f}));
  input.left = 0;  // an image that was enlarged: a pixel at least, and no more than there are
  input.right = input.bottom = 3;
  EXPECT_EQ(to_original(region, input, 3, 3), (Region{0, 0, 1, 1, 1, 7.5f}));
  EXPECT_EQ(to_original({0, 0, 100, 100, 10000, 1}, input, 3, 3), (Region{0, 0, 3, 3, 9, 1}));
  EXPECT_EQ(to_original({99, 99, 1, 1, 1, 1}, input, 3, 3), (Region{2, 2, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace contcore
