// The order in which greedy sampling takes candidates.
#pragma once

#include <cstdint>

namespace contcore {

// The largest distance first, then the first in M̂.
struct FarthestFirst {
  float squared;
  std::uint32_t at;
  bool operator<(const FarthestFirst& other) const {
    return squared < other.squared || (squared == other.squared && at > other.at);
  }
};

}  // namespace contcore
