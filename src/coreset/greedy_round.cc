#include "coreset/greedy_round.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "coreset/greedy_bounds.h"
#include "coreset/greedy_update.h"

namespace contcore {
namespace {

constexpr std::size_t kSwept = 16;
constexpr std::size_t kSweptBase = 4;

}  // namespace

std::size_t greedy_round_size(std::size_t rows, std::size_t picks, const GreedyTuning& tuning) {
  if (tuning.round != 0) return tuning.round;
  return std::max<std::size_t>(2048, rows / (picks < kSwept ? 128 : 8));
}

float greedy_threshold(std::vector<float>& bounds, std::size_t rank) {
  rank = std::min(bounds.size() - 1, rank);
  std::nth_element(bounds.begin(), bounds.begin() + static_cast<std::ptrdiff_t>(rank), bounds.end(),
                   std::greater<>());
  return std::max(bounds[rank], std::numeric_limits<float>::denorm_min());
}

std::vector<float> GreedyRound::some_bounds(std::size_t most) const {
  const std::size_t n = std::min(state_.points.rows, most);
  std::vector<float> some(n);
  for (std::size_t i = 0; i < n; ++i) some[i] = state_.bound[i * state_.points.rows / n];
  return some;
}

void GreedyRound::sweep() {
  if (state_.sketch.width() == 0) return;
  const std::size_t base = state_.base.rows;
  for (; swept_base_ < std::min(kSweptBase, base); ++swept_base_) {
    bound_by_centre(state_, swept_base_, compute_);
  }
  const std::size_t end = std::min(kSwept, state_.centres.size() - base);
  for (; swept_ < end; ++swept_) bound_by_centre(state_, base + swept_, compute_);
}

std::size_t GreedyRound::update(float threshold) {
  gather(threshold);
  const std::size_t active = active_.size();
  if (active == 0) return 0;
  update_active(threshold);
  std::erase_if(active_, [&](std::uint32_t i) { return !(state_.bound[i] >= threshold); });
  return active;
}

void GreedyRound::gather(float threshold) {
  gathered_.resize(state_.points.rows);
  const std::size_t n =
      kernels::not_below(state_.bound.data(), state_.points.rows, threshold, gathered_.data());
  active_.assign(gathered_.begin(), gathered_.begin() + static_cast<std::ptrdiff_t>(n));
}

// Points that have seen equally much are looked at together.
void GreedyRound::order_active() {
  const std::size_t buckets = state_.centres.size() / kernels::kTile + 2;
  bucket_.assign(buckets, 0);
  for (const std::uint32_t i : active_) ++bucket_[state_.seen[i] / kernels::kTile + 1];
  for (std::size_t b = 1; b < buckets; ++b) bucket_[b] += bucket_[b - 1];
  ordered_.resize(active_.size());
  for (const std::uint32_t i : active_) ordered_[bucket_[state_.seen[i] / kernels::kTile]++] = i;
}

void GreedyRound::update_active(float threshold) {
  order_active();
  dense_ = state_.sketch.width() == 0 || (tuning_.adaptive && sketch_fails());
  const std::size_t blocks = (ordered_.size() + kernels::kScanPoints - 1) / kernels::kScanPoints;
  constexpr std::size_t kBlocksEach = 8;
  compute_.threads().run(
      (blocks + kBlocksEach - 1) / kBlocksEach, [&](std::size_t item, std::size_t w) {
        const std::size_t end = std::min(blocks, (item + 1) * kBlocksEach);
        for (std::size_t block = item * kBlocksEach; block < end; ++block) {
          const std::size_t first = block * kernels::kScanPoints;
          const std::size_t n = std::min(kernels::kScanPoints, ordered_.size() - first);
          prefetch(first + 4 * kernels::kScanPoints);
          update_block(ordered_.data() + first, n, threshold, state_.workers[w]);
        }
      });
  merge_counts();
}

// The sketches of the points from `first` on in the round's order, which lie anywhere in memory.
void GreedyRound::prefetch(std::size_t first) const {
  const std::size_t end = std::min(ordered_.size(), first + kernels::kScanPoints);
  for (std::size_t i = first; i < end; ++i) {
    const std::uint8_t* row = state_.sketches.byte_row(ordered_[i]);
    __builtin_prefetch(row);
    __builtin_prefetch(row + state_.sketches.cols() - 1);
    __builtin_prefetch(&state_.seen[ordered_[i]]);
    __builtin_prefetch(&state_.bound[ordered_[i]]);
    if (!state_.pending.empty()) __builtin_prefetch(&state_.pending[ordered_[i]]);
  }
}

void GreedyRound::update_block(const std::uint32_t* ids, std::size_t n, float threshold,
                               GreedyWorker& worker) {
  if (!dense_) return update_by_sketch(state_, ids, n, threshold, worker);
  for (std::size_t i = 0; i < n && !state_.pending.empty(); ++i) {
    resolve_pending(state_, ids[i], worker);
  }
  update_dense(state_, ids, n, threshold, worker);
}

// Whether blocks of full distances would have cost less than the sketch did in the round before,
// by the nanoseconds that each step takes, about. A round in sixteen asks again.
bool GreedyRound::sketch_fails() {
  if (++rounds_ % 16 == 0) return false;
  const PairCounts& c = last_counts_;
  const double full =
      static_cast<double>(state_.points.cols * bytes_of(state_.points.scalar)) / 4096;
  const double pairs = static_cast<double>(c.scanned);
  const double sketched =
      0.3 * pairs + 6.0 * static_cast<double>(c.passed) +
      full * (60.0 * static_cast<double>(c.exact) + 500.0 * static_cast<double>(c.touched));
  const double dense = full * (30.0 * pairs + 500.0 * static_cast<double>(last_active_));
  return sketched > dense;
}

void GreedyRound::merge_counts() {
  PairCounts round;
  for (GreedyWorker& worker : state_.workers) {
    round.add(worker.counts);
    worker.counts = {};
  }
  total_.add(round);
  if (round.scanned > 0) {
    last_counts_ = round;
    last_active_ = active_.size();
  }
}

void GreedyRound::count_stages(GreedyResult& result) {
  merge_counts();
  const std::uint64_t all = static_cast<std::uint64_t>(state_.points.rows) * state_.centres.size();
  result.stages.push_back({"lazy", all - total_.scanned - total_.dense});
  if (state_.sketch.width() > 0) {
    result.stages.push_back(
        {fmt::format("sketch {}", state_.sketch.width()), total_.scanned - total_.exact});
  }
  result.stages.push_back({"exact", total_.exact + total_.dense});
  result.full_distances = total_.full;
}

}  // namespace contcore
