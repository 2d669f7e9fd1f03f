// How alike two coresets are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "contcore/compute.h"
#include "contcore/progress.h"
#include "contcore/vectors.h"

namespace contcore {

/// Distances from each vector of one set to the nearest of the other.
struct Cover {
  float largest = 0;   ///< the directed covering (one-sided Hausdorff) distance
  double average = 0;  ///< the average minimum distance
};

/// How well `by` covers `covered`: exact, through NearestIndex. Throws Error (kInput) if one is
/// empty or the dimensions differ.
Cover cover(VectorView covered, VectorView by, Compute& compute, const Progress& progress = {});

/// The Hausdorff distance: the larger of the two directed covering distances.
float hausdorff(VectorView a, VectorView b, Compute& compute, const Progress& progress = {});

/// The sliced Wasserstein-2 distance: the root of the mean, over seeded random directions, of the
/// squared Wasserstein-2 distance of the two sets projected on a line. The sets may differ in size.
double sliced_wasserstein(VectorView a, VectorView b, std::size_t directions, std::uint64_t seed,
                          Compute& compute, const Progress& progress = {});

/// How many indices two lists of picks have in common (each list without repeats).
std::size_t overlap(std::span<const std::int64_t> a, std::span<const std::int64_t> b);

}  // namespace contcore
