// Everything but sums of products: a thread for each number (or sixteen of them), a warp for each
// row. They are bound by memory, or small.
#include <cuda_runtime.h>

#include <algorithm>

#include "backbone/gpu_finish.cuh"
#include "backbone/gpu_launch.cuh"
#include "backbone/gpu_window.cuh"
#include "contcore/error.h"
#include "device/gpu.h"

namespace contcore::gpu_kernels {
namespace {

constexpr int kThreads = 256;

// Calls work(i) for i of [0, count), spread over the whole grid.
template <typename Work>
__global__ void __launch_bounds__(kThreads) for_each(std::int64_t count, const Work work) {
  let_the_next_begin();
  wait_for_the_last();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    work(i);
  }
}

template <typename Work>
void run(std::int64_t count, Stream stream, const char* what, const Work& work) {
  constexpr std::int64_t kMostBlocks = 1 << 20;
  if (count == 0) return;
  const std::int64_t blocks = std::min(kMostBlocks, (count + kThreads - 1) / kThreads);
  launch_early(for_each<Work>, dim3(static_cast<unsigned>(blocks)), kThreads, 0, stream, what,
               count, work);
}

// A walk whose numbers all fit 32 bits. A division by a size is a product with its reciprocal: for
// a size s > 1 with 2^(k−1) < s ≤ 2^k that is m = ⌈2^(31+k) / s⌉ < 2^32, so m · s = 2^(31+k) + e
// with e < s. ⌊n · m / 2^(31+k)⌋ is ⌊n / s⌋ for all n < 2^31: what is too much, n · e / (s ·
// 2^(31+k)), is less than 1 / s.
struct QuickWalk {
  int dims = 0;
  unsigned sizes[Walk::kMost] = {}, factors[Walk::kMost] = {}, shifts[Walk::kMost] = {};
  int strides[3][Walk::kMost] = {};
};

// Nothing if it does not fit.
bool make_quick(const Walk& walk, QuickWalk& quick) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (walk.count >= kMost) return false;
  for (int t = 0; t < 3; ++t) {
    std::int64_t reach = 0;
    for (int d = 0; d < walk.dims; ++d) reach += walk.sizes[d] * walk.strides[t][d];
    if (reach >= kMost) return false;
  }
  for (int d = 0; d < walk.dims; ++d) {
    if (walk.sizes[d] == 1) continue;
    const auto size = static_cast<std::uint64_t>(walk.sizes[d]);
    unsigned k = 1;
    while ((std::uint64_t{1} << k) < size) ++k;
    const int at = quick.dims++;
    quick.sizes[at] = static_cast<unsigned>(size);
    quick.factors[at] = static_cast<unsigned>(((std::uint64_t{1} << (31 + k)) + size - 1) / size);
    quick.shifts[at] = k - 1;
    for (int t = 0; t < 3; ++t) quick.strides[t][at] = static_cast<int>(walk.strides[t][d]);
  }
  return true;
}

struct QuickSpot {
  int at[3] = {};
  __device__ QuickSpot(const QuickWalk& walk, std::int64_t number) {
    auto i = static_cast<unsigned>(number);
#pragma unroll
    for (int d = Walk::kMost; d-- > 0;) {
      if (d >= walk.dims) continue;
      const unsigned whole = __umulhi(i, walk.factors[d]) >> walk.shifts[d];
      const int digit = static_cast<int>(i - whole * walk.sizes[d]);
      for (int t = 0; t < 3; ++t) at[t] += digit * walk.strides[t][d];
      i = whole;
    }
  }
};

// Where number i of a walk is, in each tensor.
struct Spot {
  std::int64_t at[3] = {};
  __device__ Spot(const Walk& walk, std::int64_t i) {
    for (int d = walk.dims; d-- > 0;) {
      const Division by(i, walk.sizes[d]);
      for (int t = 0; t < 3; ++t) at[t] += by.rest * walk.strides[t][d];
      i = by.whole;
    }
  }
};

