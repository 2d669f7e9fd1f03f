// The public face, and the search of floats: a cascade of ever dearer tests, each of which
// certifies that a vector, or a whole tile of them, is farther than the best found so far
// (coreset/tiles.h has the layout). All tiles are scanned first; the vector that looks nearest is
// measured, which excludes most tiles. What no sketch can exclude waits in a list until the
// likeliest have been measured.
#include "contcore/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>

#include "base/rows.h"
#include "contcore/error.h"
#include "coreset/kernels.h"
#include "coreset/sketch.h"
#include "coreset/tiles.h"
#include "coreset/vector_index.h"

namespace contcore {
namespace {

constexpr std::size_t kBatch = 8192;     // queries or vectors sketched at a time
constexpr std::size_t kMostGroup = 128;  // queries that share a tile while it is in cache
constexpr std::size_t kMostOpen = 2048;  // candidates that wait for one query

std::vector<std::size_t> choose_widths(VectorView vectors) {
  if (vectors.rows < 256 || vectors.cols < 64) return {};
  if (vectors.cols < 128) return {16};
  if (vectors.cols < 512 || vectors.rows < 1024) return {64};
  return {64, 192};
}

struct Candidate {
  float acc;  // the last level's test value: the larger, the nearer
  std::uint32_t place;
};

struct Query {
  const float* row = nullptr;
  const float* sketch = nullptr;
  double reach = std::numeric_limits<double>::infinity();  // of the k-th best found
  float last_gate = -kInfinity;                            // of the last level
  float nearest_acc = -kInfinity;    // the largest of the last level's values measured so far
  std::vector<Neighbour> found;      // at most k, sorted
  std::vector<std::uint32_t> first;  // places measured as a first guess, sorted
  std::vector<Candidate> open;       // passed every level, not measured
};

struct Scratch {
  std::vector<float> most;  // of each query and tile
  std::vector<std::uint32_t> places;
  std::vector<std::uint32_t> near;
  std::vector<const float*> sketches;
  std::vector<float> dots;
  std::vector<Candidate> order;
  std::vector<float> widened;
  std::vector<const float*> rows;
  std::vector<float> distances;
  std::uint64_t looked_at = 0;
  std::uint64_t exact = 0;
};

class FloatIndex final : public VectorIndex {
 public:
  FloatIndex(VectorView vectors, Compute& compute, const std::string& name)
      : VectorIndex(vectors, Scalar::kFloat32),
        d(vectors.cols),
        sketch(vectors, {}, choose_widths(vectors), compute),
        tiles(sketch) {
    std::vector<Vectors> sketches;
    for_batches(vectors, name, compute, [&](std::size_t, const VectorView&, Vectors s) {
      sketches.push_back(std::move(s));
    });
    tiles.build(vectors, std::move(sketches), kBatch);
    next_id_ = static_cast<std::int64_t>(vectors.rows);
  }

  std::size_t size() const override { return tiles.size(); }

  // Sketches vectors a batch at a time; use(first, batch, sketches).
  template <typename Use>
  void for_batches(const VectorView& vectors, const std::string& name, Compute& compute,
                   Use use) const {
    for (std::size_t first = 0; first < vectors.rows; first += kBatch) {
      const VectorView batch = vectors.part(first, std::min(kBatch, vectors.rows - first));
      Vectors sketches;
      try {
        sketches = sketch.embed(batch, name, compute);
      } catch (const Error&) {
        throw_bad_row(vectors, name);  // with the row's number in the whole
      }
      use(first, batch, std::move(sketches));
    }
  }

