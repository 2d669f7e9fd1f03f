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

#include "coreset/byte_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace contcore::kernels::HWY_NAMESPACE {
namespace {

using V = hn::Vec<F>;
constexpr int kStep = kVectors * kLanes;

// As add_byte_products, for unsigned bytes up to 127, whose pairs of products fit into 16 bits.
HWY_INLINE W add_products(W sum, W a, W b) {
#if HWY_TARGET == HWY_AVX2
  const __m256i pairs = _mm256_maddubs_epi16(a.raw, b.raw);
  return W{_mm256_add_epi32(sum.raw, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))};
#else
  return add_byte_products(sum, a, b);
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

// ---- tiles -----------------------------------------------------------------------------------

template <int P>
HWY_INLINE void add_row(const W* four, const TileRow* row, size_t c, W sum[P][kVectors]) {
  for (int v = 0; v < kVectors; ++v) {
    const W b = hn::Load(i32, row->lanes + c + v * kLanes);
    for (int p = 0; p < P; ++p) sum[p][v] = add_byte_products(sum[p][v], four[p], b);
  }
}

// The values of P points and the kStep lanes from c on.
template <int P>
HWY_INLINE void tile_sums(const uint8_t* const* a, const TileRow* tile, size_t width, size_t c,
                          W sum[P][kVectors]) {
  const TileRow* starts = tile + tile_rows(width) - 1;
  for (int v = 0; v < kVectors; ++v) {
    const W start = hn::Load(i32, starts->lanes + c + v * kLanes);
    for (int p = 0; p < P; ++p) sum[p][v] = start;
  }
  W four[P];
  size_t j = 0;
  for (; j + 4 <= width; j += 4, ++tile) {
    for (int p = 0; p < P; ++p) {
      int32_t bytes;
      std::memcpy(&bytes, a[p] + j, 4);
      four[p] = hn::Set(i32, bytes);
    }
    add_row<P>(four, tile, c, sum);
  }
  if (j < width) {
    for (int p = 0; p < P; ++p) {
      int32_t bytes = 0;
      std::memcpy(&bytes, a[p] + j, width - j);
      four[p] = hn::Set(i32, bytes);
    }
    add_row<P>(four, tile, c, sum);
  }
}

template <int P>
HWY_INLINE void values_of(const uint8_t* const* a, const TileRow* tile, size_t width,
                          int32_t* values) {
  for (size_t c = 0; c < kTile; c += kStep) {
    W sum[P][kVectors];
    tile_sums<P>(a, tile, width, c, sum);
    for (int p = 0; p < P; ++p) {
      for (int v = 0; v < kVectors; ++v) {
        hn::StoreU(sum[p][v], i32, values + p * kTile + c + v * kLanes);
      }
    }
  }
}

void TileProducts(const uint8_t* const* a, size_t n, const TileRow* tile, size_t width,
                  int32_t* values) {
  if (n == 4) return values_of<4>(a, tile, width, values);
  for (size_t p = 0; p < n; ++p) values_of<1>(a + p, tile, width, values + p * kTile);
}

// The largest lane of each of four vectors.
HWY_INLINE void store_maxima(const W* top, int32_t* most) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const hn::Repartition<int64_t, I> i64;
  const W a =
      hn::Max(hn::InterleaveLower(i32, top[0], top[1]), hn::InterleaveUpper(i32, top[0], top[1]));
  const W b =
      hn::Max(hn::InterleaveLower(i32, top[2], top[3]), hn::InterleaveUpper(i32, top[2], top[3]));
  const auto a64 = hn::BitCast(i64, a);
  const auto b64 = hn::BitCast(i64, b);
  const W all = hn::Max(hn::BitCast(i32, hn::InterleaveLower(i64, a64, b64)),
                        hn::BitCast(i32, hn::InterleaveUpper(i64, a64, b64)));
  const hn::Half<I> half;
  const auto first = hn::Max(hn::LowerHalf(half, all), hn::UpperHalf(half, all));
#if HWY_TARGET == HWY_AVX3
  const hn::Half<decltype(half)> quarter;
  hn::StoreU(hn::Max(hn::LowerHalf(quarter, first), hn::UpperHalf(quarter, first)), quarter, most);
#else
  hn::StoreU(first, half, most);
#endif
#else
  for (int p = 0; p < 4; ++p) most[p] = hn::GetLane(hn::MaxOfLanes(i32, top[p]));
#endif
}

