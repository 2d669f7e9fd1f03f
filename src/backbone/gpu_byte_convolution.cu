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
#include "backbone/gpu_launch.cuh"
#include "backbone/gpu_window.cuh"
#include "contcore/error.h"
#include "device/gpu.h"

namespace contcore::gpu_kernels {
namespace {

// What follows the sums, where it is done at once: bytes or floats are written, the other summand
// is added or not, and bounds come last. Bounds before `last` and `zero` are as good as bounds on
// which those have been applied: rounding keeps the order of numbers.
enum Form { kBytes, kBytesAddBytes, kBytesAddFloats, kFloats, kFloatsAddFloats, kAny };
struct Quick {
  float alpha = 0, beta = 0;  // of the other summand's bytes; beta and kByteAsFloat
  float low = 0, high = 255;
  bool bounded = false;  // by more than what a byte holds
};

// A float with the lowest byte k of its bits is this and k.
constexpr float kByteAsFloat = 8388608;
constexpr unsigned kByteAsFloatBits = 0x4B000000;

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

// Pieces of 16 bytes are spread so that those which ldmatrix takes together lie in different banks:
// of rows eight in a row, of columns those of column_of().
template <int BK>
__device__ inline int place_of_row(int row, int piece) {
  const int turn = BK == 64 ? row >> 1 & 3 : row & 7;
  return row * BK + ((piece ^ turn) << 4);
}
template <int BK>
__device__ inline int place_of_column(int column, int piece) {
  const int turn = BK == 64 ? column >> 2 & 3 : (column >> 1 & 6) | (column & 1);
  return column * BK + ((piece ^ turn) << 4);
}

// Column i of product `part` (of two): so that a lane has four columns side by side of the 16.
__device__ inline int column_of(int part, int i) { return i / 2 * 4 + part * 2 + i % 2; }

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
// Of two products of 16 x 8 side by side, lane l has the sums of rows l / 4 and l / 4 + 8, columns
// 4 · (l % 4) and the next three.

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
        const int c = column0 + j / 2 * 16 + column_of(j % 2, lane % 4 * 2 + part % 2);
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

// The nearest bytes.
__device__ inline unsigned pack(const float (&x)[4]) {
  unsigned upper, all;
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;\n"
      : "=r"(upper)
      : "r"(__float2int_rn(x[3])), "r"(__float2int_rn(x[2])));
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;\n"
      : "=r"(all)
      : "r"(__float2int_rn(x[1])), "r"(__float2int_rn(x[0])), "r"(upper));
  return all;
}

// Bytes go to shared memory, over the other summand's that may lie there; floats go out at once.
template <typename T, Form kForm>
__device__ void finish_quickly(const ByteConvolution& how, const Quick& quick,
                               const int (&sums)[T::kTall][T::kWide][4], std::uint8_t* staged,
                               int row0, int column0, int m0, int n0) {
  const Finish& finish = how.finish;
  const int rows = static_cast<int>(how.window.places()), lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int j = 0; j < T::kWide / 2; ++j) {
    const int column = column0 + j * 16 + lane % 4 * 4;
    const float4 bias = *reinterpret_cast<const float4*>(finish.bias + n0 + column);
    const float4 factor = *reinterpret_cast<const float4*>(finish.factor + n0 + column);
#pragma unroll
    for (int part = 0; part < 2 * T::kTall; ++part) {
      const int i = part / 2, half = part % 2;
      const int row = row0 + i * 16 + half * 8 + lane / 4;
      const bool there = m0 + row < rows && n0 + column < how.columns;
      const std::int64_t at = static_cast<std::int64_t>(m0 + row) * how.columns + n0 + column;
      auto* const bytes = reinterpret_cast<unsigned*>(staged + row * T::kPitch + column);
      const int* low = &sums[i][2 * j][2 * half];
      const int* high = &sums[i][2 * j + 1][2 * half];
      float x[4] = {__fmul_rn(__fadd_rn(__int2float_rn(low[0]), bias.x), factor.x),
                    __fmul_rn(__fadd_rn(__int2float_rn(low[1]), bias.y), factor.y),
                    __fmul_rn(__fadd_rn(__int2float_rn(high[0]), bias.z), factor.z),
                    __fmul_rn(__fadd_rn(__int2float_rn(high[1]), bias.w), factor.w)};
      if constexpr (kForm == kBytesAddBytes) {
        const unsigned codes = *bytes;
#pragma unroll
        for (unsigned k = 0; k < 4; ++k) {
          const float code = __uint_as_float(__byte_perm(codes, kByteAsFloatBits, 0x7440u | k));
          x[k] = __fmaf_rn(__fsub_rn(code, quick.beta), quick.alpha, x[k]);
        }
      }
      if constexpr (kForm == kBytesAddFloats || kForm == kFloatsAddFloats) {
        const auto* other = static_cast<const float*>(finish.other);
        const float4 four = there ? *reinterpret_cast<const float4*>(other + at) : float4();
        x[0] = __fadd_rn(x[0], four.x);
        x[1] = __fadd_rn(x[1], four.y);
        x[2] = __fadd_rn(x[2], four.z);
        x[3] = __fadd_rn(x[3], four.w);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if constexpr (kForm == kBytesAddFloats) x[k] = __fmul_rn(x[k], finish.last);
        if constexpr (kForm <= kBytesAddFloats) x[k] = __fadd_rn(x[k], finish.zero);
      }
      if (quick.bounded) {
#pragma unroll
        for (int k = 0; k < 4; ++k) x[k] = fminf(fmaxf(x[k], quick.low), quick.high);
      }
      if constexpr (kForm <= kBytesAddFloats) {
        *bytes = pack(x);
      } else if (there) {
        *reinterpret_cast<float4*>(how.floats + at) = make_float4(x[0], x[1], x[2], x[3]);
      }
    }
  }
}

