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
// (the sketch's width), greedy_bounds (before any full vector is read), greedy_round and
// greedy_update (1), and greedy_survivors (2), all on the state in greedy_state.h; here are the
// rounds.
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
#include "coreset/greedy_round.h"
#include "coreset/greedy_state.h"
#include "coreset/greedy_survivors.h"
#include "device/or_processor.h"

namespace contcore {
namespace {

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
      round_.sweep();
      const float threshold = choose_threshold();
      if (round_.update(threshold) == 0) break;  // every point left coincides with a centre
      if (!round_.survivors().empty()) {
        finished = survivors_.sample(round_.survivors(), threshold, count_, round_.dense(),
                                     [this] { report(); });
      }
      report();
    }
    report_progress(1.0);
    round_.count_stages(state_.result);
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
      state_.pick(first_pick(mean), kInfinity);
      bound_by_triangle(state_, 0);
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

  // About the round_size-th largest bound, from a sample of them.
  float choose_threshold() {
    const std::size_t rows = state_.points.rows;
    const std::size_t picks = state_.centres.size() - state_.base.rows;
    std::vector<float> sample = round_.some_bounds(4096);
    return greedy_threshold(sample, greedy_round_size(rows, picks, tuning_) * sample.size() / rows);
  }

  // ---- bookkeeping -------------------------------------------------------------------------

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

  const GreedyOptions& options_;
  Compute& compute_;
  const GreedyTuning& tuning_;
  std::size_t count_;
  GreedyState state_;
  GreedyRound round_{state_, compute_, tuning_};
  SurvivorSampler survivors_{state_, compute_};
  double prepared_ = 0;  // the part of the progress that is done when the rounds begin
};

}  // namespace

void check_greedy(VectorView points, std::size_t rows, VectorView base,
                  const GreedyOptions& options) {
  const auto fail = [](Error::Kind kind, const std::string& what) { throw Error(kind, what); };
  if (options.count == 0)
    fail(Error::Kind::kUsage, "a count of 0 picks nothing; ask for at least 1");
  if (rows == 0 || points.cols == 0) {
    fail(Error::Kind::kInput,
         fmt::format("{}: no vectors ({} rows of {})", options.points_name, rows, points.cols));
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
  if (rows + base.rows >= std::numeric_limits<std::uint32_t>::max()) {
    fail(Error::Kind::kInput, fmt::format("{}: more than 4 billion vectors", options.points_name));
  }
  if (options.start == GreedyOptions::Start::kIndex && options.start_index >= rows) {
    fail(Error::Kind::kUsage,
         fmt::format("start index {} is beyond the last of {} points", options.start_index, rows));
  }
}

GreedyResult greedy_sample_tuned(VectorView points, VectorView base, const GreedyOptions& options,
                                 Compute& compute, const GreedyTuning& tuning,
                                 const std::vector<float>* initial) {
  check_greedy(points, points.rows, base, options);
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
