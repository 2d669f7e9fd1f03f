// Brings points up to date with the centres they have not seen, each until its bound is below a
// threshold.
//
// In: a block of points, by index, and the threshold. Out: their bounds, what of the centres these
// account for, and which centres they leave pending. A bound that is still at least the threshold
// is the exact canonical squared distance to base and picks. Nothing fails. Several threads may
// update at once, each other points and with a worker of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coreset/greedy_state.h"

namespace contcore {

/// By the sketch; full distances only where it leaves a pair open. For n ≤ kScanPoints
/// points; the sketch must have a width.
void update_by_sketch(GreedyState& state, const std::uint32_t* ids, std::size_t n, float threshold,
                      GreedyWorker& worker);

/// Full distances to a point's pending centres: its bound then is exact for what it has seen.
void resolve_pending(GreedyState& state, std::uint32_t id, GreedyWorker& worker);

/// By full distances in blocks of points and centres: compute-bound, whatever the data. For n ≤
/// kScanPoints points with nothing pending.
void update_dense(GreedyState& state, const std::uint32_t* ids, std::size_t n, float threshold,
                  GreedyWorker& worker);

}  // namespace contcore
