// What every measure here is made of: the scores of defects in falling order, and how many of the
// good ones lie above and at each of them. A threshold that only good ones reach catches no further
// defect, so nothing else about the good scores matters: they are counted, not sorted.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "contcore/compute.h"

namespace contcore {

/// A key that is the smaller the larger the score, and the same for 0 and −0. Not for NaN.
inline std::uint32_t falling_key(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);  // −0 + 0 is 0
  return (bits >> 31) != 0 ? bits : bits ^ 0x7fffffffu;
}

/// One defective thing as a word that sorts by its score, from the highest, with a number to know
/// it by.
inline std::uint64_t scored(float score, std::uint32_t number) {
  return (std::uint64_t{falling_key(score)} << 32) | number;
}

class Thresholds {
 public:
  /// `defects` as `scored` makes them, in any order.
  Thresholds(std::vector<std::uint64_t> defects, Compute& compute);

  /// Good scores are counted this many at a time, which stay in a thread's cache.
  static constexpr std::size_t kBlock = std::size_t{1} << 16;

  /// Takes good scores into account: block(i) for i < blocks, of up to kBlock each.
  void count(std::size_t blocks, const std::function<std::span<const float>(std::size_t)>& block,
             Compute& compute);

  std::uint64_t good() const;
  std::uint64_t defects() const { return defects_.size(); }

  /// One distinct score of defects.
  struct Level {
    std::uint64_t good_above = 0;       ///< with scores > this
    std::uint64_t good = 0;             ///< with scores ≥ this
    std::uint64_t defects = 0;          ///< with scores ≥ this
    std::span<const std::uint64_t> at;  ///< the defects with this very score
  };
  /// Calls visit(level) for each, from the highest score.
  template <typename Visit>
  void for_each_level(const Visit& visit) const;

 private:
  std::size_t slot_of(std::uint32_t key) const;
  void count_sorted(std::span<const std::uint32_t> good);

  std::vector<std::uint64_t> defects_;  // sorted
  std::vector<std::uint32_t> keys_;     // the distinct ones of them
  std::vector<std::uint32_t> first_;    // [(key − keys_[0]) >> shift_] in keys_
  int shift_ = 0;
  // How many good scores lie between the defects' scores i − 1 and i, at 2i, and how many at score
  // i itself, at 2i + 1.
  std::vector<std::atomic<std::uint64_t>> in_slot_;
};

template <typename Visit>
void Thresholds::for_each_level(const Visit& visit) const {
  Level level;
  std::size_t slot = 0;
  for (std::size_t end = 0; end < defects_.size(); slot += 2) {
    const std::size_t begin = end;
    while (end < defects_.size() && (defects_[end] >> 32) == (defects_[begin] >> 32)) ++end;
    level.good_above = level.good + in_slot_[slot].load(std::memory_order_relaxed);
    level.good = level.good_above + in_slot_[slot + 1].load(std::memory_order_relaxed);
    level.defects = end;
    level.at = std::span(defects_).subspan(begin, end - begin);
    visit(static_cast<const Level&>(level));
  }
}

}  // namespace contcore
