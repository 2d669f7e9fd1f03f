// The canonical distance (contcore/distance.h) on a GPU: its 32 partial sums are a warp's lanes.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace contcore {

inline constexpr unsigned kWholeWarp = 0xffffffffu;

/// Adds up the lanes' sums; all lanes get the result. Lanes l and l ^ h add the same two numbers,
/// so that this is the canonical tree.
__device__ inline float add_lanes(float sum) {
#pragma unroll
  for (int h = 16; h >= 1; h /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(kWholeWarp, sum, h));
  return sum;
}

__device__ inline float add_square(float a, float b, float sum) {
  const float difference = __fsub_rn(a, b);
  return __fmaf_rn(difference, difference, sum);
}

/// By a whole warp; all lanes get the result. Numbers of any kind that become floats.
template <class T>
__device__ inline float warp_distance(const T* a, const float* b, std::uint32_t d) {
  float sum = 0;
#pragma unroll 8
  for (std::uint32_t i = threadIdx.x % 32; i < d; i += 32) {
    sum = add_square(static_cast<float>(a[i]), b[i], sum);
  }
  return add_lanes(sum);
}

/// 32 such sums at once, one array of partial sums a lane: lane l gets the l-th. Of the first 2 h
/// each lane keeps one half, and gives the other to the lane that keeps that.
template <int h = 16>
__device__ inline float add_lanes_of_all(float (&sums)[32]) {
  const bool upper = (threadIdx.x & static_cast<unsigned>(h)) != 0;
#pragma unroll
  for (int q = 0; q < h; ++q) {
    const float keep = upper ? sums[q + h] : sums[q];
    const float give = upper ? sums[q] : sums[q + h];
    sums[q] = __fadd_rn(keep, __shfl_xor_sync(kWholeWarp, give, h));
  }
  if constexpr (h > 1) return add_lanes_of_all<h / 2>(sums);
  return sums[0];
}

}  // namespace contcore
