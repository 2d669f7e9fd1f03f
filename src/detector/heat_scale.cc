#include "detector/heat_scale.h"

#include <algorithm>
#include <limits>

namespace contcore {
namespace {

// Heat begins and is full at these parts of the threshold.
constexpr float kCold = 0.6F;
constexpr float kHot = 1.6F;

}  // namespace

float outline_level(Score by, float score, std::optional<float> threshold, float peak) {
  if (threshold && by == Score::kMap) return *threshold;
  if (!threshold || !(score > 0)) return std::numeric_limits<float>::infinity();
  return *threshold * (peak / score);
}

HeatRange heat_range(const Map& map, float level) {
  if (level < std::numeric_limits<float>::infinity()) return {level * kCold, level * kHot};
  const auto [low, high] = std::minmax_element(map.values.begin(), map.values.end());
  return {*low, *high};
}

}  // namespace contcore
