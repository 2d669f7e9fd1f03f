// The verdict on an image whose place in a picture does not matter.
#pragma once

#include <span>

#include "contcore/compute.h"
#include "contcore/memory.h"
#include "contcore/score.h"
#include "contcore/vectors.h"
#include "contcore/verdict.h"

namespace contcore {

/// As judge(), without regions and reason.
Inspection judge_patches(const Memory& memory, VectorView patches, const PatchGrid& grid,
                         std::span<float> distances, const InspectOptions& options,
                         Compute& compute);

}  // namespace contcore
