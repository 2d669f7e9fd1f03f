// Which images are not learned but calibrate the threshold: the one place where that is decided.
#pragma once

#include <cstddef>
#include <cstdint>

namespace contcore {

/// Whether image i of n, all known beforehand, is held out: `part` of them, evenly spread, at least
/// one and at most 64; none of a single image.
bool is_held_out(std::size_t i, std::size_t n, double part);

/// Whether the next image of a stream is held out, given how many came before and how many are held
/// out: every fifth, while fewer than 64 are.
bool is_next_held_out(std::uint64_t before, std::size_t held);

}  // namespace contcore
