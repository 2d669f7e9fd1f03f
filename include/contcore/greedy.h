// Greedy (farthest-point) sampling on a base set: G_n(Z; B).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/progress.h"
#include "contcore/vectors.h"

namespace contcore {

struct GreedyOptions {
  /// How many points to pick at the most.
  std::size_t count = 0;

  /// The first pick when the base is empty: the point farthest from the mean, a seeded random one,
  /// or the one at `start_index`. With a base it is the point farthest from the base.
  enum class Start { kMean, kRandom, kIndex };
  Start start = Start::kMean;
  std::size_t start_index = 0;
  std::uint64_t seed = 0;

  /// Bytes of memory to stay within, beside the points and the base themselves (which may be mapped
  /// files of any size). 0: no limit. Less memory costs time, never the answer.
  std::size_t memory_limit = 0;

  Progress progress;

  /// What the points and the base are called in messages.
  std::string points_name = "points";
  std::string base_name = "base";
};

/// How many point-centre pairs each stage settled. The stages add up to points × centres, base
/// included.
struct GreedyStage {
  std::string name;       ///< "lazy", "sketch 64", "exact"
  std::uint64_t settled;  ///< pairs that needed nothing more
};

struct GreedyResult {
  /// Indices of the picked points in the order they were picked. Fewer than `count` when there
  /// are fewer distinct points: a point at distance zero is never picked.
  std::vector<std::int64_t> picks;

  /// The distance of each pick, when it was picked, to the base and the earlier picks. Never
  /// increases; infinite for a first pick on an empty base.
  std::vector<float> radii;

  /// The largest distance of any point to its nearest among base and picks.
  float covering_radius = 0;

  std::vector<GreedyStage> stages;

  /// Canonical distances computed in all.
  std::uint64_t full_distances = 0;
};

/// Picks the point farthest from the base, adds it to the set, and repeats. Distances are canonical
/// (contcore/distance.h), ties go to the lowest index, and the answer is that of the plain loop to
/// the last bit, for any number of threads. The base may be empty (no rows). Throws Error (kInput)
/// on values that are not finite, on dimensions that differ and on bytes mixed with floats, kUsage
/// on a count of zero.
///
/// Cost: one pass over the points to sketch them, then at the most points × picks sketch
/// distances (on real features about half) and a few full distances for each point.
GreedyResult greedy_sample(VectorView points, VectorView base, const GreedyOptions& options,
                           Compute& compute);

}  // namespace contcore
