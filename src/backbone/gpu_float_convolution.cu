// Convolutions and products of matrices in floats: the same implicit product as that of bytes, on
// the ordinary units. A block makes a tile of BM x BN; the next slice of kDepth is fetched into
// registers while this one is multiplied.
#include <cuda_runtime.h>

#include "backbone/gpu_finish.cuh"
#include "backbone/gpu_window.cuh"
#include "contcore/error.h"
#include "device/gpu.h"

namespace contcore::gpu_kernels {
namespace {

constexpr int kSlice = 16, kThreads = 256;

// kWhole: channels, columns and pitch are multiples of 4, and pointers of 16 bytes.
template <int BM, int BN, bool kWhole>
__global__ void __launch_bounds__(kThreads) convolve(const __grid_constant__ FloatConvolution how) {
  constexpr int kTall = BM / 16, kWide = BN / 16;      // of a thread
  constexpr int kLoadsA = BM / 64, kLoadsB = BN / 64;  // pieces of four numbers
  __shared__ __align__(16) float rows_of[2][kSlice][BM + 4];
  __shared__ __align__(16) float columns_of[2][kSlice][BN];
  const Window& w = how.window;
  const int thread = static_cast<int>(threadIdx.x);
  const int column_tiles = (how.columns + BN - 1) / BN;
  const int n0 = static_cast<int>(blockIdx.x) % column_tiles * BN;
  const int m0 = static_cast<int>(blockIdx.x) / column_tiles * BM;
  const int rows = static_cast<int>(w.places());
  const int depth = w.taps() * w.channels;

  const unsigned product = blockIdx.z * gridDim.y + blockIdx.y;
  if (product >= static_cast<unsigned>(how.products)) return;
  const float* in = how.in;
  const float* weights = how.weights;
  std::int64_t out_at = 0;
  for (int d = how.dims, z = static_cast<int>(product); d-- > 0; z /= how.sizes[d]) {
    const int digit = z % how.sizes[d];
    in += digit * how.in_strides[d];
    weights += digit * how.weight_strides[d];
    out_at += digit * how.out_strides[d];
  }

  const int piece = thread % 4, row0 = thread / 4;
  const float* begin[kLoadsA];
  unsigned inside[kLoadsA];
#pragma unroll
  for (int i = 0; i < kLoadsA; ++i) {
    const int m = m0 + row0 + i * 64;
    begin[i] = in + first_number(w, m < rows ? m : 0);
    inside[i] = m < rows ? taps_inside(w, m) : 0;
  }
  int channel = piece * 4, tap = 0, ky = 0, kx = 0;
  const auto settle = [&] {
    while (channel >= w.channels && tap < w.taps()) {
      channel -= w.channels;
      ++tap;
      if (++kx == w.kernel_width) {
        kx = 0;
        ++ky;
      }
    }
  };
  settle();
  const int column = thread % (BN / 4) * 4, line0 = thread / (BN / 4);
  constexpr int kLines = kThreads / (BN / 4);
  float4 next_a[kLoadsA], next_b[kLoadsB];
  int at_depth = 0;
  const auto fetch = [&] {
    const int offset = (ky * w.dilation_y * w.width + kx * w.dilation_x) * w.channels + channel;
#pragma unroll
    for (int i = 0; i < kLoadsA; ++i) {
      const bool there = (__funnelshift_rc(inside[i], 0u, static_cast<unsigned>(tap)) & 1u) != 0;
      next_a[i] = make_float4(0, 0, 0, 0);
      if (there) {
        const float* from = begin[i] + offset;
        if (kWhole) {
          next_a[i] = *reinterpret_cast<const float4*>(from);
        } else {
          const int left = w.channels - channel;  // one tap: the depth is that of the channels
          if (left > 0) next_a[i].x = from[0];
          if (left > 1) next_a[i].y = from[1];
          if (left > 2) next_a[i].z = from[2];
          if (left > 3) next_a[i].w = from[3];
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kLoadsB; ++i) {
      const int k = at_depth + line0 + i * kLines, c = n0 + column;
      next_b[i] = make_float4(0, 0, 0, 0);
      if (k < depth && c < how.columns) {
        const float* from = weights + static_cast<std::int64_t>(k) * how.pitch + c;
        if (kWhole) {
          next_b[i] = *reinterpret_cast<const float4*>(from);
        } else {
          next_b[i].x = from[0];
          if (c + 1 < how.columns) next_b[i].y = from[1];
          if (c + 2 < how.columns) next_b[i].z = from[2];
          if (c + 3 < how.columns) next_b[i].w = from[3];
        }
      }
    }
    at_depth += kSlice;
    channel += kSlice;
    settle();
  };
  const auto put = [&](int buffer) {
#pragma unroll
    for (int i = 0; i < kLoadsA; ++i) {
      const int row = row0 + i * 64;
      rows_of[buffer][piece * 4 + 0][row] = next_a[i].x;
      rows_of[buffer][piece * 4 + 1][row] = next_a[i].y;
      rows_of[buffer][piece * 4 + 2][row] = next_a[i].z;
      rows_of[buffer][piece * 4 + 3][row] = next_a[i].w;
    }
#pragma unroll
    for (int i = 0; i < kLoadsB; ++i) {
      *reinterpret_cast<float4*>(&columns_of[buffer][line0 + i * kLines][column]) = next_b[i];
    }
  };

  // A thread's rows and columns lie four by four, 64 apart.
  const int my_row = thread / 16 * 4, my_column = thread % 16 * 4;
  float sums[kTall][kWide] = {};
  fetch();
  put(0);
  __syncthreads();
  const int slices = (depth + kSlice - 1) / kSlice;
  for (int slice = 0; slice < slices; ++slice) {
    const int now = slice % 2;
    if (slice + 1 < slices) fetch();
#pragma unroll
    for (int k = 0; k < kSlice; ++k) {
      float a[kTall], b[kWide];
#pragma unroll
      for (int i = 0; i < kTall; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(&rows_of[now][k][my_row + i * 16]);
        a[i] = four.x, a[i + 1] = four.y, a[i + 2] = four.z, a[i + 3] = four.w;
      }
#pragma unroll
      for (int j = 0; j < kWide; j += 4) {
        const float4 four =
            *reinterpret_cast<const float4*>(&columns_of[now][k][my_column + j * 16]);
        b[j] = four.x, b[j + 1] = four.y, b[j + 2] = four.z, b[j + 3] = four.w;
      }
#pragma unroll
      for (int i = 0; i < kTall; ++i) {
#pragma unroll
        for (int j = 0; j < kWide; ++j) sums[i][j] = __fmaf_rn(a[i], b[j], sums[i][j]);
      }
    }
    if (slice + 1 < slices) put(1 - now);
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < kTall; ++i) {
    const int m = m0 + my_row + i / 4 * 64 + i % 4;
    if (m >= rows) continue;
#pragma unroll
    for (int j = 0; j < kWide; j += 4) {
      const int c = n0 + my_column + j * 16;
      const std::int64_t at = out_at + static_cast<std::int64_t>(m) * how.columns + c;
      float four[4] = {};
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        if (c + part >= how.columns) continue;
        four[part] = finished<false>(how.finish, sums[i][j + part], c + part, at + part);
        if (!kWhole) how.out[at + part] = four[part];
      }
      if (kWhole && c < how.columns) {
        *reinterpret_cast<float4*>(how.out + at) = make_float4(four[0], four[1], four[2], four[3]);
      }
    }
  }
}

template <int BM, int BN, bool kWhole>
void launch(const FloatConvolution& how, Stream stream) {
  const std::int64_t tiles = (how.window.places() + BM - 1) / BM * ((how.columns + BN - 1) / BN);
  constexpr unsigned kMostAbreast = 32768;  // a grid's second side is below 65536
  const auto products = static_cast<unsigned>(how.products);
  const unsigned abreast = std::min(products, kMostAbreast);
  const dim3 grid(static_cast<unsigned>(tiles), abreast, (products + abreast - 1) / abreast);
  convolve<BM, BN, kWhole><<<grid, kThreads, 0, stream>>>(how);
  check_cuda(cudaGetLastError(), "starting a convolution");
}

bool is_whole(const FloatConvolution& how) {
  const auto aligned = [](const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
  };
  bool whole = how.window.channels % 4 == 0 && how.columns % 4 == 0 && how.pitch % 4 == 0 &&
               aligned(how.in) && aligned(how.weights) && aligned(how.out);
  for (int d = 0; d < how.dims; ++d) {
    whole = whole && how.in_strides[d] % 4 == 0 && how.weight_strides[d] % 4 == 0 &&
            how.out_strides[d] % 4 == 0;
  }
  return whole;
}

// kSingle: a channel to each group.
template <bool kSingle>
__global__ void convolve_groups(const __grid_constant__ FloatConvolution how, int groups) {
  const Window& w = how.window;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= w.places() * how.columns) return;
  const Division by(at, how.columns);
  const int c = static_cast<int>(by.rest);
  const Corner corner(w, static_cast<int>(by.whole));
  const int x0 = corner.x, y0 = corner.y;
  const std::int64_t image = corner.image;
  const int each = kSingle ? 1 : w.channels / groups, group = c / (how.columns / groups);
  const float* in = how.in + image * w.height * w.width * w.channels + group * each;
  float sum = 0;
  int row = c;  // of the weights, and the column in it
  for (int ky = 0; ky < w.kernel_height; ++ky) {
    const int y = y0 + ky * w.dilation_y;
    for (int kx = 0; kx < w.kernel_width; ++kx, row += each * how.columns) {
      const int x = x0 + kx * w.dilation_x;
      if (y < 0 || y >= w.height || x < 0 || x >= w.width) continue;
      const float* from = in + (static_cast<std::int64_t>(y) * w.width + x) * w.channels;
      for (int k = 0; k < each; ++k) {
        sum = __fmaf_rn(from[k], how.weights[row + k * how.columns], sum);
      }
    }
  }
  how.out[at] = finished<false>(how.finish, sum, c, at);
}

// What can be done where the sums are made, and what is left for a pass of its own.
bool split(const Finish& all, Finish& now, Finish& later) {
  now = later = all;
  int first = 0;
  while (first < all.count && (all.operations[first].kind >= Operation::kAddFloats ||
                               is_simple(all.operations[first].kind))) {
    ++first;
  }
  now.count = first;
  later.bias = later.factor = nullptr;
  later.count = all.count - first;
  for (int i = 0; i < later.count; ++i) later.operations[i] = all.operations[first + i];
  return later.count > 0;
}

void convolve_simple(const FloatConvolution& how, Stream stream) {
  constexpr std::int64_t kEnough = 200;
  const std::int64_t large =
      (how.window.places() + 127) / 128 * ((how.columns + 127) / 128) * how.products;
  if (!is_whole(how)) return launch<64, 64, false>(how, stream);
  // Small tiles where large ones would not give every multiprocessor something to do.
  if (how.columns > 64 && large >= kEnough) return launch<128, 128, true>(how, stream);
  launch<64, 64, true>(how, stream);
}

}  // namespace

void float_convolution(const FloatConvolution& how, Stream stream) {
  FloatConvolution simple = how;
  Finish later;
  const bool more = split(how.finish, simple.finish, later);
  convolve_simple(simple, stream);
  if (more)
    functions(how.out, later, how.out, how.window.places() * how.columns * how.products, stream);
}

void grouped_float_convolution(const FloatConvolution& how, int groups, Stream stream) {
  FloatConvolution simple = how;
  Finish later;
  const bool more = split(how.finish, simple.finish, later);
  const std::int64_t count = how.window.places() * how.columns;
  const auto kernel =
      how.window.channels == groups ? convolve_groups<true> : convolve_groups<false>;
  kernel<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(simple,
                                                                                            groups);
  check_cuda(cudaGetLastError(), "starting a convolution");
  if (more) functions(how.out, later, how.out, count, stream);
}

}  // namespace contcore::gpu_kernels
