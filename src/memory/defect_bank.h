// Known defects of a task: a few patches of what a person has shown to be one.
//
// In: the patches that show a defect, image after image. Out: how near any patch is to one of them,
// and what that makes of its distance. Nothing fails but for want of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/compute.h"
#include "contcore/memory.h"
#include "contcore/vectors.h"
#include "memory/vector_store.h"

namespace contcore {

struct DefectBank {
  static constexpr std::size_t kMostPatches = 256;
  static constexpr std::size_t kMostImages = 1000;  // that are counted

  std::vector<std::uint64_t> images;  ///< hashes of those that were shown, sorted, each once
  Vectors patches;                    ///< in greedy order: the first of them cover the others

  bool enough() const { return images.size() >= KnownDefects::kLeast && patches.rows() > 0; }
  bool knows(std::uint64_t image) const;
  DefectBank copy() const;

  /// Takes up patches of other images. Of all, the greedy coreset on what is normal stays: those
  /// that are farthest from it and from each other. As before if this throws.
  void add(VectorView more, const std::vector<std::uint64_t>& more_images,
           const VectorStore& normal, Compute& compute);
  /// Leaves the first of them.
  void keep(std::size_t most);

  /// Distances of patches to the nearest of these.
  std::vector<float> distances(VectorView of, Compute& compute) const;
};

/// The distance of a patch, given that to what is normal and that to the nearest known defect: the
/// larger by twice the lead of the second (docs/method.md).
inline float raised_distance(float normal, float defect) {
  return defect < normal ? normal + 2 * (normal - defect) : normal;
}

}  // namespace contcore
