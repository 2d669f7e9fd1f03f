// What good images score that a memory has not learned: thresholds, drift, and the product.
//
// An image's score is kept for the number of vectors its task had, and for ever fewer of them, so
// that thresholds can follow a memory that gives its tasks smaller shares, without an image or a
// patch being kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "contcore/compute.h"
#include "contcore/memory.h"
#include "contcore/vectors.h"
#include "memory/defect_bank.h"

namespace contcore {

/// Whether a person could have meant it.
bool is_threshold(const SetThreshold& set);

/// How many vectors the levels of an image's scores are for: all, then 2^-½, 2^-1, … of them, as
/// long as that is one.
std::vector<std::size_t> level_sizes(std::size_t vectors);

/// Distances of patches to the first sizes[1], sizes[2], … of some rows, and to those that always
/// are there: a list for each level but the first, in the order of the patches.
std::vector<std::vector<float>> thinned_distances(VectorView patches, VectorView vectors,
                                                  std::span<const std::uint32_t> rows,
                                                  std::span<const std::size_t> sizes,
                                                  std::span<const std::uint32_t> always,
                                                  Compute& compute);

/// Tells an image from others by its patches; never 0.
std::uint64_t hash_of(VectorView patches);

struct CalibratedImage {
  std::uint32_t vectors = 0;  ///< of its task when it was scored
  std::uint32_t level = 0;    ///< of the first score that is kept
  float first = 0;            ///< with all those vectors
  std::vector<float> scores;  ///< at that level and the next ones
  std::uint64_t hash = 0;     ///< of its patches; 0: not known
  std::shared_ptr<const Suspects> suspects = {};
  std::uint32_t suspects_kept = 0;    ///< the first of them
  std::vector<float> to_defect = {};  ///< of these: their distance to the nearest known defect
  float strange = 0;  ///< from the nearest mean patch of another image; 0: not known

  /// Whether a score with so many vectors is known: not with none, nor below the last level.
  bool knows(std::size_t vectors_now) const;
  /// With so many, which it knows: between two levels, linear in their logarithm.
  float score_at(std::size_t vectors_now) const;
  /// The same as known defects raise it.
  float raised_score_at(std::size_t vectors_now) const;
};

/// Which images a task has learned: the smallest of their hashes (the upper halves), so that of
/// images with a hash below a limit it is known for certain. The limit falls as images come.
struct LearnedImages {
  std::vector<std::uint32_t> hashes;  ///< sorted, each once, all below the limit
  std::uint32_t limit = ~std::uint32_t{0};

  /// Whether it is certain that the image was not learned. Of a stream without end ever fewer
  /// images are, but those that are come evenly from all that is new in it.
  bool is_new(std::uint64_t hash) const;
  /// Whether it is among those that are known.
  bool has(std::uint64_t hash) const;
  /// Lets go of all but the smallest.
  void keep(std::size_t most) noexcept;
  /// What two know together.
  static LearnedImages joined(const LearnedImages& a, const LearnedImages& b);
  static LearnedImages of(std::span<const std::uint64_t> hashes);
};

/// Distance of a mean patch to the nearest of some others. Equal ones are its own or a copy's, and
/// do not count; 0 when there are no others.
float nearest_other(const std::vector<float>& mean,
                    const std::vector<std::vector<float>>& means) noexcept;

/// Whether an image of that hash is among them.
bool is_among(const std::vector<CalibratedImage>& images, std::uint64_t hash);

struct TaskCalibration {
  std::vector<CalibratedImage> images;  ///< the latest last
  std::vector<std::vector<float>> means;
  LearnedImages learned;
  DefectBank defects;
  /// Of a memory of an earlier version: patches of each image, to be scored when the task is left
  /// with fewer vectors. Empty otherwise.
  std::vector<Vectors> patches;

  /// The most that one task's can take in a file.
  static std::size_t most_bytes(std::size_t dimension, std::size_t number);
  /// In a file, with so many bytes for a number of a mean.
  std::size_t bytes(std::size_t number) const;
  std::size_t image_bytes() const;
  std::size_t suspect_bytes(std::size_t number) const;
  /// Its images' scores with so many vectors, as far as known. Those scored with less than half of
  /// what others were say too much, and are left out while there are others.
  std::vector<float> scores(std::size_t vectors) const;
  /// Those of them that can be raised by known defects, raised.
  std::vector<float> raised_scores(std::size_t vectors) const;
  /// Whether scores are raised: enough defects are known, and enough good images can say what that
  /// does to them (all of those that calibrate, or as many as a rate of 5 % needs).
  bool raises(std::size_t vectors) const;
  /// Measures the suspects of all images, or of those that were not, to the known defects.
  void measure_suspects(bool all, Compute& compute);

  /// Leaves `most` means, evenly spread. Images are farther from the nearest of fewer; how far is
  /// seen in those that go, and what is known of other images grows with it.
  void thin_means(std::size_t most) noexcept;

 private:
  std::vector<const CalibratedImage*> calibrating(std::size_t vectors) const;
};

/// Of an image's scores, at the most.
inline constexpr std::size_t kMostLevels = 32;

class Calibration {
 public:
  static constexpr std::size_t kMostImages = 100;  // of a task
  static constexpr std::size_t kMostMeans = 32;
  static constexpr std::size_t kMostLearned = 1000;

  /// Bytes that may be kept in all, beside a memory of so many.
  static std::size_t budget(std::size_t memory_bytes);

  std::vector<TaskCalibration> tasks;

  Calibration copy() const;
  TaskCalibration& of(std::size_t task);
  /// Whether some are left of an earlier version.
  bool has_patches() const;

  /// Lets go of what is over the budget: tasks share it evenly. Suspects go first, so that the rest
  /// is what it would be without them; then levels above what a task has, then means but for one,
  /// then hashes, then images. Where there is not even room for one mean and the scores that a rate
  /// needs, no task keeps one: an image would be taken for one of those that have. `vectors` are
  /// the tasks' now.
  void trim(std::size_t budget, std::size_t number, std::span<const std::size_t> vectors) noexcept;

  /// Lets go of known defects that are over a budget of their own: tasks that have some share it
  /// evenly.
  void trim_defects(std::size_t budget, std::size_t number, Compute& compute);

  std::optional<Threshold> threshold(std::size_t task, std::size_t vectors,
                                     double false_alarms) const;
  /// Among the tasks for which `is_eligible`, all where it is empty.
  std::optional<Memory::Recognised> recognise(VectorView patches,
                                              const std::vector<bool>& is_eligible = {}) const;
  /// Of a mean patch, if there is one.
  std::optional<Strangeness> strangeness(std::size_t task, const std::vector<float>& mean,
                                         double rate) const;
};

/// Leaves `most` of them: those with the smallest hashes, in their order. That is a choice by
/// chance, and the same whenever the same images come again.
void choose_images(std::vector<CalibratedImage>& images, std::size_t most) noexcept;

/// Whether the value at i of n is among the `most` that are left, evenly spread.
inline bool stays_when_thinned(std::size_t i, std::size_t most, std::size_t n) {
  return (i + 1) * most / n != i * most / n;
}

/// Leaves `most` of them, evenly spread.
template <typename Value>
void thin_out(std::vector<Value>& values, std::size_t most) noexcept {
  const std::size_t n = values.size();
  if (n <= most) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (!stays_when_thinned(i, most, n)) continue;
    if (kept != i) values[kept] = std::move(values[i]);
    ++kept;
  }
  values.resize(kept);
}

}  // namespace contcore
