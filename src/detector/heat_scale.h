// What the colours of an anomaly map mean: the same in all pictures of a product.
#pragma once

#include <optional>

#include "contcore/image.h"
#include "contcore/score.h"

namespace contcore {

/// Map value that the threshold comes to where the map's peak is `peak`. By the map's score it is
/// the threshold, unless the peak of a rejected image is not above it. By that of patches,
/// smoothing lowers the peak. The threshold goes down with it, so that an image has something
/// outlined exactly when it is rejected. Infinite without a threshold.
float outline_level(Score by, float score, std::optional<float> threshold, float peak);

/// Where heat begins and is full: at the threshold, so that a good part is shown as it is, and at
/// 1.6 of it. Without a threshold it is the upper half of what the map has.
struct HeatRange {
  float low;
  float high;
};
HeatRange heat_range(const Map& map, float level);

}  // namespace contcore