  NearestResult search(VectorView queries, std::size_t k, Compute& compute, const std::string& name,
                       const Progress& progress) const override {
    NearestResult result;
    result.k = k;
    result.distances.assign(queries.rows * k, kInfinity);
    result.ids.assign(queries.rows * k, kFree);
    std::vector<Scratch> scratch(compute.threads().count());
    for_batches(
        queries, name, compute,
        [&](std::size_t at, const VectorView& batch, const Vectors& sketches) {
          const std::size_t n = batch.rows;
          const std::size_t group =
              std::clamp<std::size_t>(n / (8 * compute.threads().count()) / 4 * 4, 4, kMostGroup);
          compute.threads().run((n + group - 1) / group, [&](std::size_t item, std::size_t worker) {
            const std::size_t first = item * group;
            if (worker == 0) report(progress, part_done(at + first, queries.rows));
            search_group(batch, sketches, first, std::min(group, n - first), k, scratch[worker],
                         result.distances.data() + (at + first) * k,
                         result.ids.data() + (at + first) * k);
          });
          report(progress, part_done(at + n, queries.rows));
        });
    for (const Scratch& s : scratch) result.exact += s.exact;
    return result;
  }

 protected:
  std::size_t places() const override { return tiles.places(); }
  std::int64_t id_at(std::size_t place) const override { return tiles.id(place); }
  VectorView vector_at(std::size_t place) const override { return tiles.vector(place); }
  const float* centre() const override { return sketch.centre(); }

  void put(const VectorView& vectors, std::int64_t first_id, Compute& compute,
           const std::string& name) override {
    std::vector<Vectors> sketches;  // all of them first: nothing is added if one is bad
    for_batches(vectors, name, compute, [&](std::size_t, const VectorView&, Vectors s) {
      sketches.push_back(std::move(s));
    });
    for (std::size_t i = 0; i < vectors.rows; ++i) {
      const float* row = sketches[i / kBatch].row(i % kBatch);
      const std::int64_t id = first_id + static_cast<std::int64_t>(i);
      know_place(id, tiles.put(vectors, i, row, id));
    }
  }

  void clear(std::uint32_t place) override { tiles.clear(place); }
  void move(std::uint32_t place, const VectorView& to) override { tiles.relocate(place, to); }

 private:
  void search_group(const VectorView& queries, const Vectors& sketches, std::size_t first,
                    std::size_t count, std::size_t k, Scratch& scratch, float* distances,
                    std::int64_t* ids) const {
    std::vector<Query> group(count);
    std::vector<float> widened(queries.scalar == Scalar::kFloat32 ? 0 : count * d);
    for (std::size_t i = 0; i < count; ++i) {
      group[i].row = queries.row(first + i, widened.empty() ? nullptr : widened.data() + i * d);
      group[i].sketch = sketches.row(first + i);
    }
    std::size_t done = 0;
    if (sketch.levels() != 0 && !is_useless(scratch)) done = search_tiles(group, k, scratch);
    if (done < count) search_blocks(std::span(group).subspan(done), k, scratch);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < group[i].found.size(); ++j) {
        distances[i * k + j] = std::sqrt(group[i].found[j].distance);
        ids[i * k + j] = group[i].found[j].id;
      }
    }
  }

  // The sketch may settle next to nothing (noise without structure); then blocks cost less.
  static bool is_useless(const Scratch& scratch) {
    return scratch.looked_at > 100000 && scratch.exact * 6 > scratch.looked_at;
  }

  // ---- through the sketch ------------------------------------------------------------------

  // How many of the queries it has answered, when it turns out to be of no use.
  std::size_t search_tiles(std::vector<Query>& group, std::size_t k, Scratch& scratch) const {
    std::vector<ByteQuery> bytes;
    bytes.reserve(group.size());
    for (const Query& q : group) bytes.emplace_back(sketch, q.sketch);
    scan(bytes, scratch);
    for (std::size_t i = 0; i < group.size(); ++i) {
      Query& q = group[i];
      const float* most = scratch.most.data() + i * tiles.tiles();
      set_reach(q, k);
      guess(q, bytes[i], most, k, scratch);
      scratch.near.resize(tiles.tiles());
      const std::size_t near = kernels::not_below(
          most, tiles.tiles(), bytes[i].gate(q.reach, tiles.error()), scratch.near.data());
      for (std::size_t j = 0; j < near; ++j) {
        const std::size_t t = scratch.near[j];
        const float gate = bytes[i].gate(q.reach, tiles.tile(t).error());
        if (most[t] < gate) continue;
        float values[kernels::kTile];
        std::uint32_t lanes[kernels::kTile];
        look_into(bytes[i], t, values);
        const std::size_t n = kernels::not_below(values, kernels::kTile, gate, lanes);
        take_up(q, t, {lanes, n}, k, scratch);
      }
      finish(q, k, scratch);
      scratch.looked_at += tiles.size();
      if (is_useless(scratch)) return i + 1;
    }
    return group.size();
  }

