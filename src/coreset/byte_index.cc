// Exact nearest neighbours of bytes: two sketches of whole numbers (coreset/byte_projection.h),
// then the distance itself. The short sketch is compared with all vectors, a tile at a time, and
// leaves few tiles; the long one leaves few vectors of those.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/rows.h"
#include "coreset/byte_projection.h"
#include "coreset/kernels.h"
#include "coreset/tiles.h"
#include "coreset/vector_index.h"

namespace contcore {
namespace {

using kernels::kScanPoints;
using kernels::kTile;

constexpr std::size_t kFewVectors = 256;   // that need no sketch
constexpr std::size_t kFewNumbers = 128;   // vectors so short that they need none
constexpr std::size_t kByteGroup = 16;     // queries that share the tiles while they are in cache
constexpr std::size_t kByteBatch = 8192;   // queries shared out at a time
constexpr std::size_t kFewChanges = 1024;  // for which the layout is not made anew

// What the long sketch leaves of a tile, for each of four queries: not measured yet.
struct LeftOver {
  std::size_t tile;
  std::array<std::uint64_t, kScanPoints> lanes;
  std::size_t values;  // where theirs begin in the scratch, lane after lane, query after query
};

struct ByteAsked {
  ProjectedBytes projected;
  const std::uint8_t* row = nullptr;
  std::size_t first_tile = 0;
  std::uint64_t first_lanes = 0;                                    // measured as a first guess
  std::vector<Neighbour> found;                                     // at most k, sorted
  std::int32_t nearest = std::numeric_limits<std::int32_t>::min();  // the largest value measured
  std::array<std::int32_t, kByteLevels> gates{};

  void begin(const std::uint8_t* at) {
    row = at;
    nearest = std::numeric_limits<std::int32_t>::min();
    first_tile = 0;
    first_lanes = 0;
    found.clear();
  }
};

struct ByteScratch {
  std::array<ByteAsked, kByteGroup> group;
  std::vector<std::int32_t> most;   // of each four queries and tile
  std::vector<std::uint32_t> near;  // tiles
  std::vector<LeftOver> left;
  std::vector<std::int32_t> values;
  std::uint64_t looked_at = 0;
  std::uint64_t exact = 0;
};

class ByteIndex final : public VectorIndex {
 public:
  ByteIndex(VectorView vectors, Compute& compute) : VectorIndex(vectors, Scalar::kUint8) {
    std::vector<Slot> all(vectors.rows);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = {vectors.byte_row(i), static_cast<std::int64_t>(i), 0};
    }
    build(std::move(all), compute);
    next_id_ = static_cast<std::int64_t>(vectors.rows);
  }

  std::size_t size() const override { return held_; }

  NearestResult search(VectorView queries, std::size_t k, Compute& compute, const std::string&,
                       const Progress& progress) const override {
    NearestResult result;
    result.k = k;
    result.distances.assign(queries.rows * k, std::numeric_limits<float>::infinity());
    result.ids.assign(queries.rows * k, kFree);
    std::vector<ByteScratch> scratch(compute.threads().count());
    for (std::size_t at = 0; at < queries.rows; at += kByteBatch) {
      const std::size_t n = std::min(kByteBatch, queries.rows - at);
      compute.threads().run((n + kByteGroup - 1) / kByteGroup, [&](std::size_t i, std::size_t w) {
        const std::size_t first = at + i * kByteGroup;
        if (w == 0) report(progress, part_done(first, queries.rows));
        search_group(queries.part(first, std::min(kByteGroup, at + n - first)), k, scratch[w],
                     result.distances.data() + first * k, result.ids.data() + first * k);
      });
      report(progress, part_done(at + n, queries.rows));
    }
    for (const ByteScratch& s : scratch) result.exact += s.exact;
    return result;
  }

 protected:
  std::size_t places() const override { return slots_.size(); }
  std::int64_t id_at(std::size_t place) const override { return slots_[place].id; }
  VectorView vector_at(std::size_t place) const override {
    return {slots_[place].row, 1, dimension(), Scalar::kUint8};
  }
  const float* centre() const override { return nullptr; }

  // New vectors stand in tiles of their own, near those they came with. When half of the vectors
  // have changed, all are laid out anew.
  void put(const VectorView& vectors, std::int64_t first_id, Compute& compute,
           const std::string&) override {
    changes_ += vectors.rows;
    std::vector<Slot> added(vectors.rows);
    for (std::size_t i = 0; i < added.size(); ++i) {
      added[i] = {vectors.byte_row(i), first_id + static_cast<std::int64_t>(i), 0};
    }
    if (changes_ > std::max(kFewChanges, size() / 2)) {
      std::copy_if(slots_.begin(), slots_.end(), std::back_inserter(added),
                   [](const Slot& slot) { return slot.id != kFree; });
      forget_places();
      build(std::move(added), compute);
    } else {
      append(added, compute);
    }
  }

