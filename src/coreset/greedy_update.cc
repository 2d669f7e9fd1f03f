#include "coreset/greedy_update.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace contcore {
namespace {

// The centres in [first, end) whose bits are set, bit 0 being `begin`.
void collect_open(const std::uint64_t* masks, std::size_t tiles, std::size_t begin,
                  std::size_t first, std::size_t end, OpenCentres& out) {
  out.centre.clear();
  for (std::size_t t = 0; t < tiles; ++t) {
    const std::size_t start = begin + t * kernels::kTile;
    std::uint64_t bits = masks[t];
    if (first > start) {
      bits &= first - start < kernels::kTile ? ~std::uint64_t{0} << (first - start) : 0;
    }
    if (end < start + kernels::kTile) bits &= (std::uint64_t{1} << (end - start)) - 1;
    for (; bits != 0; bits &= bits - 1) {
      out.centre.push_back(static_cast<std::uint32_t>(start) +
                           static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
  }
}

// Small and hot: known to this file alone, all of it is inlined.
class SketchUpdate {
 public:
  explicit SketchUpdate(GreedyState& state) : state_(state) {}

  void update(const std::uint32_t* ids, std::size_t n, float threshold, GreedyWorker& worker);
  void resolve_pending(std::uint32_t id, GreedyWorker& worker);

 private:
  // A point while it is compared.
  struct Point {
    std::uint32_t id = 0;
    const std::uint8_t* sketch = nullptr;
    float best = 0;
    double reach = 0;  // of the sketch, for that best
    PendingCentres pending = kNothingPending;
  };

  // Centres that were scanned: `tiles` tiles from the `tile`-th on, up to the `end`-th centre.
  struct Chunk {
    std::size_t tile = 0, tiles = 0, end = 0;
    const std::uint64_t* masks = nullptr;  // of each point, tile after tile
  };

  Point load(std::uint32_t id) const;
  void scan_centres(Point* points, std::size_t n, std::vector<std::uint32_t>& seen, std::size_t end,
                    float threshold, GreedyWorker& worker) const;
  void compare_chunk(Point* points, std::size_t n, std::vector<std::uint32_t>& seen,
                     const Chunk& chunk, float threshold, GreedyWorker& worker) const;
  bool filter(Point& p, float threshold, OpenCentres& open, PairCounts& counts) const;
  void filter_by_sketch(const Point& p, OpenCentres& open) const;
  bool refine(Point& p, float threshold, const OpenCentres& open, PairCounts& counts,
              GreedyWorker& worker) const;
  bool set_pending(Point& p, const OpenCentres& open, std::size_t k) const;
  bool leave_pending(Point& p, float threshold, const OpenCentres& open) const;
  void lower_best(Point& p, float best) const;
  void resolve(Point& p, GreedyWorker& worker) const;
  float nearest_of(const std::uint32_t* centres, std::size_t n, GreedyWorker& worker) const;

  GreedyState& state_;
};

SketchUpdate::Point SketchUpdate::load(std::uint32_t i) const {
  Point p;
  p.id = i;
  p.sketch = state_.sketches.byte_row(i);
  p.best = state_.bound[i];
  p.pending = state_.pending[i];
  p.reach = state_.sketch.reach(p.best);
  return p;
}

// The picks first, of which one is likely to be near, then the base.
void SketchUpdate::update(const std::uint32_t* ids, std::size_t n, float threshold,
                          GreedyWorker& worker) {
  std::array<Point, kernels::kScanPoints> points;
  for (std::size_t i = 0; i < n; ++i) points[i] = load(ids[i]);
  scan_centres(points.data(), n, state_.seen, state_.centres.size(), threshold, worker);
  if (state_.base.rows > 0) {
    scan_centres(points.data(), n, state_.base_seen, state_.base.rows, threshold, worker);
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (points[i].best >= threshold) resolve(points[i], worker);
    state_.bound[ids[i]] = points[i].best;
    state_.pending[ids[i]] = points[i].pending;
  }
}

// Compares points with the centres from what they have `seen` to `end`, a chunk at a time, each
// point until it is below the threshold.
void SketchUpdate::scan_centres(Point* points, std::size_t n, std::vector<std::uint32_t>& seen,
                                std::size_t end, float threshold, GreedyWorker& worker) const {
  std::array<std::uint64_t, kernels::kScanPoints * Centres::kChunkTiles> masks;
  const std::uint8_t* sketches[kernels::kScanPoints];
  std::int32_t gate[kernels::kScanPoints];
  std::size_t from = end;
  for (std::size_t i = 0; i < n; ++i) {
    sketches[i] = points[i].sketch;
    if (points[i].best >= threshold) from = std::min<std::size_t>(from, seen[points[i].id]);
  }
  for (std::size_t tile = from / kernels::kTile; tile * kernels::kTile < end;) {
    const std::size_t within = tile % Centres::kChunkTiles;
    const std::size_t last = (end + kernels::kTile - 1) / kernels::kTile;
    // One tile of the base is often enough to drop a point; the picks are few anyway.
    const std::size_t most =
        end == state_.base.rows && tile == 0 ? 1 : Centres::kChunkTiles - within;
    const std::size_t tiles = std::min(most, last - tile);
    bool open = false;
    for (std::size_t i = 0; i < n; ++i) {
      open |= points[i].best >= threshold;
      gate[i] = points[i].best >= threshold ? state_.sketch.gate(points[i].sketch, points[i].reach)
                                            : StepSketch::kShut;
    }
    if (!open) return;
    kernels::scan_steps(sketches, gate, n,
                        state_.centres.tiles(tile / Centres::kChunkTiles) +
                            within * kernels::step_tile_bytes(state_.sketch.width()),
                        tiles, state_.sketch.width(), masks.data());
    compare_chunk(points, n, seen, {tile, tiles, end, masks.data()}, threshold, worker);
    tile += tiles;
  }
}

// Takes the centres of a chunk that the scan left open further. Full vectors are asked for when the
// sketch is done with all points, and are read after that.
void SketchUpdate::compare_chunk(Point* points, std::size_t n, std::vector<std::uint32_t>& seen,
                                 const Chunk& chunk, float threshold, GreedyWorker& worker) const {
  const std::size_t start = chunk.tile * kernels::kTile;
  const std::size_t stop = std::min(chunk.end, start + chunk.tiles * kernels::kTile);
  bool touch[kernels::kScanPoints] = {};
  std::uint32_t before[kernels::kScanPoints] = {};
  PendingCentres pending[kernels::kScanPoints];
  PairCounts counts[kernels::kScanPoints];
  for (std::size_t i = 0; i < n; ++i) {
    Point& p = points[i];
    const std::size_t first = std::max<std::size_t>(seen[p.id], start);
    if (p.best < threshold || first >= stop) continue;
    counts[i] = {};
    counts[i].scanned = stop - first;
    collect_open(chunk.masks + i * chunk.tiles, chunk.tiles, start, first, stop, worker.open[i]);
    before[i] = seen[p.id];
    pending[i] = p.pending;
    seen[p.id] = static_cast<std::uint32_t>(stop);
    touch[i] = !filter(p, threshold, worker.open[i], counts[i]);
    if (touch[i]) {
      prefetch_row(state_.points, p.id);
    } else {
      worker.counts.add(counts[i]);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (!touch[i]) continue;
    Point& p = points[i];
    if (refine(p, threshold, worker.open[i], counts[i], worker)) {
      worker.counts.add(counts[i]);
    } else {  // to be seen again, and counted then
      seen[p.id] = before[i];
      p.pending = pending[i];
      worker.counts.full += counts[i].full;
      worker.counts.touched += counts[i].touched;
    }
  }
}

// What the sketch says of one point's candidates. Returns whether that is all for now: otherwise
// those left need full distances.
bool SketchUpdate::filter(Point& p, float threshold, OpenCentres& open, PairCounts& counts) const {
  counts.passed += open.centre.size();
  if (open.centre.empty()) return true;
  for (const std::uint32_t c : p.pending) {
    if (c != kNoCentre) open.centre.push_back(c);
  }
  filter_by_sketch(p, open);
  p.pending = kNothingPending;
  const std::size_t n = open.centre.size();
  open.order.resize(n);
  for (std::size_t i = 0; i < n; ++i) open.order[i] = i;
  if (n > 1) {
    std::sort(open.order.begin(), open.order.end(),
              [&](std::size_t a, std::size_t b) { return open.acc[a] > open.acc[b]; });
  }
  return n == 0 || leave_pending(p, threshold, open);
}

// Full distances of a point to its open candidates, likeliest first: they may settle the rest, or
// take the point below the threshold, and then the rest can wait. Returns false when too many
// wait to be kept as pending: the point then has not seen these candidates.
bool SketchUpdate::refine(Point& p, float threshold, const OpenCentres& open, PairCounts& counts,
                          GreedyWorker& worker) const {
  const std::size_t n = open.order.size();
  worker.points.reset(state_.points.cols, 1);
  worker.points.add(state_.points, p.id);
  ++counts.touched;
  for (std::size_t k = 0; k < n;) {
    const std::int32_t gate = state_.sketch.gate(p.sketch, p.reach);
    const std::size_t most = k == 0 ? 1 : 4;
    std::uint32_t centres[4];
    std::size_t taken = 0;
    while (k < n && taken < most && open.acc[open.order[k]] >= gate) {
      centres[taken++] = open.centre[open.order[k++]];
    }
    if (taken == 0) break;
    counts.exact += taken;
    counts.full += taken;
    lower_best(p, nearest_of(centres, taken, worker));
    if (p.best < threshold) return set_pending(p, open, k);
  }
  return true;
}

// Leaves the open candidates from the k-th likeliest on for later, if they are few enough.
bool SketchUpdate::set_pending(Point& p, const OpenCentres& open, std::size_t k) const {
  const std::int32_t gate = state_.sketch.gate(p.sketch, p.reach);
  std::size_t end = k;
  while (end < open.order.size() && open.acc[open.order[end]] >= gate) {
    if (++end - k > kMostPending) return false;
  }
  for (std::size_t i = k; i < end; ++i) p.pending[i - k] = open.centre[open.order[i]];
  return true;
}

void SketchUpdate::lower_best(Point& p, float best) const {
  if (best >= p.best) return;
  p.best = best;
  p.reach = state_.sketch.reach(best);
}

// If the sketch's own upper bound takes the point below the threshold and few candidates remain,
// they can wait.
bool SketchUpdate::leave_pending(Point& p, float threshold, const OpenCentres& open) const {
  const std::size_t top = open.order[0];
  const float high = state_.sketch.upper(p.sketch, open.sketch[top], open.dot[top]);
  if (high >= threshold) return false;
  lower_best(p, high);
  return set_pending(p, open, 0);
}

// The candidates' values; those that a bound lowered since the scan excludes are dropped.
void SketchUpdate::filter_by_sketch(const Point& p, OpenCentres& open) const {
  const std::size_t n = open.centre.size();
  open.sketch.resize(n);
  open.acc.resize(n);
  open.dot.resize(n);
  for (std::size_t i = 0; i < n; ++i) open.sketch[i] = state_.centres.sketch_of(open.centre[i]);
  kernels::step_dots(p.sketch, open.sketch.data(), n, state_.sketch.width(), open.dot.data());
  const std::int32_t gate = state_.sketch.gate(p.sketch, p.reach);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t acc = open.dot[i] + state_.centres.half_norm(open.centre[i]);
    if (acc < gate) continue;
    open.centre[kept] = open.centre[i];
    open.sketch[kept] = open.sketch[i];
    open.acc[kept] = acc;
    open.dot[kept++] = open.dot[i];
  }
  open.centre.resize(kept);
}

// Full distances to the pending centres, after which the bound is exact: the minimum over all
// centres seen is the bound itself or a pending centre's.
void SketchUpdate::resolve(Point& p, GreedyWorker& worker) const {
  std::size_t n = 0;
  while (n < kMostPending && p.pending[n] != kNoCentre) ++n;
  if (n == 0) return;
  worker.points.reset(state_.points.cols, 1);
  worker.points.add(state_.points, p.id);
  ++worker.counts.touched;
  worker.counts.exact += n;
  worker.counts.full += n;
  const float nearest = nearest_of(p.pending.data(), n, worker);
  p.pending = kNothingPending;
  lower_best(p, nearest);
}

// Of worker.points, which is one.
float SketchUpdate::nearest_of(const std::uint32_t* centres, std::size_t n,
                               GreedyWorker& worker) const {
  worker.centres.reset(state_.points.cols, n);
  worker.distances.resize(n);
  for (std::size_t i = 0; i < n; ++i) worker.centres.add(state_.centres.vector(centres[i]), 0);
  worker.points.measure(worker.centres, worker.distances.data());
  return *std::min_element(worker.distances.begin(),
                           worker.distances.begin() + static_cast<std::ptrdiff_t>(n));
}

void SketchUpdate::resolve_pending(std::uint32_t id, GreedyWorker& worker) {
  if (state_.pending[id] == kNothingPending) return;
  Point p = load(id);
  resolve(p, worker);
  state_.bound[id] = p.best;
  state_.pending[id] = kNothingPending;
}

}  // namespace

void update_by_sketch(GreedyState& state, const std::uint32_t* ids, std::size_t n, float threshold,
                      GreedyWorker& worker) {
  SketchUpdate(state).update(ids, n, threshold, worker);
}

void resolve_pending(GreedyState& state, std::uint32_t id, GreedyWorker& worker) {
  SketchUpdate(state).resolve_pending(id, worker);
}

}  // namespace contcore