  // The largest value of each tile for each query; a tile is read once for all of them.
  void scan(const std::vector<ByteQuery>& queries, Scratch& scratch) const {
    constexpr std::size_t kPoints = kernels::kScanPoints;
    const std::size_t n = tiles.tiles();
    std::vector<float>& most = scratch.most;
    most.assign(queries.size() * n, -kInfinity);
    for (std::size_t t = 0; t < n; ++t) {
      if (tiles.held(t) == 0) continue;
      for (std::size_t first = 0; first < queries.size(); first += kPoints) {
        const std::size_t count = std::min(kPoints, queries.size() - first);
        const kernels::BytePoint* points[kPoints];
        float largest[kPoints];
        for (std::size_t i = 0; i < count; ++i) points[i] = &queries[first + i].point;
        kernels::scan_bytes(points, count, tiles.tile(t).data(), sketch.width(0), nullptr, largest);
        for (std::size_t i = 0; i < count; ++i) most[(first + i) * n + t] = largest[i];
      }
    }
  }

  void look_into(const ByteQuery& query, std::size_t t, float* values) const {
    const kernels::BytePoint* point = &query.point;
    float largest;
    kernels::scan_bytes(&point, 1, tiles.tile(t).data(), sketch.width(0), values, &largest);
  }

  void set_reach(Query& q, std::size_t k) const {
    const float best = q.found.size() < k ? kInfinity : q.found.back().distance;
    q.reach = sketch.reach(best);
    q.last_gate = sketch.gate(sketch.levels() - 1, q.sketch, q.reach);
  }

