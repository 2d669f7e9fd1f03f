// The same memory of m vectors, filled by other rules.
#include "contcore/samplers.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/rows.h"
#include "evaluate/method.h"

namespace contcore {
namespace {

// ⌊p·|Z|⌋ features at random, and of these and the memory m at random.
class Random : public VectorMethod {
 public:
  using VectorMethod::VectorMethod;

 protected:
  void update(const TaskFeatures& task, Compute& /*compute*/, const Progress& /*p*/) override {
    const std::uint64_t seed = options_.seed + 2 * task.index;
    const std::size_t count = part_count(options_.p, task.all.rows);
    memory_ = joined(memory_, gather(task.all, random_sample(task.all.rows, count, seed)));
    if (memory_.rows() <= options_.m) return;
    memory_ = gather(memory_.view(), random_sample(memory_.rows(), options_.m, seed + 1));
  }
};

// A uniform sample of all features that have passed by, whatever p.
class Stream : public VectorMethod {
 public:
  explicit Stream(const MethodOptions& options)
      : VectorMethod(options), reservoir_(options.m, options.seed) {}

 protected:
  void update(const TaskFeatures& task, Compute& /*compute*/, const Progress& /*p*/) override {
    // Where each place's vector comes from: the memory as it was, or a row of the task.
    std::vector<std::size_t> from(memory_.rows());
    std::iota(from.begin(), from.end(), std::size_t{0});
    const std::size_t old = memory_.rows();
    for (std::size_t i = 0; i < task.all.rows; ++i) {
      const std::int64_t place = reservoir_.offer();
      if (place < 0) continue;
      if (static_cast<std::size_t>(place) == from.size()) from.push_back(0);
      from[static_cast<std::size_t>(place)] = old + i;
    }
    Vectors next(from.size(), task.all.cols, options_.scalar);
    for (std::size_t place = 0; place < from.size(); ++place) {
      next.set_rows(place, from[place] < old ? memory_.view().part(from[place], 1)
                                             : task.all.part(from[place] - old, 1));
    }
    memory_ = std::move(next);
  }

 private:
  Reservoir reservoir_;
};

// Each task's picks in herding's order; with t tasks so far each keeps the first ⌊m / t⌋. No bound
// tells which points are near a herding target, so a pick costs a distance to every candidate: of a
// large task, kCandidates at random are the candidates.
class Herding : public VectorMethod {
 public:
  using VectorMethod::VectorMethod;

 protected:
  static constexpr std::size_t kCandidates = 50000;

  void update(const TaskFeatures& task, Compute& compute, const Progress& progress) override {
    const std::size_t share = std::max<std::size_t>(1, options_.m / (tasks_.size() + 1));
    const std::size_t count = std::min(share, part_count(options_.p, task.all.rows));
    Vectors pool;
    VectorView candidates = task.all;
    if (task.all.rows > kCandidates) {
      std::vector<std::int64_t> some =
          random_sample(task.all.rows, kCandidates, options_.seed + task.index);
      std::sort(some.begin(), some.end());
      pool = gather(task.all, some);
      candidates = pool.view();
    }
    tasks_.push_back(gather(candidates, herding_sample(candidates, count, compute, progress)));
    memory_ = {};
    for (Vectors& picks : tasks_) {
      if (picks.rows() > share) {
        std::vector<std::size_t> first(share);
        std::iota(first.begin(), first.end(), std::size_t{0});
        picks = gather(picks.view(), first);
      }
      memory_ = joined(memory_, picks);
    }
  }

 private:
  std::vector<Vectors> tasks_;
};

// What forgetting looks like: nothing is kept of the tasks before.
class LatestOnly : public VectorMethod {
 public:
  using VectorMethod::VectorMethod;

 protected:
  void update(const TaskFeatures& task, Compute& compute, const Progress& progress) override {
    const auto order = task.greedy(part_count(options_.p, task.all.rows), compute, progress);
    memory_ = gather(task.all, order.first(std::min(options_.m, order.size())));
  }
};

}  // namespace

std::unique_ptr<Method> make_random(const MethodOptions& options) {
  return std::make_unique<Random>(options);
}
std::unique_ptr<Method> make_reservoir(const MethodOptions& options) {
  return std::make_unique<Stream>(options);
}
std::unique_ptr<Method> make_herding(const MethodOptions& options) {
  return std::make_unique<Herding>(options);
}
std::unique_ptr<Method> make_latest_only(const MethodOptions& options) {
  return std::make_unique<LatestOnly>(options);
}

}  // namespace contcore