void TileMaxima(const uint8_t* const* a, const TileRow* tile, size_t tiles, size_t width,
                int32_t* most) {
  for (size_t t = 0; t < tiles; ++t, tile += tile_rows(width), most += 4) {
    W top[4];
    for (size_t c = 0; c < kTile; c += kStep) {
      W sum[4][kVectors];
      tile_sums<4>(a, tile, width, c, sum);
      for (int p = 0; p < 4; ++p) {
        W largest = sum[p][0];
        for (int v = 1; v < kVectors; ++v) largest = hn::Max(largest, sum[p][v]);
        top[p] = c == 0 ? largest : hn::Max(top[p], largest);
      }
    }
    store_maxima(top, most);
  }
}

HWY_INLINE uint64_t bits_above(W values, W bound) {
  uint8_t mask[8] = {};
  hn::StoreMaskBits(i32, hn::Gt(values, bound), mask);
  uint64_t bits;
  std::memcpy(&bits, mask, sizeof(bits));
  return bits & ((uint64_t{1} << kLanes) - 1);
}

template <int P>
HWY_INLINE void scan_tile_of(const uint8_t* const* a, const TileRow* tile, size_t width,
                             const int32_t* gates, int32_t* values, uint64_t* lanes) {
  for (int p = 0; p < P; ++p) lanes[p] = 0;
  for (size_t c = 0; c < kTile; c += kStep) {
    W sum[P][kVectors];
    tile_sums<P>(a, tile, width, c, sum);
    for (int p = 0; p < P; ++p) {
      const W below = hn::Set(i32, gates[p] - 1);
      uint64_t bits = 0;
      for (int v = 0; v < kVectors; ++v) bits |= bits_above(sum[p][v], below) << (v * kLanes);
      if (bits == 0) continue;
      lanes[p] |= bits << c;
      for (int v = 0; v < kVectors; ++v) {
        hn::StoreU(sum[p][v], i32, values + p * kTile + c + v * kLanes);
      }
    }
  }
}

void TileScan(const uint8_t* const* a, size_t n, const TileRow* tile, size_t width,
              const int32_t* gates, int32_t* values, uint64_t* lanes) {
  if (n == 4) return scan_tile_of<4>(a, tile, width, gates, values, lanes);
  if (n == 3) return scan_tile_of<3>(a, tile, width, gates, values, lanes);
  if (n == 2) return scan_tile_of<2>(a, tile, width, gates, values, lanes);
  if (n == 1) return scan_tile_of<1>(a, tile, width, gates, values, lanes);
}

void LargestOfTiles(const int32_t* most, size_t tiles, int32_t* largest) {
  int32_t lanes[16];
  std::fill(lanes, lanes + 16, std::numeric_limits<int32_t>::min());
  size_t at = 0;
  if (kLanes >= 4) {
    W top = hn::LoadU(i32, lanes);
    for (; at + kLanes <= 4 * tiles; at += kLanes) top = hn::Max(top, hn::LoadU(i32, most + at));
    hn::StoreU(top, i32, lanes);
  }
  for (; at < 4 * tiles; ++at) lanes[at % 4] = std::max(lanes[at % 4], most[at]);
  for (int i = 0; i < 4; ++i) {
    largest[i] = std::max(std::max(lanes[i], lanes[i + 4]), std::max(lanes[i + 8], lanes[i + 12]));
  }
}

