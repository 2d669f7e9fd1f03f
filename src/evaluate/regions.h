// The connected regions of a mask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/metrics.h"

namespace contcore {

/// Defective pixels side by side in one row: from `begin` to before `end`, counted row after row
/// from the mask's first pixel.
struct Run {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint32_t region = 0;
};

/// All runs of a mask in order. Regions are 8-connected, pixels that touch at a corner belong
/// together; they are numbered from 0 in the order of their first pixels.
std::vector<Run> connected_runs(const Mask& mask);

}  // namespace contcore
