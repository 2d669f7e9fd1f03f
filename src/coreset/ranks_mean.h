// The mean of points that several ranks have: as greedy sampling computes it of all, to the last
// bit.
//
// Of bytes the sums are whole numbers. Of floats they are float64 sums over blocks of
// Sketch::kMeanBlock points, which are added in order: each rank goes on where the one before it
// ended, so that a block may begin on one and end on another.
#pragma once

#include <vector>

#include "contcore/compute.h"
#include "coreset/points.h"

namespace contcore {

/// Of all ranks.
std::vector<float> mean_of_points(const Points& points, Compute& compute);

}  // namespace contcore
