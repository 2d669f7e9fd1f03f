// Good images that were not learned: what verdicts are calibrated with, and drift is seen by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "contcore/memory.h"
#include "contcore/vectors.h"

namespace contcore {

/// Of a held-out image, its mean and a few patches stay: those that make its score, and those that
/// would make it if its task were left with fewer vectors.
struct HeldOut {
  std::int32_t task = 0;
  float first_score = 0;  // when it was held out
  float score = 0;        // now
  std::vector<float> mean;
  Vectors patches;
};

/// Whether a person could have meant it.
bool is_threshold(const SetThreshold& set);

class Calibration {
 public:
  static constexpr std::size_t kMostImages = 64;   // of a task
  static constexpr std::size_t kMostPatches = 16;  // of an image

  /// Vectors that may be kept in all, beside a memory of `capacity`.
  static std::size_t budget(std::size_t capacity);

  std::vector<HeldOut> images;

  Calibration copy() const;

  /// How many more images a task may hold out.
  std::size_t room(std::int32_t task) const;

  /// Lets go of what is over the budget: tasks share it evenly; each keeps as many images as it can
  /// with a few patches each.
  void trim(std::size_t budget, std::size_t tasks);

  std::vector<float> scores(std::int32_t task) const;
  std::optional<Threshold> threshold(std::int32_t task, double false_alarms) const;
  std::optional<std::size_t> recognise(VectorView patches) const;
};

/// The image to keep. `distances` are those of its patches to the memory, and to ever thinner ones.
HeldOut hold_out(VectorView patches, const std::vector<std::vector<float>>& distances,
                 std::int32_t task);

}  // namespace contcore
