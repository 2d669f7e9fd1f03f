// The canonical distance: the one float32 computation that every answer of this library is made of.
#pragma once

#include <cstddef>

namespace contcore {

/// Squared Euclidean distance of two vectors of d numbers, in float32, with a fixed order of
/// summation, so that it is the same to the last bit on every machine:
///
///   sum[l] = Σ fma(a_i − b_i, a_i − b_i, ·)  over i = l, l + 32, l + 64, …      for l in 0…31
///   then sum[l] += sum[l + h] for all l < h, with h = 16, 8, 4, 2, 1;  the result is sum[0].
///
/// Distances are ordered by this number; what is reported is its square root.
float squared_distance(const float* a, const float* b, std::size_t d);

}  // namespace contcore
