// Copying much from memory that is not pinned: by way of memory that is, with several threads, so
// that the GPU copies at full speed meanwhile.
#pragma once

#include <cstddef>

#include "contcore/compute.h"
#include "device/gpu.h"

namespace contcore {

/// As Gpu::upload, several times as fast for many megabytes.
void upload_with_threads(Gpu& gpu, Compute& compute, void* to, const void* from, std::size_t bytes);

}  // namespace contcore
