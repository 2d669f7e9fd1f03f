#include "coreset/greedy_survivors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace contcore {
namespace {

constexpr std::uint32_t kAlive = std::numeric_limits<std::uint32_t>::max();

}  // namespace

bool SurvivorSampler::sample(const std::vector<std::uint32_t>& survivors, float threshold,
                             std::size_t count, bool dense, const std::function<void()>& report) {
  begin(survivors, dense);
  bool finished = false;
  while (true) {
    const std::size_t slot = farthest_slot();
    if (slot == survivors.size() || value_[slot] < threshold) break;
    if (state_.result.picks.size() == count) {
      state_.result.covering_radius = std::sqrt(value_[slot]);
      finished = true;
      break;
    }
    state_.pick(survivors[slot], value_[slot]);
    value_[slot] = kPicked;
    gate_[slot] = StepSketch::kShut;
    compare(state_.centres.size() - 1, threshold);
    if (state_.result.picks.size() % 256 == 0) report();
  }
  store_slots();
  return finished;
}

void SurvivorSampler::begin(const std::vector<std::uint32_t>& survivors, bool dense) {
  survivors_ = &survivors;
  dense_ = dense;
  fill_slots();
}

void SurvivorSampler::keys(float threshold, std::uint64_t first, std::vector<Key>& out) const {
  out.clear();
  for (std::size_t s = 0; s < survivors_->size(); ++s) {
    if (value_[s] >= threshold) out.push_back({value_[s], first + (*survivors_)[s]});
  }
}

void SurvivorSampler::picked(std::uint32_t point) {
  const auto at = std::lower_bound(survivors_->begin(), survivors_->end(), point);
  const auto slot = static_cast<std::size_t>(at - survivors_->begin());
  value_[slot] = kPicked;
  gate_[slot] = StepSketch::kShut;
}

void SurvivorSampler::set_gates() {
  for (std::size_t s = 0; s < survivors_->size() && state_.sketch.width() > 0; ++s) {
    if (value_[s] >= 0) set_gate(s);
  }
}

void SurvivorSampler::store_slots() {
  const auto all = static_cast<std::uint32_t>(state_.centres.size());
  for (std::size_t s = 0; s < survivors_->size(); ++s) {
    const std::uint32_t i = (*survivors_)[s];
    const std::uint32_t seen = tile_seen_[s / kernels::kTile];
    state_.bound[i] = value_[s];
    state_.seen[i] = seen == kAlive ? all : seen;
  }
}

void SurvivorSampler::fill_slots() {
  const std::size_t n = survivors_->size();
  const std::size_t tiles = (n + kernels::kTile - 1) / kernels::kTile;
  value_.assign(tiles * kernels::kTile, kPicked);
  gate_.assign(tiles * kernels::kTile, StepSketch::kShut);
  offset_.assign(tiles * kernels::kTile, 0);
  tile_max_.assign(tiles, 0.0f);
  tile_seen_.assign(tiles, kAlive);
  const bool sketched = state_.sketch.width() > 0;
  const std::size_t width = state_.sketch.width();
  if (sketched) tiles_.resize(tiles * kernels::step_tile_bytes(width), 0);
  for (std::size_t s = 0; s < n; ++s) {
    const std::uint32_t i = (*survivors_)[s];
    value_[s] = state_.bound[i];
    if (sketched) {
      std::uint8_t* tile = tiles_.data() + s / kernels::kTile * kernels::step_tile_bytes(width);
      offset_[s] = 128 * put_in_tile(state_.sketches.byte_row(i), width, s % kernels::kTile, tile);
      set_gate(s);
    }
  }
  for (std::size_t t = 0; t < tiles; ++t) refresh_tile(t);
}

void SurvivorSampler::set_gate(std::size_t slot) {
  const std::uint8_t* row = state_.sketches.byte_row((*survivors_)[slot]);
  gate_[slot] = state_.sketch.gate(row, state_.sketch.reach(value_[slot])) + offset_[slot];
}