  void clear(std::uint32_t place) override {
    slots_[place].id = kFree;
    --held_;
    ++changes_;
    if (!projection_) return;
    for (std::size_t level = 0; level < kByteLevels; ++level) {
      starts(level, place / kTile)[place % kTile] = ByteProjection::kNever;
    }
  }

  void move(std::uint32_t place, const VectorView& to) override {
    slots_[place].row = to.byte_row(0);
  }

 private:
  struct Slot {
    const std::uint8_t* row;
    std::int64_t id;
    std::int32_t rest;  // ‖b‖² − 256 Σ b, what a product lacks to a distance
  };

  // ---- the layout ----------------------------------------------------------------------------

  void build(std::vector<Slot> all, Compute& compute) {
    slots_.clear();
    held_ = changes_ = 0;
    for (std::size_t level = 0; level < kByteLevels; ++level) {
      tiles_[level].clear();
      errors_[level] = 0;
    }
    projection_.reset();
    const std::size_t d = dimension();
    if (all.size() >= kFewVectors && d >= kFewNumbers && d <= kernels::kMostExactBytes) {
      std::vector<const std::uint8_t*> rows;
      rows.reserve(all.size());
      for (const Slot& slot : all) rows.push_back(slot.row);
      projection_.emplace(rows, d, compute);
    }
    append(all, compute);
  }

  void append(std::vector<Slot>& added, Compute& compute) {
    std::vector<ProjectedBytes> projected = projected_of(added, compute);
    std::vector<std::uint32_t> order(added.size());
    std::iota(order.begin(), order.end(), 0u);
    if (projection_) {
      Vectors points(added.size(), kByteWidths[0]);
      for (std::size_t i = 0; i < added.size(); ++i) {
        ByteProjection::coordinates(projected[i].levels[0], points.row(i));
      }
      order = order_in_tiles(points);
    }
    for (const std::uint32_t i : order) {
      const auto place = static_cast<std::uint32_t>(slots_.size());
      know_place(added[i].id, place);
      slots_.push_back(added[i]);
      if (projection_) write(place, projected[i]);
    }
    held_ += added.size();
  }

  std::vector<ProjectedBytes> projected_of(std::vector<Slot>& some, Compute& compute) const {
    std::vector<ProjectedBytes> out(projection_ ? some.size() : 0);
    constexpr std::size_t kBlock = 64;
    compute.threads().run((some.size() + kBlock - 1) / kBlock, [&](std::size_t b, std::size_t) {
      const std::size_t end = std::min(some.size(), (b + 1) * kBlock);
      for (std::size_t i = b * kBlock; i < end; i += kScanPoints) {
        const std::size_t n = std::min(kScanPoints, end - i);
        const std::uint8_t* rows[kScanPoints];
        for (std::size_t j = 0; j < n; ++j) rows[j] = some[i + j].row;
        if (projection_) projection_->project(rows, n, &out[i]);
        for (std::size_t j = 0; j < n; ++j) some[i + j].rest = rest_of(norm_of(rows[j]));
      }
    });
    return out;
  }

  static std::int32_t rest_of(const kernels::ByteNorm& norm) {
    return norm.squares - 256 * norm.sum;
  }
  kernels::ByteNorm norm_of(const std::uint8_t* row) const {
    if (dimension() > kernels::kMostExactBytes) return {};
    return kernels::byte_norm(row, dimension());
  }

  const kernels::TileRow* tile(std::size_t level, std::size_t t) const {
    return tiles_[level].data() + t * kernels::tile_rows(kByteWidths[level]);
  }
  std::int32_t* starts(std::size_t level, std::size_t t) {
    return tiles_[level][(t + 1) * kernels::tile_rows(kByteWidths[level]) - 1].lanes;
  }

