#include "detector/learning.h"

#include <algorithm>
#include <utility>

#include "base/rows.h"
#include "detector/calibration_scores.h"
#include "memory/calibration.h"

namespace contcore {
namespace {

constexpr double kFoldsShare = 0.5;  // of the time that learning takes, about

}  // namespace

TrainingSetBuilder::TrainingSetBuilder(std::size_t dimension, std::size_t memory,
                                       const std::shared_ptr<FeatureRoom>& room)
    : features_(dimension, memory, room) {}

void TrainingSetBuilder::add(const Patches& patches) {
  features_.append(patches.vectors.view());
  images_.push_back({features_.rows(), patches.grid()});
}

TrainingSet TrainingSetBuilder::view() { return {features_.view(), images_}; }

void learn_task(Memory& memory, const TrainingSet& set, LearnHow how, Compute& compute) {
  how.images = set.images.size();
  const Progress whole = how.progress;
  how.progress = part_of(whole, 0.0, kFoldsShare);
  const std::vector<ImageScores> scores = fold_scores(memory, set, how, compute);
  how.progress = part_of(whole, kFoldsShare, 1.0);
  memory.learn(set.features, how, compute);
  std::vector<VectorView> some;  // to recognise the task by
  const std::size_t count = std::min(set.images.size(), Calibration::kMostMeans);
  for (std::size_t k = 0; k < count; ++k) some.push_back(set.image(k * set.images.size() / count));
  memory.calibrate(how.task, scores, some, Memory::Keep::kSpread);
}

void learn_next(Memory& memory, const Patches& patches, const LearnHow& how, bool calibrates,
                Compute& compute) {
  const VectorView vectors = patches.vectors.view();
  if (!calibrates) return memory.learn_online(vectors, how, compute);
  std::vector<ImageScores> scores;
  LearnHow scored = how;
  scored.before = [&](std::span<const float> distances) {
    scores = {next_scores(memory, patches, how.task, distances, compute)};
  };
  memory.learn_online(vectors, scored, compute);
  memory.calibrate(how.task, scores, std::span(&vectors, 1), Memory::Keep::kLatest);
}

}  // namespace contcore
