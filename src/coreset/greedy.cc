// Greedy sampling, lazily and in rounds.
//
// A point's distance to the growing set only falls, so an old distance is an upper bound. A round
// takes a threshold θ and
//   1. brings all points with a bound of at least θ up to date with the centres they have not seen,
//      in parallel, each until its bound falls below θ;
//   2. runs plain greedy sampling on the survivors until the largest of them is below θ. All other
//      points are below θ already, so each of these picks is the pick of the plain loop.
// θ changes which work is done when, never the answer.
#include "coreset/greedy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "contcore/distance.h"
#include "contcore/error.h"
#include "coreset/centres.h"
#include "coreset/kernels.h"
#include "coreset/sketch.h"

namespace contcore {
namespace {

constexpr float kPicked = -1;
constexpr std::uint32_t kAlive = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kDenseBlock = 64;
constexpr std::size_t kSwept = 16;
constexpr std::size_t kSweptBase = 4;
constexpr std::size_t kPending = 4;
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// Centres that may or may not be nearer than a point's bound; the rest is kNone.
using Pending = std::array<std::uint32_t, kPending>;
constexpr Pending kNothingPending = {kNone, kNone, kNone, kNone};

// Pairs looked at, and how far each got.
struct Counts {
  std::uint64_t scanned = 0;
  std::array<std::uint64_t, kMaxLevels> passed{};  // what each level of the sketch left open
  std::uint64_t touched = 0;                       // points whose full vector was read
  std::uint64_t exact = 0;                         // full distances after the sketch
  std::uint64_t dense = 0;                         // full distances without it
  std::uint64_t full = 0;                          // full distances, each time one was computed

  void add(const Counts& other) {
    scanned += other.scanned;
    for (std::size_t i = 0; i < kMaxLevels; ++i) passed[i] += other.passed[i];
    touched += other.touched;
    exact += other.exact;
    dense += other.dense;
    full += other.full;
  }
};

// What the cascade has still to settle for one point: centres, with their dot products so far.
struct Candidates {
  std::vector<std::uint32_t> centre;
  std::vector<const float*> y;
  std::vector<float> dot;
  std::vector<float> acc;          // the last level's test value: the larger, the nearer
  std::vector<std::size_t> order;  // by acc, decreasing
};

struct alignas(64) Worker {
  Counts counts;
  std::array<Candidates, kernels::kScanPoints> open;
  std::vector<float> point_scratch;
  std::vector<float> centre_scratch;
  std::vector<const float*> centre_rows;
  std::vector<float> distances;
};

struct Probe {
  std::uint32_t id = 0;
  const float* sketch = nullptr;
  float best = 0;
  double reach = 0;  // of the sketch, for that best
  Pending pending = kNothingPending;
};

class Sampler {
 public:
  Sampler(VectorView points, VectorView base, const GreedyOptions& options, Compute& compute,
          const GreedyTuning& tuning)
      : points_(points),
        base_(base),
        options_(options),
        compute_(compute),
        tuning_(tuning),
        count_(std::min(options.count, points.rows)) {}

  GreedyResult run(const std::vector<float>* initial) {
    prepare(initial);
    while (!finished_) {
      sweep();
      const float threshold = choose_threshold();
      gather(threshold);
      if (active_.empty()) break;  // every point left coincides with a centre
      update_active(threshold);
      keep_active(threshold);
      if (!active_.empty()) sample_active(threshold);
      report();
    }
    report_progress(1.0);
    count_stages();
    return std::move(result_);
  }

 private:
  // ---- preparation -------------------------------------------------------------------------

  void prepare(const std::vector<float>* initial) {
    sketch_ = Sketch(points_, base_, choose_widths(), compute_);
    const double d = static_cast<double>(points_.cols);
    const double rows = static_cast<double>(points_.rows);
    const double embed_cost = rows * d * (static_cast<double>(sketch_.total_width()) + 32);
    const double pick_cost = rows * (static_cast<double>(count_) * 32 + 32 * d);
    prepared_ = embed_cost / (embed_cost + pick_cost);

    const bool from_mean =
        base_.rows == 0 && initial == nullptr && options_.start == GreedyOptions::Start::kMean;
    std::vector<float> mean;
    Progress progress;
    if (options_.progress) {
      progress = [this](double part) { return options_.progress(part * prepared_); };
    }
    sketches_ = sketch_.embed(points_, options_.points_name, compute_, from_mean ? &mean : nullptr,
                              progress);
    base_sketches_ = sketch_.embed(base_, options_.base_name, compute_);
    workers_.resize(compute_.threads().count());
    bound_.assign(points_.rows, kInfinity);
    seen_.assign(points_.rows, static_cast<std::uint32_t>(base_.rows));
    base_seen_.assign(base_.rows > 0 ? points_.rows : 0, 0);
    pending_.assign(sketch_.levels() > 0 ? points_.rows : 0, kNothingPending);
    for (std::size_t i = 0; i < base_.rows; ++i) {
      centres_.add(base_, i, base_sketches_.row(i));
    }
    if (initial != nullptr) {
      bound_ = *initial;
    } else if (base_.rows == 0) {
      const std::size_t first = first_pick(mean);
      pick(first, kInfinity);
      bound_by_triangle(first);
    }
  }

