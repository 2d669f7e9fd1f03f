// The canonical distance: the one number that every answer of this library is made of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contcore/vectors.h"

namespace contcore {

/// Squared Euclidean distance of two vectors of d numbers, in float32, with a fixed order of
/// summation, so that it is the same to the last bit on every machine:
///
///   sum[l] = Σ fma(a_i − b_i, a_i − b_i, ·)  over i = l, l + 32, l + 64, …      for l in 0…31
///   then sum[l] += sum[l + h] for all l < h, with h = 16, 8, 4, 2, 1;  the result is sum[0].
///
/// Distances are ordered by this number; what is reported is its square root.
float squared_distance(const float* a, const float* b, std::size_t d);

/// The same of bytes: Σ (a_i − b_i)² is a whole number, computed exactly and rounded once to
/// float32. Up to d = 512 the definition above gives the same number: every partial sum but the
/// last stays below 2²⁴.
float squared_distance(const std::uint8_t* a, const std::uint8_t* b, std::size_t d);

/// Row i of a and row j of b: both of bytes, or neither.
float squared_distance(VectorView a, std::size_t i, VectorView b, std::size_t j);

}  // namespace contcore
