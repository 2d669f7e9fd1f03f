// Consolidation: which of M̂ = [M; S] stay when there is room for m.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/compute.h"
#include "contcore/progress.h"
#include "contcore/vectors.h"

namespace contcore {

struct Consolidation {
  std::vector<std::uint32_t> kept;     ///< indices into M̂, in the memory's new order
  std::vector<std::uint32_t> dropped;  ///< the others, in increasing order
  float covering_radius = 0;           ///< ε̂: largest distance of a dropped vector to a kept one
};

/// The first ⌊q·m⌋ are the vectors with the largest distance to their nearest neighbour in M̂
/// (lowest index first on ties), the rest greedy picks with those as base. With room for all, all
/// stay in the order they have.
Consolidation consolidate(VectorView joined, std::size_t m, double q, std::size_t memory_limit,
                          Compute& compute, const Progress& progress);

/// The indices of [0, count) that are not among `kept`.
std::vector<std::uint32_t> others(std::size_t count, const std::vector<std::uint32_t>& kept);

/// Whether an online update from lists of neighbours pays: the part chosen by nearest neighbours
/// must be large enough for the lists to reach it.
bool updates_neighbours(double q, std::size_t m);

/// How many vectors q chooses: ⌊q·m⌋.
std::size_t nearest_share(double q, std::size_t m);

}  // namespace contcore
