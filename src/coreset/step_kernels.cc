// The sketch in whole steps: products of bytes, exact on every target.
#include <algorithm>
#include <cstring>

#include "coreset/kernels.h"

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "coreset/step_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "coreset/byte_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace contcore::kernels::HWY_NAMESPACE {
namespace {

constexpr bool kWide = kLanes >= 16;  // 32 registers

HWY_INLINE W four_everywhere(const uint8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return hn::Set(i32, four);
}

HWY_INLINE uint64_t lanes_not_below(W value, W bound) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(i32, hn::Gt(bound, value), bytes);
  uint64_t below;
  std::memcpy(&below, bytes, sizeof(below));
  return ~below & ((uint64_t{1} << kLanes) - 1);
}

template <int P>
HWY_INLINE void scan_step_points(const uint8_t* const* a, const int32_t* gates, const uint8_t* tile,
                                 size_t tiles, size_t width, uint64_t* masks) {
  constexpr int kStep = kVectors * kLanes;
  for (size_t t = 0; t < tiles; ++t, tile += step_tile_bytes(width)) {
    uint64_t bits[P] = {};
    for (size_t c = 0; c < kTile; c += kStep) {
      W sum[P][kVectors];
      for (int v = 0; v < kVectors; ++v) {
        const W start = load_four(tile + width * kTile + 4 * (c + v * kLanes));
        for (int p = 0; p < P; ++p) sum[p][v] = start;
      }
      const uint8_t* row = tile + 4 * c;
      for (size_t j = 0; j < width; j += 4, row += 4 * kTile) {
        W b[kVectors];
        for (int v = 0; v < kVectors; ++v) b[v] = load_four(row + 4 * v * kLanes);
        for (int p = 0; p < P; ++p) {
          const W four = four_everywhere(a[p] + j);
          for (int v = 0; v < kVectors; ++v) sum[p][v] = add_byte_products(sum[p][v], four, b[v]);
        }
      }
      for (int p = 0; p < P; ++p) {
        const W gate = hn::Set(i32, gates[p]);
        for (int v = 0; v < kVectors; ++v) {
          bits[p] |= lanes_not_below(sum[p][v], gate) << (c + v * kLanes);
        }
      }
    }
    for (int p = 0; p < P; ++p) masks[p * tiles + t] = bits[p];
  }
}

void ScanSteps(const uint8_t* const* a, const int32_t* gates, size_t n, const uint8_t* tile,
               size_t tiles, size_t width, uint64_t* masks) {
  if (n == 4) return scan_step_points<4>(a, gates, tile, tiles, width, masks);
  for (size_t p = 0; p < n; ++p) {
    scan_step_points<1>(a + p, gates + p, tile, tiles, width, masks + p * tiles);
  }
}

uint64_t ScanStepTile(const uint8_t* b, int32_t h, const uint8_t* tile, const int32_t* gates,
                      size_t width) {
  constexpr int kStep = kVectors * kLanes;
  uint64_t bits = 0;
  for (size_t c = 0; c < kTile; c += kStep) {
    W sum[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Set(i32, h);
    const uint8_t* row = tile + 4 * c;
    for (size_t j = 0; j < width; j += 4, row += 4 * kTile) {
      const W four = four_everywhere(b + j);
      for (int v = 0; v < kVectors; ++v) {
        sum[v] = add_byte_products(sum[v], four, load_four(row + 4 * v * kLanes));
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      const size_t at = c + v * kLanes;
      bits |= lanes_not_below(sum[v], hn::LoadU(i32, gates + at)) << at;
    }
  }
  return bits;
}

// Of bytes k + 128 on both sides: Σ (k_a + 128) k_b − 128 Σ k_b.
void StepDots(const uint8_t* a, const uint8_t* const* b, size_t n, size_t width, int32_t* dots) {
  const W flip = hn::Set(i32, static_cast<int32_t>(0x80808080u));
  const W half = flip;  // as unsigned bytes: 128 four times
  for (size_t i = 0; i < n; ++i) {
    W sum = hn::Zero(i32);
    W offset = hn::Zero(i32);
    size_t j = 0;
    for (; j + 4 * kLanes <= width; j += 4 * kLanes) {
      const W signed_b = hn::Xor(load_four(b[i] + j), flip);
      sum = add_byte_products(sum, load_four(a + j), signed_b);
      offset = add_byte_products(offset, half, signed_b);
    }
    int32_t dot = hn::GetLane(hn::SumOfLanes(i32, hn::Sub(sum, offset)));
    for (; j < width; ++j) dot += (int32_t{a[j]} - 128) * (int32_t{b[i][j]} - 128);
    dots[i] = dot;
  }
}

// Rounds to the nearest whole step within ±127; sums in float64.
void ToSteps(const float* y, size_t n, float scale, uint8_t* out, StepSums* sums) {
  const hn::CappedTag<double, 8> f64;
  const hn::Rebind<float, decltype(f64)> half;
  const hn::Rebind<int32_t, decltype(f64)> whole;
  const hn::Rebind<uint8_t, decltype(f64)> bytes;
  const size_t lanes = hn::Lanes(f64);
  auto squared = hn::Zero(f64);
  auto error = hn::Zero(half);
  auto norm = hn::Zero(whole);
  auto beyond = hn::Zero(half);
  for (size_t j = 0; j < n; j += lanes) {
    const auto value = hn::LoadU(half, y + j);
    const auto wide = hn::PromoteTo(f64, value);
    squared = hn::MulAdd(wide, wide, squared);
    const auto x = hn::Mul(value, hn::Set(half, scale));
    const auto within = hn::Min(hn::Max(x, hn::Set(half, -127.0f)), hn::Set(half, 127.0f));
    beyond = hn::Max(beyond, hn::Abs(hn::Sub(x, within)));
    const auto k = hn::NearestInt(within);
    const auto off = hn::Sub(within, hn::ConvertTo(half, k));
    error = hn::MulAdd(off, off, error);
    norm = hn::Add(norm, hn::Mul(k, k));
    hn::StoreU(hn::DemoteTo(bytes, hn::Add(k, hn::Set(whole, 128))), bytes, out + j);
  }
  sums->squared += hn::GetLane(hn::SumOfLanes(f64, squared));
  sums->error += hn::GetLane(hn::SumOfLanes(half, error));
  sums->norm += hn::GetLane(hn::SumOfLanes(whole, norm));
  sums->clipped |= hn::GetLane(hn::MaxOfLanes(half, beyond)) > 0;
}

template <int R, int V>
HWY_INLINE void project_bytes_block(const uint8_t* const* rows, size_t d, const int8_t* panel,
                                    size_t width, const int32_t* offset, float* out,
                                    size_t stride) {
  W sum[R][V];
  for (int v = 0; v < V; ++v) {
    const W start = hn::Neg(hn::LoadU(i32, offset + v * kLanes));
    for (int i = 0; i < R; ++i) sum[i][v] = start;
  }
  size_t j = 0;
  for (; j + 4 <= d; j += 4, panel += 4 * width) {
    W b[V];
    for (int v = 0; v < V; ++v) b[v] = load_four(panel + 4 * v * kLanes);
    for (int i = 0; i < R; ++i) {
      const W a = four_everywhere(rows[i] + j);
      for (int v = 0; v < V; ++v) sum[i][v] = add_byte_products(sum[i][v], a, b[v]);
    }
  }
  if (j < d) {
    for (int i = 0; i < R; ++i) {
      uint8_t tail[4] = {};
      std::memcpy(tail, rows[i] + j, d - j);
      const W a = four_everywhere(tail);
      for (int v = 0; v < V; ++v) {
        sum[i][v] = add_byte_products(sum[i][v], a, load_four(panel + 4 * v * kLanes));
      }
    }
  }
  for (int i = 0; i < R; ++i) {
    for (int v = 0; v < V; ++v) {
      hn::StoreU(hn::ConvertTo(f, sum[i][v]), f, out + i * stride + v * kLanes);
    }
  }
}

template <int V>
HWY_INLINE void project_bytes_columns(const uint8_t* const* rows, size_t n, size_t d,
                                      const int8_t* panel, size_t width, const int32_t* offset,
                                      float* out, size_t stride) {
  constexpr int kR = kWide ? 8 : 2;
  size_t i = 0;
  for (; i + kR <= n; i += kR) {
    project_bytes_block<kR, V>(rows + i, d, panel, width, offset, out + i * stride, stride);
  }
  for (; i < n; ++i) {
    project_bytes_block<1, V>(rows + i, d, panel, width, offset, out + i * stride, stride);
  }
}

void ProjectBytes(const uint8_t* const* rows, size_t n, size_t d, const int8_t* panels,
                  size_t width, const int32_t* offset, float* out, size_t stride) {
  size_t w = 0;
  for (; w + 2 * kLanes <= width; w += 2 * kLanes) {
    project_bytes_columns<2>(rows, n, d, panels + 4 * w, width, offset + w, out + w, stride);
  }
  for (; w < width; w += kLanes) {
    project_bytes_columns<1>(rows, n, d, panels + 4 * w, width, offset + w, out + w, stride);
  }
}

void AddByteColumns(const uint8_t* const* rows, size_t n, size_t d, uint64_t* sums) {
  const hn::CappedTag<uint16_t, 32> u16;
  const hn::Rebind<uint8_t, decltype(u16)> u8;
  const size_t lanes = hn::Lanes(u16);
  constexpr size_t kMost = 256;  // 255 · 257 fits into 16 bits
  for (size_t first = 0; first < n; first += kMost) {
    const size_t end = std::min(n, first + kMost);
    size_t j = 0;
    for (; j + lanes <= d; j += lanes) {
      auto sum = hn::Zero(u16);
      for (size_t i = first; i < end; ++i) {
        sum = hn::Add(sum, hn::PromoteTo(u16, hn::LoadU(u8, rows[i] + j)));
      }
      uint16_t parts[32];
      hn::StoreU(sum, u16, parts);
      for (size_t l = 0; l < lanes; ++l) sums[j + l] += parts[l];
    }
    for (; j < d; ++j) {
      for (size_t i = first; i < end; ++i) sums[j] += rows[i][j];
    }
  }
}

}  // namespace
}  // namespace contcore::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace contcore::kernels {

HWY_EXPORT(ScanSteps);
HWY_EXPORT(ScanStepTile);
HWY_EXPORT(StepDots);
HWY_EXPORT(ToSteps);
HWY_EXPORT(ProjectBytes);
HWY_EXPORT(AddByteColumns);

void scan_steps(const std::uint8_t* const* a, const std::int32_t* gates, std::size_t n,
                const std::uint8_t* tile, std::size_t tiles, std::size_t width,
                std::uint64_t* masks) {
  CONTCORE_BYTES(ScanSteps)(a, gates, n, tile, tiles, width, masks);
}

std::uint64_t scan_step_tile(const std::uint8_t* b, std::int32_t h, const std::uint8_t* tile,
                             const std::int32_t* gates, std::size_t width) {
  return CONTCORE_BYTES(ScanStepTile)(b, h, tile, gates, width);
}

void step_dots(const std::uint8_t* a, const std::uint8_t* const* b, std::size_t n,
               std::size_t width, std::int32_t* dots) {
  CONTCORE_BYTES(StepDots)(a, b, n, width, dots);
}

void project_bytes(const std::uint8_t* const* rows, std::size_t n, std::size_t d,
                   const std::int8_t* panels, std::size_t width, const std::int32_t* offset,
                   float* out, std::size_t stride) {
  CONTCORE_BYTES(ProjectBytes)(rows, n, d, panels, width, offset, out, stride);
}

void to_steps(const float* y, std::size_t n, float scale, std::uint8_t* out, StepSums* sums) {
  HWY_DYNAMIC_DISPATCH(ToSteps)(y, n, scale, out, sums);
}

void add_byte_columns(const std::uint8_t* const* rows, std::size_t n, std::size_t d,
                      std::uint64_t* sums) {
  HWY_DYNAMIC_DISPATCH(AddByteColumns)(rows, n, d, sums);
}

}  // namespace contcore::kernels
#endif  // HWY_ONCE
