#include "memory/vector_store.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/rows.h"
#include "contcore/distance.h"

namespace contcore {
namespace {

constexpr std::size_t kSpareSlots = 256;
constexpr std::uint64_t kIndexing = 600;  // what indexing a vector takes, about, in full distances

}  // namespace

Entries Entries::part(const std::vector<std::uint32_t>& places) const {
  return {gather(vectors.view(), places), choose(origin, places), choose(radius, places),
          choose(slack, places)};
}

void Entries::append(const Entries& more) {
  Vectors all(vectors.rows() + more.vectors.rows(), more.vectors.cols(), more.vectors.scalar());
  all.set_rows(0, vectors.view());
  all.set_rows(vectors.rows(), more.vectors.view());
  vectors = std::move(all);
  origin.insert(origin.end(), more.origin.begin(), more.origin.end());
  radius.insert(radius.end(), more.radius.begin(), more.radius.end());
  slack.insert(slack.end(), more.slack.begin(), more.slack.end());
}

std::vector<std::uint32_t> Entries::of_task(std::int32_t task) const {
  std::vector<std::uint32_t> places;
  for (std::uint32_t i = 0; i < origin.size(); ++i) {
    if (origin[i] == task) places.push_back(i);
  }
  return places;
}

Entries VectorStore::entries() const { return entries(columns_.order); }

Entries VectorStore::entries(const std::vector<std::uint32_t>& slots) const {
  return {gather(slots_.view(), slots), choose(columns_.origin, slots),
          choose(columns_.radius, slots), choose(columns_.slack, slots)};
}

std::vector<std::uint32_t> VectorStore::slots_of(std::int32_t task) const {
  std::vector<std::uint32_t> own;
  for (const std::uint32_t slot : columns_.order) {
    if (columns_.origin[slot] == task) own.push_back(slot);
  }
  return own;
}

std::vector<std::uint32_t> VectorStore::parents_among(
    const std::vector<std::uint32_t>& slots) const {
  std::vector<std::uint32_t> place(slots_.rows(), kNoParent);
  for (std::uint32_t i = 0; i < slots.size(); ++i) place[slots[i]] = i;
  std::vector<std::uint32_t> parents = choose(columns_.parent, slots);
  for (std::uint32_t& slot : parents) {
    if (slot != kNoParent) slot = place[slot];
  }
  return parents;
}

void VectorStore::assign(Entries entries, std::vector<std::uint32_t> parents) {
  const std::size_t n = entries.size();
  if (parents.empty()) parents.assign(n, kNoParent);
  forget_indexes();
  slots_ = std::move(entries.vectors);
  columns_ = {std::vector<std::uint32_t>(n), {},
              std::move(entries.origin),     std::move(entries.radius),
              std::move(entries.slack),      std::move(parents)};
  std::iota(columns_.order.begin(), columns_.order.end(), 0U);
}

void VectorStore::reserve(std::size_t n, std::size_t capacity) {
  if (slots_.rows() >= size() + n) return;
  compact(std::min(2 * size(), capacity) + std::max(n, kSpareSlots));
}

void VectorStore::compact(std::size_t rows) {
  const std::vector<std::uint32_t>& order = columns_.order;
  Vectors moved(std::max(rows, order.size()), dimension_, scalar());
  for (std::size_t i = 0; i < order.size(); ++i) {
    moved.set_rows(i, slots_.view().part(order[i], 1));
  }
  const auto with_room = [&](auto values) {
    values.resize(moved.rows());
    return values;
  };
  Columns next;
  next.order.resize(order.size());
  std::iota(next.order.begin(), next.order.end(), 0U);
  next.origin = with_room(choose(columns_.origin, order));
  next.radius = with_room(choose(columns_.radius, order));
  next.slack = with_room(choose(columns_.slack, order));
  next.parent = with_room(parents_among(order));
  for (std::size_t slot = moved.rows(); slot > order.size(); --slot) {
    next.free.push_back(static_cast<std::uint32_t>(slot - 1));
  }
  // From here on nothing throws.
  columns_ = std::move(next);
  forget_indexes();
  slots_ = std::move(moved);
}

std::vector<std::uint32_t> VectorStore::add(VectorView features,
                                            std::span<const std::uint32_t> picks,
                                            std::span<const float> radii, std::int32_t task,
                                            float slack, Compute& compute) {
  std::vector<std::uint32_t> added;
  for (std::size_t i = 0; i < picks.size(); ++i) {
    const std::uint32_t slot = columns_.free.back();
    columns_.free.pop_back();
    slots_.set_rows(slot, features.part(picks[i], 1));
    columns_.origin[slot] = task;
    columns_.radius[slot] = radii[i];
    columns_.slack[slot] = slack;
    columns_.parent[slot] = kNoParent;
    columns_.order.push_back(slot);
    added.push_back(slot);
  }
  if (added.empty()) return added;
  // Its directions are fitted to the first and may say little of the others: a quarter can be a
  // product that was not there.
  if (index_ && index_->came() > index_->first() / 4) index_.reset();
  if (index_) index_->add(added, compute);
  if (SlotIndex* own = own_index(task)) own->add(added, compute);
  return added;
}

void VectorStore::keep(std::vector<std::uint32_t> order,
                       const std::vector<std::uint32_t>& removed) {
  columns_.order = std::move(order);
  if (index_) index_->drop(removed);
  for (const auto& own : own_indexes_) {
    if (own) own->drop(removed);
  }
  std::vector<bool> gone(slots_.rows());
  for (const std::uint32_t slot : removed) {
    gone[slot] = true;
    columns_.free.push_back(slot);
    if (neighbours_) neighbours_->drop(slot);
  }
  for (std::uint32_t& slot : columns_.parent) {
    if (slot != kNoParent && gone[slot]) slot = kNoParent;
  }
}

VectorStore::Nearest VectorStore::nearest(VectorView patches, Compute& compute,
                                          std::optional<std::int32_t> task) {
  const SlotIndex& searched = task ? index_of(*task, compute) : index(compute);
  Nearest result;
  result.slots = searched.nearest(patches, 1, compute);
  result.squared.resize(patches.rows);
  for (std::size_t i = 0; i < patches.rows; ++i) {
    result.squared[i] = squared_distance(patches, i, slots_.view(), result.slots[i]);
  }
  return result;
}

const SlotIndex& VectorStore::index(Compute& compute) const {
  const std::lock_guard<std::mutex> lock(making_);
  if (!index_) index_ = std::make_unique<SlotIndex>(slots_, columns_.order, compute);
  return *index_;
}

SlotIndex* VectorStore::own_index(std::int32_t task) const {
  const auto t = static_cast<std::size_t>(task);
  return t < own_indexes_.size() ? own_indexes_[t].get() : nullptr;
}

const SlotIndex& VectorStore::index_of(std::int32_t task, Compute& compute) {
  const auto t = static_cast<std::size_t>(task);
  if (own_indexes_.size() <= t) own_indexes_.resize(t + 1);
  std::unique_ptr<SlotIndex>& own = own_indexes_[t];
  // The others are of the same product, and cost little until they are as many as the first; those
  // that left leave gaps.
  const bool worn = own && (own->came() > own->first() || own->size() < own->first() / 2);
  if (!own || worn) own = std::make_unique<SlotIndex>(slots_, slots_of(task), compute);
  return *own;
}

bool VectorStore::worth_an_index(std::int32_t task, std::size_t distances) const {
  return own_index(task) != nullptr || distances > kIndexing * slots_of(task).size();
}

void VectorStore::start_neighbours(Compute& compute) {
  compact(slots_.rows());
  auto made = std::make_unique<Neighbours>(slots_);
  made->start(index(compute), size(), compute);
  neighbours_ = std::move(made);
}

void VectorStore::forget_indexes() {
  index_.reset();
  own_indexes_.clear();
  neighbours_.reset();
}

void VectorStore::restore(Columns columns) {
  columns_ = std::move(columns);
  forget_indexes();  // made again when they are needed
}

}  // namespace contcore
