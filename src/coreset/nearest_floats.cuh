// Floats on a GPU: products of half precision bound the distances from below.
//
// With a centre µ let z' = fl(z − µ) and ẑ its float16 rounding in steps of a power of two s, so
// that z' = s ẑ + e. E ≥ ‖e‖ is measured (each number of e is exact), R ≥ ‖z'‖ + E. The tensor
// cores sum â·b̂ to acc, off by at most γ_t Σ|â_i b̂_i|: then
//   2 a'·b'  ≤  2 s_a s_b acc + 2 (R_a E_b + E_a R_b + γ_t R_a R_b)
// and with n the canonical ‖z'‖², u = 2⁻²⁴, and γ_c of a canonical distance (docs/method.md)
//   s(a, b)  ≥  n_a + n_b − 2 s_a s_b acc − 2 (E_a + γ_t R_a) R_b − 2 R_a E_b − κ (R_a² + R_b²)
// κ = 4 γ_c + 64 u has: γ_c for the n, 2 γ_c for s itself, since ‖a − b‖² ≤ 2 (R_a² + R_b²); 4 u
// for the rounding of z'; and 32 u for that of the right side, a sum of four terms which all are at
// most 6 (R_a² + R_b²). What underflows loses less than 1e-37.
//
// γ_t supposes that each of the d products is added with an error of at most 2⁻²² of the sum of
// their sizes, twice that of a float that is cut off, with as many additions again for the sums
// that are added to each other.
#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "coreset/nearest_list.cuh"
#include "coreset/nearest_products.cuh"

namespace contcore::nearest_gpu {

struct alignas(16) Terms {
  float scale;  // s
  float norm;   // n − κ R²; infinite where there is no vector
  float reach;  // R
  float error;  // 2 E, of a query 2 (E + γ_t R)
};

struct Margins {
  double canonical;  // γ_c
  double rounding;   // κ
  double product;    // γ_t; 0: of vectors
  double underflow;  // what a sum of squares can lose
};

/// The sum of all lanes in the canonical order, in lane 0.
__device__ inline float canonical_sum(float sum) {
#pragma unroll
  for (int h = 16; h > 0; h /= 2) sum = __fadd_rn(sum, __shfl_down_sync(kAll, sum, h));
  return sum;
}

struct Floats {
  // Rows of d floats, for canonical distances; and what is known of them.
  const float* queries;
  const Terms* query_terms;
  const float* vectors;
  const Terms* terms;
  int d;

  // ---- products --------------------------------------------------------------------------

  using Sum = float;
  using Value = float;  // no canonical distance in the group is less
  Value* minima;
  std::size_t groups;  // of each query

  static constexpr int kWide = 2;
  // A lane's eight of kGroup vectors make a group.
  static constexpr int kGroups = 4;

  /// What a block knows of its queries.
  __device__ static Terms* shared_terms() {
    __shared__ Terms terms_of[kTileRows];
    return terms_of;
  }

  __device__ void begin(int tile) const {
    const auto i = static_cast<int>(threadIdx.x);
    if (i < kTileRows) shared_terms()[i] = query_terms[tile + i];  // read after a barrier
  }

  __device__ void keep(const WarpSums<float>& sums, int tile, int query, int vector,
                       int lane) const {
    constexpr int kParts = kVectorParts / 2;  // of a group
    Terms a[kQueryParts][2];
#pragma unroll
    for (int i = 0; i < kQueryParts; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) a[i][h] = shared_terms()[query + i * 16 + h * 8 + lane / 4];
    }
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      float least[kQueryParts][2];
#pragma unroll
      for (int i = 0; i < kQueryParts; ++i) least[i][0] = least[i][1] = __int_as_float(0x7f800000);
#pragma unroll
      for (int j = g * kParts; j < (g + 1) * kParts; ++j) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const float4 b =
              __ldg(reinterpret_cast<const float4*>(terms + vector + j * 8 + lane % 4 * 2 + c));
#pragma unroll
          for (int i = 0; i < kQueryParts; ++i) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              least[i][h] = fminf(least[i][h], value(a[i][h], b, sums.of[i][j][2 * h + c]));
            }
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kQueryParts; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const std::size_t row = tile + query + i * 16 + h * 8 + lane / 4;
          minima[row * groups + (vector / kGroup + g) * kGroups + lane % 4] =
              __fadd_rn(least[i][h], a[i][h].norm);
        }
      }
    }
  }

  // All but the query's norm.
  __device__ static float value(const Terms& a, const float4& b, float product) {
    float x = __fmaf_rn(-2.0f * a.scale, __fmul_rn(b.x, product), b.y);
    x = __fmaf_rn(-a.error, b.z, x);
    return __fmaf_rn(-a.reach, b.w, x);
  }

  // ---- the choice ------------------------------------------------------------------------

  __device__ float4 bounds(std::size_t query, std::size_t four) const {
    const float4 least = __ldg(reinterpret_cast<const float4*>(minima + query * groups) + four);
    return {bound(least.x), bound(least.y), bound(least.z), bound(least.w)};
  }
  __device__ static std::uint32_t first_of(std::uint32_t group) {
    return group / kGroups * kGroup + group % kGroups * 2;
  }

  /// As Bytes does: of a group's eight vectors, which stand in pairs eight places apart.
  __device__ Key measure(std::size_t query, std::uint32_t group, int quarter, int lane,
                         unsigned* count) const {
    const std::uint32_t place = first_of(group) + quarter * 8;
    const bool first = is_there(place), second = is_there(place + 1);
    *count += (first ? 1 : 0) + (second ? 1 : 0);
    if (!first && !second) return kNoKey;
    const float* a = queries + query * d;
    const float* b = vectors + std::size_t{place} * d;
    const float* c = b + d;
    float of_first = 0, of_second = 0;
#pragma unroll 8
    for (int i = lane; i < d; i += kLanes) {
      const float x = __fsub_rn(a[i], b[i]);
      const float y = __fsub_rn(a[i], c[i]);
      of_first = __fmaf_rn(x, x, of_first);
      of_second = __fmaf_rn(y, y, of_second);
    }
    of_first = canonical_sum(of_first);
    of_second = __shfl_up_sync(kAll, canonical_sum(of_second), 1);
    if (lane == 0 && first) return key_of(of_first, place);
    if (lane == 1 && second) return key_of(of_second, place + 1);
    return kNoKey;
  }

  static constexpr int kMembers = kGroup / kGroups;
  __device__ static int member(int quarter, int lane) { return lane < 2 ? quarter * 2 + lane : -1; }

 private:
  __device__ static float bound(float least) { return least > 0 ? least : 0.0f; }  // no −0
  __device__ bool is_there(std::uint32_t place) const {
    return __ldg(&terms[place].norm) < __int_as_float(0x7f800000);
  }
};

