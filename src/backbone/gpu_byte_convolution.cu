// Convolutions of bytes on tensor cores: an implicit product of matrices.
//
// A row is a place of the result, a column a channel of it, and the depth is what lies under the
// window, tap after tap. A block makes a tile of BM x BN sums; slices of BK bytes of its rows and
// columns go through shared memory, a few of them under way at a time. Codes are summed as they
// are: what the zero point adds is known from the weights alone (`start`), as long as the map's
// surroundings hold the zero point too.
#include <cuda_runtime.h>

#include <cmath>
#include <iterator>

#include "backbone/gpu_finish.cuh"
#include "backbone/gpu_window.cuh"
#include "contcore/error.h"
#include "device/gpu.h"

namespace contcore::gpu_kernels {
namespace {

// What follows the sums, where it is done at once: the other summand's bytes are added or not, and
// bounds come last. Bounds before `zero` is added are as good as bounds shifted by it: rounding
// keeps the order of numbers.
enum Form { kPlain, kAdds, kAny };
struct Quick {
  float alpha = 0, beta = 0;  // of the other summand
  float low = 0, high = 255;
};

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// 16 bytes, or zeros.
__device__ inline void copy_async(unsigned to, const void* from, bool real) {
  const int bytes = real ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes));
}
__device__ inline void close_group() { asm volatile("cp.async.commit_group;\n"); }
template <int kLeft>
__device__ inline void wait_groups() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kLeft));
}

__device__ inline void load_matrices(unsigned (&to)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from));
}

__device__ inline void multiply(int (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Pieces of 16 bytes are spread so that eight rows of one column lie in different banks.
template <int BK>
__device__ inline int place_of(int row, int piece) {
  const int turn = BK == 64 ? (row >> 1) & 3 : row & 7;
  return row * BK + ((piece ^ turn) << 4);
}

template <int BM, int BN, int BK, int kWarpRows, int kWarpColumns, int kStages>
struct Tile {
  static constexpr int kThreads = 32 * kWarpRows * kWarpColumns;
  static constexpr int kPieces = BK / 16;
  static constexpr int kRowsAtOnce = kThreads / kPieces;
  static constexpr int kLoadsA = BM / kRowsAtOnce, kLoadsB = BN / kRowsAtOnce;
  static constexpr int kStage = (BM + BN) * BK;
  static constexpr int kPitch = BN + 16;  // of the result in shared memory: no bank twice
  static constexpr int kShared = kStages * kStage + BM * kPitch;
  static constexpr int kRows = BM / kWarpRows, kColumns = BN / kWarpColumns;  // of a warp
  static constexpr int kTall = kRows / 16, kWide = kColumns / 8;
  static_assert(BK == 64 || BK == 128);
  static_assert(kLoadsA * kRowsAtOnce == BM && kLoadsB * kRowsAtOnce == BN);
  static_assert(kRowsAtOnce % 8 == 0 && kRows % 16 == 0 && kColumns % 16 == 0);
};

// ---- after the sums ----------------------------------------------------------------------------
// Of the 16 x 8 sums of one product, lane l has those of rows l / 4 and l / 4 + 8, columns 2 · (l % 4)
// and the next.

template <typename T>
__device__ void write_any(const ByteConvolution& how, const int (&sums)[T::kTall][T::kWide][4],
                          int row0, int column0) {
  const int rows = static_cast<int>(how.window.places()), lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < T::kTall; ++i) {
#pragma unroll
    for (int j = 0; j < T::kWide; ++j) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int m = row0 + i * 16 + lane / 4 + part / 2 * 8;
        const int c = column0 + j * 8 + lane % 4 * 2 + part % 2;
        if (m >= rows || c >= how.columns) continue;
        const std::int64_t at = static_cast<std::int64_t>(m) * how.columns + c;
        const float x = finished(how.finish, __int2float_rn(sums[i][j][part]), c, at);
        if (how.bytes != nullptr) {
          how.bytes[at] = to_byte(x, how.finish.zero);
        } else {
          how.floats[at] = x;
        }
      }
    }
  }
}

