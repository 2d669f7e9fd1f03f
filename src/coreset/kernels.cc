#include "coreset/kernels.h"

#include <cmath>
#include <cstring>

#include "contcore/distance.h"

// Only targets with a fused multiply-add (and the plain baseline, which calls std::fma): the
// canonical distance is defined by it. Scalable vectors cannot be held in arrays.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "coreset/kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace contcore::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F = hn::CappedTag<float, 16>;
using V = hn::Vec<F>;
constexpr F f;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(f));
constexpr int kCanonicalLanes = 32;
constexpr int kRegs = kCanonicalLanes / kLanes;

HWY_INLINE V fused(V a, V b, V c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  HWY_ALIGN float x[kLanes], y[kLanes], z[kLanes];
  hn::Store(a, f, x);
  hn::Store(b, f, y);
  hn::Store(c, f, z);
  for (int i = 0; i < kLanes; ++i) z[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(f, z);
#endif
}

// The fixed tree of the canonical sum: lane l gets lane l + h, for h = 16, 8, 4, 2, 1.
HWY_INLINE float tree_sum(V* sum) {
  for (int r = kRegs / 2; r >= 1; r /= 2) {
    for (int i = 0; i < r; ++i) sum[i] = hn::Add(sum[i], sum[i + r]);
  }
#if HWY_TARGET == HWY_SCALAR
  return hn::GetLane(sum[0]);
#else
#if HWY_TARGET == HWY_AVX3
  const hn::Half<F> f8;
  const auto v8 = hn::Add(hn::LowerHalf(f8, sum[0]), hn::UpperHalf(f8, sum[0]));
  const hn::Half<decltype(f8)> f4;
  const auto v4 = hn::Add(hn::LowerHalf(f4, v8), hn::UpperHalf(f4, v8));
#elif HWY_TARGET == HWY_AVX2
  const hn::Half<F> f4;
  const auto v4 = hn::Add(hn::LowerHalf(f4, sum[0]), hn::UpperHalf(f4, sum[0]));
#else
  static_assert(kLanes == 4);
  const auto v4 = sum[0];
#endif
  const auto v2 = hn::Add(v4, hn::Shuffle1032(v4));
  const auto v1 = hn::Add(v2, hn::Shuffle2301(v2));
  return hn::GetLane(v1);
#endif
}

// A × B pairs at once, so that many sums are in flight and each load serves several.
template <int A, int B>
HWY_INLINE void canonical_step(const float* const* a, const float* const* b, size_t at,
                               V sum[A][B][kRegs]) {
  for (int r = 0; r < kRegs; ++r) {
    V vb[B];
    for (int j = 0; j < B; ++j) vb[j] = hn::LoadU(f, b[j] + at + r * kLanes);
    for (int i = 0; i < A; ++i) {
      const V va = hn::LoadU(f, a[i] + at + r * kLanes);
      for (int j = 0; j < B; ++j) {
        const V diff = hn::Sub(va, vb[j]);
        sum[i][j][r] = fused(diff, diff, sum[i][j][r]);
      }
    }
  }
}

template <int A, int B>
HWY_INLINE void canonical_tile(const float* const* a, const float* const* b, size_t d, float* out,
                               size_t stride) {
  V sum[A][B][kRegs];
  for (int i = 0; i < A; ++i) {
    for (int j = 0; j < B; ++j) {
      for (int r = 0; r < kRegs; ++r) sum[i][j][r] = hn::Zero(f);
    }
  }
  size_t at = 0;
  for (; at + kCanonicalLanes <= d; at += kCanonicalLanes) canonical_step<A, B>(a, b, at, sum);
  if (at < d) {  // adding the square of a zero changes nothing, so the tail may be padded
    HWY_ALIGN float tail[A + B][kCanonicalLanes] = {};
    const float* ta[A];
    const float* tb[B];
    for (int i = 0; i < A; ++i) {
      std::memcpy(tail[i], a[i] + at, (d - at) * sizeof(float));
      ta[i] = tail[i];
    }
    for (int j = 0; j < B; ++j) {
      std::memcpy(tail[A + j], b[j] + at, (d - at) * sizeof(float));
      tb[j] = tail[A + j];
    }
    canonical_step<A, B>(ta, tb, 0, sum);
  }
  for (int i = 0; i < A; ++i) {
    for (int j = 0; j < B; ++j) out[i * stride + j] = tree_sum(sum[i][j]);
  }
}

void SquaredDistances(const float* const* a, size_t na, const float* const* b, size_t nb, size_t d,
                      float* out) {
  constexpr int kA = kRegs == 2 ? 4 : 1;  // registers: A · B · kRegs sums beside the operands
  constexpr int kB = 2;
  constexpr int kB1 = kRegs == 2 ? 4 : 2;
  size_t i = 0;
  for (; i + kA <= na && kA > 1; i += kA) {
    size_t j = 0;
    for (; j + kB <= nb; j += kB) canonical_tile<kA, kB>(a + i, b + j, d, out + i * nb + j, nb);
    for (; j < nb; ++j) canonical_tile<kA, 1>(a + i, b + j, d, out + i * nb + j, nb);
  }
  for (; i < na; ++i) {
    size_t j = 0;
    for (; j + kB1 <= nb; j += kB1) canonical_tile<1, kB1>(a + i, b + j, d, out + i * nb + j, nb);
    for (; j < nb; ++j) canonical_tile<1, 1>(a + i, b + j, d, out + i * nb + j, nb);
  }
}

float Subtract(const float* row, const float* centre, size_t d, float* out) {
  V sum[kRegs];
  for (int r = 0; r < kRegs; ++r) sum[r] = hn::Zero(f);
  size_t at = 0;
  for (; at + kCanonicalLanes <= d; at += kCanonicalLanes) {
    for (int r = 0; r < kRegs; ++r) {
      const size_t i = at + r * kLanes;
      const V diff = hn::Sub(hn::LoadU(f, row + i), hn::LoadU(f, centre + i));
      hn::StoreU(diff, f, out + i);
      sum[r] = fused(diff, diff, sum[r]);
    }
  }
  if (at < d) {
    HWY_ALIGN float tail[kCanonicalLanes] = {};
    for (size_t i = at; i < d; ++i) out[i] = tail[i - at] = row[i] - centre[i];
    for (int r = 0; r < kRegs; ++r) {
      const V diff = hn::Load(f, tail + r * kLanes);
      sum[r] = fused(diff, diff, sum[r]);
    }
  }
  return tree_sum(sum);
}

void AddColumns(const float* const* rows, size_t n, size_t d, double* sums) {
  const hn::CappedTag<double, 8> f64;
  const hn::Rebind<float, decltype(f64)> half;
  const size_t lanes = hn::Lanes(f64);
  size_t j = 0;
  for (; j + lanes <= d; j += lanes) {
    auto sum = hn::LoadU(f64, sums + j);
    for (size_t i = 0; i < n; ++i) {
      sum = hn::Add(sum, hn::PromoteTo(f64, hn::LoadU(half, rows[i] + j)));
    }
    hn::StoreU(sum, f64, sums + j);
  }
  for (; j < d; ++j) {
    for (size_t i = 0; i < n; ++i) sums[j] += static_cast<double>(rows[i][j]);
  }
}

double Dot64(const float* a, const float* b, size_t d) {
  const hn::CappedTag<double, 8> f64;
  const hn::Rebind<float, decltype(f64)> half;
  const size_t lanes = hn::Lanes(f64);
  auto sum = hn::Zero(f64);
  size_t j = 0;
  for (; j + lanes <= d; j += lanes) {
    sum = hn::MulAdd(hn::PromoteTo(f64, hn::LoadU(half, a + j)),
                     hn::PromoteTo(f64, hn::LoadU(half, b + j)), sum);
  }
  double total = hn::GetLane(hn::SumOfLanes(f64, sum));
  for (; j < d; ++j) total += static_cast<double>(a[j]) * static_cast<double>(b[j]);
  return total;
}

// R rows by P panels' worth of kV vectors, over one segment of the dimensions.
template <int R, int P, int kV>
HWY_INLINE void project_block(const float* const* rows, size_t from, size_t to, const float* panel,
                              size_t panel_floats, float* out, size_t stride) {
  V sum[R][P][kV];
  for (int i = 0; i < R; ++i) {
    for (int p = 0; p < P; ++p) {
      for (int v = 0; v < kV; ++v) sum[i][p][v] = hn::Zero(f);
    }
  }
  for (size_t j = from; j < to; ++j) {
    V b[P][kV];
    for (int p = 0; p < P; ++p) {
      const float* column = panel + p * panel_floats + j * kPanel;
      for (int v = 0; v < kV; ++v) b[p][v] = hn::LoadU(f, column + v * kLanes);
    }
    for (int i = 0; i < R; ++i) {
      const V a = hn::Set(f, rows[i][j]);
      for (int p = 0; p < P; ++p) {
        for (int v = 0; v < kV; ++v) sum[i][p][v] = fused(a, b[p][v], sum[i][p][v]);
      }
    }
  }
  for (int i = 0; i < R; ++i) {
    for (int p = 0; p < P; ++p) {
      for (int v = 0; v < kV; ++v) {
        float* o = out + i * stride + p * kPanel + v * kLanes;
        const V before = from == 0 ? hn::Zero(f) : hn::LoadU(f, o);
        hn::StoreU(hn::Add(before, sum[i][p][v]), f, o);
      }
    }
  }
}

template <int R, int P>
HWY_INLINE void project_rows(const float* const* rows, size_t n, size_t from, size_t to,
                             const float* panel, size_t panel_floats, float* out, size_t stride) {
  constexpr int kV = 2;
  for (size_t c = 0; c < kPanel; c += kV * kLanes) {
    size_t i = 0;
    for (; i + R <= n; i += R) {
      project_block<R, P, kV>(rows + i, from, to, panel + c, panel_floats, out + i * stride + c,
                              stride);
    }
    for (; i < n; ++i) {
      project_block<1, P, kV>(rows + i, from, to, panel + c, panel_floats, out + i * stride + c,
                              stride);
    }
  }
}

// A segment of a pair of panels (32 KiB) stays in the first cache while all rows pass over it.
void Project(const float* const* rows, size_t n, size_t d, const float* panels, size_t width,
             float* out, size_t stride) {
  constexpr bool kWide = kLanes != 8;  // 32 registers: four rows by four vectors at once
  const size_t panel_floats = d * kPanel;
  for (size_t w = 0; w < width;) {
    const bool pair = kWide && w + 2 * kPanel <= width;
    for (size_t from = 0; from < d; from += kProjectSegment) {
      const size_t to = HWY_MIN(d, from + kProjectSegment);
      const float* panel = panels + w * d;
      if (pair) {
        project_rows<4, 2>(rows, n, from, to, panel, panel_floats, out + w, stride);
      } else {
        project_rows<kWide ? 8 : 4, 1>(rows, n, from, to, panel, panel_floats, out + w, stride);
      }
    }
    w += pair ? 2 * kPanel : kPanel;
  }
}

size_t NotBelow(const float* values, size_t n, float bound, uint32_t* indices) {
  const hn::RebindToUnsigned<F> u32;
  const V vbound = hn::Set(f, bound);
  auto index = hn::Iota(u32, 0);
  const auto step = hn::Set(u32, static_cast<uint32_t>(kLanes));
  size_t count = 0;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto mask = hn::Ge(hn::LoadU(f, values + i), vbound);
    if (!hn::AllFalse(f, mask)) {
      count += hn::CompressBlendedStore(index, hn::RebindMask(u32, mask), u32, indices + count);
    }
    index = hn::Add(index, step);
  }
  for (; i < n; ++i) {
    if (values[i] >= bound) indices[count++] = static_cast<uint32_t>(i);
  }
  return count;
}