// ---- the sums ----------------------------------------------------------------------------------

template <int BM, int BN, int BK, int kWarpRows, int kWarpColumns, int kStages, Form kForm>
__global__ void __launch_bounds__(32 * kWarpRows * kWarpColumns, BM* BN <= 128 * 128 ? 2 : 1)
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
  const unsigned mine_a = shared_address(shared) + place_of_row<BK>(row0, piece);
  const unsigned mine_b = shared_address(shared) + BM * BK + place_of_column<BK>(row0, piece);
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
  const auto fetch_columns = [&](int stage) {
#pragma unroll
    for (int i = 0; i < T::kLoadsB; ++i) {
      copy_async(mine_b + stage * T::kStage + i * T::kRowsAtOnce * BK,
                 weights + static_cast<std::int64_t>(i) * T::kRowsAtOnce * depth_pitch, true);
    }
    weights += BK;
  };
  const auto fetch_rows = [&](int stage) {
    const int offset = (ky * w.dilation_y * w.width + kx * w.dilation_x) * w.channels + channel;
#pragma unroll
    for (int i = 0; i < T::kLoadsA; ++i) {
      const bool there = (__funnelshift_rc(inside[i], 0u, static_cast<unsigned>(tap)) & 1u) != 0;
      const unsigned at = mine_a + stage * T::kStage + i * T::kRowsAtOnce * BK;
      if (!there && zeros != 0) {
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};\n" ::"r"(at), "r"(zeros));
      } else {
        copy_async(at, there ? begin[i] + offset : how.in, there);
      }
    }
    channel += BK;
    settle();
  };

  const int slices = (w.taps() * w.channels + BK - 1) / BK;
  let_the_next_begin();
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < slices) fetch_columns(s);
  }
  wait_for_the_last();  // the weights were there before
  const auto place = [&](int m) { return static_cast<std::int64_t>(m) * how.columns; };
  if constexpr (kForm == kBytesAddBytes) {  // the other summand is there when the sums are
    const auto* other = static_cast<const std::uint8_t*>(how.finish.other);
    for (int i = thread; i < BM * BN / 16; i += T::kThreads) {
      const int row = i / (BN / 16), column = i % (BN / 16) * 16;
      const bool there = m0 + row < rows && n0 + column < how.columns;
      copy_async(shared_address(staged + row * T::kPitch + column),
                 other + (there ? place(m0 + row) + n0 + column : 0), there);
    }
  }
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < slices) fetch_rows(s);
    close_group();
  }

  const int warp_row = warp / kWarpColumns * T::kRows;
  const int warp_column = warp % kWarpColumns * T::kColumns;
  int sums[T::kTall][T::kWide][4];