template <typename Number, typename Steps, typename At>
struct Copy {
  Steps walk;
  const Number* in;
  Number* out;
  __device__ void operator()(std::int64_t i) const {
    const At spot(walk, i);
    out[spot.at[0]] = in[spot.at[1]];
  }
};

template <typename Steps, typename At>
struct ToBytes {
  Steps walk;
  const float* in;
  float factor, zero;
  std::uint8_t* out;
  __device__ void operator()(std::int64_t i) const {
    const At spot(walk, i);
    out[spot.at[0]] = to_byte(__fmul_rn(in[spot.at[1]], factor), zero);
  }
};

struct ToFloats {
  const std::uint8_t* in;
  float scale, zero;
  float* out;
  __device__ void operator()(std::int64_t i) const {
    out[i] = __fmul_rn(__fsub_rn(static_cast<float>(in[i]), zero), scale);
  }
};

struct FourToFloats {
  const uchar4* in;
  float scale, zero;
  float4* out;
  __device__ void operator()(std::int64_t i) const {
    const uchar4 four = in[i];
    const auto number = [&](unsigned char code) {
      return __fmul_rn(__fsub_rn(static_cast<float>(code), zero), scale);
    };
    out[i] = make_float4(number(four.x), number(four.y), number(four.z), number(four.w));
  }
};

struct ImageToBytes {
  const float* in;
  int channels;
  std::int64_t places;
  float factor, zero;
  std::uint8_t* out;
  __device__ void operator()(std::int64_t i) const {
    const Division by(i, places);
    const std::int64_t image = by.whole, place = by.rest;
    for (int c = 0; c < channels; ++c) {
      const float x = in[(image * channels + c) * places + place];
      out[i * channels + c] = to_byte(__fmul_rn(x, factor), zero);
    }
  }
};

struct Functions {
  const float* in;
  Finish finish;
  float* out;
  __device__ void operator()(std::int64_t i) const { out[i] = finished(finish, in[i], 0, i); }
};

__device__ float combined(int combine, float a, float b) {
  switch (static_cast<Step::Combine>(combine)) {
    case Step::Combine::kAdd:
      return a + b;
    case Step::Combine::kSub:
      return a - b;
    case Step::Combine::kMul:
      return a * b;
    case Step::Combine::kDiv:
      return a / b;
    case Step::Combine::kMin:
      return fminf(a, b);
    case Step::Combine::kMax:
      return fmaxf(a, b);
  }
  return a;
}

template <typename Steps, typename At>
struct Binary {
  Steps walk;
  int combine;
  const float *a, *b;
  Finish finish;
  float* out;
  __device__ void operator()(std::int64_t i) const {
    const At spot(walk, i);
    const float x = combined(combine, a[spot.at[1]], b[spot.at[2]]);
    out[spot.at[0]] = finished(finish, x, 0, spot.at[0]);
  }
};

struct Affine {
  const float *in, *scale, *bias;
  std::int64_t inner;
  int channels;
  Finish finish;
  float* out;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t c = Division(Division(i, inner).whole, channels).rest;
    out[i] = finished(finish, __fmaf_rn(in[i], scale[c], bias[c]), 0, i);
  }
};

// ---- windows -----------------------------------------------------------------------------------

// A piece of a row of patches: kEach numbers.
template <typename Number, int kEach, typename Piece>
struct Patches {
  Window window;
  const Number* in;
  Number zero;
  Number* out;
  int pitch;
  __device__ void operator()(std::int64_t i) const {
    const int pieces = pitch / kEach;
    const Division by(i, pieces);
    const int place = static_cast<int>(by.whole), first = static_cast<int>(by.rest) * kEach;
    const Corner corner(window, place);
    int tap = first / window.channels, c = first - tap * window.channels;
    int ky = tap / window.kernel_width, kx = tap - ky * window.kernel_width;
    union {
      Number numbers[kEach];
      Piece piece;
    } made;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int y = corner.y + ky * window.dilation_y, x = corner.x + kx * window.dilation_x;
      if (ky >= window.kernel_height) {
        made.numbers[k] = 0;
      } else if (y < 0 || y >= window.height || x < 0 || x >= window.width) {
        made.numbers[k] = zero;
      } else {
        made.numbers[k] =
            in[((static_cast<std::int64_t>(corner.image) * window.height + y) * window.width + x) *
                   window.channels +
               c];
      }
      if (++c == window.channels) {
        c = 0;
        if (++kx == window.kernel_width) kx = 0, ++ky;
      }
    }
    *reinterpret_cast<Piece*>(out + static_cast<std::int64_t>(place) * pitch + first) = made.piece;
  }
};

