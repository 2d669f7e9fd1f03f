// Products of bytes. Whole numbers, so that every target gives the same sums.
#include <algorithm>
#include <cstring>
#include <limits>

#include "coreset/kernels.h"

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "coreset/byte_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace contcore::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F = hn::CappedTag<float, 16>;
using I = hn::RebindToSigned<F>;
using V = hn::Vec<F>;
using W = hn::Vec<I>;  // in each lane a sum, or four bytes
constexpr F f;
constexpr I i32;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(f));
constexpr int kVectors = kLanes >= 16 ? 4 : kLanes == 8 ? 2 : 1;  // registers side by side
constexpr int kStep = kVectors * kLanes;

// sum + a·b in each lane, a of four unsigned bytes up to 127, b of four signed ones.
HWY_INLINE W add_products(W sum, W a, W b) {
#if HWY_TARGET == HWY_AVX3  // the intrinsic would ask for the whole function to be compiled for it
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
#elif HWY_TARGET == HWY_AVX2
  const __m256i pairs = _mm256_maddubs_epi16(a.raw, b.raw);
  return W{_mm256_add_epi32(sum.raw, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))};
#else
  // One byte of each lane after the other, moved to the top and back, which extends its sign.
  sum = hn::Add(sum, hn::Mul(hn::ShiftRight<24>(hn::ShiftLeft<24>(a)),
                             hn::ShiftRight<24>(hn::ShiftLeft<24>(b))));
  sum = hn::Add(sum, hn::Mul(hn::ShiftRight<24>(hn::ShiftLeft<16>(a)),
                             hn::ShiftRight<24>(hn::ShiftLeft<16>(b))));
  sum = hn::Add(sum, hn::Mul(hn::ShiftRight<24>(hn::ShiftLeft<8>(a)),
                             hn::ShiftRight<24>(hn::ShiftLeft<8>(b))));
  return hn::Add(sum, hn::Mul(hn::ShiftRight<24>(a), hn::ShiftRight<24>(b)));
#endif
}

template <int P>
HWY_INLINE void scan_points(const BytePoint* const* points, const float* tile, size_t width,
                            float* values, float* most) {
  V top[P];
  for (int p = 0; p < P; ++p) top[p] = hn::Set(f, -std::numeric_limits<float>::infinity());
  const float* behind = tile + width / 4 * kTile;
  for (size_t c = 0; c < kTile; c += kStep) {
    W sum[P][kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const W start = hn::BitCast(i32, hn::LoadU(f, behind + c + v * kLanes));
      for (int p = 0; p < P; ++p) sum[p][v] = start;
    }
    const float* row = tile + c;
    for (size_t j = 0; j < width; j += 4, row += kTile) {
      W b[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        b[v] = hn::BitCast(i32, hn::LoadU(f, row + v * kLanes));
      }
      for (int p = 0; p < P; ++p) {
        int32_t four;
        std::memcpy(&four, points[p]->bytes + j, 4);
        const W a = hn::Set(i32, four);
        for (int v = 0; v < kVectors; ++v) sum[p][v] = add_products(sum[p][v], a, b[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      const float* lane = behind + c + v * kLanes;
      const V scale = hn::LoadU(f, lane + kTile);
      const V r = hn::LoadU(f, lane + 2 * kTile);
      const V h = hn::LoadU(f, lane + 3 * kTile);
      for (int p = 0; p < P; ++p) {
        const V rest = hn::MulAdd(r, hn::Set(f, points[p]->r), h);
        const V factor = hn::Mul(scale, hn::Set(f, points[p]->scale));
        const V value = hn::MulAdd(hn::ConvertTo(f, sum[p][v]), factor, rest);
        top[p] = hn::Max(top[p], value);
        if (values != nullptr) hn::StoreU(value, f, values + p * kTile + c + v * kLanes);
      }
    }
  }
  for (int p = 0; p < P; ++p) most[p] = hn::GetLane(hn::MaxOfLanes(f, top[p]));
}

void ScanBytes(const BytePoint* const* points, size_t n, const float* tile, size_t width,
               float* values, float* most) {
  if (n == 4) return scan_points<4>(points, tile, width, values, most);
  for (size_t p = 0; p < n; ++p) {
    scan_points<1>(points + p, tile, width, values == nullptr ? nullptr : values + p * kTile,
                   most + p);
  }
}

// Differences of bytes and their products in pairs fit into 16 and 32 bits; a segment's sum too.
uint64_t ByteSegment(const uint8_t* a, const uint8_t* b, size_t d) {
  const hn::CappedTag<int16_t, 32> i16;
  const hn::Rebind<uint8_t, decltype(i16)> u8;
  const hn::RepartitionToWide<decltype(i16)> sums;
  const size_t lanes = hn::Lanes(i16);
  auto low = hn::Zero(sums);
  auto high = hn::Zero(sums);
  size_t at = 0;
  for (; at + lanes <= d; at += lanes) {
    const auto difference = hn::Sub(hn::PromoteTo(i16, hn::LoadU(u8, a + at)),
                                    hn::PromoteTo(i16, hn::LoadU(u8, b + at)));
    low = hn::ReorderWidenMulAccumulate(sums, difference, difference, low, high);
  }
  auto sum = static_cast<uint64_t>(hn::GetLane(hn::SumOfLanes(sums, hn::Add(low, high))));
  for (; at < d; ++at) {
    const int difference = int{a[at]} - int{b[at]};
    sum += static_cast<uint64_t>(difference * difference);
  }
  return sum;
}

void ByteDistances(const uint8_t* const* a, size_t na, const uint8_t* const* b, size_t nb, size_t d,
                   float* out) {
  constexpr size_t kSegment = 16384;
  for (size_t i = 0; i < na; ++i) {
    for (size_t j = 0; j < nb; ++j) {
      uint64_t sum = 0;
      for (size_t at = 0; at < d; at += kSegment) {
        sum += ByteSegment(a[i] + at, b[j] + at, std::min(kSegment, d - at));
      }
      out[i * nb + j] = static_cast<float>(sum);
    }
  }
}

}  // namespace
}  // namespace contcore::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace contcore::kernels {

HWY_EXPORT(ScanBytes);
HWY_EXPORT(ByteDistances);

void squared_distances(const std::uint8_t* const* a, std::size_t na, const std::uint8_t* const* b,
                       std::size_t nb, std::size_t d, float* out) {
  HWY_DYNAMIC_DISPATCH(ByteDistances)(a, na, b, nb, d, out);
}

void scan_bytes(const BytePoint* const* points, std::size_t n, const float* tile, std::size_t width,
                float* values, float* most) {
#if HWY_ARCH_X86  // machines with AVX-512 but without its byte products
  static const bool products = __builtin_cpu_supports("avx512vnni") != 0;
  if (!products && (hwy::SupportedTargets() & HWY_AVX3) != 0) {
    return N_AVX2::ScanBytes(points, n, tile, width, values, most);
  }
#endif
  HWY_DYNAMIC_DISPATCH(ScanBytes)(points, n, tile, width, values, most);
}

}  // namespace contcore::kernels
#endif  // HWY_ONCE