// To shared memory, over the other summand's bytes that lie there.
template <typename T, bool kAdd>
__device__ void stage(const Finish& finish, const Quick& quick,
                      const int (&sums)[T::kTall][T::kWide][4], std::uint8_t* staged, int row0,
                      int column0, int n0) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int j = 0; j < T::kWide; ++j) {
    const int column = column0 + j * 8 + lane % 4 * 2;
    const float2 bias = *reinterpret_cast<const float2*>(finish.bias + n0 + column);
    const float2 factor = *reinterpret_cast<const float2*>(finish.factor + n0 + column);
#pragma unroll
    for (int i = 0; i < T::kTall; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row0 + i * 16 + half * 8 + lane / 4;
        auto* const at = reinterpret_cast<std::uint16_t*>(staged + row * T::kPitch + column);
        float x = __fmul_rn(__fadd_rn(__int2float_rn(sums[i][j][2 * half]), bias.x), factor.x);
        float y = __fmul_rn(__fadd_rn(__int2float_rn(sums[i][j][2 * half + 1]), bias.y), factor.y);
        if constexpr (kAdd) {
          const unsigned codes = *at;
          x = __fmaf_rn(__fsub_rn(static_cast<float>(codes & 255u), quick.beta), quick.alpha, x);
          y = __fmaf_rn(__fsub_rn(static_cast<float>(codes >> 8), quick.beta), quick.alpha, y);
        }
        x = fminf(fmaxf(__fadd_rn(x, finish.zero), quick.low), quick.high);
        y = fminf(fmaxf(__fadd_rn(y, finish.zero), quick.low), quick.high);
        *at = static_cast<std::uint16_t>(__float2uint_rn(x) | __float2uint_rn(y) << 8);
      }
    }
  }
}

// ---- the sums ----------------------------------------------------------------------------------

template <int BM, int BN, int BK, int kWarpRows, int kWarpColumns, int kStages, Form kForm>
__global__ void __launch_bounds__(32 * kWarpRows* kWarpColumns)
    convolve(const __grid_constant__ ByteConvolution how, const Quick quick, int depth_pitch) {
  using T = Tile<BM, BN, BK, kWarpRows, kWarpColumns, kStages>;
  extern __shared__ __align__(128) std::uint8_t shared[];
  std::uint8_t* const staged = shared + kStages * T::kStage;
  const Window& w = how.window;
  const int column_tiles = (how.columns + BN - 1) / BN;
  const int n0 = static_cast<int>(blockIdx.x) % column_tiles * BN;
  const int m0 = static_cast<int>(blockIdx.x) / column_tiles * BM;
  const int rows = static_cast<int>(w.places());
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int piece = thread % T::kPieces, row0 = thread / T::kPieces;

  // Where each of this thread's rows begins, and under which taps of its window there is a map.
  const std::uint8_t* begin[T::kLoadsA];
  unsigned inside[T::kLoadsA];
#pragma unroll
  for (int i = 0; i < T::kLoadsA; ++i) {
    const int m = m0 + row0 + i * T::kRowsAtOnce;
    begin[i] = how.in + first_number(w, m < rows ? m : 0);
    inside[i] = m < rows ? taps_inside(w, m) : 0;
  }
  const std::int8_t* weights =
      how.weights + static_cast<std::int64_t>(n0 + row0) * depth_pitch + piece * 16;
  const unsigned mine = shared_address(shared) + place_of<BK>(row0, piece);
  const unsigned zeros = static_cast<unsigned>(how.zero) * 0x01010101u;

  // This thread's piece of the next slice: its channel, and its tap.
  int channel = piece * 16, tap = 0, ky = 0, kx = 0;
  const auto settle = [&] {
    while (channel >= w.channels) {
      channel -= w.channels;
      ++tap;
      if (++kx == w.kernel_width) {
        kx = 0;
        ++ky;
      }
    }
  };
  settle();
  const auto fetch = [&](int stage) {
    const unsigned to = mine + stage * T::kStage;
    const int offset = (ky * w.dilation_y * w.width + kx * w.dilation_x) * w.channels + channel;
#pragma unroll
    for (int i = 0; i < T::kLoadsA; ++i) {
      const bool there = (__funnelshift_rc(inside[i], 0u, static_cast<unsigned>(tap)) & 1u) != 0;
      const unsigned at = to + i * T::kRowsAtOnce * BK;
      if (!there && zeros != 0) {
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};\n" ::"r"(at), "r"(zeros));
      } else {
        copy_async(at, there ? begin[i] + offset : how.in, there);
      }
    }
#pragma unroll
    for (int i = 0; i < T::kLoadsB; ++i) {
      copy_async(to + BM * BK + i * T::kRowsAtOnce * BK,
                 weights + static_cast<std::int64_t>(i) * T::kRowsAtOnce * depth_pitch, true);
    }
    weights += BK;
    channel += BK;
    settle();
  };

  const auto place = [&](int m) { return static_cast<std::int64_t>(m) * how.columns; };
  if constexpr (kForm == kAdds) {  // the other summand is there when the sums are
    const auto* other = static_cast<const std::uint8_t*>(how.finish.other);
    for (int i = thread; i < BM * BN / 16; i += T::kThreads) {
      const int row = i / (BN / 16), column = i % (BN / 16) * 16;
      const bool there = m0 + row < rows && n0 + column < how.columns;
      copy_async(shared_address(staged + row * T::kPitch + column),
                 other + (there ? place(m0 + row) + n0 + column : 0), there);
    }
  }
  const int slices = (w.taps() * w.channels + BK - 1) / BK;
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < slices) fetch(s);
    close_group();
  }

  const int warp_row = warp / kWarpColumns * T::kRows;
  const int warp_column = warp % kWarpColumns * T::kColumns;
  int sums[T::kTall][T::kWide][4];
