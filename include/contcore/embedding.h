// Patch embedding: a vector for each place of the first layer's grid, out of all layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "contcore/backbone.h"
#include "contcore/compute.h"

namespace contcore {

/// PatchCore's embedding. By definition: each place of each layer takes its neighbourhood (zero
/// padded, channel-major), adaptively averaged to `dimension` numbers; the layers after the first
/// are brought bilinearly (half-pixel centres) to the first's grid; each place's numbers from all
/// layers are put one after the other and adaptively averaged to `dimension`. That is a fixed
/// sparse linear map, and it is computed as one.
struct PatchEmbedding {
  std::size_t dimension = 1024;
  std::size_t neighbourhood = 3;  ///< side of the square of places, odd

  bool operator==(const PatchEmbedding&) const = default;
};

/// Writes maps[0].height × maps[0].width rows of `dimension` numbers to `out`, place after place;
/// the same bits for any number of threads. Keeps nothing between calls, so it may be called from
/// several threads at once, each with a Compute of its own. Throws Error (kUsage) for a dimension
/// of 0, an even neighbourhood or an empty map.
void embed(std::span<const FeatureMap> maps, const PatchEmbedding& how, float* out,
           Compute& compute);

/// Numbers that a patch vector may have.
inline constexpr std::size_t kLargestDimension = 65536;

/// How numbers become bytes: x / scale to the nearest whole number, of two the even one, plus zero,
/// cut off at 0 and 255.
struct ByteScale {
  float scale = 1;
  std::uint8_t zero = 0;  ///< 128 for numbers that can be negative

  bool operator==(const ByteScale&) const = default;
};

/// The same numbers as bytes. False if one of them is not finite.
[[nodiscard]] bool embed(std::span<const FeatureMap> maps, const PatchEmbedding& how,
                         const ByteScale& scale, std::uint8_t* out, Compute& compute);

}  // namespace contcore
