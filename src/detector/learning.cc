#include "detector/learning.h"

#include <algorithm>
#include <utility>

#include "base/rows.h"
#include "detector/calibration_scores.h"
#include "device/packing.h"
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
  PatchGrid grid = patches.grid();
  // Images of a size have the same places, which are kept once.
  if (grid.inside && !images_.empty() && images_.back().grid.inside &&
      images_.back().grid.inside->places == grid.inside->places) {
    grid.inside = images_.back().grid.inside;
  }
  images_.push_back({features_.rows(), std::move(grid)});
}

TrainingSet::TrainingSet(VectorView part, std::span<const TrainingImage> of, Ranks& with)
    : features(part, with), images(of) {
  const std::vector<std::size_t> counts = all_of<std::size_t>(&with, {of.size()});
  for (std::size_t r = 0; r < counts.size(); ++r) {
    if (r < with.rank()) first += counts[r];
    count += counts[r];
  }
}

TrainingSet TrainingSetBuilder::view(Ranks* ranks) {
  return ranks != nullptr ? TrainingSet(features_.view(), images_, *ranks)
                          : TrainingSet(features_.view(), images_);
}

Patches TrainingSetBuilder::patches(std::size_t i) {
  const VectorView rows = view().image(i);
  const PatchGrid& grid = images_[i].grid;
  Patches patches;
  patches.vectors = Vectors(rows.rows, rows.cols, rows.scalar);
  patches.vectors.set_rows(0, rows);
  patches.grid_width = grid.columns;
  patches.grid_height = grid.rows;
  patches.input.width = grid.width;
  patches.input.height = grid.height;
  patches.input.tile = grid.tile;
  patches.inside = grid.inside;
  return patches;
}

FoldScores score_task(const Memory& memory, const TrainingSet& set, LearnHow how,
                      Compute& compute) {
  how.images = set.count;
  VectorView all = set.features.here;
  all.rows = set.features.rows;  // they are counted here, not looked at
  do_on_all(set.ranks(), [&] {   // before the folds take long
    memory.check_region(how.task, how.region);
    memory.check_learn(all, how);
  });
  return fold_scores(memory, set, how, compute);
}

void learn_task(Memory& memory, const TrainingSet& set, LearnHow how, Compute& compute) {
  const Progress whole = how.progress;
  how.progress = part_of(whole, 0.0, kFoldsShare);
  const FoldScores folds = score_task(memory, set, how, compute);
  how.progress = part_of(whole, kFoldsShare, 1.0);
  learn_scored_task(memory, set, folds, std::move(how), compute);
}

void learn_scored_task(Memory& memory, const TrainingSet& set, const FoldScores& folds,
                       LearnHow how, Compute& compute) {
  how.images = set.count;
  const VectorView here = set.features.here;
  if (set.ranks() != nullptr) {
    memory.learn(here, how, compute, *set.ranks());
  } else {
    memory.learn(here, how, compute);
  }
  std::vector<float> means;  // of some images, to recognise the task by
  const std::size_t count = std::min(set.count, Calibration::kMostMeans);
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = k * set.count / count;
    if (!set.is_here(i)) continue;
    const std::vector<float> mean = mean_of_patches(set.image(i));
    means.insert(means.end(), mean.begin(), mean.end());
  }
  means = all_of(set.ranks(), std::move(means));
  std::vector<VectorView> some;  // the mean of one is itself
  for (std::size_t k = 0; k < count; ++k) {
    some.emplace_back(means.data() + k * here.cols, 1, here.cols);
  }
  do_on_all(set.ranks(), [&] {
    memory.calibrate(how.task, folds.scores, some, Memory::Keep::kSpread, folds.hashes);
  });
}

void learn_next(Memory& memory, const Patches& patches, const LearnHow& how, bool calibrates,
                Compute& compute) {
  const VectorView vectors = patches.vectors.view();
  memory.check_region(how.task, patches.grid().region());
  memory.check_learn(vectors, how);
  memory.check_image(how.task, vectors);  // what is learned can be calibrated with
  std::vector<ImageScores> scores;
  LearnHow scored = how;
  scored.region = patches.grid().region();
  const std::uint64_t hash = hash_of(vectors);
  if (calibrates && memory.is_new(how.task, hash)) {
    scored.before = [&](std::span<const float> distances) {
      ImageScores next = next_scores(memory, patches, how.task, distances, compute);
      next.image = hash;
      if (next.vectors > 0) scores = {std::move(next)};  // others alone say nothing of the task
    };
  }
  memory.learn_online(vectors, scored, compute);
  // Whoever calls it good says what it is, so it is known from now on.
  memory.calibrate(how.task, scores, std::span(&vectors, 1), Memory::Keep::kLatest,
                   std::span(&hash, 1));
}

}  // namespace contcore