HWY_INLINE float sum_lanes(V v) { return hn::GetLane(hn::SumOfLanes(f, v)); }

template <int B>
HWY_INLINE void dots_block(const float* a, const float* const* b, size_t from, size_t to,
                           float* dots) {
  V sum[B];
  for (int i = 0; i < B; ++i) sum[i] = hn::Zero(f);
  for (size_t j = from; j < to; j += kLanes) {
    const V va = hn::LoadU(f, a + j);
    for (int i = 0; i < B; ++i) sum[i] = fused(va, hn::LoadU(f, b[i] + j), sum[i]);
  }
  for (int i = 0; i < B; ++i) dots[i] += sum_lanes(sum[i]);
}

void AddDots(const float* a, const float* const* b, size_t n, size_t from, size_t to, float* dots) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) dots_block<4>(a, b + i, from, to, dots + i);
  for (; i < n; ++i) dots_block<1>(a, b + i, from, to, dots + i);
}

}  // namespace
}  // namespace contcore::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace contcore {
namespace kernels {

HWY_EXPORT(SquaredDistances);
HWY_EXPORT(Subtract);
HWY_EXPORT(AddColumns);
HWY_EXPORT(Dot64);
HWY_EXPORT(Project);
HWY_EXPORT(AddDots);
HWY_EXPORT(NotBelow);

void squared_distances(const float* const* a, std::size_t na, const float* const* b, std::size_t nb,
                       std::size_t d, float* out) {
  HWY_DYNAMIC_DISPATCH(SquaredDistances)(a, na, b, nb, d, out);
}

float subtract(const float* row, const float* centre, std::size_t d, float* out) {
  return HWY_DYNAMIC_DISPATCH(Subtract)(row, centre, d, out);
}

void add_columns(const float* const* rows, std::size_t n, std::size_t d, double* sums) {
  HWY_DYNAMIC_DISPATCH(AddColumns)(rows, n, d, sums);
}

double dot64(const float* a, const float* b, std::size_t d) {
  return HWY_DYNAMIC_DISPATCH(Dot64)(a, b, d);
}

void project(const float* const* rows, std::size_t n, std::size_t d, const float* panels,
             std::size_t width, float* out, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(Project)(rows, n, d, panels, width, out, stride);
}

void add_dots(const float* a, const float* const* b, std::size_t n, std::size_t from,
              std::size_t to, float* dots) {
  HWY_DYNAMIC_DISPATCH(AddDots)(a, b, n, from, to, dots);
}

std::size_t not_below(const float* values, std::size_t n, float bound, std::uint32_t* indices) {
  return HWY_DYNAMIC_DISPATCH(NotBelow)(values, n, bound, indices);
}

std::vector<std::string> targets() {
  std::vector<std::string> names;
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

void force_target(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) hwy::SetSupportedTargetsForTest(target);
  }
}

}  // namespace kernels

float squared_distance(const float* a, const float* b, std::size_t d) {
  float out;
  kernels::squared_distances(&a, 1, &b, 1, d, &out);
  return out;
}

float squared_distance(const std::uint8_t* a, const std::uint8_t* b, std::size_t d) {
  float out;
  kernels::squared_distances(&a, 1, &b, 1, d, &out);
  return out;
}

}  // namespace contcore
#endif  // HWY_ONCE
