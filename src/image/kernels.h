// The hot loops over pixels, each compiled for every SIMD target of the machine's family and chosen
// at run time. All give the same bits on every target.
//
// Rows of RGB are worked on a pixel at a time, in four lanes of which the fourth is thrown away: so
// one value more than the last pixel's is read from a row, and one more is written to a buffer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace contcore::image_kernels {

/// sums[i] = Σ over `rows` rows, `stride` bytes apart, of their i-th byte; at most kMostRows.
inline constexpr std::size_t kMostRows = 257;
void add_rows(const std::uint8_t* bytes, std::size_t stride, std::size_t rows, std::size_t n,
              std::uint16_t* sums);

/// Each pixel of `out` is the sum of the next `factor` pixels of `sums`.
void add_pixels(const std::uint16_t* sums, std::size_t factor, std::size_t pixels,
                std::uint32_t* out);

/// sums · scale to the nearest whole number, ties to even.
void scale_sums(const std::uint32_t* sums, float scale, std::size_t n, std::uint8_t* out);

/// Each pixel of `out` is the mean of two by two pixels of two rows, ties rounded up. `means` is
/// room for a row of the source.
void halve(const std::uint8_t* above, const std::uint8_t* below, std::size_t pixels,
           std::uint8_t* means, std::uint8_t* out);

/// Pixel p of `out` is Σ_t weights[p · terms + t] · (pixel first[p] + t of the row), in that order.
void weigh_pixels(const std::uint8_t* row, const std::uint32_t* first, const float* weights,
                  std::size_t terms, std::size_t pixels, float* out);

/// out[i] = Σ_t weights[t] · rows[t][i], in that order, to the nearest whole number, ties to even.
void weigh_rows(const float* const* rows, const float* weights, std::size_t terms, std::size_t n,
                std::uint8_t* out);

/// Pixel p of `out` is a sixteenth of the two pixels left[p] and right[p] of the row, weighed in
/// parts of 2048 by weights[2 p] and weights[2 p + 1].
void blend_pixels(const std::uint8_t* row, const std::uint32_t* left, const std::uint32_t* right,
                  const std::int32_t* weights, std::size_t pixels, std::int16_t* out);

/// Two such rows, weighed in parts of 2048: each product over 2^16 rounded down, a quarter of their
/// sum rounded.
void blend_rows(const std::int16_t* above, const std::int16_t* below, std::int16_t above_weight,
                std::int16_t below_weight, std::size_t n, std::uint8_t* out);

/// out[i] = above[i] · above_weight + below[i] · below_weight.
void blend_rows(const float* above, const float* below, float above_weight, float below_weight,
                std::size_t n, float* out);

/// out[i] = Σ_t weights[t] · rows[t · stride + i], by fused multiply-add in that order; at least
/// one term. Returns the largest of them.
float mix_rows(const float* rows, std::size_t stride, const float* weights, std::size_t terms,
               std::size_t n, float* out);

}  // namespace contcore::image_kernels
