// How wide a sketch greedy sampling can afford.
#pragma once

#include <cstddef>

#include "contcore/greedy.h"
#include "contcore/vectors.h"

namespace contcore {

/// In: what is to be sampled and the options' memory limit. Out: the sketch's width, 0 for no
/// sketch. Wider sketches settle more pairs and take longer to make; a limit on memory narrows
/// them. Throws Error (kInput) if the limit is too small even without a sketch.
std::size_t greedy_width(const VectorView& points, const VectorView& base,
                         const GreedyOptions& options);

/// The smallest memory limit to sample `count` of the points with, on a base of so many vectors.
std::size_t greedy_least_memory(const VectorView& points, std::size_t base, std::size_t count);

}  // namespace contcore
