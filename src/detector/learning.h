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
#include "coreset/points.h"
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

/// The images of a task: all of them, or the part that this rank has. Images are told by their
/// numbers among all; what is asked of one is asked of one that is here.
struct TrainingSet {
  Points features;
  std::span<const TrainingImage> images;  ///< that are here
  std::size_t first = 0;                  ///< number of the first of these
  std::size_t count = 0;                  ///< of all images
  /// Bytes that the patches of a fold may take: of fewer, where it is tight, the folds are sampled.
  /// 0: as the memory limit says.
  std::size_t fold_room = 0;

  TrainingSet(VectorView all, std::span<const TrainingImage> of)
      : features(all), images(of), count(of.size()) {}
  /// Of all ranks, whose parts follow one another.
  TrainingSet(VectorView part, std::span<const TrainingImage> of, Ranks& with);

  Ranks* ranks() const { return features.ranks; }
  bool is_here(std::size_t i) const { return i >= first && i - first < images.size(); }
  const PatchGrid& grid(std::size_t i) const { return images[i - first].grid; }
  /// Its first row among those here.
  std::size_t begin(std::size_t i) const { return i == first ? 0 : images[i - first - 1].end; }
  VectorView image(std::size_t i) const {
    return features.here.part(begin(i), images[i - first].end - begin(i));
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
  /// Valid until more images come. With ranks: this rank's part of what all of them have.
  TrainingSet view(Ranks* ranks = nullptr);
  /// What an image gave, but for where in it that was.
  Patches patches(std::size_t i);

 private:
  FeatureStore features_;
  std::vector<TrainingImage> images_;
};

struct FoldScores;

/// Learns a whole task, and calibrates it by folds. `how.images` is the set's; `how.region` is what
/// its images were seen through, and the task's, where that is known.
void learn_task(Memory& memory, const TrainingSet& set, LearnHow how, Compute& compute);

/// The same in two steps, for whoever looks at the scores before anything is learned. Throws what
/// learning these would, as far as that is known. Of all ranks, where the set has any.
FoldScores score_task(const Memory& memory, const TrainingSet& set, LearnHow how, Compute& compute);
void learn_scored_task(Memory& memory, const TrainingSet& set, const FoldScores& folds,
                       LearnHow how, Compute& compute);

/// Learns the next image of a stream; what it scores before that calibrates the task, unless it is
/// not to. Throws Error (kInput) also where it was not seen through the task's region.
void learn_next(Memory& memory, const Patches& patches, const LearnHow& how, bool calibrates,
                Compute& compute);

}  // namespace contcore
