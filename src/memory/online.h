// One step of online learning: the same answer as consolidate(), from neighbours that are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/compute.h"
#include "contcore/vectors.h"
#include "memory/neighbours.h"

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

/// consolidate() of the vectors in the slots `joined` (M̂, in its order) to m.
struct OnlineConsolidation {
  std::vector<std::uint32_t> kept;  ///< slots, in the memory's new order
  struct Dropped {
    std::uint32_t slot;
    std::uint32_t nearest;  ///< slot of the nearest vector kept
    float squared;          ///< canonical squared distance to it
  };
  std::vector<Dropped> dropped;
};
OnlineConsolidation consolidate_online(const std::vector<std::uint32_t>& joined, std::size_t m,
                                       double q, Neighbours& neighbours, std::size_t slots,
                                       Compute& compute);

}  // namespace contcore
