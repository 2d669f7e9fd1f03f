#include "memory/state.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <exception>
#include <limits>
#include <numeric>
#include <utility>

#include "base/rows.h"
#include "contcore/distance.h"
#include "contcore/error.h"
#include "coreset/sketch.h"

namespace contcore {
namespace {

// Then no vector is too far from any mean of others to be searched for.
constexpr float kMostSquaredNorm = kLargestSquaredNorm / 4 * 0.999F;
constexpr std::size_t kSpareSlots = 256;
constexpr std::uint64_t kIndexing = 600;  // what indexing a vector takes, about, in full distances
constexpr int kThinnest = 8;              // half powers of two

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace

void check_reach(const float* vector, std::size_t dimension, const std::string& name) {
  const std::vector<float> zero(dimension, 0.0F);
  if (squared_distance(vector, zero.data(), dimension) <= kMostSquaredNorm) return;
  throw Error(Error::Kind::kInput,
              fmt::format("{}: values so large that squared distances may overflow float32; scale "
                          "the vectors down (norms up to 1e18 are fine)",
                          name));
}

std::size_t picks_of(double p, std::size_t rows) {
  return std::max<std::size_t>(1, static_cast<std::size_t>(p * static_cast<double>(rows)));
}

void join(Joined& all, const Vectors& more) {
  const std::size_t cols = more.cols();
  Vectors joined(all.vectors.rows() + more.rows(), cols);
  std::copy_n(all.vectors.data(), all.vectors.rows() * cols, joined.data());
  std::copy_n(more.data(), more.rows() * cols, joined.row(all.vectors.rows()));
  all.vectors = std::move(joined);
}

Joined gather(const Joined& from, const std::vector<std::uint32_t>& places) {
  return {gather(from.vectors.view(), places), choose(from.origin, places),
          choose(from.radius, places), choose(from.slack, places)};
}

void remember(TaskRecord& record, const LearnHow& how, std::size_t patches, std::size_t picked,
              float epsilon, float epsilon_hat) {
  record.images += how.images;
  record.patches += patches;
  record.picked += picked;
  if (std::isfinite(epsilon)) record.epsilon = std::max(record.epsilon, epsilon);
  record.epsilon_hat = std::max(record.epsilon_hat, epsilon_hat);
  record.learned = how.time.empty() ? utc_now() : how.time;
}

std::unique_ptr<Memory::State> Memory::State::emptied() const {
  auto empty = std::make_unique<State>();
  empty->dimension = dimension;
  empty->capacity = capacity;
  empty->how = how;
  empty->tasks = tasks;
  empty->slots = Vectors(0, dimension);
  return empty;
}

void Memory::State::make_room(std::size_t n) {
  if (slots.rows() >= size() + n) return;
  lay(std::min(2 * size(), capacity) + std::max(n, kSpareSlots));
}

Memory::State::AllOrNothing::AllOrNothing(State& state)
    : state_(state),
      exceptions_(std::uncaught_exceptions()),
      greedy_order_(state.greedy_order),
      order_(state.order),
      free_(state.free),
      origin_(state.origin),
      radius_(state.radius),
      slack_(state.slack),
      earlier_(state.earlier),
      tasks_(state.tasks) {}

Memory::State::AllOrNothing::~AllOrNothing() {
  if (std::uncaught_exceptions() == exceptions_) return;
  state_.greedy_order = greedy_order_;
  state_.order = std::move(order_);
  state_.free = std::move(free_);
  state_.origin = std::move(origin_);
  state_.radius = std::move(radius_);
  state_.slack = std::move(slack_);
  state_.earlier = std::move(earlier_);
  state_.tasks = std::move(tasks_);
  state_.forget_indexes();  // made again when they are needed
}

std::vector<std::uint32_t> Memory::State::own_slots(std::int32_t task) const {
  std::vector<std::uint32_t> own;
  for (const std::uint32_t slot : order) {
    if (origin[slot] == task) own.push_back(slot);
  }
  return own;
}

const SlotIndex& Memory::State::searchable(Compute& compute) const {
  const std::lock_guard<std::mutex> lock(making);
  if (!index) index = std::make_unique<SlotIndex>(slots, order, compute);
  return *index;
}

SlotIndex* Memory::State::own_index(std::int32_t task) const {
  const auto t = static_cast<std::size_t>(task);
  return t < own_indexes.size() ? own_indexes[t].get() : nullptr;
}

const SlotIndex& Memory::State::searchable(std::int32_t task, Compute& compute) {
  own_indexes.resize(tasks.size());
  std::unique_ptr<SlotIndex>& own = own_indexes[static_cast<std::size_t>(task)];
  // The others are of the same product, and cost little until they are as many as the first; those
  // that left leave gaps.
  const bool worn = own && (own->came() > own->first() || own->size() < own->first() / 2);
  if (!own || worn) own = std::make_unique<SlotIndex>(slots, own_slots(task), compute);
  return *own;
}

void Memory::State::forget_indexes() {
  index.reset();
  own_indexes.clear();
  neighbours.reset();
}

bool Memory::State::worth_an_index(std::int32_t task, std::size_t distances) const {
  return own_index(task) != nullptr || distances > kIndexing * own_slots(task).size();
}

std::vector<std::uint32_t> Memory::State::earlier_among(
    const std::vector<std::uint32_t>& stay) const {
  std::vector<std::uint32_t> place(slots.rows(), kUnknown);
  for (std::uint32_t i = 0; i < stay.size(); ++i) place[stay[i]] = i;
  std::vector<std::uint32_t> places = choose(earlier, stay);
  for (std::uint32_t& slot : places) {
    if (slot != kUnknown) slot = place[slot];
  }
  return places;
}

void Memory::State::lay(std::size_t rows) {
  Vectors laid(std::max(rows, order.size()), dimension);
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::copy_n(slots.row(order[i]), dimension, laid.row(i));
  }
  const auto with_room = [&](auto values) {
    values.resize(laid.rows());
    return values;
  };
  auto origins = with_room(choose(origin, order));
  auto radii = with_room(choose(radius, order));
  auto slacks = with_room(choose(slack, order));
  auto earliers = with_room(earlier_among(order));
  std::vector<std::uint32_t> unused;
  for (std::size_t slot = laid.rows(); slot > order.size(); --slot) {
    unused.push_back(static_cast<std::uint32_t>(slot - 1));
  }
  // From here on nothing throws.
  origin = std::move(origins);
  radius = std::move(radii);
  slack = std::move(slacks);
  earlier = std::move(earliers);
  free = std::move(unused);
  std::iota(order.begin(), order.end(), 0U);
  forget_indexes();
  slots = std::move(laid);
}

Memory::State::Nearest Memory::State::nearest(VectorView patches, Compute& compute,
                                              std::optional<std::int32_t> task) {
  const SlotIndex& searched = task ? searchable(*task, compute) : searchable(compute);
  Nearest result;
  result.slots = searched.nearest(patches, 1, compute);
  result.squared.resize(patches.rows);
  std::vector<float> scratch(dimension);
  for (std::size_t i = 0; i < patches.rows; ++i) {
    result.squared[i] =
        squared_distance(patches.row(i, scratch.data()), slots.row(result.slots[i]), dimension);
  }
  return result;
}

std::vector<Vectors> Memory::State::shells(std::int32_t task) const {
  std::vector<std::uint32_t> own = own_slots(task);
  std::stable_sort(own.begin(), own.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return radius[a] > radius[b]; });
  std::vector<Vectors> result;
  std::size_t begin = 0;
  for (int halves = kThinnest; halves > 0; --halves) {
    const auto end =
        static_cast<std::size_t>(static_cast<double>(own.size()) * std::pow(2.0, -0.5 * halves));
    if (end == begin) continue;
    const std::vector<std::uint32_t> shell(own.begin() + static_cast<std::ptrdiff_t>(begin),
                                           own.begin() + static_cast<std::ptrdiff_t>(end));
    result.push_back(gather(slots.view(), shell));
    begin = end;
  }
  return result;
}