  // Wider sketches settle more pairs and take longer to make; a limit on memory narrows them.
  std::vector<std::size_t> choose_widths() const {
    if (tuning_.widths) return *tuning_.widths;
    std::vector<std::vector<std::size_t>> choices = {{32, 64}, {32}, {16}, {}};
    if (points_.cols < 128) choices.erase(choices.begin());
    if (points_.cols < 64 || points_.rows < 512) choices = {{}};
    for (const auto& widths : choices) {
      if (options_.memory_limit == 0 || bytes_needed(widths) <= options_.memory_limit) {
        return widths;
      }
    }
    throw Error(Error::Kind::kInput,
                fmt::format("a memory limit of {} bytes is too small for {} points: at least {} "
                            "bytes are needed",
                            options_.memory_limit, points_.rows, bytes_needed({})));
  }

  std::size_t bytes_needed(const std::vector<std::size_t>& widths) const {
    const std::size_t d = points_.cols;
    const std::size_t first = widths.empty() ? 0 : widths.front();
    const std::size_t row_floats = Sketch::row_floats(widths);
    const std::size_t each = sizeof(float) * row_floats;
    const std::size_t state = 4 * 5 + sizeof(Pending) + 8 * d / Sketch::kMeanBlock + 1;
    const std::size_t centres = base_.rows + count_;
    const std::size_t sample = widths.empty() ? 0 : 2048 * d * 3 * sizeof(float);
    const std::size_t fixed = (std::size_t{8} << 20) + sample;
    return fixed + points_.rows * (each + state) + base_.rows * each +
           centres * Centres::bytes_each(first, widths.size(), row_floats) + count_ * 24;
  }

  std::size_t first_pick(const std::vector<float>& mean) {
    if (options_.start == GreedyOptions::Start::kRandom) {
      return Random(options_.seed).below(points_.rows);
    }
    if (options_.start == GreedyOptions::Start::kIndex) return options_.start_index;
    // |z − mean| ≤ |z − centre| + |centre − mean|: only points far from the sketch's centre count.
    const double away = std::sqrt(
        static_cast<double>(squared_distance(sketch_.centre(), mean.data(), points_.cols)));
    std::size_t best = 0;
    for (std::size_t i = 1; i < points_.rows; ++i) {
      if (norm(i) > norm(best)) best = i;
    }
    const std::size_t likely = best;
    std::vector<float> scratch(points_.cols);
    const auto distance_of = [&](std::size_t i) {
      return squared_distance(points_.row(i, scratch.data()), mean.data(), points_.cols);
    };
    float farthest = distance_of(likely);
    for (std::size_t i = 0; i < points_.rows; ++i) {
      if (i == likely || upper(away, norm(i)) < farthest) continue;
      const float distance = distance_of(i);
      if (distance > farthest || (distance == farthest && i < best)) {
        farthest = distance;
        best = i;
      }
    }
    return best;
  }

  float norm(std::size_t i) const { return sketch_.norm(sketches_.row(i)); }

  // An upper bound of the canonical squared distance of two vectors, one `away` from the sketch's
  // centre and one with squared norm `norm` about it.
  float upper(double away, float norm) const {
    const double sum = away + std::sqrt(static_cast<double>(norm));
    const double slack = 1 + static_cast<double>(points_.cols + 64) * 0x1p-22;
    return static_cast<float>(sum * sum * slack + static_cast<double>(points_.cols) * 0x1p-120);
  }

  void bound_by_triangle(std::size_t first) {
    const double away = std::sqrt(static_cast<double>(norm(first)));
    for (std::size_t i = 0; i < points_.rows; ++i) {
      if (i != first) bound_[i] = upper(away, norm(i));
    }
  }

  void pick(std::size_t i, float squared_radius) {
    result_.picks.push_back(static_cast<std::int64_t>(i));
    result_.radii.push_back(std::sqrt(squared_radius));
    centres_.add(points_, i, sketches_.row(i));
    bound_[i] = kPicked;
  }

  // ---- rounds ------------------------------------------------------------------------------

  std::size_t round_size() const {
    if (tuning_.round != 0) return tuning_.round;
    const bool few = centres_.size() - base_.rows < kSwept;
    return std::max<std::size_t>(2048, points_.rows / (few ? 128 : 8));
  }

  // About the round_size-th largest bound, from a sample of them.
  float choose_threshold() {
    constexpr std::size_t kSample = 4096;
    const std::size_t n = std::min(points_.rows, kSample);
    sample_.resize(n);
    for (std::size_t i = 0; i < n; ++i) sample_[i] = bound_[i * points_.rows / n];
    const std::size_t rank = std::min(n - 1, round_size() * n / points_.rows);
    std::nth_element(sample_.begin(), sample_.begin() + static_cast<std::ptrdiff_t>(rank),
                     sample_.end(), std::greater<>());
    return std::max(sample_[rank], std::numeric_limits<float>::denorm_min());
  }

