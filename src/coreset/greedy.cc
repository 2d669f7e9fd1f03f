// Greedy sampling, lazily and in rounds.
//
// A point's distance to the growing set only falls, so an old distance is an upper bound. A round
// takes a threshold θ and
//   1. brings all points with a bound of at least θ up to date with the centres they have not seen,
//      in parallel, each until its bound falls below θ;
//   2. runs plain greedy sampling on the survivors until the largest of them is below θ. All other
//      points are below θ already, so each of these picks is the pick of the plain loop.
// θ changes which work is done when, never the answer.
//
// In: points, base and options. Out: picks, radii and what they took. Fails: input that cannot be
// used, a memory limit that is too small, a caller that says stop. The steps are in greedy_budget
// (the sketch's width), greedy_bounds (before any full vector is read), greedy_update (1) and
// greedy_survivors (2), all on the state in greedy_state.h; here are the rounds.
#include "coreset/greedy.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/random.h"
#include "contcore/error.h"
#include "coreset/greedy_bounds.h"
#include "coreset/greedy_budget.h"
#include "coreset/greedy_gpu.h"
#include "coreset/greedy_state.h"
#include "coreset/greedy_survivors.h"
#include "coreset/greedy_update.h"
#include "device/or_processor.h"

namespace contcore {
namespace {

constexpr std::size_t kSwept = 16;
constexpr std::size_t kSweptBase = 4;

class GreedySampler {
 public:
  GreedySampler(VectorView points, VectorView base, const GreedyOptions& options, Compute& compute,
                const GreedyTuning& tuning)
      : options_(options),
        compute_(compute),
        tuning_(tuning),
        count_(std::min(options.count, points.rows)),
        state_(points, base) {}

  GreedyResult run(const std::vector<float>* initial) {
    prepare(initial);
    for (bool finished = false; !finished;) {
      sweep();
      const float threshold = choose_threshold();
      gather(threshold);
      if (active_.empty()) break;  // every point left coincides with a centre
      update_active(threshold);
      keep_active(threshold);
      if (!active_.empty()) {
        finished = survivors_.sample(active_, threshold, count_, dense_, [this] { report(); });
      }
      report();
    }
    report_progress(1.0);
    count_stages();
    return std::move(state_.result);
  }

 private:
  // ---- preparation -------------------------------------------------------------------------

  void prepare(const std::vector<float>* initial) {
    const VectorView& points = state_.points;
    const VectorView& base = state_.base;
    const std::size_t width = tuning_.width ? *tuning_.width : greedy_width(points, base, options_);
    state_.sketch = StepSketch(points, base, width, compute_);
    const bool from_mean =
        base.rows == 0 && initial == nullptr && options_.start == GreedyOptions::Start::kMean;
    std::vector<float> mean;
    embed(from_mean ? &mean : nullptr);
    state_.workers.resize(compute_.threads().count());
    state_.bound.assign(points.rows, kInfinity);
    state_.seen.assign(points.rows, static_cast<std::uint32_t>(base.rows));
    state_.base_seen.assign(base.rows > 0 ? points.rows : 0, 0);
    state_.pending.assign(state_.sketch.width() > 0 ? points.rows : 0, kNothingPending);
    for (std::size_t i = 0; i < base.rows; ++i) {
      state_.centres.add(base, i, state_.base_sketches.byte_row(i));
    }
    if (initial != nullptr) {
      state_.bound = *initial;
    } else if (base.rows == 0) {
      const std::size_t first = first_pick(mean);
      state_.pick(first, kInfinity);
      bound_by_triangle(state_, first);
    }
  }

  // Sketches points and base, with a part of the progress that is about its part of the time.
  void embed(std::vector<float>* mean) {
    const auto d = static_cast<double>(state_.points.cols);
    const auto rows = static_cast<double>(state_.points.rows);
    const double embed_cost = rows * d * (static_cast<double>(state_.sketch.width()) + 32);
    const double pick_cost = rows * (static_cast<double>(count_) * 32 + 32 * d);
    prepared_ = embed_cost / (embed_cost + pick_cost);
    Progress progress;
    if (options_.progress) {
      progress = [this](double part) { return options_.progress(part * prepared_); };
    }
    state_.sketches =
        state_.sketch.embed(state_.points, options_.points_name, compute_, mean, progress);
    state_.base_sketches = state_.sketch.embed(state_.base, options_.base_name, compute_);
  }