size_t TilesAtLeast(const int32_t* most, size_t tiles, const int32_t* gates, uint32_t* found) {
  size_t n = 0;
  size_t at = 0;
  if (kLanes >= 4) {
    int32_t four[16];
    for (int i = 0; i < 16; ++i) four[i] = gates[i % 4] - 1;
    const W below = hn::LoadU(i32, four);
    for (; at + kLanes <= 4 * tiles; at += kLanes) {
      const uint64_t bits = bits_above(hn::LoadU(i32, most + at), below);
      if (bits == 0) continue;
      for (int t = 0; t < kLanes / 4; ++t) {
        found[n] = static_cast<uint32_t>(at / 4 + t);
        n += (bits >> (4 * t) & 15) != 0 ? 1 : 0;
      }
    }
  }
  for (; at < 4 * tiles; at += 4) {
    bool near = false;
    for (size_t i = 0; i < 4; ++i) near |= most[at + i] >= gates[i];
    found[n] = static_cast<uint32_t>(at / 4);
    n += near ? 1 : 0;
  }
  return n;
}

// ---- whole vectors ---------------------------------------------------------------------------

constexpr size_t kRegister = 4 * kLanes;  // bytes

template <int A, int B>
HWY_INLINE void product_step(const uint8_t* const* a, const uint8_t* const* b, size_t at,
                             W sum[A][B]) {
  const W half = hn::Set(i32, static_cast<int32_t>(0x80808080u));
  W va[A];
  for (int i = 0; i < A; ++i) va[i] = hn::Xor(load_four(a[i] + at), half);  // a − 128
  for (int j = 0; j < B; ++j) {
    const W vb = load_four(b[j] + at);
    for (int i = 0; i < A; ++i) sum[i][j] = add_byte_products(sum[i][j], vb, va[i]);
  }
}

template <int A, int B>
HWY_INLINE void product_block(const uint8_t* const* a, const uint8_t* const* b, size_t d,
                              int32_t* out, size_t stride) {
  W sum[A][B];
  for (int i = 0; i < A; ++i) {
    for (int j = 0; j < B; ++j) sum[i][j] = hn::Zero(i32);
  }
  size_t at = 0;
  for (; at + kRegister <= d; at += kRegister) product_step<A, B>(a, b, at, sum);
  if (at < d) {  // bytes b of zero add nothing
    uint8_t tail[A + B][kRegister] = {};
    const uint8_t* ta[A];
    const uint8_t* tb[B];
    for (int i = 0; i < A; ++i) {
      std::memcpy(tail[i], a[i] + at, d - at);
      ta[i] = tail[i];
    }
    for (int j = 0; j < B; ++j) {
      std::memcpy(tail[A + j], b[j] + at, d - at);
      tb[j] = tail[A + j];
    }
    product_step<A, B>(ta, tb, 0, sum);
  }
  for (int i = 0; i < A; ++i) {
    for (int j = 0; j < B; ++j) {
      out[i * stride + j] = hn::GetLane(hn::SumOfLanes(i32, sum[i][j]));
    }
  }
}

template <int A>
HWY_INLINE void product_rows(const uint8_t* const* a, const uint8_t* const* b, size_t nb, size_t d,
                             int32_t* out) {
  constexpr int kB = kLanes >= 16 ? 4 : 2;  // registers: A · B sums beside the operands
  size_t j = 0;
  for (; j + kB <= nb; j += kB) product_block<A, kB>(a, b + j, d, out + j, nb);
  for (; j < nb; ++j) product_block<A, 1>(a, b + j, d, out + j, nb);
}

void ByteProducts(const uint8_t* const* a, size_t na, const uint8_t* const* b, size_t nb, size_t d,
                  int32_t* out) {
  size_t i = 0;
#if HWY_TARGET == HWY_AVX3  // the other targets have too few registers
  for (; i + 4 <= na; i += 4) product_rows<4>(a + i, b, nb, d, out + i * nb);
  if (na - i == 3) return product_rows<3>(a + i, b, nb, d, out + i * nb);
#endif
  for (; i + 2 <= na; i += 2) product_rows<2>(a + i, b, nb, d, out + i * nb);
  if (i < na) product_rows<1>(a + i, b, nb, d, out + i * nb);
}

