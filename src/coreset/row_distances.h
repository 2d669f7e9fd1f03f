// Canonical distances between rows of sets, whatever their kind.
#pragma once

#include <cstdint>
#include <span>

#include "contcore/vectors.h"

namespace contcore {

/// out[i * to.size() + j] is the canonical squared distance of row from[i] of `a` to row to[j] of
/// `b`. Both are of bytes, or neither.
void squared_distances(VectorView a, std::span<const std::uint32_t> from, VectorView b,
                       std::span<const std::uint32_t> to, float* out);

}  // namespace contcore