  // The first few centres are near to nobody and touch everybody: their upper bounds from the
  // sketch go to all points in one pass each, and the full vectors wait until there are more
  // centres.
  void sweep() {
    if (sketch_.levels() == 0) return;
    for (; swept_base_ < std::min(kSweptBase, base_.rows); ++swept_base_) sweep(swept_base_);
    const std::size_t end = std::min(kSwept, centres_.size() - base_.rows);
    for (; swept_ < end; ++swept_) sweep(base_.rows + swept_);
  }

  void sweep(std::size_t c) {
    constexpr std::size_t kBlock = 4096;
    const std::size_t last = sketch_.levels() - 1;
    const float* centre = centres_.sketch_of(c);
    const float r = sketch_.r(centre, last);
    const float norm = sketch_.norm(centre);
    compute_.threads().run(
        (points_.rows + kBlock - 1) / kBlock, [&](std::size_t block, std::size_t) {
          const std::size_t end = std::min(points_.rows, (block + 1) * kBlock);
          for (std::size_t i = block * kBlock; i < end; ++i) {
            const float* row = sketches_.row(i);
            float dot = 0;
            kernels::add_dots(row, &centre, 1, 0, sketch_.total_width(), &dot);
            dot += r * sketch_.r(row, last);
            if (sketch_.norm(row) + norm - 2 * dot >= bound_[i]) continue;
            bound_[i] = std::min(bound_[i], sketch_.upper(last, row, centre, dot));
          }
        });
  }

  void gather(float threshold) {
    gathered_.resize(points_.rows);
    const std::size_t n =
        kernels::not_below(bound_.data(), points_.rows, threshold, gathered_.data());
    active_.assign(gathered_.begin(), gathered_.begin() + static_cast<std::ptrdiff_t>(n));
  }

  // Points that have seen equally much are looked at together.
  void order_active() {
    const std::size_t buckets = centres_.size() / kernels::kTile + 2;
    bucket_.assign(buckets, 0);
    for (const std::uint32_t i : active_) ++bucket_[seen_[i] / kernels::kTile + 1];
    for (std::size_t b = 1; b < buckets; ++b) bucket_[b] += bucket_[b - 1];
    ordered_.resize(active_.size());
    for (const std::uint32_t i : active_) ordered_[bucket_[seen_[i] / kernels::kTile]++] = i;
  }

  void update_active(float threshold) {
    order_active();
    dense_ = sketch_.levels() == 0 || (tuning_.adaptive && sketch_fails());
    const std::size_t blocks = (ordered_.size() + kernels::kScanPoints - 1) / kernels::kScanPoints;
    constexpr std::size_t kBlocksEach = 8;
    compute_.threads().run(
        (blocks + kBlocksEach - 1) / kBlocksEach, [&](std::size_t item, std::size_t w) {
          const std::size_t end = std::min(blocks, (item + 1) * kBlocksEach);
          for (std::size_t block = item * kBlocksEach; block < end; ++block) {
            const std::size_t first = block * kernels::kScanPoints;
            const std::size_t n = std::min(kernels::kScanPoints, ordered_.size() - first);
            prefetch(first + 4 * kernels::kScanPoints);
            if (dense_) {
              update_dense(ordered_.data() + first, n, threshold, workers_[w]);
            } else {
              update_block(ordered_.data() + first, n, threshold, workers_[w]);
            }
          }
        });
    merge_counts();
  }

  // The sketches of the points from `first` on in the round's order, which lie anywhere in memory.
  void prefetch(std::size_t first) const {
    const std::size_t end = std::min(ordered_.size(), first + kernels::kScanPoints);
    for (std::size_t i = first; i < end; ++i) {
      const float* row = sketches_.row(ordered_[i]);
      for (std::size_t at = 0; at < sketches_.cols(); at += 16) __builtin_prefetch(row + at);
      __builtin_prefetch(&seen_[ordered_[i]]);
      __builtin_prefetch(&bound_[ordered_[i]]);
      if (!pending_.empty()) __builtin_prefetch(&pending_[ordered_[i]]);
    }
  }

  void keep_active(float threshold) {
    std::erase_if(active_, [&](std::uint32_t i) { return !(bound_[i] >= threshold); });
  }

  Probe probe(std::uint32_t i) const {
    Probe p;
    p.id = i;
    p.sketch = sketches_.row(i);
    p.best = bound_[i];
    p.pending = pending_[i];
    p.reach = sketch_.reach(p.best);
    return p;
  }

  // Shows up to kScanPoints points the centres they have not seen: the picks first, of which one is
  // likely to be near, then the base.
  void update_block(const std::uint32_t* ids, std::size_t n, float threshold, Worker& worker) {
    std::array<Probe, kernels::kScanPoints> probes;
    for (std::size_t i = 0; i < n; ++i) probes[i] = probe(ids[i]);
    show(probes.data(), n, seen_, centres_.size(), threshold, worker);
    if (base_.rows > 0) show(probes.data(), n, base_seen_, base_.rows, threshold, worker);
    for (std::size_t i = 0; i < n; ++i) {
      if (probes[i].best >= threshold) resolve(probes[i], worker);
      bound_[ids[i]] = probes[i].best;
      pending_[ids[i]] = probes[i].pending;
    }
  }

