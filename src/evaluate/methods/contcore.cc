// The continual memory itself, by either rule.
#include "contcore/memory.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/rows.h"
#include "evaluate/method.h"

namespace contcore {
namespace {

class ContCore : public Method {
 public:
  ContCore(const MethodOptions& options, Consolidate::Rule rule, bool online)
      : p_(options.p),
        online_(online),
        memory_(options.dimension, options.m, {rule, options.q}, options.scalar) {}

  void learn(const TaskFeatures& task, Compute& compute, const Progress& progress) override {
    LearnHow how;
    how.task = std::to_string(task.index);
    how.p = p_;
    how.time = std::string(1, '-');
    const std::size_t images = task.image_ends.size();
    if (!online_) {
      how.progress = progress;
      how.images = images;
      memory_.learn(task.all, how, compute);
      return;
    }
    for (std::size_t i = 0; i < images; ++i) {
      memory_.learn_online(task.image(i), how, compute);
      report(progress, static_cast<double>(i + 1) / static_cast<double>(images));
    }
  }

  void prepare(Compute& compute) override {
    memory_.distances(memory_.vectors().view().part(0, 1), compute);
  }

  Scored score(VectorView patches, std::size_t /*product*/, Compute& compute) const override {
    Scored scored;
    scored.patches = memory_.distances(patches, compute);
    return scored;
  }

  Vectors coreset() const override { return memory_.vectors(); }
  std::size_t vectors() const override { return memory_.size(); }
  std::uint64_t numbers() const override { return memory_.size() * memory_.dimension(); }

 private:
  double p_;
  bool online_;
  Memory memory_;
};

}  // namespace

std::unique_ptr<Method> make_contcore(const MethodOptions& options) {
  return std::make_unique<ContCore>(options, Consolidate::Rule::kShare, false);
}
std::unique_ptr<Method> make_contcore_online(const MethodOptions& options) {
  return std::make_unique<ContCore>(options, Consolidate::Rule::kShare, true);
}
std::unique_ptr<Method> make_contcore_paper(const MethodOptions& options) {
  return std::make_unique<ContCore>(options, Consolidate::Rule::kPaper, false);
}
std::unique_ptr<Method> make_contcore_paper_online(const MethodOptions& options) {
  return std::make_unique<ContCore>(options, Consolidate::Rule::kPaper, true);
}

}  // namespace contcore
