// What a memory holds. Vectors stand in slots that do not move while others come and go; the order
// of the memory is a list of slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "contcore/memory.h"
#include "memory/calibration.h"
#include "memory/consolidate.h"
#include "memory/neighbours.h"
#include "memory/slot_index.h"

namespace contcore {

struct Joined;

/// Slots are numbered by 32 bits.
inline constexpr std::size_t kMostVectors = std::size_t{1} << 31;

struct Memory::State {
  std::size_t dimension = 0;
  std::size_t capacity = 0;
  Consolidate how;
  /// Whether any prefix of the order is a greedy coreset (paper).
  bool greedy_order = false;

  Vectors slots;
  std::vector<std::uint32_t> order;  // slots, in the memory's order
  std::vector<std::uint32_t> free;   // slots that hold nothing

  // For each slot.
  std::vector<std::int32_t> origin;
  std::vector<float> radius;
  /// Paper: every feature ever learned is within slack[s] of the vector in slot s for some s in the
  /// order. Share: the same of every feature of a task and the slots of that task, but for its
  /// first learning, whose features are covered by TaskRecord::covering.
  std::vector<float> slack;
  /// Share: the slot of the nearest earlier vector of its task, whose distance is the radius; or
  /// kUnknown, to be found when one of the task leaves. Picks of the same update do not count: a
  /// pick's radius is at most that of an earlier one, which can only grow, so it leaves first.
  std::vector<std::uint32_t> earlier;
  static constexpr std::uint32_t kUnknown = ~std::uint32_t{0};

  std::vector<TaskRecord> tasks;
  Calibration calibration;

  // Made when first needed, kept as vectors come and go, thrown away when the slots are laid anew.
  // A task's own tells its vectors apart far better than that of all.
  mutable std::mutex making;
  mutable std::unique_ptr<SlotIndex> index;
  std::vector<std::unique_ptr<SlotIndex>> own_indexes;  // by task (share)
  std::unique_ptr<Neighbours> neighbours;
  const SlotIndex& searchable(Compute& compute) const;
  const SlotIndex& searchable(std::int32_t task, Compute& compute);
  SlotIndex* own_index(std::int32_t task) const;
  void forget_indexes();

  std::size_t size() const { return order.size(); }

  /// `earlier` of some slots, as it will be when they are laid in this order.
  std::vector<std::uint32_t> earlier_among(const std::vector<std::uint32_t>& stay) const;
  /// Lays the slots anew, in order, with room for `rows`.
  void lay(std::size_t rows);
  /// Nearest vector of each patch: slots, and canonical squared distances. Of those of one task, if
  /// it is given; it must have some.
  struct Nearest {
    std::vector<std::uint32_t> slots;
    std::vector<float> squared;
  };
  Nearest nearest(VectorView patches, Compute& compute,
                  std::optional<std::int32_t> task = std::nullopt);

  /// A task's vectors by the order that expansion took them in, in shells: the first shell is what
  /// it would be left with at a sixteenth of its vectors, and each next one what it would have more
  /// if it had to do with √2 times as many, short of all. None for a task with few.
  std::vector<Vectors> shells(std::int32_t task) const;

  /// Picks of an expansion (float32) take free slots, which are returned, at the end of the order;
  /// and vectors leave theirs (the order is the caller's to change).
  std::vector<std::uint32_t> put(VectorView features, std::span<const std::uint32_t> picks,
                                 std::span<const float> radii, std::int32_t task, float covered,
                                 Compute& compute);
  void leave(const std::vector<std::uint32_t>& left);

  /// Where an exception ends the life of this, the memory is again what it was at its beginning.
  /// Meanwhile vectors may take free slots and leave others; the slots are not laid anew, and the
  /// calibration stays as it is.
  class AllOrNothing;

