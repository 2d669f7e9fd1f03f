// How images become part of a memory: one flow for the command, the library, the service and
// evaluation.
//
// In: patch vectors, image by image. Out: the memory, which has learned some and calibrates with
// the others. Fails as Memory::learn does.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/memory.h"
#include "contcore/vectors.h"
#include "detector/feature_store.h"

namespace contcore {

/// Part of the patches that expansion takes, unless another is asked for.
inline constexpr double kBatchRatio = 0.01;
inline constexpr double kOnlineRatio = 0.1;

/// The images of a task: those to learn, and those held out to calibrate with.
struct TrainingSet {
  VectorView features;
  std::size_t images = 0;
  VectorView held;
  std::span<const std::size_t> held_ends;  ///< the row behind each image that is held out
};

/// The same while its images come.
class TrainingSetBuilder {
 public:
  /// Up to `memory` bytes of features stay in memory, and `held_memory` of those held out; the rest
  /// goes to disk. A room that is shared with others bounds both.
  TrainingSetBuilder(std::size_t dimension, std::size_t memory, std::size_t held_memory,
                     const std::shared_ptr<FeatureRoom>& room = nullptr);

  /// Throws Error (kInput) when the disk is full.
  void learn(VectorView patches);
  void hold_out(VectorView patches);

  std::size_t images() const { return images_; }
  std::size_t held() const { return held_ends_.size(); }
  bool on_disk() const { return features_.on_disk(); }
  /// Valid until more images come.
  TrainingSet view();

 private:
  FeatureStore features_;
  FeatureStore held_;
  std::vector<std::size_t> held_ends_;
  std::size_t images_ = 0;
};

/// Learns a whole task, then calibrates. `how.images` is the set's.
void learn_task(Memory& memory, const TrainingSet& set, LearnHow how, Compute& compute);

/// Calibrates with what was held out.
void calibrate(Memory& memory, const TrainingSet& set, const std::string& task, Compute& compute);

/// Learns the next image of a stream; or, if it may and its turn has come, holds it out: then true.
/// Thresholds follow when the memory is calibrated again (Memory::recalibrate).
bool learn_next(Memory& memory, VectorView patches, const LearnHow& how, bool may_hold_out,
                Compute& compute);

}  // namespace contcore