std::vector<std::uint32_t> Memory::State::put(VectorView features,
                                              std::span<const std::uint32_t> picks,
                                              std::span<const float> radii, std::int32_t task,
                                              float covered, Compute& compute) {
  std::vector<std::uint32_t> added;
  for (std::size_t i = 0; i < picks.size(); ++i) {
    const std::uint32_t slot = free.back();
    free.pop_back();
    std::copy_n(features.row(picks[i], nullptr), dimension, slots.row(slot));
    origin[slot] = task;
    radius[slot] = radii[i];
    slack[slot] = covered;
    earlier[slot] = kUnknown;
    order.push_back(slot);
    added.push_back(slot);
  }
  if (added.empty()) return added;
  // Its directions are fitted to the first and may say little of the others: a quarter can be a
  // product that was not there.
  if (index && index->came() > index->first() / 4) index.reset();
  if (index) index->add(added, compute);
  if (SlotIndex* own = own_index(task)) own->add(added, compute);
  return added;
}

void Memory::State::leave(const std::vector<std::uint32_t>& left) {
  if (index) index->drop(left);
  for (const auto& own : own_indexes) {
    if (own) own->drop(left);
  }
  std::vector<bool> gone(slots.rows());
  for (const std::uint32_t slot : left) {
    gone[slot] = true;
    free.push_back(slot);
    if (neighbours) neighbours->drop(slot);
  }
  for (std::uint32_t& slot : earlier) {
    if (slot != kUnknown && gone[slot]) slot = kUnknown;
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

void Memory::State::settle(const Joined& all, const Consolidation& kept, Compute& compute) {
  slots = gather(all.vectors.view(), kept.kept);
  order.resize(kept.kept.size());
  std::iota(order.begin(), order.end(), 0U);
  free.clear();
  forget_indexes();
  origin = choose(all.origin, kept.kept);
  radius = choose(all.radius, kept.kept);
  slack = choose(all.slack, kept.kept);
  earlier.assign(order.size(), kUnknown);
  if (kept.dropped.empty()) return;
  if (how.rule == Consolidate::Rule::kShare) {
    const Joined gone = gather(all, kept.dropped);
    cover_left(gone, compute);
    renew_radii(gone.origin, kept.dropped, compute);
    return;
  }
  const Nearest stay = nearest(gather(all.vectors.view(), kept.dropped).view(), compute);
  for (std::size_t i = 0; i < kept.dropped.size(); ++i) {
    pass_slack(all.slack[kept.dropped[i]], stay.squared[i], stay.slots[i]);
  }
}

void Memory::State::pass_slack(float from, float squared, std::uint32_t to) {
  const double through = std::sqrt(static_cast<double>(squared));
  slack[to] = std::max(slack[to], bound(static_cast<double>(from) + through));
}

double Memory::State::certificate(std::int32_t task) const {
  const bool share = how.rule == Consolidate::Rule::kShare;
  float largest = 0;
  for (const std::uint32_t slot : order) {
    if (!share || origin[slot] == task) largest = std::max(largest, slack[slot]);
  }
  if (share) largest = std::max(largest, tasks[static_cast<std::size_t>(task)].covering);
  return static_cast<double>(bound(static_cast<double>(largest)));
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
