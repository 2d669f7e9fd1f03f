// Every row once: copies in the layout of the kernels, values that cannot be used, codes, the mean.
#include <cuda_fp16.h>

#include "coreset/gpu_distance.cuh"
#include "coreset/greedy_gpu_device.cuh"
#include "coreset/sketch.h"

namespace contcore::greedy_gpu {
namespace {

constexpr unsigned kThreads = 256;

__global__ void pad_kernel(const std::uint8_t* from, std::size_t n, std::uint32_t d,
                           std::uint32_t stride, std::uint8_t* to) {
  const std::size_t step = grid_threads();
  for (std::size_t i = grid_thread(); i < n * stride; i += step) {
    const std::size_t row = i / stride;
    const std::size_t column = i % stride;
    to[i] = column < d ? from[row * d + column] : 0;
  }
}

__global__ void widen_kernel(const __half* from, std::size_t n, float* to) {
  const std::size_t step = grid_threads();
  for (std::size_t i = grid_thread(); i < n; i += step) to[i] = __half2float(from[i]);
}

__global__ void fill_kernel(std::uint32_t* to, std::size_t n, std::uint32_t value) {
  const std::size_t step = grid_threads();
  for (std::size_t i = grid_thread(); i < n; i += step) to[i] = value;
}

__device__ std::uint32_t add_warp(std::uint32_t value) {
  return __reduce_add_sync(kWholeWarp, value);
}
__device__ double add_warp(double value) {
#pragma unroll
  for (int h = 16; h >= 1; h /= 2) value += __shfl_xor_sync(kWholeWarp, value, h);
  return value;
}

// ‖cut(a) / step − k‖ is what e bounds. The float64 arithmetic is off by far less than is added.
__global__ void sketch_kernel(RowSet set, Steps steps, std::uint8_t* codes, std::uint32_t* norms,
                              float* errors, Tally* tally) {
  const std::uint32_t lane = threadIdx.x % 32;
  const bool coded = steps.inverse > 0;
  for (std::uint32_t i = grid_warp(); i < set.n; i += grid_warps()) {
    const float* row = set.rows + static_cast<std::size_t>(i) * set.d;
    std::uint8_t* code = codes + static_cast<std::size_t>(i) * set.stride;
    float sum = 0;
    double error = 0;
    std::uint32_t norm = 0;
#pragma unroll 4
    for (std::uint32_t j = lane; j < set.d; j += 32) {
      const float value = row[j];
      const float centre = steps.centre[j];
      sum = add_square(value, centre, sum);
      if (!coded) continue;
      const double exact =
          (static_cast<double>(value) - static_cast<double>(centre)) * steps.inverse;
      const double cut = fmin(fmax(exact, -127.0), 127.0);
      const double whole = rint(cut);
      error += (cut - whole) * (cut - whole);
      const std::uint32_t k = static_cast<std::uint32_t>(static_cast<int>(whole) + 128);
      norm += k * k;
      code[j] = static_cast<std::uint8_t>(k);
    }
    const float squared = add_lanes(sum);
    if (lane == 0 && !(squared <= kLargestSquaredNorm)) tally->bad = 1;
    if (!coded) continue;
    for (std::uint32_t j = set.d + lane; j < set.stride; j += 32) code[j] = 0;
    norm = add_warp(norm);
    error = add_warp(error);
    if (lane == 0) {
      const float e = static_cast<float>(sqrt(error) * (1 + 1e-6) + 1e-5);
      norms[i] = norm;
      errors[i] = e;
      const std::uint32_t bits = __float_as_uint(e);
      if (bits > *const_cast<volatile std::uint32_t*>(&tally->largest_error)) {
        atomicMax(&tally->largest_error, bits);
      }
    }
  }
}

__global__ void norm_kernel(RowSet set, std::uint32_t* norms) {
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t i = grid_warp(); i < set.n; i += grid_warps()) {
    const auto* words = reinterpret_cast<const std::uint32_t*>(
        set.codes + static_cast<std::size_t>(i) * set.stride);
    std::uint32_t norm = 0;
#pragma unroll 4
    for (std::uint32_t j = lane; j < set.stride / 4; j += 32) {
      norm = __dp4a(words[j], words[j], norm);
    }
    norm = add_warp(norm);
    if (lane == 0) norms[i] = norm;
  }
}

// A block sums some columns of kMeanBlock rows, in order.
template <class T>
__global__ void block_sums_kernel(const T* rows, std::size_t n, std::uint32_t d, std::size_t stride,
                                  double* sums) {
  const std::uint32_t column = blockIdx.y * blockDim.x + threadIdx.x;
  if (column >= d) return;
  for (std::size_t block = blockIdx.x; block * Sketch::kMeanBlock < n; block += gridDim.x) {
    const std::size_t first = block * Sketch::kMeanBlock;
    const std::size_t end = first + Sketch::kMeanBlock < n ? first + Sketch::kMeanBlock : n;
    const T* at = rows + first * stride + column;
    double sum = 0;
#pragma unroll 16
    for (std::size_t i = first; i < end; ++i, at += stride) {
      sum = __dadd_rn(sum, static_cast<double>(*at));
    }
    sums[block * d + column] = sum;
  }
}

__global__ void mean_kernel(const double* sums, std::size_t n, std::uint32_t d, float* mean) {
  const std::uint32_t column = grid_thread();
  if (column >= d) return;
  const std::size_t blocks = (n + Sketch::kMeanBlock - 1) / Sketch::kMeanBlock;
  double sum = 0;
#pragma unroll 16
  for (std::size_t block = 0; block < blocks; ++block) {
    sum = __dadd_rn(sum, sums[block * d + column]);
  }
  mean[column] = static_cast<float>(sum / static_cast<double>(n));
}

template <class T>
__global__ void farthest_kernel(const T* rows, std::uint32_t n, std::uint32_t d, std::size_t stride,
                                std::uint32_t first, const float* from, Tally* tally) {
  for (std::uint32_t i = grid_warp(); i < n; i += grid_warps()) {
    const float distance = warp_distance(rows + i * stride, from, d);
    if (threadIdx.x % 32 != 0) continue;
    const std::uint64_t key =
        static_cast<std::uint64_t>(__float_as_uint(distance)) << 32 | ~(first + i);
    auto* farthest = reinterpret_cast<unsigned long long*>(&tally->farthest);
    if (key > *const_cast<volatile unsigned long long*>(farthest)) atomicMax(farthest, key);
  }
}

}  // namespace

