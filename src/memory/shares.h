// Consolidation by equal shares: which vectors go when each task keeps its share of m.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace contcore {

/// m shared out evenly: a task with fewer vectors than an equal share keeps them all, and what it
/// leaves is shared by the others; what cannot be divided goes to the first of those.
std::vector<std::size_t> equal_shares(const std::vector<std::size_t>& sizes, std::size_t m);

/// What becomes of a memory that takes in picks of one task.
struct Admission {
  std::size_t picks = 0;               ///< how many of them come in: always the first
  std::vector<std::uint32_t> dropped;  ///< places of vectors that leave, in increasing order
};

/// Each task keeps its share: the vectors with the largest radius, of equals the earlier.
/// `origin` and `radius` are of the memory's vectors in its order; the picks' radii never increase.
Admission admit(const std::vector<std::int32_t>& origin, const std::vector<float>& radius,
                std::size_t tasks, std::int32_t task, const std::vector<float>& picks,
                std::size_t m);

}  // namespace contcore
