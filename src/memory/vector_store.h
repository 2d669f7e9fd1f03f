// The vectors of a memory and what is known of each. They stand in slots that do not move while
// others come and go; the memory's order is a list of slots.
//
// In: vectors with their origin, radius and slack. Out: the same, and the nearest of them to any
// patch. Nothing fails but for want of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "contcore/compute.h"
#include "contcore/vectors.h"
#include "memory/neighbours.h"
#include "memory/slot_index.h"

namespace contcore {

/// Vectors in an order, and what each brings along.
struct Entries {
  Vectors vectors;
  std::vector<std::int32_t> origin;  ///< the task each came from
  std::vector<float> radius;         ///< distance to base and earlier picks when it was picked
  std::vector<float> slack;          ///< see VectorStore::slack

  std::size_t size() const { return origin.size(); }
  /// Some of them.
  Entries part(const std::vector<std::uint32_t>& places) const;
  /// Puts others behind these.
  void append(const Entries& more);
  /// Places of those of a task.
  std::vector<std::uint32_t> of_task(std::int32_t task) const;
};

class VectorStore {
 public:
  /// Slots are numbered by 32 bits.
  static constexpr std::size_t kMostVectors = std::size_t{1} << 31;
  static constexpr std::uint32_t kNoParent = ~std::uint32_t{0};

  VectorStore(std::size_t dimension, Scalar scalar)
      : dimension_(dimension), slots_(0, dimension, scalar) {}
  VectorStore(const VectorStore&) = delete;
  VectorStore& operator=(const VectorStore&) = delete;

  std::size_t dimension() const { return dimension_; }
  Scalar scalar() const { return slots_.scalar(); }
  std::size_t size() const { return columns_.order.size(); }
  std::size_t slots() const { return slots_.rows(); }
  /// Slots, in the memory's order.
  const std::vector<std::uint32_t>& order() const { return columns_.order; }
  VectorView vectors() const { return slots_.view(); }

  // Of each slot.
  const std::vector<std::int32_t>& origin() const { return columns_.origin; }
  std::vector<float>& radius() { return columns_.radius; }
  const std::vector<float>& radius() const { return columns_.radius; }
  /// Features are within slack[s] of the vector in slot s, for some s: which features and which
  /// slots, the rule says.
  std::vector<float>& slack() { return columns_.slack; }
  const std::vector<float>& slack() const { return columns_.slack; }
  /// The slot of the nearest earlier vector of its task, whose distance is the radius; or
  /// kNoParent, to be found when one of the task is removed. (The share rule's.)
  std::vector<std::uint32_t>& parent() { return columns_.parent; }

  /// Everything in the order, and what stands in some slots.
  Entries entries() const;
  Entries entries(const std::vector<std::uint32_t>& slots) const;
  std::vector<std::uint32_t> slots_of(std::int32_t task) const;
  /// The parents of some slots, as they will be when these are the slots 0, 1, 2, …
  std::vector<std::uint32_t> parents_among(const std::vector<std::uint32_t>& slots) const;

  /// Replaces all, in this order; parents are not known unless they are given.
  void assign(Entries entries, std::vector<std::uint32_t> parents = {});

  /// Makes room for n more, in a memory of at most `capacity`.
  void reserve(std::size_t n, std::size_t capacity);
  /// Puts the vectors into the slots 0, 1, 2, … in their order, with room for `rows`.
  void compact(std::size_t rows);

  /// Picks of some features take free slots, at the end of the order. Returns the slots.
  std::vector<std::uint32_t> add(VectorView features, std::span<const std::uint32_t> picks,
                                 std::span<const float> radii, std::int32_t task, float slack,
                                 Compute& compute);
  /// Vectors leave: `order` is what stays, `removed` are the slots of the others.
  void keep(std::vector<std::uint32_t> order, const std::vector<std::uint32_t>& removed);

  /// The nearest vector of each patch: slots, and canonical squared distances. Of those of one
  /// task, if it is given; it must have some.
  struct Nearest {
    std::vector<std::uint32_t> slots;
    std::vector<float> squared;
  };
  Nearest nearest(VectorView patches, Compute& compute,
                  std::optional<std::int32_t> task = std::nullopt);

  // Made when first needed, kept as vectors come and go, thrown away when slots are given anew. A
  // task's own index tells its vectors apart far better than that of all.
  const SlotIndex& index(Compute& compute) const;
  const SlotIndex& index_of(std::int32_t task, Compute& compute);
  /// Whether a task has an index, or one costs less to make than so many distances.
  bool worth_an_index(std::int32_t task, std::size_t distances) const;
  /// The vectors' nearest neighbours among each other; none until they are started.
  Neighbours* neighbours() { return neighbours_.get(); }
  void start_neighbours(Compute& compute);

  /// All but the vectors: those that leave stay in their slots, and new ones go to others, so that
  /// this is enough to undo add() and keep().
  struct Columns {
    std::vector<std::uint32_t> order;
    std::vector<std::uint32_t> free;
    std::vector<std::int32_t> origin;
    std::vector<float> radius;
    std::vector<float> slack;
    std::vector<std::uint32_t> parent;
  };
  Columns columns() const { return columns_; }
  void restore(Columns columns);

 private:
  SlotIndex* own_index(std::int32_t task) const;
  void forget_indexes();

  std::size_t dimension_;
  Vectors slots_;
  Columns columns_;
  mutable std::mutex making_;
  mutable std::unique_ptr<SlotIndex> index_;
  std::vector<std::unique_ptr<SlotIndex>> own_indexes_;  // by task
  std::unique_ptr<Neighbours> neighbours_;
};

}  // namespace contcore
