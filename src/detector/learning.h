// How images become part of a memory: one flow for the command, the library, the service and
// evaluation.
//
// In: patch vectors, image by image. Out: the memory, which has learned them and is calibrated with
// what they scored before. Fails as Memory::learn does.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/extractor.h"
#include "contcore/memory.h"
#include "contcore/score.h"
#include "contcore/vectors.h"
#include "detector/feature_store.h"

namespace contcore {

/// Part of the patches that expansion takes, unless another is asked for.
inline constexpr double kBatchRatio = 0.01;
inline constexpr double kOnlineRatio = 0.1;

/// Bytes of features that stay in memory, unless others are asked for; beyond, they go to disk.
inline constexpr std::size_t kFeaturesInMemory = std::size_t{512} << 20;

struct TrainingImage {
  std::size_t end = 0;  ///< the row behind its patches
  PatchGrid grid;
};

/// The images of a task.
struct TrainingSet {
  VectorView features;
  std::span<const TrainingImage> images;

  std::size_t begin(std::size_t i) const { return i == 0 ? 0 : images[i - 1].end; }
  VectorView image(std::size_t i) const {
    return features.part(begin(i), images[i].end - begin(i));
  }
};

/// The same while its images come.
class TrainingSetBuilder {
 public:
  /// Up to `memory` bytes of features stay in memory, the rest goes to disk. A room that is shared
  /// with others bounds both.
  TrainingSetBuilder(std::size_t dimension, std::size_t memory,
                     const std::shared_ptr<FeatureRoom>& room = nullptr);

  /// Throws Error (kInput) when the disk is full.
  void add(const Patches& patches);

  std::size_t images() const { return images_.size(); }
  bool on_disk() const { return features_.on_disk(); }
  /// Valid until more images come.
  TrainingSet view();
  /// What an image gave, but for where in it that was.
  Patches patches(std::size_t i);

 private:
  FeatureStore features_;
  std::vector<TrainingImage> images_;
};

struct FoldScores;

/// Learns a whole task, and calibrates it by folds. `how.images` is the set's.
void learn_task(Memory& memory, const TrainingSet& set, LearnHow how, Compute& compute);

/// The same in two steps, for whoever looks at the scores before anything is learned. Throws what
/// learning these would, as far as that is known.
FoldScores score_task(const Memory& memory, const TrainingSet& set, LearnHow how, Compute& compute);
void learn_scored_task(Memory& memory, const TrainingSet& set, const FoldScores& folds,
                       LearnHow how, Compute& compute);

/// Learns the next image of a stream; what it scores before that calibrates the task, unless it is
/// not to.
void learn_next(Memory& memory, const Patches& patches, const LearnHow& how, bool calibrates,
                Compute& compute);

}  // namespace contcore
