// Plain greedy sampling on the survivors of a round.
//
// In: points with exact bounds of at least the threshold; all others are below it, so that each
// pick here is the pick of the plain loop over all points. Out: picks, and the survivors' bounds
// with the centres these account for. Fails only as `report` does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "contcore/compute.h"
#include "coreset/greedy_state.h"

namespace contcore {

class SurvivorSampler {
 public:
  SurvivorSampler(GreedyState& state, Compute& compute) : state_(state), compute_(compute) {}

  /// Picks until the farthest survivor is below the threshold, or `count` picks are made in all:
  /// then sets the covering radius and returns true. `dense`: the sketch does not pay. Calls
  /// `report` every few hundred picks.
  bool sample(const std::vector<std::uint32_t>& survivors, float threshold, std::size_t count,
              bool dense, const std::function<void()>& report);

  // The same step by step, for whoever picks from the survivors of several ranks.

  /// A point and its distance: the farthest first, of equally far ones the lowest id.
  struct Key {
    float value = 0;
    std::uint64_t id = 0;
    bool comes_before(const Key& other) const {
      return value != other.value ? value > other.value : id < other.id;
    }
  };
  void begin(const std::vector<std::uint32_t>& survivors, bool dense);
  /// The keys of survivors of at least the threshold, in no order; ids count from `first`.
  void keys(float threshold, std::uint64_t first, std::vector<Key>& out) const;
  /// A survivor was picked, by its index among all points.
  void picked(std::uint32_t point);
  /// Compares a new centre with every survivor that is not below the threshold.
  void compare(std::size_t centre, float threshold);
  /// To be called where the sketch's error has grown.
  void set_gates();
  void end() { store_slots(); }

 private:
  void fill_slots();
  void store_slots();
  void refresh_tile(std::size_t t);
  std::size_t farthest_slot() const;
  void scan_tiles(std::size_t c, float threshold, PairCounts& counts);
  void set_gate(std::size_t slot);
  void measure_near(std::size_t c);
  void lower_values();

  GreedyState& state_;
  Compute& compute_;
  const std::vector<std::uint32_t>* survivors_ = nullptr;
  bool dense_ = false;

  // A slot is a survivor; slots stand in tiles.
  std::vector<std::uint8_t> tiles_;  // the sketches
  std::vector<float> value_;
  std::vector<std::int32_t> gate_;    // as kernels::scan_step_tile takes them
  std::vector<std::int32_t> offset_;  // which is by so much above the sketch's own
  std::vector<float> tile_max_;
  std::vector<std::uint32_t> tile_seen_;  // kAlive, or the centres seen when it fell below

  std::vector<std::uint32_t> near_;  // slots that the newest centre may be nearest to
  std::vector<float> near_distance_;
  RowBatch newest_;
};

}  // namespace contcore