#pragma unroll
  for (int j = 0; j < T::kWide; ++j) {
    const int c = n0 + warp_column + j / 2 * 16 + column_of(j % 2, lane % 4 * 2);
    const int first = how.start == nullptr ? 0 : how.start[c];
    const int second = how.start == nullptr ? 0 : how.start[c + 1];
#pragma unroll
    for (int i = 0; i < T::kTall; ++i) {
      sums[i][j][0] = sums[i][j][2] = first;
      sums[i][j][1] = sums[i][j][3] = second;
    }
  }
  // What this lane points ldmatrix at: of rows 16 x 2 pieces, of columns 8 x 2 for each of two
  // products.
  const int row_a = warp_row + lane % 16, piece_a = lane / 16;
  const int row_b = warp_column + column_of(lane / 16, lane % 8), piece_b = lane / 8 % 2;

  for (int slice = 0; slice < slices; ++slice) {
    wait_groups<kStages - 2>();
    __syncthreads();  // all have this slice, and have done with the one that is overwritten next
    if (slice + kStages - 1 < slices) {
      fetch_columns((slice + kStages - 1) % kStages);
      fetch_rows((slice + kStages - 1) % kStages);
    }
    close_group();
    const unsigned a = shared_address(shared) + slice % kStages * T::kStage;
    const unsigned b = a + BM * BK;
#pragma unroll
    for (int k = 0; k < BK / 32; ++k) {
      unsigned left[T::kTall][4], right[T::kWide / 2][4];
#pragma unroll
      for (int i = 0; i < T::kTall; ++i) {
        load_matrices(left[i], a + place_of_row<BK>(row_a, 2 * k + piece_a) + i * 16 * BK);
      }
#pragma unroll
      for (int j = 0; j < T::kWide / 2; ++j) {
        load_matrices(right[j], b + place_of_column<BK>(row_b, 2 * k + piece_b) + j * 16 * BK);
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
    finish_quickly<T, kForm>(how, quick, sums, staged, warp_row, warp_column, m0, n0);
    if constexpr (kForm <= kBytesAddFloats) {
      __syncthreads();
      for (int i = thread; i < BM * BN / 16; i += T::kThreads) {
        const int row = i / (BN / 16), column = i % (BN / 16) * 16;
        if (m0 + row >= rows || n0 + column >= how.columns) continue;
        *reinterpret_cast<uint4*>(how.bytes + place(m0 + row) + n0 + column) =
            *reinterpret_cast<const uint4*>(staged + row * T::kPitch + column);
      }
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
  const std::int64_t tiles = (how.window.places() + BM - 1) / BM * ((how.columns + BN - 1) / BN);
  const int pitch = padded(how.window.taps() * how.window.channels, ByteConvolution::kDepth);
  launch_early(kernel, dim3(static_cast<unsigned>(tiles)), T::kThreads, T::kShared, stream,
               "starting a convolution", how, quick, pitch);
}

template <int BM, int BN, int BK, int kWarpRows, int kWarpColumns, int kStages>
void launch_bytes(const ByteConvolution& how, Form form, const Quick& quick, Stream stream) {
  if (form == kBytesAddBytes) {
    launch<BM, BN, BK, kWarpRows, kWarpColumns, kStages, kBytesAddBytes>(how, quick, stream);
  } else {
    launch<BM, BN, BK, kWarpRows, kWarpColumns, kStages, kBytes>(how, quick, stream);
  }
}

template <int BM, int BN, int BK, int kWarpRows, int kWarpColumns, int kStages>
void launch_floats(const ByteConvolution& how, Form form, const Quick& quick, Stream stream) {
  if (form == kBytesAddFloats) {
    launch<BM, BN, BK, kWarpRows, kWarpColumns, kStages, kBytesAddFloats>(how, quick, stream);
  } else if (form == kFloatsAddFloats) {
    launch<BM, BN, BK, kWarpRows, kWarpColumns, kStages, kFloatsAddFloats>(how, quick, stream);
  } else {
    launch<BM, BN, BK, kWarpRows, kWarpColumns, kStages, kFloats>(how, quick, stream);
  }
}

struct Cut {
  void (*launch)(const ByteConvolution&, Form, const Quick&, Stream);
  int shared;
};
template <int BM, int BN, int BK, int kWarpRows, int kWarpColumns, int kStages>
constexpr Cut cut() {
  return {launch_bytes<BM, BN, BK, kWarpRows, kWarpColumns, kStages>,
          Tile<BM, BN, BK, kWarpRows, kWarpColumns, kStages>::kShared};
}
// The one that needs most memory comes last.
constexpr Cut kTiles[] = {
    cut<64, 64, 64, 2, 2, 4>(),   cut<128, 64, 64, 2, 2, 4>(),  cut<128, 128, 64, 2, 4, 4>(),
    cut<64, 64, 128, 2, 2, 3>(),  cut<128, 64, 128, 2, 2, 3>(), cut<32, 64, 128, 1, 4, 4>(),
    cut<128, 256, 64, 2, 4, 3>(),
};
// Where floats come in or go out there are fewer.
constexpr void (*kFloatTiles[])(const ByteConvolution&, Form, const Quick&, Stream) = {
    launch_floats<64, 64, 64, 2, 2, 4>,
    launch_floats<128, 64, 64, 2, 2, 4>,
    launch_floats<32, 64, 128, 1, 4, 4>,
};

// What can be done at once; kAny where more is asked for.
Form form_of(const ByteConvolution& how, Quick& quick) {
  const Finish& finish = how.finish;
  const bool bytes = how.bytes != nullptr;
  if (how.columns % 16 != 0 || finish.bias == nullptr || finish.factor == nullptr) return kAny;
  int next = 0;
  const auto is = [&](int kind) {
    return next < finish.count && finish.operations[next].kind == kind;
  };
  Form form = bytes ? kBytes : kFloats;
  if (is(Operation::kAddBytes) && bytes) {
    form = kBytesAddBytes;
    quick.alpha = finish.operations[next].alpha;
    quick.beta = finish.operations[next].beta + kByteAsFloat;
    ++next;
  } else if (is(Operation::kAddFloats)) {
    form = bytes ? kBytesAddFloats : kFloatsAddFloats;
    ++next;
  }
  if (finish.last != 1 && form != kBytesAddFloats) return kAny;
  if (is(static_cast<int>(Unary::Kind::kClip))) {
    quick.low = finish.operations[next].alpha;
    quick.high = finish.operations[next].beta;
    quick.bounded = true;
    ++next;
    if (bytes) {
      quick.low = quick.low * finish.last + finish.zero;
      quick.high = quick.high * finish.last + finish.zero;
      quick.bounded = quick.low > 0 || quick.high < 255;
    }
  }
  return next == finish.count ? form : kAny;
}

// ---- in groups ---------------------------------------------------------------------------------

// kSingle: a channel to each group.
template <bool kSingle>
__global__ void convolve_groups(const __grid_constant__ ByteConvolution how, int groups) {
  const Window& w = how.window;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= w.places() * how.columns) return;
  const Division by(at, how.columns);
  const int c = static_cast<int>(by.rest);
  const Corner corner(w, static_cast<int>(by.whole));
  const int x0 = corner.x, y0 = corner.y;
  const std::int64_t image = corner.image;
  const int each = kSingle ? 1 : w.channels / groups, group = c / (how.columns / groups);
  const std::uint8_t* in = how.in + image * w.height * w.width * w.channels + group * each;
  int sum = 0;
  int row = c;  // of the weights, and the column in it
  for (int ky = 0; ky < w.kernel_height; ++ky) {
    const int y = y0 + ky * w.dilation_y;
    for (int kx = 0; kx < w.kernel_width; ++kx, row += each * how.columns) {
      const int x = x0 + kx * w.dilation_x;
      if (y < 0 || y >= w.height || x < 0 || x >= w.width) continue;
      const std::uint8_t* from = in + (static_cast<std::int64_t>(y) * w.width + x) * w.channels;
      for (int k = 0; k < each; ++k) {
        sum += (from[k] - how.zero) * how.weights[row + k * how.columns];
      }
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
  if (form <= kBytesAddBytes) return kTiles[tile].launch(how, form, quick, stream);
  kFloatTiles[tile % static_cast<int>(std::size(kFloatTiles))](how, form, quick, stream);
}

void grouped_byte_convolution(const ByteConvolution& how, int groups, Stream stream) {
  constexpr int kThreads = 256;
  const std::int64_t count = how.window.places() * how.columns;
  const auto kernel =
      how.window.channels == groups ? convolve_groups<true> : convolve_groups<false>;
  kernel<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(how,
                                                                                            groups);
  check_cuda(cudaGetLastError(), "starting a convolution");
}

}  // namespace contcore::gpu_kernels