  // Measures the k that look nearest of the tile that has the one that looks nearest of all.
  void guess(Query& q, const ByteQuery& bytes, const float* most, std::size_t k,
             Scratch& scratch) const {
    const auto t = static_cast<std::size_t>(std::max_element(most, most + tiles.tiles()) - most);
    if (t == tiles.tiles() || tiles.held(t) == 0) return;  // nothing to be found
    float values[kernels::kTile];
    look_into(bytes, t, values);
    scratch.order.clear();
    for (std::uint64_t bits = tiles.held(t); bits != 0; bits &= bits - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(bits));
      scratch.order.push_back(
          {values[lane], static_cast<std::uint32_t>(t * kernels::kTile + lane)});
    }
    const std::size_t count = std::min(k, scratch.order.size());
    std::partial_sort(
        scratch.order.begin(), scratch.order.begin() + static_cast<std::ptrdiff_t>(count),
        scratch.order.end(), [](const Candidate& a, const Candidate& b) { return a.acc > b.acc; });
    for (std::size_t i = 0; i < count; ++i) q.first.push_back(scratch.order[i].place);
    std::sort(q.first.begin(), q.first.end());
    measure(q, q.first.data(), count, k, scratch);
  }

  // The last level's test values of some of a tile's places, but for those measured already, into
  // scratch.order.
  void rank(const Query& q, std::size_t t, std::span<const std::uint32_t> lanes,
            Scratch& scratch) const {
    const std::size_t last = sketch.levels() - 1;
    scratch.order.clear();
    scratch.sketches.clear();
    for (const std::uint32_t lane : lanes) {
      const auto place = static_cast<std::uint32_t>(t * kernels::kTile + lane);
      if ((tiles.held(t) >> lane & 1) == 0) continue;
      if (std::binary_search(q.first.begin(), q.first.end(), place)) continue;
      scratch.order.push_back({0, place});
      scratch.sketches.push_back(tiles.sketch_of(place));
    }
    const std::size_t n = scratch.order.size();
    scratch.dots.assign(n, 0.0f);
    kernels::add_dots(q.sketch, scratch.sketches.data(), n, 0, sketch.total_width(),
                      scratch.dots.data());
    const float r = sketch.r(q.sketch, last);
    for (std::size_t i = 0; i < n; ++i) {
      scratch.order[i].acc = scratch.dots[i] + r * sketch.r(scratch.sketches[i], last) +
                             tiles.half_norm(scratch.order[i].place);
    }
  }

  // The last level for what is left of a tile. The likeliest is measured at once if it looks nearer
  // than anything before; the others wait.
  void take_up(Query& q, std::size_t t, std::span<const std::uint32_t> lanes, std::size_t k,
               Scratch& scratch) const {
    rank(q, t, lanes, scratch);
    const Candidate* top = nullptr;
    for (const Candidate& o : scratch.order) {
      if (o.acc > q.nearest_acc && (top == nullptr || o.acc > top->acc)) top = &o;
    }
    for (const Candidate& o : scratch.order) {
      if (&o != top && o.acc >= q.last_gate) q.open.push_back(o);
    }
    if (top != nullptr && top->acc >= q.last_gate) {
      q.nearest_acc = top->acc;
      measure(q, &top->place, 1, k, scratch);
    }
    if (q.open.size() > kMostOpen) finish(q, k, scratch);
  }

  // Measures what waits, likeliest first, until the sketch excludes the rest.
  void finish(Query& q, std::size_t k, Scratch& scratch) const {
    std::erase_if(q.open, [&](const Candidate& o) { return o.acc < q.last_gate; });
    std::sort(q.open.begin(), q.open.end(),
              [](const Candidate& a, const Candidate& b) { return a.acc > b.acc; });
    constexpr std::size_t kTogether = 4;
    for (std::size_t i = 0; i < q.open.size();) {
      std::uint32_t places[kTogether];
      std::size_t taken = 0;
      while (i < q.open.size() && taken < kTogether && q.open[i].acc >= q.last_gate) {
        places[taken++] = q.open[i++].place;
      }
      if (taken == 0) break;
      measure(q, places, taken, k, scratch);
    }
    q.open.clear();
  }

  void measure(Query& q, const std::uint32_t* places, std::size_t n, std::size_t k,
               Scratch& scratch) const {
    scratch.widened.resize(n * d);
    scratch.rows.resize(n);
    scratch.distances.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      scratch.rows[i] = tiles.row(places[i], scratch.widened.data() + i * d);
    }
    kernels::squared_distances(&q.row, 1, scratch.rows.data(), n, d, scratch.distances.data());
    scratch.exact += n;
    bool nearer = false;
    for (std::size_t i = 0; i < n; ++i) {
      nearer |= insert_neighbour(q.found, {scratch.distances[i], tiles.id(places[i])}, k);
    }
    if (nearer) set_reach(q, k);
  }

  // ---- without it --------------------------------------------------------------------------

  void search_blocks(std::span<Query> group, std::size_t k, Scratch& scratch) const {
    constexpr std::size_t kQueries = 4;
    constexpr std::size_t kVectors = 64;
    scratch.widened.resize(kVectors * d);
    scratch.rows.resize(kVectors);
    scratch.distances.resize(kQueries * kVectors);
    std::uint32_t places[kVectors];
    for (std::size_t at = 0; at < tiles.places();) {
      std::size_t n = 0;
      for (; at < tiles.places() && n < kVectors; ++at) {
        if (tiles.id(at) == kFree) continue;
        scratch.rows[n] = tiles.row(at, scratch.widened.data() + n * d);
        places[n++] = static_cast<std::uint32_t>(at);
      }
      for (std::size_t first = 0; first < group.size(); first += kQueries) {
        const std::size_t queries = std::min(kQueries, group.size() - first);
        const float* rows[kQueries];
        for (std::size_t i = 0; i < queries; ++i) rows[i] = group[first + i].row;
        kernels::squared_distances(rows, queries, scratch.rows.data(), n, d,
                                   scratch.distances.data());
        scratch.exact += queries * n;
        scratch.looked_at += queries * n;
        for (std::size_t i = 0; i < queries; ++i) {
          for (std::size_t j = 0; j < n; ++j) {
            insert_neighbour(group[first + i].found,
                             {scratch.distances[i * n + j], tiles.id(places[j])}, k);
          }
        }
      }
    }
  }

  std::size_t d;
  Sketch sketch;
  Tiles tiles;
};

}  // namespace