void SurvivorSampler::refresh_tile(std::size_t t) {
  const float* begin = value_.data() + t * kernels::kTile;
  tile_max_[t] = *std::max_element(begin, begin + kernels::kTile);
}

std::size_t SurvivorSampler::farthest_slot() const {
  const auto tile = std::max_element(tile_max_.begin(), tile_max_.end());
  if (tile == tile_max_.end() || *tile < 0) return survivors_->size();
  const auto begin = value_.begin() + (tile - tile_max_.begin()) * std::ptrdiff_t{kernels::kTile};
  const auto slot = std::max_element(begin, begin + kernels::kTile) - value_.begin();
  return static_cast<std::size_t>(slot);
}

void SurvivorSampler::compare(std::size_t c, float threshold) {
  PairCounts& counts = state_.workers[0].counts;
  scan_tiles(c, threshold, counts);
  if (!dense_) counts.passed += near_.size();
  measure_near(c);
  (dense_ ? counts.dense : counts.exact) += near_.size();
  counts.full += near_.size();
  lower_values();
}

// The slots that the sketch leaves open.
void SurvivorSampler::scan_tiles(std::size_t c, float threshold, PairCounts& counts) {
  near_.clear();
  for (std::size_t t = 0; t < tile_max_.size(); ++t) {
    if (tile_seen_[t] != kAlive) continue;
    refresh_tile(t);
    if (tile_max_[t] < threshold) {
      tile_seen_[t] = static_cast<std::uint32_t>(c);  // this one is not seen any more
      continue;
    }
    std::uint64_t bits = ~std::uint64_t{0};
    if (!dense_) {
      const std::size_t width = state_.sketch.width();
      bits = kernels::scan_step_tile(state_.centres.sketch_of(c), state_.centres.half_norm(c),
                                     tiles_.data() + t * kernels::step_tile_bytes(width),
                                     gate_.data() + t * kernels::kTile, width);
      const float* values = value_.data() + t * kernels::kTile;
      counts.scanned += static_cast<std::uint64_t>(
          std::count_if(values, values + kernels::kTile, [](float v) { return v >= 0; }));
    }
    for (; bits != 0; bits &= bits - 1) {
      const std::size_t s = t * kernels::kTile + static_cast<std::size_t>(std::countr_zero(bits));
      if (value_[s] >= 0) near_.push_back(static_cast<std::uint32_t>(s));
    }
  }
}

void SurvivorSampler::lower_values() {
  for (std::size_t i = 0; i < near_.size(); ++i) {
    const std::uint32_t s = near_[i];
    if (near_distance_[i] >= value_[s]) continue;
    value_[s] = near_distance_[i];
    if (state_.sketch.width() > 0) set_gate(s);
  }
  for (std::size_t t = 0; t < tile_max_.size(); ++t) {
    if (tile_seen_[t] == kAlive) refresh_tile(t);
  }
}

void SurvivorSampler::measure_near(std::size_t c) {
  constexpr std::size_t kBatch = 16;
  const std::size_t d = state_.points.cols;
  near_distance_.resize(near_.size());
  newest_.reset(d, 1);
  newest_.add(state_.centres.vector(c), 0);
  const auto measure = [&](std::size_t item, std::size_t w) {
    RowBatch& batch = state_.workers[w].points;
    const std::size_t first = item * kBatch;
    const std::size_t n = std::min(kBatch, near_.size() - first);
    batch.reset(d, kBatch);
    for (std::size_t i = 0; i < n; ++i) batch.add(state_.points, (*survivors_)[near_[first + i]]);
    newest_.measure(batch, near_distance_.data() + first);
  };
  const std::size_t items = (near_.size() + kBatch - 1) / kBatch;
  if (items >= 4) {
    compute_.threads().run(items, measure);
  } else {
    for (std::size_t item = 0; item < items; ++item) measure(item, 0);
  }
}

}  // namespace contcore