  // Shows points the centres from what they have `seen` to `end`, a chunk at a time, each point
  // until it is below the threshold.
  void show(Probe* probes, std::size_t n, std::vector<std::uint32_t>& seen, std::size_t end,
            float threshold, Worker& worker) const {
    std::array<std::uint64_t, kernels::kScanPoints * Centres::kChunkTiles> masks;
    const float* y[kernels::kScanPoints];
    float r[kernels::kScanPoints];
    float gate[kernels::kScanPoints];
    std::size_t from = end;
    for (std::size_t i = 0; i < n; ++i) {
      y[i] = probes[i].sketch;
      r[i] = sketch_.r(probes[i].sketch, 0);
      if (probes[i].best >= threshold) from = std::min<std::size_t>(from, seen[probes[i].id]);
    }
    for (std::size_t tile = from / kernels::kTile; tile * kernels::kTile < end;) {
      const std::size_t within = tile % Centres::kChunkTiles;
      const std::size_t last = (end + kernels::kTile - 1) / kernels::kTile;
      // One tile of the base is often enough to drop a point; the picks are few anyway.
      const std::size_t most = end == base_.rows && tile == 0 ? 1 : Centres::kChunkTiles - within;
      const std::size_t tiles = std::min(most, last - tile);
      bool open = false;
      for (std::size_t i = 0; i < n; ++i) {
        open |= probes[i].best >= threshold;
        gate[i] = probes[i].best >= threshold ? sketch_.gate(0, probes[i].sketch, probes[i].reach)
                                              : kInfinity;
      }
      if (!open) return;
      kernels::scan(y, r, gate, n,
                    centres_.tiles(tile / Centres::kChunkTiles) +
                        within * kernels::tile_floats(sketch_.width(0)),
                    tiles, sketch_.width(0), masks.data());
      const std::size_t stop = std::min(end, (tile + tiles) * kernels::kTile);
      bool touch[kernels::kScanPoints] = {};
      std::uint32_t before[kernels::kScanPoints] = {};
      Pending pending[kernels::kScanPoints];
      Counts counts[kernels::kScanPoints];
      for (std::size_t i = 0; i < n; ++i) {
        Probe& p = probes[i];
        const std::size_t first = std::max<std::size_t>(seen[p.id], tile * kernels::kTile);
        if (p.best < threshold || first >= stop) continue;
        counts[i] = {};
        counts[i].scanned = stop - first;
        collect(masks.data() + i * tiles, tiles, tile * kernels::kTile, first, stop,
                worker.open[i]);
        before[i] = seen[p.id];
        pending[i] = p.pending;
        seen[p.id] = static_cast<std::uint32_t>(stop);
        touch[i] = !settle(p, threshold, worker.open[i], counts[i]);
        if (touch[i]) {
          prefetch_row(points_, p.id);
        } else {
          worker.counts.add(counts[i]);
        }
      }
      for (std::size_t i = 0; i < n; ++i) {
        if (!touch[i]) continue;
        Probe& p = probes[i];
        if (measure(p, threshold, worker.open[i], counts[i], worker)) {
          worker.counts.add(counts[i]);
        } else {  // to be seen again, and counted then
          seen[p.id] = before[i];
          p.pending = pending[i];
          worker.counts.full += counts[i].full;
          worker.counts.touched += counts[i].touched;
        }
      }
      tile += tiles;
    }
  }

  // The centres in [first, end) whose bits are set, bit 0 being `base`.
  static void collect(const std::uint64_t* masks, std::size_t tiles, std::size_t base,
                      std::size_t first, std::size_t end, Candidates& out) {
    out.centre.clear();
    for (std::size_t t = 0; t < tiles; ++t) {
      const std::size_t start = base + t * kernels::kTile;
      std::uint64_t bits = masks[t];
      if (first > start)
        bits &= first - start < kernels::kTile ? ~std::uint64_t{0} << (first - start) : 0;
      if (end < start + kernels::kTile) bits &= (std::uint64_t{1} << (end - start)) - 1;
      for (; bits != 0; bits &= bits - 1) {
        out.centre.push_back(static_cast<std::uint32_t>(start) +
                             static_cast<std::uint32_t>(std::countr_zero(bits)));
      }
    }
  }

