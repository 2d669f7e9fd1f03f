#include "detector/heat_scale.h"

#include <algorithm>
#include <limits>

namespace contcore {
namespace {

// Heat is full at so many times the threshold, where it begins.
constexpr float kHot = 1.6F;

}  // namespace

float outline_level(Score by, float score, std::optional<float> threshold, float peak) {
  // At the pixels that a map is shown at its peak may be a little lower, and much lower in a region
  // that is narrower than a patch.
  const bool shown = threshold && (score <= *threshold || peak > *threshold);
  if (by == Score::kMap && shown) return *threshold;
  if (!threshold || !(score > 0)) return std::numeric_limits<float>::infinity();
  return *threshold * (peak / score);
}

HeatRange heat_range(const Map& map, float level) {
  if (level < std::numeric_limits<float>::infinity()) return {level, level * kHot};
  const auto [low, high] = std::minmax_element(map.values.begin(), map.values.end());
  return {*low + (*high - *low) / 2, *high};
}

}  // namespace contcore
