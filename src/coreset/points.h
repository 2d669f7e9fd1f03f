// The points of a sampling: all of them here, or a part, and the others with other ranks.
#pragma once

#include <cstddef>
#include <functional>

#include "contcore/compute.h"
#include "contcore/greedy.h"
#include "contcore/ranks.h"
#include "contcore/vectors.h"

namespace contcore {

/// The ranks' parts, one after the other in order of rank, are the points; a point's id is its
/// place among all. A part may be empty. Owns nothing.
struct Points {
  VectorView here;
  std::size_t first = 0;  ///< id of the first here
  std::size_t rows = 0;   ///< of all ranks
  Ranks* ranks = nullptr;

  Points(VectorView all) : here(all), rows(all.rows) {}  // NOLINT: all are here
  /// Of all ranks. Throws Error (kInput) where they have vectors of different kinds.
  Points(VectorView part, Ranks& with);
};

struct PickedPoints {
  GreedyResult greedy;  ///< its picks are ids
  Vectors vectors;      ///< of the picks: bytes as bytes, others as float32
};

/// greedy_sample() of all points, on any number of ranks: the same picks and radii, to the last
/// bit, on each. The base is the same on all. Of all ranks, where the points have any. An error of
/// one rank is thrown on all; who is told to stop stops all.
PickedPoints pick_points(const Points& points, VectorView base, const GreedyOptions& options,
                         Compute& compute);

/// Does the work, which says nothing to other ranks, and throws the first rank's error on all of
/// them, as a RanksError. Of all ranks; without ranks it is just done.
void do_on_all(Ranks* ranks, const std::function<void()>& work);

}  // namespace contcore