// The same for narrow maps: a block has the lines under the windows of kPlaces places side by side
// in shared memory. In a line, what one window covers is one piece: offsets within it are the same
// for all places.
constexpr int kPlaces = 64, kInFlight = 16;  // loads of a thread under way

struct Lines {
  int count, span, pitch;  // lines; bytes of each that are needed, and its room
  __host__ __device__ explicit Lines(const Window& w)
      : count(w.kernel_height),
        span(((kPlaces - 1) * w.stride_x + w.kernel_width) * w.channels),
        pitch((span + 15) / 16 * 16) {}
};

__global__ void __launch_bounds__(kThreads)
    cut_lines(const __grid_constant__ Window w, const std::uint8_t* in, std::uint8_t zero,
              std::uint8_t* out, int pitch) {
  extern __shared__ __align__(16) std::uint8_t lines[];
  let_the_next_begin();
  wait_for_the_last();
  const Lines under(w);
  const int thread = static_cast<int>(threadIdx.x);
  const int parts = (w.out_width + kPlaces - 1) / kPlaces;
  const int part = static_cast<int>(blockIdx.x) % parts;
  const int line = static_cast<int>(blockIdx.x) / parts;  // of the result, in all images
  const int place0 = part * kPlaces, image = line / w.out_height;
  const int y0 = line % w.out_height * w.stride_y - w.pad_y;
  const int x0 = (place0 * w.stride_x - w.pad_x) * w.channels, width = w.width * w.channels;
  for (int k = thread / 32; k < under.count; k += kThreads / 32) {  // a warp for each line
    const int y = y0 + k * w.dilation_y;
    const bool there = y >= 0 && y < w.height;
    const std::uint8_t* from =
        in + (static_cast<std::int64_t>(image) * w.height + (there ? y : 0)) * width;
    for (int first = thread % 32; first < under.span; first += kInFlight * 32) {
      std::uint8_t codes[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int x = x0 + first + i * 32;
        const bool inside = there && x >= 0 && x < width && first + i * 32 < under.span;
        codes[i] = inside ? from[x] : zero;
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (first + i * 32 < under.span) lines[k * under.pitch + first + i * 32] = codes[i];
      }
    }
  }
  __syncthreads();
  const int pieces = pitch / kPatchBytes, at_once = kThreads / pieces;
  const int piece = thread % pieces, row = w.kernel_width * w.channels;
  if (thread >= at_once * pieces) return;
  int offsets[kPatchBytes];
  int number = piece * kPatchBytes / row, in_line = piece * kPatchBytes - number * row;
#pragma unroll
  for (int k = 0; k < kPatchBytes; ++k) {
    offsets[k] = number < under.count ? number * under.pitch + in_line : -1;
    if (++in_line == row) in_line = 0, ++number;
  }
  for (int i = thread / pieces; i < kPlaces && place0 + i < w.out_width; i += at_once) {
    const std::uint8_t* from = lines + i * w.stride_x * w.channels;
    unsigned words[4] = {};
#pragma unroll
    for (int k = 0; k < kPatchBytes; ++k) {
      if (offsets[k] >= 0) words[k / 4] |= static_cast<unsigned>(from[offsets[k]]) << k % 4 * 8;
    }
    const std::int64_t place = static_cast<std::int64_t>(line) * w.out_width + place0 + i;
    *reinterpret_cast<uint4*>(out + place * pitch + piece * kPatchBytes) =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// Calls visit(numbers) where the numbers of a window's taps over the map begin, channel 0 each.
template <typename Number, typename Visit>
__device__ void over_window(const Window& w, int place, const Number* in, const Visit& visit) {
  const Corner corner(w, place);
  for (int ky = 0; ky < w.kernel_height; ++ky) {
    const int y = corner.y + ky * w.dilation_y;
    if (y < 0 || y >= w.height) continue;
    for (int kx = 0; kx < w.kernel_width; ++kx) {
      const int x = corner.x + kx * w.dilation_x;
      if (x < 0 || x >= w.width) continue;
      visit(in +
            ((static_cast<std::int64_t>(corner.image) * w.height + y) * w.width + x) * w.channels);
    }
  }
}

template <typename Number>
struct MaxPool {
  Window window;
  const Number* in;
  Number lowest;
  Number* out;
  __device__ void operator()(std::int64_t i) const {
    const Division by(i, window.channels);
    const int c = static_cast<int>(by.rest);
    Number most = lowest;
    over_window(window, static_cast<int>(by.whole), in, [&](const Number* numbers) {
      if (numbers[c] > most) most = numbers[c];
    });
    out[i] = most;
  }
};

// Sixteen bytes at once.
struct MaxPoolBytes {
  Window window;
  const std::uint8_t* in;
  std::uint8_t* out;
  __device__ void operator()(std::int64_t i) const {
    const int pieces = window.channels / 16;
    const Division by(i, pieces);
    const int c = static_cast<int>(by.rest) * 16;
    uint4 most = make_uint4(0, 0, 0, 0);
    over_window(window, static_cast<int>(by.whole), in, [&](const std::uint8_t* numbers) {
      const uint4 four = *reinterpret_cast<const uint4*>(numbers + c);
      most.x = __vmaxu4(most.x, four.x);
      most.y = __vmaxu4(most.y, four.y);
      most.z = __vmaxu4(most.z, four.z);
      most.w = __vmaxu4(most.w, four.w);
    });
    reinterpret_cast<uint4*>(out)[i] = most;
  }
};

struct MeanPool {
  Window window;
  const float* in;
  bool whole;
  float* out;
  __device__ void operator()(std::int64_t i) const {
    const Division by(i, window.channels);
    const int c = static_cast<int>(by.rest);
    float sum = 0;
    int count = 0;
    over_window(window, static_cast<int>(by.whole), in, [&](const float* numbers) {
      sum += numbers[c];
      ++count;
    });
    out[i] = sum / static_cast<float>(whole ? window.taps() : count);
  }
};

// A warp for each number of the result: the whole map under one window.
__global__ void __launch_bounds__(kThreads)
    mean_of_maps(const float* in, std::int64_t places, int channels, float* out) {
  __shared__ float parts[8][33];
  const int c = static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x) % 32;
  const int line = static_cast<int>(threadIdx.x) / 32;
  const float* numbers = in + blockIdx.y * places * channels;
  float sum = 0;
  for (std::int64_t p = line; p < places && c < channels; p += 8) sum += numbers[p * channels + c];
  parts[line][threadIdx.x % 32] = sum;
  __syncthreads();
  if (line > 0 || c >= channels) return;
  for (int i = 1; i < 8; ++i) sum += parts[i][threadIdx.x % 32];
  out[static_cast<std::int64_t>(blockIdx.y) * channels + c] = sum / static_cast<float>(places);
}

// ---- along an axis -----------------------------------------------------------------------------

__device__ float sum_of_warp(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

__global__ void __launch_bounds__(kThreads)
    normalize_rows(const float* in, std::int64_t rows, int length, const float* scale,
                   const float* bias, float epsilon, float* out) {
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float* numbers = in + row * length;
  float sum = 0;
  for (int i = lane; i < length; i += 32) sum += numbers[i];
  const float centre = sum_of_warp(sum) / static_cast<float>(length);
  float squares = 0;
  for (int i = lane; i < length; i += 32) {
    const float off = numbers[i] - centre;
    squares += off * off;
  }
  const float variance = sum_of_warp(squares) / static_cast<float>(length);
  const float factor = 1.0f / sqrtf(variance + epsilon);
  for (int i = lane; i < length; i += 32) {
    out[row * length + i] = (numbers[i] - centre) * factor * scale[i] + bias[i];
  }
}

// A warp for each line of numbers, `inner` apart.
__global__ void __launch_bounds__(kThreads)
    soften(const float* in, std::int64_t lines, int length, std::int64_t inner, float* out) {
  const std::int64_t line =
      static_cast<std::int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (line >= lines) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t begin = line / inner * inner * length + line % inner;
  float most = -INFINITY;
  for (int i = lane; i < length; i += 32) most = fmaxf(most, in[begin + i * inner]);
  for (int step = 16; step > 0; step /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
  }
  float sum = 0;
  for (int i = lane; i < length; i += 32) sum += expf(in[begin + i * inner] - most);
  const float whole = sum_of_warp(sum);
  for (int i = lane; i < length; i += 32) {
    out[begin + i * inner] = expf(in[begin + i * inner] - most) / whole;
  }
}

struct Mean {
  Walk outside, inside;
  const float* in;
  float* out;
  __device__ void operator()(std::int64_t i) const {
    const Spot from(outside, i);
    float sum = 0;
    for (std::int64_t k = 0; k < inside.count; ++k) sum += in[from.at[1] + Spot(inside, k).at[1]];
    out[from.at[0]] = sum / static_cast<float>(inside.count);
  }
};

unsigned blocks_of_warps(std::int64_t warps) {
  constexpr std::int64_t kWarps = kThreads / 32;
  return static_cast<unsigned>((warps + kWarps - 1) / kWarps);
}

bool by_sixteen(int channels, const void* a, const void* b) {
  return channels % 16 == 0 && reinterpret_cast<std::uintptr_t>(a) % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(b) % 16 == 0;
}

}  // namespace

void patches(const Window& window, const std::uint8_t* in, std::uint8_t zero, std::uint8_t* out,
             int pitch, Stream stream) {
  constexpr int kMostShared = 48 << 10;
  const Lines under(window);
  const std::int64_t blocks = static_cast<std::int64_t>(window.images) * window.out_height *
                              ((window.out_width + kPlaces - 1) / kPlaces);
  if (window.dilation_x == 1 && under.count * under.pitch <= kMostShared &&
      pitch / kPatchBytes <= kThreads && blocks < (std::int64_t{1} << 31)) {
    return launch_early(cut_lines, dim3(static_cast<unsigned>(blocks)), kThreads,
                        static_cast<std::size_t>(under.count * under.pitch), stream,
                        "cutting patches", window, in, zero, out, pitch);
  }
  run(window.places() * (pitch / kPatchBytes), stream, "cutting patches",
      Patches<std::uint8_t, kPatchBytes, uint4>{window, in, zero, out, pitch});
}

void patches(const Window& window, const float* in, float* out, int pitch, Stream stream) {
  run(window.places() * (pitch / kPatchFloats), stream, "cutting patches",
      Patches<float, kPatchFloats, float4>{window, in, 0.0f, out, pitch});
}

void max_pool(const Window& window, const std::uint8_t* in, std::uint8_t* out, Stream stream) {
  const std::int64_t count = window.places() * window.channels;
  if (by_sixteen(window.channels, in, out)) {
    return run(count / 16, stream, "pooling", MaxPoolBytes{window, in, out});
  }
  run(count, stream, "pooling", MaxPool<std::uint8_t>{window, in, 0, out});
}

void max_pool(const Window& window, const float* in, float* out, Stream stream) {
  run(window.places() * window.channels, stream, "pooling",
      MaxPool<float>{window, in, -3.402823466e38f, out});
}

void mean_pool(const Window& window, const float* in, float* out, bool whole, Stream stream) {
  const bool all = window.kernel_height == window.height && window.kernel_width == window.width &&
                   window.out_height == 1 && window.out_width == 1 && window.pad_x == 0 &&
                   window.pad_y == 0 && window.images <= 65535;
  if (!all) {
    return run(window.places() * window.channels, stream, "pooling",
               MeanPool{window, in, whole, out});
  }
  const dim3 grid(static_cast<unsigned>((window.channels + 31) / 32),
                  static_cast<unsigned>(window.images));
  mean_of_maps<<<grid, kThreads, 0, stream>>>(
      in, static_cast<std::int64_t>(window.height) * window.width, window.channels, out);
  check_cuda(cudaGetLastError(), "pooling");
}

namespace {

template <typename Number>
void copy_numbers(const Walk& walk, const Number* in, Number* out, Stream stream) {
  QuickWalk quick;
  if (make_quick(walk, quick)) {
    return run(walk.count, stream, "moving numbers",
               Copy<Number, QuickWalk, QuickSpot>{quick, in, out});
  }
  run(walk.count, stream, "moving numbers", Copy<Number, Walk, Spot>{walk, in, out});
}

}  // namespace

void copy(const Walk& walk, const std::uint8_t* in, std::uint8_t* out, Stream stream) {
  copy_numbers(walk, in, out, stream);
}

void copy(const Walk& walk, const float* in, float* out, Stream stream) {
  copy_numbers(walk, in, out, stream);
}

void to_bytes(const Walk& walk, const float* in, float factor, float zero, std::uint8_t* out,
              Stream stream) {
  QuickWalk quick;
  if (make_quick(walk, quick)) {
    return run(walk.count, stream, "rounding",
               ToBytes<QuickWalk, QuickSpot>{quick, in, factor, zero, out});
  }
  run(walk.count, stream, "rounding", ToBytes<Walk, Spot>{walk, in, factor, zero, out});
}

void to_floats(const std::uint8_t* in, float scale, float zero, float* out, std::int64_t count,
               Stream stream) {
  if (count % 4 == 0) {
    return run(count / 4, stream, "bytes to floats",
               FourToFloats{reinterpret_cast<const uchar4*>(in), scale, zero,
                            reinterpret_cast<float4*>(out)});
  }
  run(count, stream, "bytes to floats", ToFloats{in, scale, zero, out});
}

void image_to_bytes(const float* in, int images, int channels, std::int64_t places, float factor,
                    float zero, std::uint8_t* out, Stream stream) {
  run(images * places, stream, "rounding", ImageToBytes{in, channels, places, factor, zero, out});
}

void functions(const float* in, const Finish& finish, float* out, std::int64_t count,
               Stream stream) {
  run(count, stream, "functions", Functions{in, finish, out});
}

void binary(const Walk& walk, int combine, const float* a, const float* b, const Finish& finish,
            float* out, Stream stream) {
  QuickWalk quick;
  if (make_quick(walk, quick)) {
    return run(walk.count, stream, "arithmetic",
               Binary<QuickWalk, QuickSpot>{quick, combine, a, b, finish, out});
  }
  run(walk.count, stream, "arithmetic", Binary<Walk, Spot>{walk, combine, a, b, finish, out});
}

void affine(const float* in, const float* scale, const float* bias, std::int64_t inner,
            int channels, const Finish& finish, float* out, std::int64_t count, Stream stream) {
  run(count, stream, "scaling", Affine{in, scale, bias, inner, channels, finish, out});
}

void layer_norm(const float* in, std::int64_t rows, int length, const float* scale,
                const float* bias, float epsilon, float* out, Stream stream) {
  normalize_rows<<<blocks_of_warps(rows), kThreads, 0, stream>>>(in, rows, length, scale, bias,
                                                                 epsilon, out);
  check_cuda(cudaGetLastError(), "normalizing");
}

void softmax(const float* in, std::int64_t outer, int length, std::int64_t inner, float* out,
             Stream stream) {
  soften<<<blocks_of_warps(outer * inner), kThreads, 0, stream>>>(in, outer * inner, length, inner,
                                                                  out);
  check_cuda(cudaGetLastError(), "softmax");
}

void mean(const Walk& outside, const Walk& inside, const float* in, float* out, Stream stream) {
  run(outside.count, stream, "means", Mean{outside, inside, in, out});
}

}  // namespace contcore::gpu_kernels
