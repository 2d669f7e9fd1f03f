// An anomaly map that is looked at row by row: a large image's is not held as a whole.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "contcore/score.h"

namespace contcore {

/// Calls use(y, row) for each row of anomaly_map(patches, grid), from the first to the last.
void map_rows(std::span<const float> patches, const PatchGrid& grid,
              const std::function<void(std::size_t, std::span<const float>)>& use);

}  // namespace contcore