  // The two rules; learning online changes the memory in place. src/memory/{paper,learn_share}.cc.
  std::unique_ptr<State> learn_paper(VectorView features, const LearnHow& how, Compute& compute);
  void learn_paper_online(VectorView features, const LearnHow& how, Compute& compute);
  std::unique_ptr<State> learn_share(VectorView features, const LearnHow& how, Compute& compute);
  void learn_share_online(VectorView features, const LearnHow& how, Compute& compute);
  /// Share of a task if it had so many vectors.
  std::size_t share_of(std::int32_t task, std::size_t vectors) const;
  /// Each task keeps its share of m.
  Consolidation share_out(const Joined& all, std::size_t m) const;
  /// The same into a memory with room for fewer, which has the tasks and no vectors yet.
  void copy_shares(State& smaller, Compute& compute) const;

  /// Before `more`, vectors of another memory whose tasks were `theirs`, is joined to `all`: a task
  /// that both know learns the other's vectors (share). Origins are tasks of this memory.
  void meet(Joined& all, Joined& more, const std::vector<TaskRecord>& theirs, Compute& compute);

  /// A memory with the same settings and tasks, and nothing in it.
  std::unique_ptr<State> emptied() const;
  /// Room for n more vectors.
  void make_room(std::size_t n);
  std::vector<std::uint32_t> own_slots(std::int32_t task) const;

  std::int32_t task_index(const std::string& name);
  /// What is in the memory, in its order.
  Joined joined() const;
  /// Makes what is kept of M̂ the content of this memory. Slack goes with the dropped vectors to the
  /// nearest that stays (share: of the same task).
  void settle(const Joined& all, const Consolidation& kept, Compute& compute);
  /// Vectors have been dropped from their tasks: coverings and slacks take it up (share).
  void cover_left(const Joined& left, Compute& compute);
  /// And a vector whose nearest earlier one is among them is as far from its task's earlier vectors
  /// now as the next of them (share). They were of the tasks `of`, at `places` of the order, which
  /// increase.
  void renew_radii(const std::vector<std::int32_t>& of, const std::vector<std::uint32_t>& places,
                   Compute& compute);
  /// The two ways to find them: by searching, where that finds one, and by measuring.
  void find_earlier(std::int32_t task, const std::vector<std::uint32_t>& own,
                    std::vector<std::uint32_t>& orphans, Compute& compute);
  void measure_earlier(const std::vector<std::uint32_t>& own,
                       const std::vector<std::uint32_t>& orphans, Compute& compute);
  /// Whether a task has an index, or one costs less to make than so many distances.
  bool worth_an_index(std::int32_t task, std::size_t distances) const;
  /// Every feature of the task is within this of the memory.
  double certificate(std::int32_t task) const;
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

/// Puts vectors behind those there.
void join(Joined& all, const Vectors& more);
/// Some of them.
Joined gather(const Joined& from, const std::vector<std::uint32_t>& places);

class Memory::State::AllOrNothing {
 public:
  explicit AllOrNothing(State& state);
  ~AllOrNothing();
  AllOrNothing(const AllOrNothing&) = delete;
  AllOrNothing& operator=(const AllOrNothing&) = delete;

 private:
  State& state_;
  int exceptions_;
  // The vectors need no copy: those that leave stay in their slots, and new ones go to others.
  bool greedy_order_;
  std::vector<std::uint32_t> order_, free_;
  std::vector<std::int32_t> origin_;
  std::vector<float> radius_, slack_;
  std::vector<std::uint32_t> earlier_;
  std::vector<TaskRecord> tasks_;
};

/// Throws Error (kInput) if a vector is so far from 0 that its squared distance to another one may
/// overflow: it could not be searched for in a memory, whatever else that holds.
void check_reach(const float* vector, std::size_t dimension, const std::string& name);
template <typename Indices>
void check_reach(VectorView vectors, const Indices& rows, const std::string& name) {
  std::vector<float> scratch(vectors.cols);
  for (const auto i : rows) {
    check_reach(vectors.row(static_cast<std::size_t>(i), scratch.data()), vectors.cols, name);
  }
}

/// ⌊p·rows⌋, at least one.
std::size_t picks_of(double p, std::size_t rows);

void remember(TaskRecord& record, const LearnHow& how, std::size_t patches, std::size_t picked,
              float epsilon, float epsilon_hat);

}  // namespace contcore
