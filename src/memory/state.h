// What a memory holds. Vectors stand in slots that do not move while others come and go; the order
// of the memory is a list of slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "contcore/memory.h"
#include "contcore/nearest.h"
#include "memory/calibration.h"
#include "memory/consolidate.h"
#include "memory/neighbours.h"

namespace contcore {

struct Joined;

/// Slots are numbered by 32 bits.
inline constexpr std::size_t kMostVectors = std::size_t{1} << 31;

struct Memory::State {
  std::size_t dimension = 0;
  std::size_t capacity = 0;
  double q = 0.75;
  /// Whether any prefix of the order is a greedy coreset.
  bool greedy_order = false;

  Vectors slots;
  std::vector<std::uint32_t> order;  // slots, in the memory's order
  std::vector<std::uint32_t> free;   // slots that hold nothing

  // For each slot.
  std::vector<std::int32_t> origin;
  std::vector<float> radius;
  /// Every feature ever learned is within slack[s] of the vector in slot s for some s in the order.
  std::vector<float> slack;

  std::vector<TaskRecord> tasks;
  Calibration calibration;

  // Made when first needed, thrown away when the slots are laid anew.
  mutable std::mutex making;
  mutable std::unique_ptr<NearestIndex> index;
  mutable std::size_t indexed = 0;  // slots the index was made with
  mutable std::vector<std::uint32_t> slot_of_id;
  mutable std::vector<std::int64_t> id_of_slot;
  std::unique_ptr<Neighbours> neighbours;

  std::size_t size() const { return order.size(); }
  const NearestIndex& searchable(Threads& threads) const;

  /// Lays the slots anew, in order, with room for `rows`.
  void lay(std::size_t rows);
  /// Nearest vector of each patch: slots, and canonical squared distances.
  struct Nearest {
    std::vector<std::uint32_t> slots;
    std::vector<float> squared;
  };
  Nearest nearest(VectorView patches, Threads& threads) const;

  /// What a task would be left with if it had to do with a part of its vectors: those that
  /// expansion took first, which is their greedy coreset. Thinner and thinner; none for a task with
  /// few.
  std::vector<Vectors> thinned(std::int32_t task) const;

  /// A vector takes a free slot, at the end of the order; and vectors leave theirs (the order is
  /// the caller's to change).
  std::uint32_t put(const float* vector, std::int32_t task, float insertion_radius, float covered,
                    Threads& threads);
  void leave(const std::vector<std::uint32_t>& left);

  std::int32_t task_index(const std::string& name);
  /// What is in the memory, in its order.
  Joined joined() const;
  /// Makes what is kept of M̂ the content of this memory. Slack goes with the dropped vectors to the
  /// nearest that stays.
  void settle(const Joined& all, const Consolidation& kept, Threads& threads);
  /// A vector with slack `from` is dropped; the one at `to` stands for it.
  void pass_slack(float from, float squared, std::uint32_t to);
  /// A bound on a sum of canonical distances, with their rounding and this one's covered.
  float bound(double distance) const;
};

/// M̂ before it is consolidated: vectors, and what each brings along.
struct Joined {
  Vectors vectors;
  std::vector<std::int32_t> origin;
  std::vector<float> radius;
  std::vector<float> slack;
};

}  // namespace contcore