#pragma unroll
  for (int j = 0; j < T::kWide; ++j) {
    const int c = n0 + warp_column + j * 8 + lane % 4 * 2;
    const int first = how.start == nullptr ? 0 : how.start[c];
    const int second = how.start == nullptr ? 0 : how.start[c + 1];
#pragma unroll
    for (int i = 0; i < T::kTall; ++i) {
      sums[i][j][0] = sums[i][j][2] = first;
      sums[i][j][1] = sums[i][j][3] = second;
    }
  }
  // What this lane points ldmatrix at: of rows 16 x 2 pieces, of columns 8 x 2 twice.
  const int row_a = warp_row + lane % 16, piece_a = lane / 16;
  const int row_b = warp_column + lane % 8 + lane / 16 * 8, piece_b = lane / 8 % 2;

  for (int slice = 0; slice < slices; ++slice) {
    wait_groups<kStages - 2>();
    __syncthreads();  // all have this slice, and have done with the one that is overwritten next
    if (slice + kStages - 1 < slices) fetch((slice + kStages - 1) % kStages);
    close_group();
    const unsigned a = shared_address(shared) + slice % kStages * T::kStage;
    const unsigned b = a + BM * BK;
#pragma unroll
    for (int k = 0; k < BK / 32; ++k) {
      unsigned left[T::kTall][4], right[T::kWide / 2][4];
#pragma unroll
      for (int i = 0; i < T::kTall; ++i) {
        load_matrices(left[i], a + place_of<BK>(row_a, 2 * k + piece_a) + i * 16 * BK);
      }
#pragma unroll
      for (int j = 0; j < T::kWide / 2; ++j) {
        load_matrices(right[j], b + place_of<BK>(row_b, 2 * k + piece_b) + j * 16 * BK);
      }
#pragma unroll
      for (int i = 0; i < T::kTall; ++i) {
#pragma unroll
        for (int j = 0; j < T::kWide; ++j) {
          multiply(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
        }
      }
    }
  }
  wait_groups<0>();
  __syncthreads();

  if constexpr (kForm == kAny) {
    write_any<T>(how, sums, m0 + warp_row, n0 + warp_column);
  } else {
    stage<T, kForm == kAdds>(how.finish, quick, sums, staged, warp_row, warp_column, n0);
    __syncthreads();
    for (int i = thread; i < BM * BN / 16; i += T::kThreads) {
      const int row = i / (BN / 16), column = i % (BN / 16) * 16;
      if (m0 + row >= rows || n0 + column >= how.columns) continue;
      *reinterpret_cast<uint4*>(how.bytes + place(m0 + row) + n0 + column) =
          *reinterpret_cast<const uint4*>(staged + row * T::kPitch + column);
    }
  }
}

// ---- launching ---------------------------------------------------------------------------------

int padded(int count, int unit) { return (count + unit - 1) / unit * unit; }

template <int BM, int BN, int BK, int kWarpRows, int kWarpColumns, int kStages, Form kForm>
void launch(const ByteConvolution& how, const Quick& quick, Stream stream) {
  using T = Tile<BM, BN, BK, kWarpRows, kWarpColumns, kStages>;
  const auto kernel = convolve<BM, BN, BK, kWarpRows, kWarpColumns, kStages, kForm>;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kShared),
             "preparing a convolution");
  const std::int64_t tiles =
      (how.window.places() + BM - 1) / BM * ((how.columns + BN - 1) / BN);
  const int pitch = padded(how.window.taps() * how.window.channels, ByteConvolution::kDepth);
  kernel<<<static_cast<unsigned>(tiles), T::kThreads, T::kShared, stream>>>(how, quick, pitch);
  check_cuda(cudaGetLastError(), "starting a convolution");
}

template <int BM, int BN, int BK, int kWarpRows, int kWarpColumns, int kStages>
void launch_quick(const ByteConvolution& how, Form form, const Quick& quick, Stream stream) {
  if (form == kAdds) {
    launch<BM, BN, BK, kWarpRows, kWarpColumns, kStages, kAdds>(how, quick, stream);
  } else {
    launch<BM, BN, BK, kWarpRows, kWarpColumns, kStages, kPlain>(how, quick, stream);
  }
}

