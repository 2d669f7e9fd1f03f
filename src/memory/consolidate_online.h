// One step of online learning: the same answer as consolidate(), from neighbours that are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/compute.h"
#include "contcore/vectors.h"
#include "memory/neighbours.h"

namespace contcore {

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
