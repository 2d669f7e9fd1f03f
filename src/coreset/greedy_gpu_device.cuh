// What the kernels of greedy sampling have in common.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "coreset/greedy_gpu_kernels.h"

namespace contcore::greedy_gpu {

__device__ inline std::uint32_t row_id(const RowSet& set, std::uint32_t i) {
  return set.ids == nullptr ? i : set.ids[i];
}
__device__ inline std::uint32_t rows_of(const RowSet& set) {
  return set.count == nullptr ? set.n : *set.count;
}
__device__ inline const float* float_row(const RowSet& set, std::uint32_t i) {
  return set.rows + static_cast<std::size_t>(row_id(set, i)) * set.d;
}
__device__ inline const std::uint8_t* code_row(const RowSet& set, std::uint32_t i) {
  return set.codes + static_cast<std::size_t>(row_id(set, i)) * set.stride;
}

/// For work that is divided by threads or warps of a grid, whatever its size.
__device__ inline std::uint32_t grid_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline std::uint32_t grid_threads() { return gridDim.x * blockDim.x; }
__device__ inline std::uint32_t grid_warp() { return grid_thread() / 32; }
__device__ inline std::uint32_t grid_warps() { return grid_threads() / 32; }

/// Points at zero have no key.
__device__ inline std::uint64_t key_of(std::uint32_t bound, std::uint32_t i) {
  return bound == 0 ? 0 : static_cast<std::uint64_t>(bound) << 32 | ~i;
}

/// Blocks for so much work, but no more than keep the GPU busy.
inline unsigned blocks_for(const Gpu& gpu, std::size_t items, std::size_t items_a_block,
                           std::size_t blocks_a_processor) {
  const std::size_t all = (items + items_a_block - 1) / items_a_block;
  const std::size_t most = gpu.processors() * blocks_a_processor;
  return static_cast<unsigned>(std::clamp<std::size_t>(all, 1, most));
}

inline void check_launch(const char* what) { check_cuda(cudaGetLastError(), what); }

}  // namespace contcore::greedy_gpu
