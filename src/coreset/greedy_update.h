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
#include <vector>

#include "coreset/greedy_state.h"

namespace contcore {

/// By the sketch's cascade; full distances only where it leaves a pair open.
class SketchUpdate {
 public:
  explicit SketchUpdate(GreedyState& state) : state_(state) {}

  /// For n ≤ kScanPoints points.
  void update(const std::uint32_t* ids, std::size_t n, float threshold, GreedyWorker& worker);

  /// Full distances to a point's pending centres: its bound then is exact for what it has seen.
  void resolve_pending(std::uint32_t id, GreedyWorker& worker);

 private:
  // A point while it is compared.
  struct Point {
    std::uint32_t id = 0;
    const float* sketch = nullptr;
    float best = 0;
    double reach = 0;  // of the sketch, for that best
    PendingCentres pending = kNothingPending;
  };

  // Centres that were scanned: `tiles` tiles from the `tile`-th on, up to the `end`-th centre.
  struct Chunk {
    std::size_t tile = 0, tiles = 0, end = 0;
    const std::uint64_t* masks = nullptr;  // of each point, tile after tile
  };

  Point load(std::uint32_t id) const;
  void scan_centres(Point* points, std::size_t n, std::vector<std::uint32_t>& seen, std::size_t end,
                    float threshold, GreedyWorker& worker) const;
  void compare_chunk(Point* points, std::size_t n, std::vector<std::uint32_t>& seen,
                     const Chunk& chunk, float threshold, GreedyWorker& worker) const;
  bool filter(Point& p, float threshold, OpenCentres& open, PairCounts& counts) const;
  std::size_t filter_by_level(const Point& p, OpenCentres& open, std::size_t fresh,
                              PairCounts& counts) const;
  bool refine(Point& p, float threshold, const OpenCentres& open, PairCounts& counts,
              GreedyWorker& worker) const;
  bool set_pending(Point& p, const OpenCentres& open, std::size_t k) const;
  bool leave_pending(Point& p, float threshold, const OpenCentres& open) const;
  void lower_best(Point& p, float best) const;
  void resolve(Point& p, GreedyWorker& worker) const;
  float nearest_of(const float* row, const std::uint32_t* centres, std::size_t n,
                   GreedyWorker& worker) const;

  GreedyState& state_;
};

/// By full distances in blocks of points and centres: compute-bound, whatever the data. For n ≤
/// kScanPoints points with nothing pending.
void update_dense(GreedyState& state, const std::uint32_t* ids, std::size_t n, float threshold,
                  GreedyWorker& worker);

}  // namespace contcore