  // The sketch's part of the cascade for one point. Returns whether that is all for now: otherwise
  // the candidates left need full distances.
  bool settle(Probe& p, float threshold, Candidates& open, Counts& counts) const {
    const std::size_t fresh = open.centre.size();
    counts.passed[0] += fresh;
    if (fresh == 0) return true;
    for (const std::uint32_t c : p.pending) {
      if (c != kNone) open.centre.push_back(c);
    }
    const std::size_t n = narrow(p, open, fresh, counts);
    p.pending = kNothingPending;
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
  bool measure(Probe& p, float threshold, const Candidates& open, Counts& counts,
               Worker& worker) const {
    const std::size_t last = sketch_.levels() - 1;
    const std::size_t n = open.order.size();
    worker.point_scratch.resize(points_.cols);
    const float* row = points_.row(p.id, worker.point_scratch.data());
    ++counts.touched;
    for (std::size_t k = 0; k < n;) {
      const float gate = sketch_.gate(last, p.sketch, p.reach);
      const std::size_t most = k == 0 ? 1 : 4;
      std::uint32_t centres[4];
      std::size_t taken = 0;
      while (k < n && taken < most && open.acc[open.order[k]] >= gate) {
        centres[taken++] = open.centre[open.order[k++]];
      }
      if (taken == 0) break;
      counts.exact += taken;
      counts.full += taken;
      lower(p, nearest_of(row, centres, taken, worker));
      if (p.best < threshold) return set_pending(p, open, k);
    }
    return true;
  }

  // Leaves the open candidates from the k-th likeliest on for later, if they are few enough.
  bool set_pending(Probe& p, const Candidates& open, std::size_t k) const {
    const float gate = sketch_.gate(sketch_.levels() - 1, p.sketch, p.reach);
    std::size_t end = k;
    while (end < open.order.size() && open.acc[open.order[end]] >= gate) {
      if (++end - k > kPending) return false;
    }
    for (std::size_t i = k; i < end; ++i) p.pending[i - k] = open.centre[open.order[i]];
    return true;
  }

  void lower(Probe& p, float best) const {
    if (best >= p.best) return;
    p.best = best;
    p.reach = sketch_.reach(best);
  }

  // If the sketch's own upper bound takes the point below the threshold and few candidates remain,
  // they can wait.
  bool leave_pending(Probe& p, float threshold, const Candidates& open) const {
    const std::size_t last = sketch_.levels() - 1;
    const std::size_t top = open.order[0];
    const float dot = open.dot[top] + sketch_.r(p.sketch, last) * sketch_.r(open.y[top], last);
    const float high = sketch_.upper(last, p.sketch, open.y[top], dot);
    if (high >= threshold) return false;
    lower(p, high);
    return set_pending(p, open, 0);
  }

  // The sketch's wider levels for the open candidates, of which the first `fresh` are new. Returns
  // how many stay open.
  std::size_t narrow(const Probe& p, Candidates& open, std::size_t fresh, Counts& counts) const {
    std::size_t n = open.centre.size();
    open.y.resize(n);
    open.acc.resize(n);
    open.dot.assign(n, 0.0f);
    for (std::size_t i = 0; i < n; ++i) open.y[i] = centres_.sketch_of(open.centre[i]);
    for (std::size_t level = std::min<std::size_t>(1, sketch_.levels() - 1);
         level < sketch_.levels(); ++level) {
      const std::size_t from = level <= 1 ? 0 : sketch_.width(level - 1);
      kernels::add_dots(p.sketch, open.y.data(), n, from, sketch_.width(level), open.dot.data());
      const float r = sketch_.r(p.sketch, level);
      const float gate = sketch_.gate(level, p.sketch, p.reach);
      std::size_t kept = 0;
      std::size_t kept_fresh = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t c = open.centre[i];
        const Centres::Facts& facts = centres_.facts(c, level);
        const float acc = open.dot[i] + r * facts.r + facts.half_norm;
        if (acc < gate) continue;
        open.centre[kept] = c;
        open.y[kept] = open.y[i];
        open.acc[kept] = acc;
        open.dot[kept++] = open.dot[i];
        if (i < fresh) ++kept_fresh;
      }
      n = kept;
      fresh = kept_fresh;
      if (level > 0) counts.passed[level] += fresh;
    }
    return n;
  }

  // Full distances to the pending centres, after which the bound is exact: the minimum over all
  // centres seen is the bound itself or a pending centre's.
  void resolve(Probe& p, Worker& worker) const {
    std::size_t n = 0;
    while (n < kPending && p.pending[n] != kNone) ++n;
    if (n == 0) return;
    worker.point_scratch.resize(points_.cols);
    const float* row = points_.row(p.id, worker.point_scratch.data());
    ++worker.counts.touched;
    worker.counts.exact += n;
    worker.counts.full += n;
    const float nearest = nearest_of(row, p.pending.data(), n, worker);
    p.pending = kNothingPending;
    lower(p, nearest);
  }

  float nearest_of(const float* row, const std::uint32_t* centres, std::size_t n,
                   Worker& worker) const {
    const std::size_t d = points_.cols;
    worker.centre_scratch.resize(n * d);
    worker.centre_rows.resize(n);
    worker.distances.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      worker.centre_rows[i] = centres_.row(centres[i], worker.centre_scratch.data() + i * d);
    }
    kernels::squared_distances(&row, 1, worker.centre_rows.data(), n, d, worker.distances.data());
    return *std::min_element(worker.distances.begin(),
                             worker.distances.begin() + static_cast<std::ptrdiff_t>(n));
  }

  // Full distances in blocks of points and centres: compute-bound, whatever the data.
  void update_dense(const std::uint32_t* ids, std::size_t n, float threshold, Worker& worker) {
    for (std::size_t i = 0; i < n; ++i) {
      if (pending_.empty() || pending_[ids[i]] == kNothingPending) continue;
      Probe p = probe(ids[i]);
      resolve(p, worker);
      bound_[ids[i]] = p.best;
      pending_[ids[i]] = kNothingPending;
    }
    show_dense(ids, n, seen_, centres_.size(), threshold, worker);
    if (base_.rows > 0) show_dense(ids, n, base_seen_, base_.rows, threshold, worker);
  }

