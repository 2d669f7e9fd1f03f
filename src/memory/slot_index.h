// Searches the vectors in some slots of a memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "contcore/compute.h"
#include "contcore/nearest.h"
#include "contcore/vectors.h"

namespace contcore {

class SlotIndex {
 public:
  /// Of vectors equally near, the first of `which` is found. `slots` must stay where it is.
  SlotIndex(const Vectors& slots, std::vector<std::uint32_t> which, Compute& compute);

  /// More, behind all others.
  void add(const std::vector<std::uint32_t>& slots, Compute& compute);
  /// Those of these slots that are in it are no longer.
  void drop(const std::vector<std::uint32_t>& slots);

  /// Vectors it was made with, that came since, and that are there.
  std::size_t first() const { return first_; }
  std::size_t came() const { return slot_of_id_.size() - first_; }
  std::size_t size() const { return index_.size(); }

  std::vector<float> distances(VectorView patches, Compute& compute,
                               const Progress& progress = {}) const;

  /// The slots of the k nearest vectors of each, nearest first; kNone where there are fewer.
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::vector<std::uint32_t> nearest(VectorView patches, std::size_t k, Compute& compute) const;

 private:
  const Vectors* slots_;
  std::vector<std::uint32_t> slot_of_id_;
  std::unordered_map<std::uint32_t, std::int64_t> id_of_slot_;
  std::size_t first_;
  NearestIndex index_;
};

}  // namespace contcore
