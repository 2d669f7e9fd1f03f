// The kernels of the network on a GPU: what each is told, and its launch. Device pointers all.
//
// Maps lie channels innermost, image after image: (images, height, width, channels). A launch
// returns at once; it throws Error (kInternal) if it cannot be made.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace contcore::gpu_kernels {

using Stream = CUstream_st*;

// ---- what follows a sum ------------------------------------------------------------------------

/// One thing done to a number: a function (Unary::Kind), or the sum with another.
struct Operation {
  static constexpr int kAddFloats = 100;
  static constexpr int kAddBytes =
      101;  ///< alpha · (the other's code − beta), by fused multiply-add
  int kind = 0;
  float alpha = 0, beta = 0;
};

/// In this order: (sum + bias) · factor, the operations, · last, and for bytes + zero, the bounds
/// of a byte, and the nearest whole number. Each is rounded, as backbone_kernels::finish() rounds.
struct Finish {
  static constexpr int kMost = 8;
  const float* bias = nullptr;    ///< of each column; nullptr: none
  const float* factor = nullptr;  ///< the same
  Operation operations[kMost];
  int count = 0;
  const void* other = nullptr;  ///< floats or bytes, laid out as the result
  float last = 1, zero = 0;
};

// ---- windows -----------------------------------------------------------------------------------

/// A window that moves over maps.
struct Window {
  int images = 1;
  int height = 1, width = 1, channels = 1;  ///< of the source
  int out_height = 1, out_width = 1;
  int kernel_height = 1, kernel_width = 1;
  int stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1, pad_y = 0, pad_x = 0;

  constexpr int taps() const { return kernel_height * kernel_width; }
  /// Of the result, in all images: fewer than 2^31.
  constexpr std::int64_t places() const {
    return static_cast<std::int64_t>(images) * out_height * out_width;
  }
};

/// Places in a row of patches (the numbers under a window, tap after tap) are a multiple of these.
constexpr int kPatchBytes = 16, kPatchFloats = 4;

/// The numbers under each window as rows of `pitch`; beyond the map `zero`, and 0 behind the last.
void patches(const Window& window, const std::uint8_t* in, std::uint8_t zero, std::uint8_t* out,
             int pitch, Stream stream);
void patches(const Window& window, const float* in, float* out, int pitch, Stream stream);

void max_pool(const Window& window, const std::uint8_t* in, std::uint8_t* out, Stream stream);
void max_pool(const Window& window, const float* in, float* out, Stream stream);
/// Divided by the whole window, or by what of it is in the map.
void mean_pool(const Window& window, const float* in, float* out, bool whole, Stream stream);

// ---- convolutions ------------------------------------------------------------------------------

/// Codes with signed codes, summed in 32 bits.
struct ByteConvolution {
  /// Rows of weights, and what there is for each column, are padded to a multiple of kColumns, the
  /// length of a row to one of kDepth, with zeros.
  static constexpr int kColumns = 256, kDepth = 128;
  static constexpr int kMostTaps = 25, kChannels = 16;  ///< channels: a multiple of these

  Window window;
  int columns = 0;  ///< channels of the result
  const std::uint8_t* in = nullptr;
  int zero = 0;                          ///< the code of what lies beyond the map
  const std::int8_t* weights = nullptr;  ///< of each column: tap after tap, channels innermost
  const std::int32_t* start =
      nullptr;  ///< of each column: − zero · the sum of its weights, or null
  Finish finish;
  std::uint8_t* bytes = nullptr;  ///< one of these is written
  float* floats = nullptr;
};
/// How many ways of cutting the work into tiles there are for blocks of so much shared memory. All
/// give the same.
int byte_convolution_tiles(std::size_t shared_memory);
void byte_convolution(const ByteConvolution& how, int tile, Stream stream);

/// The same in groups of channels: `weights` are (taps, channels of a group, columns), unpadded.
/// For those that are narrow: each sum is one thread's.
void grouped_byte_convolution(const ByteConvolution& how, int groups, Stream stream);

/// Floats: also a product of matrices, whose window is of one place. Column c of weight row k (tap
/// after tap, channels innermost) is weights[k · pitch + c].
struct FloatConvolution {
  static constexpr int kMostTaps = 25;

  Window window;
  int columns = 0;
  const float* in = nullptr;
  const float* weights = nullptr;
  int pitch = 0;
  Finish finish;
  float* out = nullptr;
  /// Several products at once: product z begins so many numbers on, by the digits of z.
  static constexpr int kMostDims = 6;
  int products = 1, dims = 0;
  int sizes[kMostDims] = {};
  std::int64_t in_strides[kMostDims] = {}, weight_strides[kMostDims] = {},
               out_strides[kMostDims] = {};
};
void float_convolution(const FloatConvolution& how, Stream stream);
/// In groups; `weights` are (taps, channels of a group, columns).
void grouped_float_convolution(const FloatConvolution& how, int groups, Stream stream);

// ---- numbers one by one ------------------------------------------------------------------------

/// Numbers of several tensors that belong together, each with strides of its own.
struct Walk {
  static constexpr int kMost = 8;
  int dims = 0;
  std::int64_t count = 1;
  std::int64_t sizes[kMost] = {};
  std::int64_t strides[3][kMost] = {};  ///< of the result, and of two operands
};

void copy(const Walk& walk, const std::uint8_t* in, std::uint8_t* out, Stream stream);
void copy(const Walk& walk, const float* in, float* out, Stream stream);
/// Rounded to the levels of a grid, as OneDnnBuilder::to_bytes, and back.
void to_bytes(const Walk& walk, const float* in, float factor, float zero, std::uint8_t* out,
              Stream stream);
void to_floats(const std::uint8_t* in, float scale, float zero, float* out, std::int64_t count,
               Stream stream);
/// (images, channels, places) of floats to (images, places, channels) of bytes.
void image_to_bytes(const float* in, int images, int channels, std::int64_t places, float factor,
                    float zero, std::uint8_t* out, Stream stream);
/// result = finish(a); of `finish` the operations alone.
void functions(const float* in, const Finish& finish, float* out, std::int64_t count,
               Stream stream);
/// result = finish(a ∘ b); `combine` is a Step::Combine.
void binary(const Walk& walk, int combine, const float* a, const float* b, const Finish& finish,
            float* out, Stream stream);
/// result = scale · a + bias, of channel i / inner % channels.
void affine(const float* in, const float* scale, const float* bias, std::int64_t inner,
            int channels, const Finish& finish, float* out, std::int64_t count, Stream stream);

// ---- along an axis -----------------------------------------------------------------------------

/// `rows` of `length` numbers, one behind the other.
void layer_norm(const float* in, std::int64_t rows, int length, const float* scale,
                const float* bias, float epsilon, float* out, Stream stream);
/// (outer, length, inner), along the middle.
void softmax(const float* in, std::int64_t outer, int length, std::int64_t inner, float* out,
             Stream stream);
/// Result i is the mean of what `inside` walks through from where `outside` is at i (strides[1]).
void mean(const Walk& outside, const Walk& inside, const float* in, float* out, Stream stream);

}  // namespace contcore::gpu_kernels