struct Cut {
  void (*launch)(const ByteConvolution&, Form, const Quick&, Stream);
  int shared;
};
template <int BM, int BN, int BK, int kWarpRows, int kWarpColumns, int kStages>
constexpr Cut cut() {
  return {launch_quick<BM, BN, BK, kWarpRows, kWarpColumns, kStages>,
          Tile<BM, BN, BK, kWarpRows, kWarpColumns, kStages>::kShared};
}
constexpr Cut kTiles[] = {
    cut<64, 64, 64, 2, 2, 4>(),  cut<128, 64, 64, 2, 2, 4>(),  cut<128, 128, 64, 2, 4, 4>(),
    cut<64, 64, 128, 2, 2, 3>(), cut<128, 64, 128, 2, 2, 3>(), cut<32, 64, 128, 1, 4, 4>(),
    cut<128, 256, 64, 2, 4, 3>(),
};

// What can be done at once; kAny where more is asked for.
Form form_of(const ByteConvolution& how, Quick& quick) {
  const Finish& finish = how.finish;
  if (how.bytes == nullptr || how.columns % 16 != 0 || finish.last != 1 ||
      finish.bias == nullptr || finish.factor == nullptr) {
    return kAny;
  }
  int next = 0;
  Form form = kPlain;
  if (next < finish.count && finish.operations[next].kind == Operation::kAddBytes) {
    form = kAdds;
    quick.alpha = finish.operations[next].alpha;
    quick.beta = finish.operations[next].beta;
    ++next;
  }
  if (next < finish.count &&
      finish.operations[next].kind == static_cast<int>(Unary::Kind::kClip)) {
    quick.low = std::fmax(0.0f, finish.operations[next].alpha + finish.zero);
    quick.high = std::fmin(255.0f, finish.operations[next].beta + finish.zero);
    // Bounds outside of those of a byte leave one number.
    quick.low = std::fmin(quick.low, 255.0f);
    quick.high = std::fmax(quick.high, 0.0f);
    ++next;
  }
  return next == finish.count ? form : kAny;
}

// ---- in groups ---------------------------------------------------------------------------------

__global__ void convolve_groups(const __grid_constant__ ByteConvolution how, int groups) {
  const Window& w = how.window;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= w.places() * how.columns) return;
  const int c = static_cast<int>(at % how.columns);
  const Corner corner(w, static_cast<int>(at / how.columns));
  const int x0 = corner.x, y0 = corner.y;
  const std::int64_t image = corner.image;
  const int each = w.channels / groups, group = c / (how.columns / groups);
  const std::int8_t* weights = how.weights + static_cast<std::int64_t>(c) * w.taps() * each;
  int sum = 0;
  for (int ky = 0; ky < w.kernel_height; ++ky) {
    const int y = y0 + ky * w.dilation_y;
    if (y < 0 || y >= w.height) {
      weights += w.kernel_width * each;
      continue;
    }
    for (int kx = 0; kx < w.kernel_width; ++kx, weights += each) {
      const int x = x0 + kx * w.dilation_x;
      if (x < 0 || x >= w.width) continue;
      const std::uint8_t* codes =
          how.in + ((image * w.height + y) * w.width + x) * w.channels + group * each;
      for (int k = 0; k < each; ++k) sum += (codes[k] - how.zero) * weights[k];
    }
  }
  const float number = finished(how.finish, __int2float_rn(sum), c, at);
  if (how.bytes != nullptr) {
    how.bytes[at] = to_byte(number, how.finish.zero);
  } else {
    how.floats[at] = number;
  }
}

}  // namespace

int byte_convolution_tiles(std::size_t shared_memory) {
  int count = 0;
  while (count < static_cast<int>(std::size(kTiles)) &&
         static_cast<std::size_t>(kTiles[count].shared) <= shared_memory) {
    ++count;
  }
  return count;
}

void byte_convolution(const ByteConvolution& how, int tile, Stream stream) {
  Quick quick;
  const Form form = form_of(how, quick);
  if (form == kAny) return launch<64, 64, 64, 2, 2, 4, kAny>(how, quick, stream);
  kTiles[tile].launch(how, form, quick, stream);
}

void grouped_byte_convolution(const ByteConvolution& how, int groups, Stream stream) {
  constexpr int kThreads = 256;
  const std::int64_t count = how.window.places() * how.columns;
  convolve_groups<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0,
                    stream>>>(how, groups);
  check_cuda(cudaGetLastError(), "starting a convolution");
}

}  // namespace contcore::gpu_kernels