  std::size_t first_pick(const std::vector<float>& mean) const {
    switch (options_.start) {
      case GreedyOptions::Start::kRandom:
        return Random(options_.seed).below(state_.points.rows);
      case GreedyOptions::Start::kIndex:
        return options_.start_index;
      case GreedyOptions::Start::kMean:
        break;
    }
    return farthest_from_mean(state_, mean);
  }

  // ---- rounds ------------------------------------------------------------------------------

  std::size_t round_size() const {
    if (tuning_.round != 0) return tuning_.round;
    const bool few = state_.centres.size() - state_.base.rows < kSwept;
    return std::max<std::size_t>(2048, state_.points.rows / (few ? 128 : 8));
  }

  // About the round_size-th largest bound, from a sample of them.
  float choose_threshold() {
    constexpr std::size_t kSample = 4096;
    const std::size_t n = std::min(state_.points.rows, kSample);
    sample_.resize(n);
    for (std::size_t i = 0; i < n; ++i) sample_[i] = state_.bound[i * state_.points.rows / n];
    const std::size_t rank = std::min(n - 1, round_size() * n / state_.points.rows);
    std::nth_element(sample_.begin(), sample_.begin() + static_cast<std::ptrdiff_t>(rank),
                     sample_.end(), std::greater<>());
    return std::max(sample_[rank], std::numeric_limits<float>::denorm_min());
  }

  // The first few centres are near to nobody and touch everybody: their upper bounds from the
  // sketch go to all points in one pass each, and the full vectors wait until there are more
  // centres.
  void sweep() {
    if (state_.sketch.width() == 0) return;
    const std::size_t base = state_.base.rows;
    for (; swept_base_ < std::min(kSweptBase, base); ++swept_base_) {
      bound_by_centre(state_, swept_base_, compute_);
    }
    const std::size_t end = std::min(kSwept, state_.centres.size() - base);
    for (; swept_ < end; ++swept_) bound_by_centre(state_, base + swept_, compute_);
  }

  void gather(float threshold) {
    gathered_.resize(state_.points.rows);
    const std::size_t n =
        kernels::not_below(state_.bound.data(), state_.points.rows, threshold, gathered_.data());
    active_.assign(gathered_.begin(), gathered_.begin() + static_cast<std::ptrdiff_t>(n));
  }

  // Points that have seen equally much are looked at together.
  void order_active() {
    const std::size_t buckets = state_.centres.size() / kernels::kTile + 2;
    bucket_.assign(buckets, 0);
    for (const std::uint32_t i : active_) ++bucket_[state_.seen[i] / kernels::kTile + 1];
    for (std::size_t b = 1; b < buckets; ++b) bucket_[b] += bucket_[b - 1];
    ordered_.resize(active_.size());
    for (const std::uint32_t i : active_) ordered_[bucket_[state_.seen[i] / kernels::kTile]++] = i;
  }

  void update_active(float threshold) {
    order_active();
    dense_ = state_.sketch.width() == 0 || (tuning_.adaptive && sketch_fails());
    const std::size_t blocks = (ordered_.size() + kernels::kScanPoints - 1) / kernels::kScanPoints;
    constexpr std::size_t kBlocksEach = 8;
    compute_.threads().run(
        (blocks + kBlocksEach - 1) / kBlocksEach, [&](std::size_t item, std::size_t w) {
          const std::size_t end = std::min(blocks, (item + 1) * kBlocksEach);
          for (std::size_t block = item * kBlocksEach; block < end; ++block) {
            const std::size_t first = block * kernels::kScanPoints;
            const std::size_t n = std::min(kernels::kScanPoints, ordered_.size() - first);
            prefetch(first + 4 * kernels::kScanPoints);
            update_block(ordered_.data() + first, n, threshold, state_.workers[w]);
          }
        });
    merge_counts();
  }

  // The sketches of the points from `first` on in the round's order, which lie anywhere in memory.
  void prefetch(std::size_t first) const {
    const std::size_t end = std::min(ordered_.size(), first + kernels::kScanPoints);
    for (std::size_t i = first; i < end; ++i) {
      const std::uint8_t* row = state_.sketches.byte_row(ordered_[i]);
      __builtin_prefetch(row);
      __builtin_prefetch(row + state_.sketches.cols() - 1);
      __builtin_prefetch(&state_.seen[ordered_[i]]);
      __builtin_prefetch(&state_.bound[ordered_[i]]);
      if (!state_.pending.empty()) __builtin_prefetch(&state_.pending[ordered_[i]]);
    }
  }