NearestIndex::NearestIndex(VectorView vectors, Compute& compute, const std::string& name) {
  if (vectors.cols == 0) {
    throw Error(Error::Kind::kInput, fmt::format("{}: vectors of no dimensions", name));
  }
  if (vectors.scalar == Scalar::kUint8) {
    index_ = make_byte_index(vectors, compute);
  } else {
    index_ = std::make_unique<FloatIndex>(vectors, compute, name);
  }
}

namespace {

void check_rows(const VectorView& vectors, const std::vector<std::uint32_t>& rows) {
  for (const std::uint32_t row : rows) {
    if (row < vectors.rows) continue;
    throw Error(Error::Kind::kUsage,
                fmt::format("there is no vector {} to index, of {}", row, vectors.rows));
  }
}

}  // namespace

NearestIndex::NearestIndex(VectorView vectors, const std::vector<std::uint32_t>& rows,
                           Compute& compute) {
  check_rows(vectors, rows);
  std::vector<std::uint32_t> first(rows.size());
  std::iota(first.begin(), first.end(), 0U);
  if (rows == first) {
    *this = NearestIndex(vectors.part(0, rows.size()), compute);
    return;
  }
  const Vectors some = gather(vectors, rows);
  *this = NearestIndex(some.view(), compute);
  index_->relocate(vectors, rows, 0);
}

NearestIndex::~NearestIndex() = default;
NearestIndex::NearestIndex(NearestIndex&&) noexcept = default;
NearestIndex& NearestIndex::operator=(NearestIndex&&) noexcept = default;

std::size_t NearestIndex::size() const { return index_->size(); }

std::size_t NearestIndex::dimension() const { return index_->dimension(); }

std::int64_t NearestIndex::add(VectorView vectors, Compute& compute, const std::string& name) {
  return index_->add(vectors, compute, name);
}

std::int64_t NearestIndex::add(VectorView vectors, const std::vector<std::uint32_t>& rows,
                               Compute& compute) {
  check_rows(vectors, rows);
  const Vectors some = gather(vectors, rows);
  const std::int64_t first_id = index_->add(some.view(), compute, "vectors");
  index_->relocate(vectors, rows, first_id);
  return first_id;
}

void NearestIndex::drop(std::span<const std::int64_t> ids) { index_->drop(ids); }

NearestResult NearestIndex::search(VectorView queries, std::size_t k, Compute& compute,
                                   const std::string& name, const Progress& progress) const {
  if (k == 0) throw Error(Error::Kind::kUsage, "k must be at least 1");
  if (k > std::numeric_limits<std::size_t>::max() / sizeof(std::int64_t) /
              std::max<std::size_t>(queries.rows, 1)) {
    throw std::bad_alloc();
  }
  index_->check(queries, name, "memory");
  if (auto found = index_->search_on_gpu(queries, k, compute, name, progress)) {
    return *std::move(found);
  }
  return index_->search(queries, k, compute, name, progress);
}

}  // namespace contcore