ByteNorm NormOfBytes(const uint8_t* a, size_t d) {
  const W half = hn::Set(i32, static_cast<int32_t>(0x80808080u));
  const W one = hn::Set(i32, 0x01010101);
  W products = hn::Zero(i32);  // Σ a (a − 128)
  W sums = hn::Zero(i32);
  size_t at = 0;
  for (; at + kRegister <= d; at += kRegister) {
    const W va = load_four(a + at);
    products = add_byte_products(products, va, hn::Xor(va, half));
    sums = add_byte_products(sums, va, one);
  }
  ByteNorm norm;
  norm.sum = hn::GetLane(hn::SumOfLanes(i32, sums));
  norm.squares = hn::GetLane(hn::SumOfLanes(i32, products)) + 128 * norm.sum;
  for (; at < d; ++at) {
    norm.sum += a[at];
    norm.squares += int32_t{a[at]} * int32_t{a[at]};
  }
  return norm;
}

// One vector against B others. Differences of bytes and their products in pairs fit into 16 and 32
// bits; the sums of kMostExactBytes too.
template <int B>
HWY_INLINE void difference_block(const uint8_t* a, const uint8_t* const* b, size_t d,
                                 uint64_t* out) {
  const hn::CappedTag<int16_t, 32> i16;
  const hn::Rebind<uint8_t, decltype(i16)> u8;
  const hn::RepartitionToWide<decltype(i16)> sums;
  const size_t lanes = hn::Lanes(i16);
  decltype(hn::Zero(sums)) low[B], high[B];
  for (int j = 0; j < B; ++j) low[j] = high[j] = hn::Zero(sums);
  size_t at = 0;
  for (; at + lanes <= d; at += lanes) {
    const auto va = hn::PromoteTo(i16, hn::LoadU(u8, a + at));
    for (int j = 0; j < B; ++j) {
      const auto difference = hn::Sub(va, hn::PromoteTo(i16, hn::LoadU(u8, b[j] + at)));
      low[j] = hn::ReorderWidenMulAccumulate(sums, difference, difference, low[j], high[j]);
    }
  }
  for (int j = 0; j < B; ++j) {
    out[j] = static_cast<uint64_t>(hn::GetLane(hn::SumOfLanes(sums, hn::Add(low[j], high[j]))));
    for (size_t rest = at; rest < d; ++rest) {
      const int difference = int{a[rest]} - int{b[j][rest]};
      out[j] += static_cast<uint64_t>(difference * difference);
    }
  }
}

void difference_rows(const uint8_t* a, const uint8_t* const* b, size_t nb, size_t d, float* out) {
  size_t j = 0;
  uint64_t four[4];
  for (; j + 4 <= nb; j += 4) {
    difference_block<4>(a, b + j, d, four);
    for (size_t k = 0; k < 4; ++k) out[j + k] = static_cast<float>(four[k]);
  }
  for (; j < nb; ++j) {
    difference_block<1>(a, b + j, d, four);
    out[j] = static_cast<float>(four[0]);
  }
}

// Longer vectors than byte_products takes.
void LongDistances(const uint8_t* const* a, size_t na, const uint8_t* const* b, size_t nb, size_t d,
                   float* out) {
  constexpr size_t kSegment = 16384;
  for (size_t i = 0; i < na; ++i) {
    for (size_t j = 0; j < nb; ++j) {
      uint64_t sum = 0;
      for (size_t at = 0; at < d; at += kSegment) {
        const uint8_t* segment = b[j] + at;
        uint64_t part;
        difference_block<1>(a[i] + at, &segment, std::min(kSegment, d - at), &part);
        sum += part;
      }
      out[i * nb + j] = static_cast<float>(sum);
    }
  }
}

