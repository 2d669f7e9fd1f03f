// PatchCore in the four forms that the paper compares with: a greedy coreset of each task (or
// class) that knows nothing of those before.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/rows.h"
#include "contcore/greedy.h"
#include "evaluate/method.h"

namespace contcore {
namespace {

// A memory for each class; the class of an image is told.
class PatchCore : public Method {
 public:
  explicit PatchCore(const MethodOptions& options) : p_(options.p) {}

  void learn(const TaskFeatures& task, Compute& compute, const Progress& progress) override {
    std::size_t begin = 0;
    for (const std::size_t end : task.class_ends) {
      const VectorView features = task.all.part(begin, end - begin);
      const std::size_t count = part_count(p_, features.rows);
      if (task.class_ends.size() == 1) {
        memories_.push_back(gather(features, task.greedy(count, compute, progress)));
      } else {
        GreedyOptions options;
        options.count = count;
        options.progress =
            part_of(progress, static_cast<double>(begin) / static_cast<double>(task.all.rows),
                    static_cast<double>(end) / static_cast<double>(task.all.rows));
        memories_.push_back(gather(features, greedy_sample(features, {}, options, compute).picks));
      }
      begin = end;
    }
  }

  void prepare(Compute& compute) override {
    for (std::size_t i = indices_.size(); i < memories_.size(); ++i) {
      indices_.emplace_back(memories_[i].view(), compute);
    }
  }

  Scored score(VectorView patches, std::size_t product, Compute& compute) const override {
    return score_patches(indices_[product], patches, compute);
  }

  Vectors coreset() const override {
    Vectors all;
    for (const Vectors& memory : memories_) all = joined(all, memory);
    return all;
  }
  std::size_t vectors() const override {
    std::size_t sum = 0;
    for (const Vectors& memory : memories_) sum += memory.rows();
    return sum;
  }
  std::uint64_t numbers() const override {
    return memories_.empty() ? 0 : vectors() * memories_[0].cols();
  }

 private:
  double p_;
  std::vector<Vectors> memories_;  // by class, in the order of the tasks
  std::vector<NearestIndex> indices_;
};

class Unbounded : public VectorMethod {
 public:
  using VectorMethod::VectorMethod;

 protected:
  void update(const TaskFeatures& task, Compute& compute, const Progress& progress) override {
    const std::size_t count = part_count(options_.p, task.all.rows);
    memory_ = joined(memory_, gather(task.all, task.greedy(count, compute, progress)));
  }
};

class Oracle : public VectorMethod {
 public:
  using VectorMethod::VectorMethod;

 protected:
  std::size_t share() const { return std::max<std::size_t>(1, options_.m / options_.tasks); }

  void update(const TaskFeatures& task, Compute& compute, const Progress& progress) override {
    // The whole order is asked for, though only its beginning may be needed: others want it too.
    const auto order = task.greedy(part_count(options_.p, task.all.rows), compute, progress);
    memory_ = joined(memory_, gather(task.all, order.first(std::min(share(), order.size()))));
  }
};

// The task's share is spread over its images; no image knows of another.
class OracleOnline : public Oracle {
 public:
  using Oracle::Oracle;

 protected:
  void update(const TaskFeatures& task, Compute& compute, const Progress& progress) override {
    const std::size_t images = task.image_ends.size();
    for (std::size_t i = 0; i < images; ++i) {
      const VectorView image = task.image(i);
      const std::size_t room = (i + 1) * share() / images - i * share() / images;
      GreedyOptions options;
      options.count = std::min(room, part_count(options_.p, image.rows));
      if (options.count == 0) continue;
      memory_ = joined(memory_, gather(image, greedy_sample(image, {}, options, compute).picks));
      report(progress, static_cast<double>(i + 1) / static_cast<double>(images));
    }
  }
};

}  // namespace

std::unique_ptr<Method> make_patchcore(const MethodOptions& options) {
  return std::make_unique<PatchCore>(options);
}
std::unique_ptr<Method> make_patchcore_unbounded(const MethodOptions& options) {
  return std::make_unique<Unbounded>(options);
}
std::unique_ptr<Method> make_patchcore_oracle(const MethodOptions& options) {
  return std::make_unique<Oracle>(options);
}
std::unique_ptr<Method> make_patchcore_oracle_online(const MethodOptions& options) {
  return std::make_unique<OracleOnline>(options);
}

}  // namespace contcore
