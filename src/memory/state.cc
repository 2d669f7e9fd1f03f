#include "memory/state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/rows.h"
#include "contcore/distance.h"

namespace contcore {

const NearestIndex& Memory::State::searchable(Threads& threads) const {
  const std::lock_guard<std::mutex> lock(making);
  // Vectors that came later do not lie as well as the first: after a quarter more the index is made
  // anew.
  if (index && slot_of_id.size() <= indexed + indexed / 4) return *index;
  std::size_t used = 0;
  for (const std::uint32_t slot : order) used = std::max<std::size_t>(used, slot + 1);
  auto made = std::make_unique<NearestIndex>(VectorView(slots.data(), used, dimension), threads);
  std::vector<std::int64_t> empty;
  for (const std::uint32_t slot : free) {
    if (slot < used) empty.push_back(slot);
  }
  made->drop(empty);
  indexed = used;
  slot_of_id.resize(used);
  std::iota(slot_of_id.begin(), slot_of_id.end(), 0U);
  id_of_slot.resize(slots.rows());
  std::iota(id_of_slot.begin(), id_of_slot.end(), std::int64_t{0});
  index = std::move(made);
  return *index;
}

void Memory::State::lay(std::size_t rows) {
  Vectors laid(std::max(rows, order.size()), dimension);
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::copy_n(slots.row(order[i]), dimension, laid.row(i));
  }
  origin = choose(origin, order);
  radius = choose(radius, order);
  slack = choose(slack, order);
  origin.resize(laid.rows());
  radius.resize(laid.rows());
  slack.resize(laid.rows());
  free.clear();
  for (std::size_t slot = laid.rows(); slot > order.size(); --slot) {
    free.push_back(static_cast<std::uint32_t>(slot - 1));
  }
  std::iota(order.begin(), order.end(), 0U);
  index.reset();
  neighbours.reset();
  slots = std::move(laid);
}

Memory::State::Nearest Memory::State::nearest(VectorView patches, Threads& threads) const {
  const NearestResult found = searchable(threads).search(patches, 1, threads, "patches");
  Nearest result;
  result.slots.resize(patches.rows);
  result.squared.resize(patches.rows);
  std::vector<float> scratch(dimension);
  for (std::size_t i = 0; i < patches.rows; ++i) {
    const std::uint32_t slot = slot_of_id[static_cast<std::size_t>(found.ids[i])];
    result.slots[i] = slot;
    result.squared[i] =
        squared_distance(patches.row(i, scratch.data()), slots.row(slot), dimension);
  }
  return result;
}

std::vector<Vectors> Memory::State::thinned(std::int32_t task) const {
  std::vector<std::uint32_t> own;
  for (const std::uint32_t slot : order) {
    if (origin[slot] == task) own.push_back(slot);
  }
  std::stable_sort(own.begin(), own.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return radius[a] > radius[b]; });
  std::vector<Vectors> thin;
  for (const std::size_t part : {4U, 16U}) {
    if (own.size() < 2 * part) break;
    const std::vector<std::uint32_t> first(
        own.begin(), own.begin() + static_cast<std::ptrdiff_t>(own.size() / part));
    thin.push_back(gather(slots.view(), first));
  }
  return thin;
}

std::uint32_t Memory::State::put(const float* vector, std::int32_t task, float insertion_radius,
                                 float covered, Threads& threads) {
  searchable(threads);
  const std::uint32_t slot = free.back();
  std::copy_n(vector, dimension, slots.row(slot));
  id_of_slot[slot] = index->add(slots.view().part(slot, 1), threads);
  slot_of_id.push_back(slot);
  free.pop_back();
  origin[slot] = task;
  radius[slot] = insertion_radius;
  slack[slot] = covered;
  order.push_back(slot);
  return slot;
}

void Memory::State::leave(const std::vector<std::uint32_t>& left) {
  const std::vector<std::int64_t> ids = choose(id_of_slot, left);
  index->drop(ids);
  for (const std::uint32_t slot : left) {
    free.push_back(slot);
    if (neighbours) neighbours->drop(slot);
  }
}

std::int32_t Memory::State::task_index(const std::string& name) {
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (tasks[t].name == name) return static_cast<std::int32_t>(t);
  }
  tasks.push_back({});
  tasks.back().name = name;
  return static_cast<std::int32_t>(tasks.size() - 1);
}

Joined Memory::State::joined() const {
  Joined all;
  all.vectors = gather({slots.data(), slots.rows(), dimension}, order);
  all.origin = choose(origin, order);
  all.radius = choose(radius, order);
  all.slack = choose(slack, order);
  return all;
}

void Memory::State::settle(const Joined& all, const Consolidation& kept, Threads& threads) {
  slots = gather(all.vectors.view(), kept.kept);
  order.resize(kept.kept.size());
  std::iota(order.begin(), order.end(), 0U);
  free.clear();
  index.reset();
  neighbours.reset();
  origin = choose(all.origin, kept.kept);
  radius = choose(all.radius, kept.kept);
  slack = choose(all.slack, kept.kept);
  if (kept.dropped.empty()) return;
  const Nearest stay = nearest(gather(all.vectors.view(), kept.dropped).view(), threads);
  for (std::size_t i = 0; i < kept.dropped.size(); ++i) {
    pass_slack(all.slack[kept.dropped[i]], stay.squared[i], stay.slots[i]);
  }
}

void Memory::State::pass_slack(float from, float squared, std::uint32_t to) {
  const double through = std::sqrt(static_cast<double>(squared));
  slack[to] = std::max(slack[to], bound(static_cast<double>(from) + through));
}

float Memory::State::bound(double distance) const {
  // A canonical square is off by at most D/32 + 8 roundings, its root by half of that. Twice that
  // covers that a true distance may be larger than the canonical one, and the reverse. The last
  // term is for squares that underflow.
  const double margin = (static_cast<double>(dimension) / 32 + 16) * 0x1p-23;
  const double tiny = std::sqrt(static_cast<double>(dimension)) * 0x1p-73;
  return std::nextafter(static_cast<float>(distance * (1 + margin) + tiny),
                        std::numeric_limits<float>::infinity());
}

}  // namespace contcore
