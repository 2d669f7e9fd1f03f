#include "image/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

// As in coreset/kernels.cc: targets with a fused multiply-add, and the plain baseline.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace contcore::image_kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A pixel: three channels and a lane to spare; on the plain baseline one channel after the other.
using P = hn::CappedTag<float, 4>;
constexpr P pf;
constexpr hn::Rebind<std::uint32_t, P> pu;
constexpr hn::Rebind<std::int32_t, P> pi;
constexpr hn::Rebind<std::uint16_t, P> ps;
constexpr hn::Rebind<std::int16_t, P> ph;
constexpr hn::Rebind<std::uint8_t, P> pb;
constexpr std::size_t kChannels = hn::MaxLanes(pf);  // at a time

using F = hn::CappedTag<float, 16>;
constexpr std::size_t kLanes = hn::MaxLanes(F());

// body(tag, i) over [0, n), as many at a time as fit and then one by one.
template <typename T, std::size_t kMost, typename Body>
HWY_INLINE void over(std::size_t n, const Body& body) {
  const hn::CappedTag<T, kMost> d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) body(d, i);
  for (; i < n; ++i) body(hn::CappedTag<T, 1>(), i);
}

// ---- Area
// ----------------------------------------------------------------------------------------

// sums[i] += Σ of kRows rows' i-th byte; or =, if it is the first time.
template <std::size_t kRows>
HWY_INLINE void add_some_rows(const std::uint8_t* bytes, std::size_t stride, bool first,
                              std::size_t n, std::uint16_t* sums) {
  over<std::uint16_t, 32>(n, [&](auto d, std::size_t i) HWY_ATTR {
    const hn::Rebind<std::uint8_t, decltype(d)> narrow;
    auto sum = hn::PromoteTo(d, hn::LoadU(narrow, bytes + i));
    for (std::size_t r = 1; r < kRows; ++r) {
      sum = hn::Add(sum, hn::PromoteTo(d, hn::LoadU(narrow, bytes + r * stride + i)));
    }
    if (!first) sum = hn::Add(sum, hn::LoadU(d, sums + i));
    hn::StoreU(sum, d, sums + i);
  });
}

// Few rows at a time: many streams, a power of two apart, would get in each other's way in the
// cache.
void AddRows(const std::uint8_t* bytes, std::size_t stride, std::size_t rows, std::size_t n,
             std::uint16_t* sums) {
  std::size_t r = 0;
  for (; r + 4 <= rows; r += 4) add_some_rows<4>(bytes + r * stride, stride, r == 0, n, sums);
  for (; r < rows; ++r) add_some_rows<1>(bytes + r * stride, stride, r == 0, n, sums);
}

void AddPixels(const std::uint16_t* sums, std::size_t factor, std::size_t pixels,
               std::uint32_t* out) {
  for (std::size_t p = 0; p < pixels; ++p) {
    for (std::size_t c = 0; c < 3; c += kChannels) {
      const auto pixel = [&](std::size_t k) HWY_ATTR {
        return hn::PromoteTo(pu, hn::LoadU(ps, sums + 3 * k + c));
      };
      auto sum = pixel(0);
      for (std::size_t k = 1; k < factor; ++k) sum = hn::Add(sum, pixel(k));
      hn::StoreU(sum, pu, out + 3 * p + c);
    }
    sums += 3 * factor;
  }
}

template <typename D, typename V>
HWY_INLINE void store_bytes(D, V values, std::uint8_t* out) {
  const hn::Rebind<std::uint8_t, D> narrow;
  hn::StoreU(hn::DemoteTo(narrow, hn::NearestInt(values)), narrow, out);
}

void ScaleSums(const std::uint32_t* sums, float scale, std::size_t n, std::uint8_t* out) {
  over<float, 16>(n, [&](auto f, std::size_t i) HWY_ATTR {
    const hn::Rebind<std::int32_t, decltype(f)> whole;
    const auto sum = hn::LoadU(whole, reinterpret_cast<const std::int32_t*>(sums) + i);
    store_bytes(f, hn::Mul(hn::ConvertTo(f, sum), hn::Set(f, scale)), out + i);
  });
}

