// Expansion of a few features: G_n where the distances to the base are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/vectors.h"

namespace contcore {

/// The n points farthest from base and each other, given each point's canonical squared distance to
/// the base: G_n for a few points. Fewer where fewer are distinct, and where the i-th radius is not
/// above beyond[i], if that is given.
struct Expansion {
  std::vector<std::uint32_t> picks;
  std::vector<float> radii;
  float covering_radius = 0;
};
Expansion expand_few(VectorView points, const std::vector<float>& squared, std::size_t n,
                     const std::vector<float>& beyond = {});

}  // namespace contcore