// ---- rows ----------------------------------------------------------------------------------

__global__ void widen_halves(const __half* from, std::size_t n, float* to) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) to[i] = __half2float(from[i]);
}

/// Rounds rows of d floats to `width` halves and measures them. A warp for each of n rows, and for
/// those up to `all`, which are none. Sets `bad` where the squared distance to the centre is more
/// than `largest` or no number.
__global__ void prepare_floats(const float* __restrict__ from, std::size_t n, std::size_t all, int d,
                               const float* __restrict__ centre, Margins margins, float largest,
                               int width, __half* __restrict__ to, Terms* terms, Key* bad) {
  const std::size_t row = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (row >= all) return;
  const float* __restrict__ z = from + row * d;
  const int numbers = row < n ? d : 0;
  float norm = 0, most = 0;
#pragma unroll 8
  for (int i = lane; i < numbers; i += kLanes) {
    const float x = __fsub_rn(z[i], centre[i]);
    norm = __fmaf_rn(x, x, norm);
    most = fmaxf(most, fabsf(x));
  }
  norm = __shfl_sync(kAll, canonical_sum(norm), 0);
  for (int h = 16; h > 0; h /= 2) most = fmaxf(most, __shfl_xor_sync(kAll, most, h));
  const bool good = norm <= largest;
  if (row >= n || !good) {
    for (int i = lane; i < width; i += kLanes) to[row * width + i] = __half{};
    if (lane == 0) terms[row] = {0, __int_as_float(0x7f800000), 0, 0};
    if (lane == 0 && !good) *bad = 1;
    return;
  }
  // The largest number becomes 128 to 256; the step is no smaller than 2⁻⁶⁰, so that products of
  // steps and sums do not underflow.
  const int exponent = max(most > 0 ? ilogbf(most) - 7 : -60, -60);
  const float scale = __int_as_float((127 + exponent) << 23);
  const float steps = __int_as_float((127 - exponent) << 23);
  float error = 0;
#pragma unroll 8
  for (int i = lane; i < width; i += kLanes) {
    const float x = i < d ? __fsub_rn(z[i], centre[i]) : 0.0f;
    const __half rounded = __float2half_rn(__fmul_rn(x, steps));
    const float off = __fsub_rn(x, __fmul_rn(scale, __half2float(rounded)));
    error = __fmaf_rn(off, off, error);
    to[row * width + i] = rounded;
  }
  error = canonical_sum(error);
  if (lane != 0) return;
  const double up = 1 + 2 * margins.canonical;
  const double e = sqrt(error * up + margins.underflow);
  const double reach = (sqrt(norm * up + margins.underflow) + e) * (1 + 0x1p-30);
  terms[row] = {scale, __double2float_rd(norm - margins.rounding * reach * reach - 1e-37),
                __double2float_ru(reach),
                __double2float_ru(2 * (e + margins.product * reach) * (1 + 0x1p-20))};
}

/// The vectors at some places are there no more.
__global__ void drop_floats(const std::uint32_t* places, std::size_t n, int width, __half* halves,
                            Terms* terms) {
  const std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (i >= n) return;
  const std::size_t place = places[i];
  for (int j = lane; j < width; j += kLanes) halves[place * width + j] = __half{};
  if (lane == 0) terms[place] = {0, __int_as_float(0x7f800000), 0, 0};
}

}  // namespace contcore::nearest_gpu