  void write(std::uint32_t place, const ProjectedBytes& projected) {
    const std::size_t t = place / kTile;
    const std::size_t lane = place % kTile;
    for (std::size_t level = 0; level < kByteLevels; ++level) {
      const std::size_t width = kByteWidths[level];
      std::vector<kernels::TileRow>& rows = tiles_[level];
      if (lane == 0) {
        rows.resize(rows.size() + kernels::tile_rows(width));
        std::fill_n(starts(level, t), kTile, ByteProjection::kNever);
      }
      const ByteSteps& steps = projected.levels[level];
      for (std::size_t j = 0; j < width; ++j) {
        auto* four = reinterpret_cast<std::int8_t*>(
            rows[t * kernels::tile_rows(width) + j / 4].lanes + lane);
        four[j % 4] = static_cast<std::int8_t>(int{steps.bytes[j]} - 128);
      }
      starts(level, t)[lane] = ByteProjection::start(steps, width);
      errors_[level] = std::max(errors_[level], steps.error);
    }
  }

  std::size_t tiles() const { return (slots_.size() + kTile - 1) / kTile; }

  // ---- searching -----------------------------------------------------------------------------

  void search_group(const VectorView& queries, std::size_t k, ByteScratch& scratch,
                    float* distances, std::int64_t* ids) const {
    const std::span<ByteAsked> asked(scratch.group.data(), queries.rows);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      asked[i].begin(queries.byte_row(i));
    }
    // The sketch may settle next to nothing (noise without structure); then blocks cost less.
    const bool useless = scratch.looked_at > 1000000 && scratch.exact * 3 > scratch.looked_at;
    if (!projection_ || useless) {
      search_blocks(asked, k, scratch);
    } else {
      search_tiles(asked, k, scratch);
    }
    for (std::size_t i = 0; i < asked.size(); ++i) {
      for (std::size_t j = 0; j < asked[i].found.size(); ++j) {
        distances[i * k + j] = std::sqrt(asked[i].found[j].distance);
        ids[i * k + j] = asked[i].found[j].id;
      }
    }
  }

  void search_tiles(std::span<ByteAsked> asked, std::size_t k, ByteScratch& scratch) const {
    for (std::size_t first = 0; first < asked.size(); first += kScanPoints) {
      project(asked.subspan(first, std::min(kScanPoints, asked.size() - first)));
    }
    scan(asked, scratch);
    for (std::size_t first = 0; first < asked.size(); first += kScanPoints) {
      search_four(asked.subspan(first, std::min(kScanPoints, asked.size() - first)),
                  scratch.most.data() + first * tiles(), k, scratch);
    }
    scratch.looked_at += asked.size() * size();
  }

  void project(std::span<ByteAsked> four) const {
    const std::uint8_t* rows[kScanPoints] = {};
    ProjectedBytes projected[kScanPoints];
    for (std::size_t i = 0; i < four.size(); ++i) rows[i] = four[i].row;
    projection_->project(rows, four.size(), projected);
    for (std::size_t i = 0; i < four.size(); ++i) four[i].projected = projected[i];
  }

  // The short sketch's largest value of each tile for each query, some tiles at a time, so that
  // they are in cache for all. Fours are made up by the last query.
  void scan(std::span<ByteAsked> asked, ByteScratch& scratch) const {
    constexpr std::size_t kTilesTogether = 16;
    scratch.most.resize((asked.size() + kScanPoints - 1) / kScanPoints * kScanPoints * tiles());
    for (std::size_t t = 0; t < tiles(); t += kTilesTogether) {
      const std::size_t n = std::min(kTilesTogether, tiles() - t);
      for (std::size_t first = 0; first < asked.size(); first += kScanPoints) {
        const std::uint8_t* points[kScanPoints];
        for (std::size_t i = 0; i < kScanPoints; ++i) {
          const ByteAsked& q = asked[std::min(first + i, asked.size() - 1)];
          points[i] = q.projected.levels[0].bytes.data();
        }
        kernels::tile_maxima(points, tile(0, t), n, kByteWidths[0],
                             scratch.most.data() + first * tiles() + t * kScanPoints);
      }
    }
  }

  // Queries that stand next to each other mostly need the same tiles, which are read once for four.
  void search_four(std::span<ByteAsked> four, const std::int32_t* most, std::size_t k,
                   ByteScratch& scratch) const {
    for (ByteAsked& q : four) set_gates(q, k);
    guess(four, most, k, scratch);
    const std::size_t near = near_tiles(four, most, scratch);
    scratch.left.clear();
    scratch.values.clear();
    for (std::size_t j = 0; j < near; ++j) {
      const std::size_t t = scratch.near[j];
      const std::uint8_t* points[kScanPoints];
      std::size_t asking[kScanPoints];
      std::int32_t gates[kScanPoints];
      std::size_t n = 0;
      for (std::size_t i = 0; i < four.size(); ++i) {
        if (most[t * kScanPoints + i] < four[i].gates[0]) continue;
        points[n] = four[i].projected.levels[1].bytes.data();
        gates[n] = four[i].gates[1];
        asking[n++] = i;
      }
      std::int32_t values[kScanPoints * kTile];
      std::uint64_t lanes[kScanPoints];
      kernels::tile_scan(points, n, tile(1, t), kByteWidths[1], gates, values, lanes);
      LeftOver left{t, {}, scratch.values.size()};
      for (std::size_t i = 0; i < n; ++i) {
        left.lanes[asking[i]] =
            take_up(four[asking[i]], t, lanes[i], values + i * kTile, k, scratch);
      }
      if (all_lanes(left) != 0) scratch.left.push_back(left);
    }
    for (const LeftOver& left : scratch.left) measure_left(four, left, k, scratch);
  }