void pad_rows(Gpu& gpu, const std::uint8_t* from, std::size_t n, std::size_t d, std::size_t stride,
              std::uint8_t* to) {
  gpu.use();
  pad_kernel<<<blocks_for(gpu, n * stride, kThreads, 16), kThreads, 0, gpu.stream()>>>(
      from, n, static_cast<std::uint32_t>(d), static_cast<std::uint32_t>(stride), to);
  check_launch("laying out vectors");
}

void widen(Gpu& gpu, const void* halves, std::size_t n, float* to) {
  gpu.use();
  widen_kernel<<<blocks_for(gpu, n, kThreads, 16), kThreads, 0, gpu.stream()>>>(
      static_cast<const __half*>(halves), n, to);
  check_launch("widening vectors");
}

void sketch_rows(Gpu& gpu, const RowSet& set, const Steps& steps, std::uint8_t* codes,
                 std::uint32_t* norms, float* errors, Tally* tally) {
  if (set.n == 0) return;
  gpu.use();
  sketch_kernel<<<blocks_for(gpu, set.n, kThreads / 32, 16), kThreads, 0, gpu.stream()>>>(
      set, steps, codes, norms, errors, tally);
  check_launch("looking at vectors");
}

void code_norms(Gpu& gpu, const RowSet& set, std::uint32_t* norms) {
  if (set.n == 0) return;
  gpu.use();
  norm_kernel<<<blocks_for(gpu, set.n, kThreads / 32, 16), kThreads, 0, gpu.stream()>>>(set, norms);
  check_launch("looking at vectors");
}

void find_sums(Gpu& gpu, const RowSet& set, double* sums) {
  gpu.use();
  const std::size_t blocks = (set.n + Sketch::kMeanBlock - 1) / Sketch::kMeanBlock;
  const unsigned columns = (set.d + kThreads - 1) / kThreads;
  const dim3 grid(static_cast<unsigned>(std::min<std::size_t>(blocks, 1 << 20)), columns);
  if (set.rows != nullptr) {
    block_sums_kernel<<<grid, kThreads, 0, gpu.stream()>>>(set.rows, set.n, set.d, set.d, sums);
  } else {
    block_sums_kernel<<<grid, kThreads, 0, gpu.stream()>>>(set.codes, set.n, set.d, set.stride,
                                                           sums);
  }
  check_launch("finding the mean");
}

void find_mean(Gpu& gpu, const double* sums, std::size_t rows, std::size_t d, float* mean) {
  gpu.use();
  const auto columns = static_cast<unsigned>((d + kThreads - 1) / kThreads);
  mean_kernel<<<columns, kThreads, 0, gpu.stream()>>>(sums, rows, static_cast<std::uint32_t>(d),
                                                      mean);
  check_launch("finding the mean");
}

void find_farthest(Gpu& gpu, const RowSet& set, std::size_t first, const float* from,
                   Tally* tally) {
  gpu.use();
  const unsigned blocks = blocks_for(gpu, set.n, kThreads / 32, 16);
  const auto number = static_cast<std::uint32_t>(first);
  if (set.rows != nullptr) {
    farthest_kernel<<<blocks, kThreads, 0, gpu.stream()>>>(set.rows, set.n, set.d, set.d, number,
                                                           from, tally);
  } else {
    farthest_kernel<<<blocks, kThreads, 0, gpu.stream()>>>(set.codes, set.n, set.d, set.stride,
                                                           number, from, tally);
  }
  check_launch("finding the first pick");
}

void set_bounds(Gpu& gpu, std::uint32_t* bounds, std::size_t n, float value) {
  gpu.use();
  std::uint32_t bits = 0;
  static_assert(sizeof(bits) == sizeof(value));
  memcpy(&bits, &value, sizeof(bits));
  fill_kernel<<<blocks_for(gpu, n, kThreads, 16), kThreads, 0, gpu.stream()>>>(bounds, n, bits);
  check_launch("setting bounds");
}

}  // namespace contcore::greedy_gpu