  void show_dense(const std::uint32_t* ids, std::size_t n, std::vector<std::uint32_t>& seen,
                  std::size_t end, float threshold, Worker& worker) {
    const std::size_t d = points_.cols;
    worker.point_scratch.resize(kernels::kScanPoints * d);
    worker.centre_scratch.resize(kDenseBlock * d);
    worker.centre_rows.resize(kDenseBlock);
    worker.distances.resize(kernels::kScanPoints * kDenseBlock);
    std::size_t from = end;
    for (std::size_t i = 0; i < n; ++i) from = std::min<std::size_t>(from, seen[ids[i]]);
    for (; from < end; from += kDenseBlock) {
      const std::size_t stop = std::min(end, from + kDenseBlock);
      const float* rows[kernels::kScanPoints];
      std::uint32_t open[kernels::kScanPoints];
      std::size_t taken = 0;
      for (std::size_t i = 0; i < n; ++i) {
        if (seen[ids[i]] >= stop || bound_[ids[i]] < threshold) continue;
        rows[taken] = points_.row(ids[i], worker.point_scratch.data() + taken * d);
        open[taken++] = ids[i];
      }
      if (taken == 0) continue;
      const std::size_t width = stop - from;
      for (std::size_t c = 0; c < width; ++c) {
        worker.centre_rows[c] = centres_.row(from + c, worker.centre_scratch.data() + c * d);
      }
      kernels::squared_distances(rows, taken, worker.centre_rows.data(), width, d,
                                 worker.distances.data());
      worker.counts.full += taken * width;
      for (std::size_t i = 0; i < taken; ++i) {
        worker.counts.dense += stop - std::max<std::size_t>(from, seen[open[i]]);
        const float* begin = worker.distances.data() + i * width;
        bound_[open[i]] = std::min(bound_[open[i]], *std::min_element(begin, begin + width));
        seen[open[i]] = static_cast<std::uint32_t>(stop);
      }
    }
  }

  // ---- plain greedy sampling on the survivors of a round -----------------------------------

  void sample_active(float threshold) {
    build_slots();
    while (true) {
      const std::size_t slot = farthest_slot();
      if (slot == active_.size() || value_[slot] < threshold) break;
      if (result_.picks.size() == count_) {
        result_.covering_radius = std::sqrt(value_[slot]);
        finished_ = true;
        break;
      }
      pick(active_[slot], value_[slot]);
      value_[slot] = kPicked;
      gate_[slot] = kInfinity;
      show_pick(threshold);
      if (result_.picks.size() % 256 == 0) report();
    }
    for (std::size_t s = 0; s < active_.size(); ++s) {
      bound_[active_[s]] = value_[s];
      if (tile_seen_[s / kernels::kTile] == kAlive) {
        seen_[active_[s]] = static_cast<std::uint32_t>(centres_.size());
      } else {
        seen_[active_[s]] = tile_seen_[s / kernels::kTile];
      }
    }
  }

  void build_slots() {
    const std::size_t n = active_.size();
    const std::size_t tiles = (n + kernels::kTile - 1) / kernels::kTile;
    value_.assign(tiles * kernels::kTile, kPicked);
    gate_.assign(tiles * kernels::kTile, kInfinity);
    tile_max_.assign(tiles, 0.0f);
    tile_seen_.assign(tiles, kAlive);
    const bool sketched = sketch_.levels() > 0;
    const std::size_t width = sketched ? sketch_.width(0) : 0;
    if (sketched) slot_tiles_.resize(tiles * kernels::tile_floats(width), 0.0f);
    for (std::size_t s = 0; s < n; ++s) {
      const std::uint32_t i = active_[s];
      value_[s] = bound_[i];
      if (sketched) {
        float* lane = slot_tiles_.data() + s / kernels::kTile * kernels::tile_floats(width) +
                      s % kernels::kTile;
        const float* row = sketches_.row(i);
        for (std::size_t j = 0; j < width; ++j) lane[j * kernels::kTile] = row[j];
        lane[width * kernels::kTile] = sketch_.r(row, 0);
        gate_[s] = sketch_.gate(0, row, sketch_.reach(value_[s]));
      }
    }
    for (std::size_t t = 0; t < tiles; ++t) refresh_tile(t);
  }

  void refresh_tile(std::size_t t) {
    const float* begin = value_.data() + t * kernels::kTile;
    tile_max_[t] = *std::max_element(begin, begin + kernels::kTile);
  }

  std::size_t farthest_slot() const {
    const auto tile = std::max_element(tile_max_.begin(), tile_max_.end());
    if (tile == tile_max_.end() || *tile < 0) return active_.size();
    const auto begin = value_.begin() + (tile - tile_max_.begin()) * std::ptrdiff_t{kernels::kTile};
    const auto slot = std::max_element(begin, begin + kernels::kTile) - value_.begin();
    return static_cast<std::size_t>(slot);
  }