  void update_block(const std::uint32_t* ids, std::size_t n, float threshold,
                    GreedyWorker& worker) {
    if (!dense_) return update_by_sketch(state_, ids, n, threshold, worker);
    for (std::size_t i = 0; i < n && !state_.pending.empty(); ++i) {
      resolve_pending(state_, ids[i], worker);
    }
    update_dense(state_, ids, n, threshold, worker);
  }

  void keep_active(float threshold) {
    std::erase_if(active_, [&](std::uint32_t i) { return !(state_.bound[i] >= threshold); });
  }

  // ---- bookkeeping -------------------------------------------------------------------------

  // Whether blocks of full distances would have cost less than the sketch did in the round before,
  // by the nanoseconds that each step takes, about. A round in sixteen asks again.
  bool sketch_fails() {
    if (++rounds_ % 16 == 0) return false;
    const PairCounts& c = last_counts_;
    const double full =
        static_cast<double>(state_.points.cols * bytes_of(state_.points.scalar)) / 4096;
    const double pairs = static_cast<double>(c.scanned);
    const double sketched =
        0.3 * pairs + 6.0 * static_cast<double>(c.passed) +
        full * (60.0 * static_cast<double>(c.exact) + 500.0 * static_cast<double>(c.touched));
    const double dense = full * (30.0 * pairs + 500.0 * static_cast<double>(last_active_));
    return sketched > dense;
  }

  void merge_counts() {
    PairCounts round;
    for (GreedyWorker& worker : state_.workers) {
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
    const double part = static_cast<double>(state_.result.picks.size()) /
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
    const std::uint64_t all =
        static_cast<std::uint64_t>(state_.points.rows) * state_.centres.size();
    state_.result.stages.push_back({"lazy", all - total_.scanned - total_.dense});
    if (state_.sketch.width() > 0) {
      state_.result.stages.push_back(
          {fmt::format("sketch {}", state_.sketch.width()), total_.scanned - total_.exact});
    }
    state_.result.stages.push_back({"exact", total_.exact + total_.dense});
    state_.result.full_distances = total_.full;
  }

  const GreedyOptions& options_;
  Compute& compute_;
  const GreedyTuning& tuning_;
  std::size_t count_;
  GreedyState state_;
  SurvivorSampler survivors_{state_, compute_};
  double prepared_ = 0;  // the part of the progress that is done when the rounds begin

  std::vector<float> sample_;
  std::vector<std::uint32_t> gathered_;
  std::vector<std::uint32_t> active_;
  std::vector<std::uint32_t> ordered_;
  std::vector<std::size_t> bucket_;

  bool dense_ = false;
  std::size_t swept_ = 0;
  std::size_t swept_base_ = 0;
  std::size_t rounds_ = 0;
  PairCounts last_counts_;
  std::size_t last_active_ = 0;
  PairCounts total_;
};

void check_input(VectorView points, VectorView base, const GreedyOptions& options) {
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
  const bool bytes = points.scalar == Scalar::kUint8;
  if (base.rows > 0 && bytes != (base.scalar == Scalar::kUint8)) {
    fail(Error::Kind::kInput,
         fmt::format("{} holds {}, but {} {}; give both as uint8, with the same scale, or both as "
                     "float32",
                     options.points_name, bytes ? "bytes (uint8)" : "floats", options.base_name,
                     bytes ? "floats" : "bytes (uint8)"));
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
  check_input(points, base, options);
  return or_processor(compute, [&](Compute& on) {
    if (!on.device().is_cpu() && greedy_pays_on_gpu(points, base, options)) {
      if (Gpu* gpu = on.gpu()) {
        greedy_width(points, base, options);  // refuses what the processor would
        return greedy_sample_on_gpu(*gpu, points, base, options, on, {}, initial);
      }
    }
    return GreedySampler(points, base, options, on, tuning).run(initial);
  });
}

GreedyResult greedy_sample(VectorView points, VectorView base, const GreedyOptions& options,
                           Compute& compute) {
  return greedy_sample_tuned(points, base, options, compute, {});
}

}  // namespace contcore
