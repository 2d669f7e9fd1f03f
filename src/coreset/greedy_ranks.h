// Greedy sampling of points that several ranks have: the answer of greedy_sample to the last bit.
//
// Each rank keeps its own points, a sketch fitted to them, and what greedy sampling knows of them.
// All agree on a round's threshold, and each brings its own points up to date (greedy_round.h).
// Then, as long as there are survivors,
//   1. all tell where their survivors lie, and agree on a key such that about so many in all come
//      before it: the candidates;
//   2. each sends its candidates' vectors to all;
//   3. each runs the plain loop on all candidates, as long as the farthest of them comes before the
//      key: as every other point comes after it, each of these picks is the pick of the plain loop;
//   4. each compares its own survivors with the new picks.
// A vector that was sent is kept for a while, and named when it is a candidate again. What is said
// grows with the picks, not with the points; docs/cluster.md counts it.
#pragma once

#include <cstddef>

#include "coreset/greedy.h"
#include "coreset/points.h"

namespace contcore {

/// For the tests: small ones make many steps on small inputs.
struct RankGreedyLimits {
  std::size_t candidates = 512;  ///< in all, about
  std::size_t kept = 16384;      ///< vectors that were sent
};

/// pick_points for points that have ranks.
PickedPoints greedy_sample_on_ranks(const Points& points, VectorView base,
                                    const GreedyOptions& options, Compute& compute,
                                    const GreedyTuning& tuning,
                                    const RankGreedyLimits& limits = {});

}  // namespace contcore
