// The other ways to pick a subset, that greedy sampling is compared with. All are seeded, and the
// same seed gives the same picks on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "contcore/compute.h"
#include "contcore/greedy.h"
#include "contcore/vectors.h"

namespace contcore {

/// `count` of `rows` indices, uniformly without replacement, in random order; all of them,
/// shuffled, when count ≥ rows.
std::vector<std::int64_t> random_sample(std::size_t rows, std::size_t count, std::uint64_t seed);

/// A uniform sample of a stream whose length is not known in advance: vectors pass by once, and a
/// fixed number of places hold a sample of all that have passed (Vitter's algorithm R).
class Reservoir {
 public:
  Reservoir(std::size_t places, std::uint64_t seed);

  /// The next vector passes by. Returns the place it takes, or −1 if it is let go.
  std::int64_t offer();

  /// The index in the stream of the vector that holds each place.
  const std::vector<std::int64_t>& held() const { return held_; }

 private:
  std::size_t places_;
  std::uint64_t seen_ = 0;
  std::vector<std::int64_t> held_;
  std::mt19937_64 random_;
};

/// Herding: picks so that the mean of the picks stays as near as possible to the mean of all
/// points. Pick i is the unpicked point nearest to i·mean − (sum of the picks before), the mean and
/// the sum in float64, the target rounded to float32, distances canonical, ties to the lowest
/// index. A target is near no point in particular, so each pick costs a distance to every point.
std::vector<std::int64_t> herding_sample(VectorView points, std::size_t count, Compute& compute,
                                         const Progress& progress = {});

/// PatchCore's approximate greedy sampling: a seeded random projection to 128 dimensions (none when
/// there are no more than that), distances to 10 random points averaged as a start, then greedy.
/// The radii are distances in the projection.
GreedyResult patchcore_sample(VectorView points, const GreedyOptions& options, Compute& compute);

}  // namespace contcore
