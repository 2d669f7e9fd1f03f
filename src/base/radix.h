// Sorting numbers by their digits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contcore/threads.h"

namespace contcore {

/// Sorts by the upper 32 bits, the smallest first; words that agree in those stay in the order they
/// are in. Needs as much memory again while it works.
void sort_by_upper_half(std::vector<std::uint64_t>& words, Threads& threads);

/// Sorts few enough to stay in a thread's cache, the smallest first. `other` is as large and comes
/// back with anything in it.
void sort_small(std::span<std::uint32_t> words, std::span<std::uint32_t> other);

}  // namespace contcore