void ByteDistances(const uint8_t* const* a, size_t na, const uint8_t* const* b, size_t nb, size_t d,
                   float* out) {
  if (d > kMostExactBytes) return LongDistances(a, na, b, nb, d, out);
  if (na < 4) {  // too few for their products to pay for the norms
    for (size_t i = 0; i < na; ++i) difference_rows(a[i], b, nb, d, out + i * nb);
    return;
  }
  constexpr size_t kA = 4;
  constexpr size_t kB = 64;
  for (size_t first = 0; first < nb; first += kB) {
    const size_t count = std::min(kB, nb - first);
    int32_t rest[kB];
    for (size_t j = 0; j < count; ++j) {
      const ByteNorm norm = NormOfBytes(b[first + j], d);
      rest[j] = norm.squares - 256 * norm.sum;
    }
    for (size_t at = 0; at < na; at += kA) {
      const size_t rows = std::min(kA, na - at);
      int32_t products[kA * kB];
      ByteProducts(a + at, rows, b + first, count, d, products);
      for (size_t i = 0; i < rows; ++i) {
        const int32_t squares = NormOfBytes(a[at + i], d).squares;
        for (size_t j = 0; j < count; ++j) {
          out[(at + i) * nb + first + j] =
              static_cast<float>(squares + rest[j] - 2 * products[i * count + j]);
        }
      }
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
HWY_EXPORT(ByteProducts);
HWY_EXPORT(NormOfBytes);
HWY_EXPORT(TileProducts);
HWY_EXPORT(TileMaxima);
HWY_EXPORT(TileScan);
HWY_EXPORT(LargestOfTiles);
HWY_EXPORT(TilesAtLeast);

void squared_distances(const std::uint8_t* const* a, std::size_t na, const std::uint8_t* const* b,
                       std::size_t nb, std::size_t d, float* out) {
  CONTCORE_BYTES(ByteDistances)(a, na, b, nb, d, out);
}

void byte_products(const std::uint8_t* const* a, std::size_t na, const std::uint8_t* const* b,
                   std::size_t nb, std::size_t d, std::int32_t* out) {
  CONTCORE_BYTES(ByteProducts)(a, na, b, nb, d, out);
}

ByteNorm byte_norm(const std::uint8_t* a, std::size_t d) {
  return CONTCORE_BYTES(NormOfBytes)(a, d);
}

void tile_products(const std::uint8_t* const* a, std::size_t n, const TileRow* tile,
                   std::size_t width, std::int32_t* values) {
  CONTCORE_BYTES(TileProducts)(a, n, tile, width, values);
}

void tile_scan(const std::uint8_t* const* a, std::size_t n, const TileRow* tile, std::size_t width,
               const std::int32_t* gates, std::int32_t* values, std::uint64_t* lanes) {
  CONTCORE_BYTES(TileScan)(a, n, tile, width, gates, values, lanes);
}

void tile_maxima(const std::uint8_t* const* a, const TileRow* tile, std::size_t tiles,
                 std::size_t width, std::int32_t* most) {
  CONTCORE_BYTES(TileMaxima)(a, tile, tiles, width, most);
}

void largest_of_tiles(const std::int32_t* most, std::size_t tiles, std::int32_t* largest) {
  HWY_DYNAMIC_DISPATCH(LargestOfTiles)(most, tiles, largest);
}

std::size_t tiles_at_least(const std::int32_t* most, std::size_t tiles, const std::int32_t* gates,
                           std::uint32_t* found) {
  return HWY_DYNAMIC_DISPATCH(TilesAtLeast)(most, tiles, gates, found);
}

void scan_bytes(const BytePoint* const* points, std::size_t n, const float* tile, std::size_t width,
                float* values, float* most) {
  CONTCORE_BYTES(ScanBytes)(points, n, tile, width, values, most);
}

}  // namespace contcore::kernels
#endif  // HWY_ONCE
