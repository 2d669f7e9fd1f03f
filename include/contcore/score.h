// The score of an image.
#pragma once

#include <algorithm>
#include <span>

namespace contcore {

/// The largest of its patches' distances to the memory, of which there is at least one. Whatever
/// scores an image calls this: inspecting, calibrating, evaluating.
inline float image_score(std::span<const float> distances) {
  return *std::max_element(distances.begin(), distances.end());
}

}  // namespace contcore
