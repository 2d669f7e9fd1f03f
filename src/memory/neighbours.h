// The nearest neighbours of every vector in the memory, kept while vectors come and go.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "contcore/compute.h"
#include "contcore/vectors.h"
#include "memory/slot_index.h"

namespace contcore {

/// For each vector x a sorted list that holds every other vector y with d(x, y) < bound(x), d being
/// the canonical squared distance. Vectors that were dropped stay in the lists and are passed over
/// by their stamps. Adding n vectors to m costs n·m distances; dropping costs nothing.
class Neighbours {
 public:
  struct Near {
    float squared;
    std::uint32_t slot;
    std::uint32_t stamp;
  };

  /// `slots` must stay where it is.
  explicit Neighbours(const Vectors& slots);

  /// Starts with the vectors in slots 0, 1, 2, …, all of them in the index.
  void start(const SlotIndex& index, std::size_t count, Compute& compute);

  /// The vectors in these slots are there from now on; `all` are those there, these included.
  void add(const std::vector<std::uint32_t>& added, const std::vector<std::uint32_t>& all,
           Compute& compute);
  void drop(std::uint32_t slot);

  /// Calls visit(near) for the vectors in increasing distance until it returns true; false if the
  /// list ended before: then nothing is known of vectors from bound(slot) on.
  template <typename Visit>
  bool nearest(std::uint32_t slot, Visit visit) const {
    for (const Near& near : lists_[slot]) {
      if (near.stamp == stamps_[near.slot] && visit(near)) return true;
    }
    return false;
  }

  /// Makes the lists of some slots anew, each long enough that `wanted(y)` holds for one of its
  /// vectors y and for at least the usual number of entries.
  template <typename Wanted>
  void renew(const std::vector<std::uint32_t>& which, const std::vector<std::uint32_t>& all,
             Wanted wanted, Compute& compute) {
    for_rows(which, all, compute, [&](std::uint32_t slot, const float* squared) {
      float least = std::numeric_limits<float>::infinity();
      for (std::size_t j = 0; j < all.size(); ++j) {
        if (all[j] != slot && wanted(all[j])) least = std::min(least, squared[j]);
      }
      fill(slot, all, squared, least);
    });
  }

 private:
  template <typename Use>
  void for_rows(const std::vector<std::uint32_t>& which, const std::vector<std::uint32_t>& all,
                Compute& compute, Use use);
  std::vector<float> all_distances(const std::vector<std::uint32_t>& from,
                                   const std::vector<std::uint32_t>& to, Compute& compute) const;
  void fill(std::uint32_t slot, const std::vector<std::uint32_t>& all, const float* squared,
            float at_least);
  void insert(std::uint32_t slot, std::uint32_t other, float squared);

  const Vectors* slots_;
  std::vector<std::vector<Near>> lists_;
  std::vector<float> bounds_;
  std::vector<std::uint32_t> rooms_;  // entries at which a list is cut to half of that
  std::vector<std::uint32_t> stamps_;
};

template <typename Use>
void Neighbours::for_rows(const std::vector<std::uint32_t>& which,
                          const std::vector<std::uint32_t>& all, Compute& compute, Use use) {
  constexpr std::size_t kRows = 64;  // at a time, so that the distances stay bounded
  for (std::size_t first = 0; first < which.size(); first += kRows) {
    const std::size_t n = std::min(kRows, which.size() - first);
    const std::vector<std::uint32_t> some(which.begin() + static_cast<std::ptrdiff_t>(first),
                                          which.begin() + static_cast<std::ptrdiff_t>(first + n));
    const std::vector<float> squared = all_distances(some, all, compute);
    compute.threads().run(
        n, [&](std::size_t i, std::size_t) { use(some[i], squared.data() + i * all.size()); });
  }
}

}  // namespace contcore