  std::size_t near_tiles(std::span<const ByteAsked> four, const std::int32_t* most,
                         ByteScratch& scratch) const {
    std::int32_t gates[kScanPoints];
    for (std::size_t i = 0; i < kScanPoints; ++i) {
      gates[i] = i < four.size() ? four[i].gates[0] : std::numeric_limits<std::int32_t>::max();
    }
    scratch.near.resize(tiles() + kScanPoints);
    return kernels::tiles_at_least(most, tiles(), gates, scratch.near.data());
  }

  void set_gates(ByteAsked& q, std::size_t k) const {
    const float best =
        q.found.size() < k ? std::numeric_limits<float>::infinity() : q.found.back().distance;
    for (std::size_t level = 0; level < kByteLevels; ++level) {
      q.gates[level] = projection_->gate(level, q.projected.levels[level], best, errors_[level]);
    }
  }

  // Measures, for each, the k that look nearest of the tile that has the one that looks nearest of
  // all.
  void guess(std::span<ByteAsked> four, const std::int32_t* most, std::size_t k,
             ByteScratch& scratch) const {
    std::int32_t largest[kScanPoints];
    kernels::largest_of_tiles(most, tiles(), largest);
    scratch.near.resize(tiles() + kScanPoints);
    const std::size_t n = kernels::tiles_at_least(most, tiles(), largest, scratch.near.data());
    for (std::size_t j = n; j-- > 0;) {
      const std::size_t t = scratch.near[j];
      for (std::size_t i = 0; i < four.size(); ++i) {
        if (most[t * kScanPoints + i] == largest[i]) four[i].first_tile = t;
      }
    }
    for (ByteAsked& q : four) measure_likeliest(q, k, scratch);
  }

  void measure_likeliest(ByteAsked& q, std::size_t k, ByteScratch& scratch) const {
    std::int32_t values[kTile];
    const std::uint8_t* point = q.projected.levels[1].bytes.data();
    kernels::tile_products(&point, 1, tile(1, q.first_tile), kByteWidths[1], values);
    std::uint32_t places[kTile];
    std::size_t n = 0;
    for (; n < std::min(k, kTile); ++n) {
      const auto lane = static_cast<std::size_t>(std::max_element(values, values + kTile) - values);
      if (values[lane] < q.gates[1]) break;  // no vector there
      if (n == 0) q.nearest = values[lane];
      values[lane] = ByteProjection::kNever;
      q.first_lanes |= std::uint64_t{1} << lane;
      places[n] = static_cast<std::uint32_t>(q.first_tile * kTile + lane);
    }
    measure(q, places, n, k, scratch);
  }