  // Compares the newest centre with every survivor that still matters.
  void show_pick(float threshold) {
    const std::size_t c = centres_.size() - 1;
    near_.clear();
    Counts& counts = workers_[0].counts;
    for (std::size_t t = 0; t < tile_max_.size(); ++t) {
      if (tile_seen_[t] != kAlive) continue;
      refresh_tile(t);
      if (tile_max_[t] < threshold) {
        tile_seen_[t] = static_cast<std::uint32_t>(c);  // the newest is not seen any more
        continue;
      }
      std::uint64_t bits = ~std::uint64_t{0};
      if (!dense_) {
        const float* sketch = centres_.sketch_of(c);
        const Centres::Facts& facts = centres_.facts(c, 0);
        bits = kernels::scan_tile(sketch, facts.r, facts.half_norm,
                                  slot_tiles_.data() + t * kernels::tile_floats(sketch_.width(0)),
                                  gate_.data() + t * kernels::kTile, sketch_.width(0));
        const float* values = value_.data() + t * kernels::kTile;
        counts.scanned += static_cast<std::uint64_t>(
            std::count_if(values, values + kernels::kTile, [](float v) { return v >= 0; }));
      }
      for (; bits != 0; bits &= bits - 1) {
        const std::size_t s = t * kernels::kTile + static_cast<std::size_t>(std::countr_zero(bits));
        if (value_[s] >= 0) near_.push_back(static_cast<std::uint32_t>(s));
      }
    }
    if (!dense_) narrow_near(c, counts);
    measure_near(c);
    (dense_ ? counts.dense : counts.exact) += near_.size();
    counts.full += near_.size();
    for (std::size_t i = 0; i < near_.size(); ++i) {
      const std::uint32_t s = near_[i];
      if (near_distance_[i] >= value_[s]) continue;
      value_[s] = near_distance_[i];
      if (sketch_.levels() > 0) {
        gate_[s] = sketch_.gate(0, sketches_.row(active_[s]), sketch_.reach(value_[s]));
      }
    }
    for (std::size_t t = 0; t < tile_max_.size(); ++t) {
      if (tile_seen_[t] == kAlive) refresh_tile(t);
    }
  }

  // The wider levels of the sketch, for the newest centre and the survivors near it.
  void narrow_near(std::size_t c, Counts& counts) {
    counts.passed[0] += near_.size();
    near_dot_.assign(near_.size(), 0.0f);
    for (std::size_t level = 1; level < sketch_.levels(); ++level) {
      near_y_.resize(near_.size());
      for (std::size_t i = 0; i < near_.size(); ++i) {
        near_y_[i] = sketches_.row(active_[near_[i]]);
      }
      const std::size_t from = level == 1 ? 0 : sketch_.width(level - 1);
      kernels::add_dots(centres_.sketch_of(c), near_y_.data(), near_.size(), from,
                        sketch_.width(level), near_dot_.data());
      std::size_t kept = 0;
      for (std::size_t i = 0; i < near_.size(); ++i) {
        const Centres::Facts& facts = centres_.facts(c, level);
        const float acc = near_dot_[i] + sketch_.r(near_y_[i], level) * facts.r + facts.half_norm;
        if (acc < sketch_.gate(level, near_y_[i], sketch_.reach(value_[near_[i]]))) continue;
        near_[kept] = near_[i];
        near_dot_[kept++] = near_dot_[i];
      }
      near_.resize(kept);
      counts.passed[level] += kept;
    }
  }

  void measure_near(std::size_t c) {
    constexpr std::size_t kBatch = 16;
    const std::size_t d = points_.cols;
    near_distance_.resize(near_.size());
    std::vector<float>& scratch = pick_scratch_;
    scratch.resize(d);
    const float* centre = centres_.row(c, scratch.data());
    const auto measure = [&](std::size_t item, std::size_t w) {
      Worker& worker = workers_[w];
      const std::size_t first = item * kBatch;
      const std::size_t n = std::min(kBatch, near_.size() - first);
      worker.centre_scratch.resize(kBatch * d);
      worker.centre_rows.resize(kBatch);
      for (std::size_t i = 0; i < n; ++i) {
        worker.centre_rows[i] =
            points_.row(active_[near_[first + i]], worker.centre_scratch.data() + i * d);
      }
      kernels::squared_distances(&centre, 1, worker.centre_rows.data(), n, d,
                                 near_distance_.data() + first);
    };
    const std::size_t items = (near_.size() + kBatch - 1) / kBatch;
    if (items >= 4) {
      compute_.threads().run(items, measure);
    } else {
      for (std::size_t item = 0; item < items; ++item) measure(item, 0);
    }
  }

  // ---- bookkeeping -------------------------------------------------------------------------

  // Whether blocks of full distances would have cost less than the sketch did in the round before,
  // by the nanoseconds that each step takes, about. A round in sixteen asks again.
  bool sketch_fails() {
    if (++rounds_ % 16 == 0) return false;
    const Counts& c = last_counts_;
    const double full = static_cast<double>(points_.cols) / 1024;
    const double pairs = static_cast<double>(c.scanned);
    const double sketched =
        pairs + 8.0 * static_cast<double>(c.passed[0]) +
        full * (60.0 * static_cast<double>(c.exact) + 500.0 * static_cast<double>(c.touched));
    const double dense = full * (30.0 * pairs + 500.0 * static_cast<double>(last_active_));
    return sketched > dense;
  }