// The mean of every pixel and the next one, of both rows; then every other one of them. Bytes at
// even places are added apart from those at odd ones, in the 16 bits of both.
void Halve(const std::uint8_t* above, const std::uint8_t* below, std::size_t pixels,
           std::uint8_t* means, std::uint8_t* out) {
  const std::size_t needed = 6 * pixels - 3;
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<std::uint8_t, 64> b;
  const hn::RepartitionToWide<decltype(b)> d;
  const auto low = hn::Set(d, std::uint16_t{255});
  const auto half = hn::Set(d, std::uint16_t{2});
  const std::size_t lanes = hn::Lanes(b);
  while (i < needed && needed >= lanes) {
    i = std::min(i, needed - lanes);  // the last ones may be done twice
    const auto at = [&](const std::uint8_t* row)
                        HWY_ATTR { return hn::BitCast(d, hn::LoadU(b, row + i)); };
    const auto v0 = at(above), v1 = at(above + 3), v2 = at(below), v3 = at(below + 3);
    const auto even = hn::Add(hn::Add(hn::Add(hn::And(v0, low), hn::And(v1, low)),
                                      hn::Add(hn::And(v2, low), hn::And(v3, low))),
                              half);
    const auto odd = hn::Add(hn::Add(hn::Add(hn::ShiftRight<8>(v0), hn::ShiftRight<8>(v1)),
                                     hn::Add(hn::ShiftRight<8>(v2), hn::ShiftRight<8>(v3))),
                             half);
    const auto mean = hn::Or(hn::ShiftRight<2>(even), hn::ShiftLeft<8>(hn::ShiftRight<2>(odd)));
    hn::StoreU(hn::BitCast(b, mean), b, means + i);
    i += lanes;
  }
#endif
  for (; i < needed; ++i) {
    means[i] =
        static_cast<std::uint8_t>((above[i] + above[i + 3] + below[i] + below[i + 3] + 2) / 4);
  }
  std::size_t p = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<std::uint8_t, 16> b16;
  const hn::FixedTag<std::uint8_t, 8> b8;
  constexpr std::uint8_t kTwo[16] = {0, 1, 2, 6, 7, 8};
  const auto two = hn::LoadU(b16, kTwo);
  for (; 6 * p + 16 <= 6 * pixels; p += 2) {
    const auto four = hn::LoadU(b16, means + 6 * p);
    hn::StoreU(hn::LowerHalf(b8, hn::TableLookupBytes(four, two)), b8, out + 3 * p);
  }
#endif
  for (; p < pixels; ++p) std::memcpy(out + 3 * p, means + 6 * p, 3);
}

HWY_INLINE auto pixel_at(const std::uint8_t* at) { return hn::PromoteTo(pi, hn::LoadU(pb, at)); }

void WeighPixels(const std::uint8_t* row, const std::uint32_t* first, const float* weights,
                 std::size_t terms, std::size_t pixels, float* out) {
  for (std::size_t p = 0; p < pixels; ++p) {
    for (std::size_t c = 0; c < 3; c += kChannels) {
      const std::uint8_t* const at = row + 3 * std::size_t{first[p]} + c;
      const auto weighed = [&](std::size_t t) HWY_ATTR {
        return hn::Mul(hn::ConvertTo(pf, pixel_at(at + 3 * t)), hn::Set(pf, weights[t]));
      };
      auto sum = weighed(0);
      for (std::size_t t = 1; t < terms; ++t) sum = hn::Add(sum, weighed(t));
      hn::StoreU(sum, pf, out + 3 * p + c);
    }
    weights += terms;
  }
}

void WeighRows(const float* const* rows, const float* weights, std::size_t terms, std::size_t n,
               std::uint8_t* out) {
  over<float, 16>(n, [&](auto f, std::size_t i) HWY_ATTR {
    auto sum = hn::Mul(hn::LoadU(f, rows[0] + i), hn::Set(f, weights[0]));
    for (std::size_t t = 1; t < terms; ++t) {
      sum = hn::Add(sum, hn::Mul(hn::LoadU(f, rows[t] + i), hn::Set(f, weights[t])));
    }
    store_bytes(f, sum, out + i);
  });
}

// ---- Bilinear
// ------------------------------------------------------------------------------------

void BlendPixels(const std::uint8_t* row, const std::uint32_t* left, const std::uint32_t* right,
                 const std::int32_t* weights, std::size_t pixels, std::int16_t* out) {
  for (std::size_t p = 0; p < pixels; ++p) {
    for (std::size_t c = 0; c < 3; c += kChannels) {
      const auto a = pixel_at(row + 3 * std::size_t{left[p]} + c);
      const auto b = pixel_at(row + 3 * std::size_t{right[p]} + c);
      const auto sum = hn::Add(hn::Mul(a, hn::Set(pi, weights[2 * p])),
                               hn::Mul(b, hn::Set(pi, weights[2 * p + 1])));
      hn::StoreU(hn::DemoteTo(ph, hn::ShiftRight<4>(sum)), ph, out + 3 * p + c);
    }
  }
}

void BlendByteRows(const std::int16_t* above, const std::int16_t* below, std::int16_t above_weight,
                   std::int16_t below_weight, std::size_t n, std::uint8_t* out) {
  over<std::int16_t, 32>(n, [&](auto d, std::size_t i) HWY_ATTR {
    const hn::Rebind<std::uint8_t, decltype(d)> narrow;
    const auto a = hn::MulHigh(hn::LoadU(d, above + i), hn::Set(d, above_weight));
    const auto b = hn::MulHigh(hn::LoadU(d, below + i), hn::Set(d, below_weight));
    const auto sum = hn::Add(hn::Add(a, b), hn::Set(d, 2));
    hn::StoreU(hn::DemoteTo(narrow, hn::ShiftRight<2>(sum)), narrow, out + i);
  });
}

void BlendFloatRows(const float* above, const float* below, float above_weight, float below_weight,
                    std::size_t n, float* out) {
  over<float, 16>(n, [&](auto f, std::size_t i) HWY_ATTR {
    const auto a = hn::Mul(hn::LoadU(f, above + i), hn::Set(f, above_weight));
    const auto b = hn::Mul(hn::LoadU(f, below + i), hn::Set(f, below_weight));
    hn::StoreU(hn::Add(a, b), f, out + i);
  });
}