  // Of a tile's lanes that the long sketch leaves, the one that looks nearer than anything before
  // is measured at once. Returns the others.
  std::uint64_t take_up(ByteAsked& q, std::size_t t, std::uint64_t lanes,
                        const std::int32_t* values, std::size_t k, ByteScratch& scratch) const {
    if (t == q.first_tile) lanes &= ~q.first_lanes;
    std::size_t top = kTile;
    for (std::uint64_t bits = lanes; bits != 0; bits &= bits - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(bits));
      if (values[lane] <= q.nearest) continue;
      q.nearest = values[lane];
      top = lane;
    }
    if (top != kTile) {
      const auto place = static_cast<std::uint32_t>(t * kTile + top);
      measure(q, &place, 1, k, scratch);
      lanes &= ~(std::uint64_t{1} << top);
    }
    for (std::uint64_t bits = lanes; bits != 0; bits &= bits - 1) {
      scratch.values.push_back(values[std::countr_zero(bits)]);
    }
    return lanes;
  }

  static std::uint64_t all_lanes(const LeftOver& left) {
    return left.lanes[0] | left.lanes[1] | left.lanes[2] | left.lanes[3];
  }

  // All distances between the queries and the vectors of a tile that one of them needs: a block
  // costs less than the pairs of it one by one.
  void measure_left(std::span<ByteAsked> four, LeftOver left, std::size_t k,
                    ByteScratch& scratch) const {
    exclude(four, left, scratch.values.data() + left.values);
    const std::uint8_t* queries[kScanPoints];
    std::size_t asking[kScanPoints];
    std::size_t n = 0;
    for (std::size_t i = 0; i < four.size(); ++i) {
      if (left.lanes[i] == 0) continue;
      queries[n] = four[i].row;
      asking[n++] = i;
    }
    const std::uint8_t* rows[kTile];
    std::size_t lane_of[kTile];
    std::size_t m = 0;
    for (std::uint64_t bits = all_lanes(left); bits != 0; bits &= bits - 1, ++m) {
      lane_of[m] = static_cast<std::size_t>(std::countr_zero(bits));
      rows[m] = slots_[left.tile * kTile + lane_of[m]].row;
    }
    std::int32_t products[kScanPoints * kTile];
    kernels::byte_products(queries, n, rows, m, dimension(), products);
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t lanes = left.lanes[asking[i]];
      scratch.exact += static_cast<std::uint64_t>(std::popcount(lanes));
      bool nearer = false;
      for (std::size_t j = 0; j < m; ++j) {
        if ((lanes >> lane_of[j] & 1) == 0) continue;
        nearer |=
            found(four[asking[i]], slots_[left.tile * kTile + lane_of[j]], products[i * m + j], k);
      }
      if (nearer) set_gates(four[asking[i]], k);
    }
  }

  // What was left may be excluded by what has been measured since.
  static void exclude(std::span<const ByteAsked> four, LeftOver& left, const std::int32_t* values) {
    for (std::size_t i = 0; i < four.size(); ++i) {
      for (std::uint64_t bits = left.lanes[i]; bits != 0; bits &= bits - 1) {
        if (*values++ < four[i].gates[1]) left.lanes[i] ^= bits & (~bits + 1);
      }
    }
  }

  void measure(ByteAsked& q, const std::uint32_t* places, std::size_t n, std::size_t k,
               ByteScratch& scratch) const {
    const std::uint8_t* rows[kTile];
    std::int32_t products[kTile];
    for (std::size_t i = 0; i < n; ++i) rows[i] = slots_[places[i]].row;
    kernels::byte_products(&q.row, 1, rows, n, dimension(), products);
    scratch.exact += n;
    bool nearer = false;
    for (std::size_t i = 0; i < n; ++i) {
      nearer |= found(q, slots_[places[i]], products[i], k);
    }
    if (nearer) set_gates(q, k);
  }

  static bool found(ByteAsked& q, const Slot& slot, std::int32_t product, std::size_t k) {
    const std::int32_t distance = q.projected.norm.squares + slot.rest - 2 * product;
    return insert_neighbour(q.found, {static_cast<float>(distance), slot.id}, k);
  }

  // ---- without a sketch ----------------------------------------------------------------------

  void search_blocks(std::span<ByteAsked> asked, std::size_t k, ByteScratch& scratch) const {
    const std::uint8_t* queries[kByteGroup];
    for (std::size_t i = 0; i < asked.size(); ++i) queries[i] = asked[i].row;
    std::vector<float> distances(asked.size() * kTile);
    for (std::size_t at = 0; at < slots_.size();) {
      const std::uint8_t* rows[kTile];
      std::int64_t ids[kTile];
      std::size_t n = 0;
      for (; at < slots_.size() && n < kTile; ++at) {
        if (slots_[at].id == kFree) continue;
        rows[n] = slots_[at].row;
        ids[n++] = slots_[at].id;
      }
      kernels::squared_distances(queries, asked.size(), rows, n, dimension(), distances.data());
      for (std::size_t i = 0; i < asked.size(); ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          insert_neighbour(asked[i].found, {distances[i * n + j], ids[j]}, k);
        }
      }
    }
    scratch.exact += asked.size() * size();
    scratch.looked_at += asked.size() * size();
  }

  std::optional<ByteProjection> projection_;  // none: all distances are computed
  std::vector<Slot> slots_;
  std::array<std::vector<kernels::TileRow>, kByteLevels> tiles_;
  std::array<float, kByteLevels> errors_{};  // no vector's is larger
  std::size_t held_ = 0;
  std::size_t changes_ = 0;  // since the layout was made
};

}  // namespace

std::unique_ptr<VectorIndex> make_byte_index(VectorView vectors, Compute& compute) {
  return std::make_unique<ByteIndex>(vectors, compute);
}

}  // namespace contcore
