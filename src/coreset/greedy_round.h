// A round's first step: which points matter, and these brought up to date, in parallel.
//
// In: the state, and the round's threshold. Out: the survivors, whose bounds are exact and at least
// the threshold; all others are below it. Nothing fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/compute.h"
#include "coreset/greedy.h"
#include "coreset/greedy_state.h"

namespace contcore {

/// About how many of all `rows` points a round is for, when so many were picked.
std::size_t greedy_round_size(std::size_t rows, std::size_t picks, const GreedyTuning& tuning);

/// The rank-th largest of some bounds, and never so little that a picked point is above it.
float greedy_threshold(std::vector<float>& bounds, std::size_t rank);

class GreedyRound {
 public:
  GreedyRound(GreedyState& state, Compute& compute, const GreedyTuning& tuning)
      : state_(state), compute_(compute), tuning_(tuning) {}

  /// At most so many of the points' bounds, evenly chosen.
  std::vector<float> some_bounds(std::size_t most) const;

  /// The first few centres are near to nobody and touch everybody: their upper bounds from the
  /// sketch go to all points in one pass each, and the full vectors wait until there are more
  /// centres.
  void sweep();

  /// Brings all points up to date that may be survivors. Returns how many those were.
  std::size_t update(float threshold);

  const std::vector<std::uint32_t>& survivors() const { return active_; }
  /// Whether the sketch does not pay in this round.
  bool dense() const { return dense_; }

  /// What each stage settled, of all rounds.
  void count_stages(GreedyResult& result);

 private:
  void gather(float threshold);
  void order_active();
  void update_active(float threshold);
  void prefetch(std::size_t first) const;
  void update_block(const std::uint32_t* ids, std::size_t n, float threshold, GreedyWorker& worker);
  bool sketch_fails();
  void merge_counts();

  GreedyState& state_;
  Compute& compute_;
  const GreedyTuning& tuning_;

  std::vector<std::uint32_t> gathered_;
  std::vector<std::uint32_t> active_;
  std::vector<std::uint32_t> ordered_;
  std::vector<std::size_t> bucket_;

  bool dense_ = false;
  std::size_t swept_ = 0;
  std::size_t swept_base_ = 0;
  std::size_t rounds_ = 0;
  PairCounts last_counts_;
  std::size_t last_active_ = 0;
  PairCounts total_;
};

}  // namespace contcore