// ---- Weighted sums
// --------------------------------------------------------------------------------------

template <typename D, typename V>
HWY_INLINE V fused(D f, V a, V b, V c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  HWY_ALIGN float x[kLanes], y[kLanes], z[kLanes];
  hn::Store(a, f, x);
  hn::Store(b, f, y);
  hn::Store(c, f, z);
  for (std::size_t i = 0; i < hn::Lanes(f); ++i) z[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(f, z);
#endif
}

// Weighted sums of kVectors vectors of columns from i on; returns their maximum.
template <std::size_t kVectors, typename D>
HWY_INLINE hn::Vec<D> mix_strip(D d, const float* rows, std::size_t stride, const float* weights,
                                std::size_t terms, std::size_t i, float* out) {
  hn::Vec<D> sums[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) sums[v] = hn::Zero(d);
  for (std::size_t t = 0; t < terms; ++t) {
    const auto weight = hn::Set(d, weights[t]);
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto term = hn::LoadU(d, rows + t * stride + i + v * hn::Lanes(d));
      sums[v] = fused(d, weight, term, sums[v]);
    }
  }
  auto largest = sums[0];
  for (std::size_t v = 0; v < kVectors; ++v) {
    hn::StoreU(sums[v], d, out + i + v * hn::Lanes(d));
    largest = hn::Max(largest, sums[v]);
  }
  return largest;
}

float MixRows(const float* rows, std::size_t stride, const float* weights, std::size_t terms,
              std::size_t n, float* out) {
  constexpr hn::CappedTag<float, 1> one;
  auto largest = hn::Set(F(), -std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    largest = hn::Max(largest, mix_strip<4>(F(), rows, stride, weights, terms, i, out));
  }
  for (; i + kLanes <= n; i += kLanes) {
    largest = hn::Max(largest, mix_strip<1>(F(), rows, stride, weights, terms, i, out));
  }
  float most = hn::GetLane(hn::MaxOfLanes(F(), largest));
  for (; i < n; ++i) {
    most = std::max(most, hn::GetLane(mix_strip<1>(one, rows, stride, weights, terms, i, out)));
  }
  return most;
}

}  // namespace
}  // namespace contcore::image_kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace contcore::image_kernels {

HWY_EXPORT(AddRows);
HWY_EXPORT(AddPixels);
HWY_EXPORT(ScaleSums);
HWY_EXPORT(Halve);
HWY_EXPORT(WeighPixels);
HWY_EXPORT(WeighRows);
HWY_EXPORT(BlendPixels);
HWY_EXPORT(BlendByteRows);
HWY_EXPORT(BlendFloatRows);
HWY_EXPORT(MixRows);

void add_rows(const std::uint8_t* bytes, std::size_t stride, std::size_t rows, std::size_t n,
              std::uint16_t* sums) {
  HWY_DYNAMIC_DISPATCH(AddRows)(bytes, stride, rows, n, sums);
}

void add_pixels(const std::uint16_t* sums, std::size_t factor, std::size_t pixels,
                std::uint32_t* out) {
  HWY_DYNAMIC_DISPATCH(AddPixels)(sums, factor, pixels, out);
}

void scale_sums(const std::uint32_t* sums, float scale, std::size_t n, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(ScaleSums)(sums, scale, n, out);
}

void halve(const std::uint8_t* above, const std::uint8_t* below, std::size_t pixels,
           std::uint8_t* means, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(Halve)(above, below, pixels, means, out);
}

void weigh_pixels(const std::uint8_t* row, const std::uint32_t* first, const float* weights,
                  std::size_t terms, std::size_t pixels, float* out) {
  HWY_DYNAMIC_DISPATCH(WeighPixels)(row, first, weights, terms, pixels, out);
}

void weigh_rows(const float* const* rows, const float* weights, std::size_t terms, std::size_t n,
                std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(WeighRows)(rows, weights, terms, n, out);
}

void blend_pixels(const std::uint8_t* row, const std::uint32_t* left, const std::uint32_t* right,
                  const std::int32_t* weights, std::size_t pixels, std::int16_t* out) {
  HWY_DYNAMIC_DISPATCH(BlendPixels)(row, left, right, weights, pixels, out);
}

void blend_rows(const std::int16_t* above, const std::int16_t* below, std::int16_t above_weight,
                std::int16_t below_weight, std::size_t n, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(BlendByteRows)(above, below, above_weight, below_weight, n, out);
}

void blend_rows(const float* above, const float* below, float above_weight, float below_weight,
                std::size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(BlendFloatRows)(above, below, above_weight, below_weight, n, out);
}

float mix_rows(const float* rows, std::size_t stride, const float* weights, std::size_t terms,
               std::size_t n, float* out) {
  return HWY_DYNAMIC_DISPATCH(MixRows)(rows, stride, weights, terms, n, out);
}

}  // namespace contcore::image_kernels
#endif  // HWY_ONCE
