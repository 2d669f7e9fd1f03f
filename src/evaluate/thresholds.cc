#include "evaluate/thresholds.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/radix.h"

namespace contcore {
namespace {

constexpr int kTableBits = 18;  // a table that stays in the cache

// The first of n keys in order that is not below `key`, or n. Without branches to guess.
const std::uint32_t* not_below(const std::uint32_t* keys, std::size_t n, std::uint32_t key) {
  while (n > 0) {
    const std::size_t half = (n + 1) / 2;
    keys += keys[half - 1] < key ? half : 0;
    n -= half;
  }
  return keys;
}

std::uint32_t key_of(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }

std::vector<std::uint32_t> distinct_keys(std::span<const std::uint64_t> sorted) {
  std::size_t distinct = sorted.empty() ? 0 : 1;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (key_of(sorted[i - 1]) != key_of(sorted[i])) ++distinct;
  }
  std::vector<std::uint32_t> keys;
  keys.reserve(distinct);
  for (const std::uint64_t word : sorted) {
    if (keys.empty() || keys.back() != key_of(word)) keys.push_back(key_of(word));
  }
  return keys;
}

}  // namespace

Thresholds::Thresholds(std::vector<std::uint64_t> defects, Compute& compute)
    : defects_(std::move(defects)) {
  sort_by_upper_half(defects_, compute.threads());
  keys_ = distinct_keys(defects_);
  in_slot_ = std::vector<std::atomic<std::uint64_t>>(2 * keys_.size() + 1);
  if (keys_.empty()) return;
  const std::uint32_t range = keys_.back() - keys_.front();
  const int bits = std::min(kTableBits, static_cast<int>(std::bit_width(keys_.size())));
  shift_ = std::max(0, static_cast<int>(std::bit_width(range)) - bits);
  first_.resize((range >> shift_) + 2);
  for (std::size_t cell = 0, i = 0; cell < first_.size(); ++cell) {
    while (i < keys_.size() && (keys_[i] - keys_.front()) >> shift_ < cell) ++i;
    first_[cell] = static_cast<std::uint32_t>(i);
  }
}

// Where in `in_slot_` a good score is counted.
std::size_t Thresholds::slot_of(std::uint32_t key) const {
  if (keys_.empty() || key < keys_.front()) return 0;
  if (key > keys_.back()) return 2 * keys_.size();
  const std::size_t cell = (key - keys_.front()) >> shift_;
  const std::uint32_t* found =
      not_below(keys_.data() + first_[cell], first_[cell + 1] - first_[cell], key);
  // There is one: if none in this cell, then the first of those after it, and a last key ≥ `key`.
  return 2 * static_cast<std::size_t>(found - keys_.data()) + (*found == key ? 1 : 0);
}

// Equal scores are counted at once: a count that two threads fight over is slow.
void Thresholds::count_sorted(std::span<const std::uint32_t> good) {
  for (std::size_t end = 0; end < good.size();) {
    const std::size_t begin = end;
    while (end < good.size() && good[end] == good[begin]) ++end;
    in_slot_[slot_of(good[begin])].fetch_add(end - begin, std::memory_order_relaxed);
  }
}

// Sorted, a block's scores go through the tables from one end to the other. Looked up as they come,
// each would wait for memory several times.
void Thresholds::count(std::size_t blocks,
                       const std::function<std::span<const float>(std::size_t)>& block,
                       Compute& compute) {
  std::vector<std::array<std::vector<std::uint32_t>, 2>> scratch(compute.threads().count());
  compute.threads().run(blocks, [&](std::size_t i, std::size_t worker) {
    const std::span<const float> good = block(i);
    auto& [keys, other] = scratch[worker];
    keys.resize(good.size());
    other.resize(good.size());
    std::transform(good.begin(), good.end(), keys.begin(), falling_key);
    sort_small(keys, other);
    count_sorted(keys);
  });
}

std::uint64_t Thresholds::good() const {
  std::uint64_t sum = 0;
  for (const auto& slot : in_slot_) sum += slot.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace contcore
