// Many memories in one, merged in a tree.
#pragma once

#include <cstddef>
#include <vector>

#include "contcore/compute.h"
#include "contcore/memory.h"
#include "contcore/ranks.h"

namespace contcore {

/// All ranks' memories, those of one rank after those of the ranks before it, in one of `capacity`
/// vectors: each rank merges its own, then every other rank hands what it has to the one before it,
/// and so on. By equal shares it is what merging one after the other gives, as long as no two of
/// them know the same task and none was taught one twice, or knows defects (docs/cluster.md). A
/// rank may have none. Of all ranks, on which the result is the same. Throws Error as
/// Memory::merge, on all ranks.
Memory merge_on_ranks(std::vector<Memory> mine, std::size_t capacity, Ranks& ranks,
                      Compute& compute);

}  // namespace contcore
