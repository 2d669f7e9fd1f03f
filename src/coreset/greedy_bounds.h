// Upper bounds from the sketch alone, for all points at once: no full vector is read for them.
#pragma once

#include <cstddef>
#include <vector>

#include "contcore/compute.h"
#include "coreset/greedy_state.h"

namespace contcore {

/// The point farthest from the points' mean, the lowest index of several. Only those far from the
/// sketch's centre are measured.
std::size_t farthest_from_mean(const GreedyState& state, const std::vector<float>& mean);

/// Bounds all points by their distances, and that of the only centre c, to the sketch's centre.
void bound_by_triangle(GreedyState& state, std::size_t c);

/// Lowers the bounds of all points to what the sketch says of their distance to centre c. The
/// sketch must have a width.
void bound_by_centre(GreedyState& state, std::size_t c, Compute& compute);

}  // namespace contcore
