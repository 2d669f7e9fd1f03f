#include "image/outline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/random.h"

namespace contcore {
namespace {

bool above(const Map& map, std::ptrdiff_t x, std::ptrdiff_t y, float level) {
  const auto width = static_cast<std::ptrdiff_t>(map.width);
  const auto height = static_cast<std::ptrdiff_t>(map.height);
  if (x < 0 || y < 0 || x >= width || y >= height) return false;
  return map.values[static_cast<std::size_t>(y * width + x)] > level;
}

bool outermost(const Map& map, std::ptrdiff_t x, std::ptrdiff_t y, float level) {
  return above(map, x, y, level) && !(above(map, x - 1, y, level) && above(map, x + 1, y, level) &&
                                      above(map, x, y - 1, level) && above(map, x, y + 1, level));
}

// The squared distance, in quarters, to the nearest pixel that the line runs over; within reach.
std::ptrdiff_t distance_to_border(const Map& map, std::ptrdiff_t x, std::ptrdiff_t y, float level) {
  constexpr std::ptrdiff_t kReach = 8;
  std::ptrdiff_t nearest = std::numeric_limits<std::ptrdiff_t>::max();
  for (std::ptrdiff_t dy = -kReach; dy <= kReach; ++dy) {
    for (std::ptrdiff_t dx = -kReach; dx <= kReach; ++dx) {
      if (outermost(map, x + dx, y + dy, level)) {
        nearest = std::min(nearest, 4 * (dx * dx + dy * dy));
      }
    }
  }
  return nearest;
}

void expect_plain_twin(const Map& map, float level, std::ptrdiff_t line, std::ptrdiff_t whole) {
  const std::vector<Ink> out = outline(map, level);
  ASSERT_EQ(out.size(), map.values.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto x = static_cast<std::ptrdiff_t>(i % map.width);
    const auto y = static_cast<std::ptrdiff_t>(i / map.width);
    const std::ptrdiff_t away = distance_to_border(map, x, y, level);
    const Ink wanted = away <= line * line     ? Ink::kLine
                       : away <= whole * whole ? Ink::kEdge
                                               : Ink::kNone;
    ASSERT_EQ(static_cast<int>(out[i]), static_cast<int>(wanted)) << x << " " << y;
  }
}

// Specks, lines, holes, and all of it at the borders too.
TEST(Outline, IsItsPlainTwin) {
  Random random(1);
  for (const std::size_t one_in : {2u, 5u, 40u, 400u}) {
    for (const auto& [width, height] : std::vector<std::pair<std::size_t, std::size_t>>{
             {1, 1}, {1, 30}, {30, 1}, {37, 23}, {64, 64}}) {
      Map map{width, height, std::vector<float>(width * height)};
      for (float& v : map.values) v = random.below(one_in) == 0 ? 1.0f : 0.0f;
      expect_plain_twin(map, 0.5f, 1, 5);
      for (float& v : map.values) v = 1 - v;
      expect_plain_twin(map, 0.5f, 1, 5);
    }
  }
}

TEST(Outline, GrowsWithTheMap) {
  Map map{600, 490, std::vector<float>(600 * 490)};
  for (std::size_t y = 100; y < 300; ++y) {
    std::fill_n(map.values.begin() + static_cast<std::ptrdiff_t>(600 * y + 50 + y / 3), 200, 1.0f);
  }
  expect_plain_twin(map, 0.5f, 5, 9);
}

TEST(Outline, WhatIsNoNumberIsNotAbove) {
  const Map map{3, 3, std::vector<float>(9, std::numeric_limits<float>::quiet_NaN())};
  EXPECT_EQ(outline(map, 0), std::vector<Ink>(9, Ink::kNone));
}

}  // namespace
}  // namespace contcore
