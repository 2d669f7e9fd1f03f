// A method of the library in a run.
#include <utility>

#include "evaluate/contender.h"
#include "evaluate/method.h"

namespace contcore {
namespace {

class Inside : public Contender {
 public:
  Inside(std::unique_ptr<Method> method, Score score) : method_(std::move(method)), score_(score) {}

  bool learns_joined() const override { return true; }
  void learn(const Evaluation::State::Task& task, Compute& compute,
             const Progress& progress) override {
    method_->learn(task.features, compute, progress);
  }
  void prepare(Compute& compute) override { method_->prepare(compute); }

  std::size_t most_images() const override { return static_cast<std::size_t>(-1); }
  void ask(std::size_t /*product*/, const std::shared_ptr<const ImageFeatures>& /*features*/,
           std::size_t /*begin*/, std::size_t /*end*/) override {}

  // A method that has distances leaves the score to be made of them.
  Answer answer(std::size_t product, const ImageFeatures& features, std::size_t image,
                bool with_map, Compute& compute) const override {
    const Scored scored = method_->score(features.of_image(image), product, compute);
    Answer answer;
    answer.score = scored.score;
    if (scored.patches.empty()) return answer;
    const PatchGrid grid = features.images[image].grid();
    answer.score = image_score(scored.patches, grid, score_);
    if (with_map) answer.map = anomaly_map(scored.patches, grid);
    return answer;
  }

  Score score() const override { return score_; }
  std::size_t vectors() const override { return method_->vectors(); }
  std::uint64_t numbers() const override { return method_->numbers(); }

 private:
  std::unique_ptr<Method> method_;
  Score score_;
};

}  // namespace

std::unique_ptr<Contender> make_inside(const Evaluation::State& parts, const Setting& setting) {
  return std::make_unique<Inside>(parts.method(setting), parts.options.score);
}

}  // namespace contcore