  void merge_counts() {
    Counts round;
    for (Worker& worker : workers_) {
      round.add(worker.counts);
      worker.counts = {};
    }
    total_.add(round);
    if (round.scanned > 0) {
      last_counts_ = round;
      last_active_ = active_.size();
    }
  }

  void report() {
    const double part = static_cast<double>(result_.picks.size()) /
                        static_cast<double>(std::max<std::size_t>(1, count_));
    report_progress(prepared_ + (1 - prepared_) * std::min(1.0, part) * 0.999);
  }

  void report_progress(double done) {
    if (options_.progress && !options_.progress(done)) {
      throw Error(Error::Kind::kCancelled, "stopped");
    }
  }

  void count_stages() {
    merge_counts();
    const std::uint64_t all = static_cast<std::uint64_t>(points_.rows) * centres_.size();
    result_.stages.push_back({"lazy", all - total_.scanned - total_.dense});
    std::uint64_t open = total_.scanned;
    for (std::size_t level = 0; level < sketch_.levels(); ++level) {
      const bool last = level + 1 == sketch_.levels();
      const std::uint64_t left = last ? total_.exact : total_.passed[level];
      result_.stages.push_back({fmt::format("sketch {}", sketch_.width(level)), open - left});
      open = left;
    }
    result_.stages.push_back({"exact", total_.exact + total_.dense});
    result_.full_distances = total_.full;
  }

  VectorView points_;
  VectorView base_;
  const GreedyOptions& options_;
  Compute& compute_;
  const GreedyTuning& tuning_;
  std::size_t count_;

  Sketch sketch_;
  Vectors sketches_;       // of the points
  Vectors base_sketches_;  // of the base
  Centres centres_{sketch_};
  std::vector<float> bound_;              // of each point: canonical squared distance, or above it
  std::vector<std::uint32_t> seen_;       // the end of the picks that bound accounts for
  std::vector<std::uint32_t> base_seen_;  // and of the base
  std::vector<Pending> pending_;          // and which of them it leaves open
  std::vector<Worker> workers_;
  GreedyResult result_;
  bool finished_ = false;
  double prepared_ = 0;

  std::vector<float> sample_;
  std::vector<std::uint32_t> gathered_;
  std::vector<std::uint32_t> active_;
  std::vector<std::uint32_t> ordered_;
  std::vector<std::size_t> bucket_;

  std::vector<float> slot_tiles_;  // the survivors of a round, tile by tile
  std::vector<float> value_;
  std::vector<float> gate_;
  std::vector<float> tile_max_;
  std::vector<std::uint32_t> tile_seen_;  // kAlive, or the centres seen when it went quiet
  std::vector<std::uint32_t> near_;
  std::vector<float> near_dot_;
  std::vector<const float*> near_y_;
  std::vector<float> near_distance_;
  std::vector<float> pick_scratch_;

  bool dense_ = false;
  std::size_t swept_ = 0;
  std::size_t swept_base_ = 0;
  std::size_t rounds_ = 0;
  Counts last_counts_;
  std::size_t last_active_ = 0;
  Counts total_;
};

void check(VectorView points, VectorView base, const GreedyOptions& options) {
  const auto fail = [](Error::Kind kind, const std::string& what) { throw Error(kind, what); };
  if (options.count == 0)
    fail(Error::Kind::kUsage, "a count of 0 picks nothing; ask for at least 1");
  if (points.rows == 0 || points.cols == 0) {
    fail(Error::Kind::kInput, fmt::format("{}: no vectors ({} rows of {})", options.points_name,
                                          points.rows, points.cols));
  }
  if (base.rows > 0 && base.cols != points.cols) {
    fail(Error::Kind::kInput, fmt::format("{} has {} dimensions, but {} has {}", options.base_name,
                                          base.cols, options.points_name, points.cols));
  }
  if (points.rows + base.rows >= std::numeric_limits<std::uint32_t>::max()) {
    fail(Error::Kind::kInput, fmt::format("{}: more than 4 billion vectors", options.points_name));
  }
  if (options.start == GreedyOptions::Start::kIndex && options.start_index >= points.rows) {
    fail(Error::Kind::kUsage, fmt::format("start index {} is beyond the last of {} points",
                                          options.start_index, points.rows));
  }
}

}  // namespace

GreedyResult greedy_sample_tuned(VectorView points, VectorView base, const GreedyOptions& options,
                                 Compute& compute, const GreedyTuning& tuning,
                                 const std::vector<float>* initial) {
  check(points, base, options);
  return Sampler(points, base, options, compute, tuning).run(initial);
}

GreedyResult greedy_sample(VectorView points, VectorView base, const GreedyOptions& options,
                           Compute& compute) {
  return greedy_sample_tuned(points, base, options, compute, {});
}

}  // namespace contcore
