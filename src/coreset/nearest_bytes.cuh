// Bytes on a GPU. Every product is exact, and so is the least distance of each group: 32 vectors in
// a row.
//
// ‖a − b‖² = ‖a‖² + ‖b‖² − 2 a·b is below 2³¹ for up to 32,768 numbers; its parts need not be, but
// whole numbers that wrap around do no harm.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coreset/nearest_list.cuh"
#include "coreset/nearest_products.cuh"

namespace contcore::nearest_gpu {

constexpr int kNoVector = 0x7fffffff;  // the norm at a place without one, more than any distance

struct Bytes {
  // Rows of `width` bytes, filled up with zeros, and their squared lengths.
  const std::uint8_t* queries;
  const int* query_norms;
  const std::uint8_t* vectors;
  const int* norms;
  int width;

  // ---- products --------------------------------------------------------------------------

  using Sum = int;
  using Value = int;  // the least ‖b‖² − 2 a·b
  Value* minima;
  std::size_t groups;  // of each query

  static constexpr int kWide = 1;
  static constexpr int kGroups = 1;  // of kGroup vectors

  __device__ void begin(int) const {}

  __device__ void keep(const WarpSums<int>& sums, int tile, int query, int vector, int lane) const {
    constexpr int kParts = kVectorParts / 2;  // of a group
    int least[kQueryParts][2][2];
#pragma unroll
    for (int g = 0; g < 2; ++g) {
#pragma unroll
      for (int i = 0; i < kQueryParts; ++i) least[i][0][g] = least[i][1][g] = kNoVector;
#pragma unroll
      for (int j = g * kParts; j < (g + 1) * kParts; ++j) {
        const int2 norm =
            __ldg(reinterpret_cast<const int2*>(norms + vector + j * 8 + lane % 4 * 2));
#pragma unroll
        for (int i = 0; i < kQueryParts; ++i) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            least[i][h][g] = __vimin3_s32(least[i][h][g], value(norm.x, sums.of[i][j][2 * h]),
                                          value(norm.y, sums.of[i][j][2 * h + 1]));
          }
        }
      }
    }
    // Four lanes have the same queries; each writes a part of theirs.
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      int2 mine = make_int2(0, 0);
#pragma unroll
      for (int i = 0; i < kQueryParts; ++i) {
        const int2 both = make_int2(of_four(least[i][h][0]), of_four(least[i][h][1]));
        mine.x = lane % 4 == i ? both.x : mine.x;
        mine.y = lane % 4 == i ? both.y : mine.y;
      }
      const std::size_t row = tile + query + lane % 4 * 16 + h * 8 + lane / 4;
      *reinterpret_cast<int2*>(minima + row * groups + vector / kGroup) = mine;
    }
  }

  __device__ static int of_four(int least) {
    least = min(least, __shfl_xor_sync(kAll, least, 1));
    return min(least, __shfl_xor_sync(kAll, least, 2));
  }
  __device__ static int value(int norm, int product) {
    return static_cast<int>(static_cast<unsigned>(norm) - 2 * static_cast<unsigned>(product));
  }

  // ---- the choice ------------------------------------------------------------------------

  /// Of four groups: no vector of the group is nearer; infinite if there is none.
  __device__ float4 bounds(std::size_t query, std::size_t four) const {
    const int4 least = __ldg(reinterpret_cast<const int4*>(minima + query * groups) + four);
    const int norm = __ldg(query_norms + query);
    return {bound(norm, least.x), bound(norm, least.y), bound(norm, least.z), bound(norm, least.w)};
  }
  __device__ static std::uint32_t first_of(std::uint32_t group) { return group * kGroup; }

  /// Measures a quarter of a group: every lane has a key or none. Adds to `count` what it measured.
  __device__ Key measure(std::size_t query, std::uint32_t group, int quarter, int lane,
                         unsigned* count) const {
    const std::uint32_t place = first_of(group) + quarter * 8 + lane / 4;
    const std::size_t stride = static_cast<std::size_t>(width);
    const uint4* a = reinterpret_cast<const uint4*>(queries + query * stride) + lane % 4;
    const uint4* b = reinterpret_cast<const uint4*>(vectors + place * stride) + lane % 4;
    unsigned product = 0;
#pragma unroll 8
    for (int i = 0; i < width / 16; i += 4) {
      const uint4 x = __ldg(a + i);
      const uint4 y = __ldg(b + i);
      product = __dp4a(x.x, y.x, product);
      product = __dp4a(x.y, y.y, product);
      product = __dp4a(x.z, y.z, product);
      product = __dp4a(x.w, y.w, product);
    }
    product += __shfl_xor_sync(kAll, product, 1);
    product += __shfl_xor_sync(kAll, product, 2);
    const int norm = __ldg(norms + place);
    const bool there = norm != kNoVector && lane % 4 == 0;
    *count += __popc(__ballot_sync(kAll, there));
    if (!there) return kNoKey;
    return key_of(rounded(query_norms[query], value(norm, static_cast<int>(product))), place);
  }

  static constexpr int kMembers = kGroup;
  /// Which member of the group a lane's key is of; −1: none.
  __device__ static int member(int quarter, int lane) {
    return lane % 4 == 0 ? quarter * 8 + lane / 4 : -1;
  }

 private:
  __device__ static float bound(int query_norm, int least) {
    return least == kNoVector ? __int_as_float(0x7f800000) : rounded(query_norm, least);
  }
  __device__ static float rounded(int query_norm, int rest) {
    return __uint2float_rn(static_cast<unsigned>(query_norm) + static_cast<unsigned>(rest));
  }
};

// ---- rows ----------------------------------------------------------------------------------

/// Fills rows of d bytes up to `width`, and measures them. A warp for each of n rows, and for those
/// up to `all`, which are none.
__global__ void prepare_bytes(const std::uint8_t* __restrict__ from, std::size_t n, std::size_t all,
                              int d, int width, std::uint8_t* __restrict__ to, int* norms) {
  const std::size_t row = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (row >= all) return;
  unsigned sum = 0;
#pragma unroll 8
  for (int i = lane; i < width; i += kLanes) {
    const unsigned value = row < n && i < d ? from[row * d + i] : 0;
    to[row * width + i] = static_cast<std::uint8_t>(value);
    sum += value * value;
  }
  sum = __reduce_add_sync(kAll, sum);
  if (lane == 0) norms[row] = row < n ? static_cast<int>(sum) : kNoVector;
}

/// The vectors at some places are there no more.
__global__ void drop_bytes(const std::uint32_t* places, std::size_t n, int width,
                           std::uint8_t* vectors, int* norms) {
  const std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (i >= n) return;
  const std::size_t place = places[i];
  for (int j = lane; j < width; j += kLanes) vectors[place * width + j] = 0;
  if (lane == 0) norms[place] = kNoVector;
}

}  // namespace contcore::nearest_gpu
