// The greedy order of each task, mended when vectors are removed from it.
#pragma once

#include <cstdint>
#include <vector>

#include "contcore/compute.h"
#include "memory/vector_store.h"

namespace contcore {

/// Vectors were removed that stood at `places` of the order, which increase, and were of the tasks
/// `of`. A vector whose parent (the nearest earlier one of its task) is among them gets the next
/// nearest for a parent, and its distance for a radius. Costs a search for each such vector, or its
/// distances to all earlier ones of its task where that is cheaper.
void renew_parents(VectorStore& store, const std::vector<std::int32_t>& of,
                   const std::vector<std::uint32_t>& places, Compute& compute);

}  // namespace contcore
