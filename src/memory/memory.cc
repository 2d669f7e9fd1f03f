#include "contcore/memory.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/rows.h"
#include "contcore/error.h"
#include "contcore/greedy.h"
#include "memory/consolidate.h"
#include "memory/online.h"
#include "memory/state.h"

namespace contcore {
namespace {

// Below this the nearest-neighbour part is too small for the lists of neighbours to reach it.
constexpr double kLeastOnlineRatio = 0.5;
constexpr std::size_t kSpareSlots = 256;

std::size_t picks_of(double p, std::size_t rows) {
  return std::max<std::size_t>(1, static_cast<std::size_t>(p * static_cast<double>(rows)));
}

// The file's text is JSON, which knows no other names.
bool is_utf8(const std::string& text) {
  const nlohmann::json quoted = text;
  return nlohmann::json::parse(
             quoted.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) == quoted;
}

void check(VectorView features, const LearnHow& how, std::size_t dimension) {
  if (!is_utf8(how.task)) {
    throw Error(Error::Kind::kInput, "the task's name is not UTF-8; give it another");
  }
  if (features.rows == 0) {
    throw Error(Error::Kind::kInput, fmt::format("task '{}': no features to learn from", how.task));
  }
  if (features.cols != dimension) {
    throw Error(Error::Kind::kInput,
                fmt::format("task '{}': the features have {} dimensions, the memory {}", how.task,
                            features.cols, dimension));
  }
  if (!(how.p > 0 && how.p <= 1)) {
    throw Error(Error::Kind::kUsage,
                fmt::format("p is {}; it must be above 0, and at most 1", how.p));
  }
}

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

void copy_rows(VectorView from, Vectors& to, std::size_t at) {
  std::vector<float> scratch(from.cols);
  for (std::size_t i = 0; i < from.rows; ++i) {
    const float* row = from.row(i, scratch.data());
    std::copy(row, row + from.cols, to.row(at + i));
  }
}

// Puts the vectors behind those there.
void join(Joined& all, const Vectors& more) {
  Vectors joined(all.vectors.rows() + more.rows(), more.cols());
  copy_rows(all.vectors.view(), joined, 0);
  copy_rows(more.view(), joined, all.vectors.rows());
  all.vectors = std::move(joined);
}

void remember(TaskRecord& record, const LearnHow& how, std::size_t patches, std::size_t picked,
              float epsilon, float epsilon_hat) {
  record.images += how.images;
  record.patches += patches;
  record.picked += picked;
  record.epsilon = std::max(record.epsilon, epsilon);
  record.epsilon_hat = std::max(record.epsilon_hat, epsilon_hat);
  record.learned = how.time.empty() ? utc_now() : how.time;
}

void add_record(TaskRecord& record, const TaskRecord& more) {
  record.images += more.images;
  record.patches += more.patches;
  record.picked += more.picked;
  record.epsilon = std::max(record.epsilon, more.epsilon);
  record.epsilon_hat = std::max(record.epsilon_hat, more.epsilon_hat);
  record.learned = std::max(record.learned, more.learned);
}

float median(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void check_alike(const Memory& a, const Memory& b) {
  if (a.size() == 0 || b.size() == 0) {
    throw Error(Error::Kind::kInput, "an empty memory cannot be merged; learn into it first");
  }
  if (a.dimension() != b.dimension()) {
    throw Error(Error::Kind::kInput,
                fmt::format("the memories differ in dimension ({} and {}) and cannot be merged",
                            a.dimension(), b.dimension()));
  }
  for (const auto* one : {&a.source, &b.source}) {
    const auto& other = one == &a.source ? b.source : a.source;
    for (const auto& [key, value] : *one) {
      const auto found = other.find(key);
      if (found != other.end() && found->second == value) continue;
      throw Error(Error::Kind::kInput,
                  fmt::format("the memories differ in their {} ({} and {}) and cannot be merged",
                              key, value, found == other.end() ? "none" : found->second));
    }
  }
}

void check_ends(VectorView patches, std::span<const std::size_t> ends, const std::string& task) {
  std::size_t first = 0;
  for (const std::size_t end : ends) {
    if (end <= first || end > patches.rows) {
      throw Error(Error::Kind::kUsage,
                  fmt::format("task '{}': an image without patches cannot be held out", task));
    }
    first = end;
  }
}

}  // namespace

Memory::Memory(std::size_t dimension, std::size_t capacity, double q)
    : state_(std::make_unique<State>()) {
  if (dimension == 0 || capacity == 0 || capacity > kMostVectors) {
    throw Error(
        Error::Kind::kUsage,
        fmt::format(
            "a memory of {} vectors of {} numbers cannot be; it must have at least one of one, "
            "and at most {}",
            capacity, dimension, kMostVectors));
  }
  if (!(q >= 0 && q <= 1)) {
    throw Error(Error::Kind::kUsage, fmt::format("q is {}; it must be from 0 to 1", q));
  }
  state_->dimension = dimension;
  state_->capacity = capacity;
  state_->q = q;
  state_->slots = Vectors(0, dimension);
}

Memory::Memory(std::unique_ptr<State> state) : state_(std::move(state)) {}
Memory::~Memory() = default;
Memory::Memory(Memory&&) noexcept = default;
Memory& Memory::operator=(Memory&&) noexcept = default;

std::size_t Memory::dimension() const { return state_->dimension; }
std::size_t Memory::capacity() const { return state_->capacity; }
std::size_t Memory::size() const { return state_->size(); }
double Memory::q() const { return state_->q; }
const std::vector<TaskRecord>& Memory::tasks() const { return state_->tasks; }

Vectors Memory::vectors() const {
  return gather({state_->slots.data(), state_->slots.rows(), state_->dimension}, state_->order);
}
std::vector<std::int32_t> Memory::origins() const { return choose(state_->origin, state_->order); }
std::vector<float> Memory::radii() const { return choose(state_->radius, state_->order); }

double Memory::certificate() const {
  float largest = 0;
  for (const std::uint32_t slot : state_->order) largest = std::max(largest, state_->slack[slot]);
  return static_cast<double>(state_->bound(static_cast<double>(largest)));
}

void Memory::learn(VectorView features, const LearnHow& how, Threads& threads) {
  check(features, how, state_->dimension);
  GreedyOptions options;
  options.count = picks_of(how.p, features.rows);
  options.memory_limit = how.memory_limit;
  options.points_name = fmt::format("task '{}'", how.task);
  options.base_name = "memory";
  options.progress = part_of(how.progress, 0.0, 0.8);
  Joined all = state_->joined();
  const GreedyResult expansion = greedy_sample(features, all.vectors.view(), options, threads);

  auto next = std::make_unique<State>();
  next->dimension = state_->dimension;
  next->capacity = state_->capacity;
  next->q = state_->q;
  next->tasks = state_->tasks;
  const std::int32_t task = next->task_index(how.task);
  join(all, gather(features, expansion.picks));
  all.origin.resize(all.vectors.rows(), task);
  all.radius.insert(all.radius.end(), expansion.radii.begin(), expansion.radii.end());
  all.slack.resize(all.vectors.rows(), 0);
  const float epsilon = next->bound(static_cast<double>(expansion.covering_radius));
  for (float& slack : all.slack) slack = std::max(slack, epsilon);

  const Consolidation kept =
      consolidate(all.vectors.view(), next->capacity, next->q, how.memory_limit, threads,
                  part_of(how.progress, 0.8, 1.0));
  if (how.progress && !how.progress(1)) throw Error(Error::Kind::kCancelled, "stopped");
  next->settle(all, kept, threads);
  if (!kept.dropped.empty()) {
    next->greedy_order = nearest_share(next->q, next->capacity) == 0;
  } else {
    next->greedy_order = state_->size() == 0 || (expansion.picks.empty() && state_->greedy_order);
  }
  remember(next->tasks[static_cast<std::size_t>(task)], how, features.rows, expansion.picks.size(),
           expansion.covering_radius, kept.covering_radius);
  next->calibration = std::move(state_->calibration);
  state_ = std::move(next);
}

void Memory::learn_online(VectorView features, const LearnHow& how, Threads& threads) {
  State& state = *state_;
  check(features, how, state.dimension);
  const std::size_t n = std::min(picks_of(how.p, features.rows), features.rows);
  if (state.size() == 0 || state.q < kLeastOnlineRatio || features.scalar != Scalar::kFloat32 ||
      nearest_share(state.q, state.capacity) == 0) {
    learn(features, how, threads);
    return;
  }
  if (state.slots.rows() < state.size() + n) {
    state.lay(std::min(2 * state.size(), state.capacity) + std::max(n, kSpareSlots));
  }
  const Expansion expansion = expand_few(features, state.nearest(features, threads).squared, n);
  const bool full = state.size() + expansion.picks.size() > state.capacity;
  if (full && !state.neighbours) {
    state.lay(state.slots.rows());
    auto neighbours = std::make_unique<Neighbours>(state.slots);
    neighbours->start(state.searchable(threads), state.size(), threads);
    state.neighbours = std::move(neighbours);
  }
  // From here on nothing throws, but for lack of memory.
  const std::int32_t task = state.task_index(how.task);
  const float epsilon = state.bound(static_cast<double>(expansion.covering_radius));
  for (float& slack : state.slack) slack = std::max(slack, epsilon);
  std::vector<std::uint32_t> added;
  const auto* values = static_cast<const float*>(features.data);
  for (std::size_t i = 0; i < expansion.picks.size(); ++i) {
    added.push_back(state.put(values + expansion.picks[i] * features.cols, task, expansion.radii[i],
                              epsilon, threads));
  }
  if (!added.empty()) state.greedy_order = false;
  float epsilon_hat = 0;
  if (state.neighbours) state.neighbours->add(added, state.order, threads);
  if (full) {
    const OnlineConsolidation kept = consolidate_online(
        state.order, state.capacity, state.q, *state.neighbours, state.slots.rows(), threads);
    state.order = kept.kept;
    std::vector<std::uint32_t> left;
    for (const auto& dropped : kept.dropped) {
      state.pass_slack(state.slack[dropped.slot], dropped.squared, dropped.nearest);
      epsilon_hat = std::max(epsilon_hat, std::sqrt(dropped.squared));
      left.push_back(dropped.slot);
    }
    state.leave(left);
  }
  remember(state.tasks[static_cast<std::size_t>(task)], how, features.rows, expansion.picks.size(),
           expansion.covering_radius, epsilon_hat);
}

std::vector<float> Memory::distances(VectorView patches, Threads& threads) const {
  if (size() == 0) {
    throw Error(Error::Kind::kInput, "the memory is empty; learn good images first");
  }
  return state_->searchable(threads).search(patches, 1, threads, "patches").distances;
}

void Memory::hold_out(VectorView patches, std::span<const std::size_t> ends,
                      const std::string& task, Threads& threads) {
  const auto known = std::find_if(state_->tasks.begin(), state_->tasks.end(),
                                  [&](const TaskRecord& record) { return record.name == task; });
  if (known == state_->tasks.end()) {
    throw Error(Error::Kind::kUsage, fmt::format("task '{}' was not learned", task));
  }
  check_ends(patches, ends, task);
  const auto index = static_cast<std::int32_t>(known - state_->tasks.begin());
  Calibration& calibration = state_->calibration;
  const std::vector<Vectors> thinned = state_->thinned(index);
  std::vector<NearestIndex> thin;
  for (const Vectors& few : thinned) thin.emplace_back(few.view(), threads);
  std::vector<HeldOut> images;
  const std::size_t room = calibration.room(index);
  for (std::size_t i = 0, first = 0; i < std::min(ends.size(), room); first = ends[i++]) {
    const VectorView image = patches.part(first, ends[i] - first);
    std::vector<std::vector<float>> all = {distances(image, threads)};
    for (const NearestIndex& few : thin) {
      all.push_back(few.search(image, 1, threads, "patches").distances);
    }
    images.push_back(contcore::hold_out(image, all, index));
  }
  std::move(images.begin(), images.end(), std::back_inserter(calibration.images));
  calibration.trim(Calibration::budget(state_->capacity), state_->tasks.size());
}

void Memory::recalibrate(Threads& threads) {
  std::size_t rows = 0;
  for (const HeldOut& image : state_->calibration.images) rows += image.patches.rows();
  if (rows == 0) return;
  Vectors patches(rows, state_->dimension);
  std::size_t at = 0;
  for (const HeldOut& image : state_->calibration.images) {
    copy_rows(image.patches.view(), patches, at);
    at += image.patches.rows();
  }
  const std::vector<float> all = distances(patches.view(), threads);
  at = 0;
  for (HeldOut& image : state_->calibration.images) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(at);
    at += image.patches.rows();
    image.score = *std::max_element(first, all.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

std::optional<Threshold> Memory::threshold(std::size_t task, double false_alarms) const {
  if (!(false_alarms >= 0 && false_alarms <= 1)) {
    throw Error(
        Error::Kind::kUsage,
        fmt::format("a rate of false alarms of {} cannot be; it is from 0 to 1", false_alarms));
  }
  if (task >= tasks().size()) return std::nullopt;
  return state_->calibration.threshold(static_cast<std::int32_t>(task), false_alarms);
}

std::optional<std::size_t> Memory::recognise(VectorView patches) const {
  if (patches.cols != dimension()) {
    throw Error(Error::Kind::kInput, fmt::format("the patches have {} dimensions, the memory {}",
                                                 patches.cols, dimension()));
  }
  return state_->calibration.recognise(patches);
}

std::vector<TaskState> Memory::states() const {
  std::vector<TaskState> states(state_->tasks.size());
  for (const std::int32_t task : origins()) ++states[static_cast<std::size_t>(task)].vectors;
  for (std::size_t t = 0; t < states.size(); ++t) {
    std::vector<float> first;
    std::vector<float> now;
    for (const HeldOut& image : state_->calibration.images) {
      if (image.task != static_cast<std::int32_t>(t)) continue;
      first.push_back(image.first_score);
      now.push_back(image.score);
    }
    states[t].held_out = now.size();
    states[t].first_score = median(first);
    states[t].score = median(now);
  }
  return states;
}

Memory Memory::shrink(std::size_t count, Threads& threads) const {
  Memory smaller(dimension(), count, q());
  smaller.source = source;
  State& next = *smaller.state_;
  const Joined all = state_->joined();
  Consolidation kept;
  if (state_->greedy_order && count < size()) {
    kept.kept.resize(count);
    std::iota(kept.kept.begin(), kept.kept.end(), 0U);
    kept.dropped = others(size(), kept.kept);
  } else {
    kept = consolidate(all.vectors.view(), count, 0, 0, threads, {});
  }
  next.settle(all, kept, threads);
  next.greedy_order = state_->greedy_order || !kept.dropped.empty();
  next.tasks = state_->tasks;
  next.calibration = state_->calibration.copy();
  next.calibration.trim(Calibration::budget(count), next.tasks.size());
  smaller.recalibrate(threads);
  return smaller;
}

Memory Memory::merge(const Memory& a, const Memory& b, std::size_t capacity, Threads& threads) {
  check_alike(a, b);
  Memory merged(a.dimension(), capacity, a.q());
  merged.source = a.source;
  State& next = *merged.state_;
  next.tasks = a.tasks();
  std::vector<std::int32_t> renamed;  // tasks of b
  for (const TaskRecord& record : b.tasks()) {
    renamed.push_back(next.task_index(record.name));
    add_record(next.tasks[static_cast<std::size_t>(renamed.back())], record);
  }
  Joined all = a.state_->joined();
  const Joined more = b.state_->joined();
  join(all, more.vectors);
  for (const std::int32_t task : more.origin) {
    all.origin.push_back(renamed[static_cast<std::size_t>(task)]);
  }
  all.radius.insert(all.radius.end(), more.radius.begin(), more.radius.end());
  all.slack.insert(all.slack.end(), more.slack.begin(), more.slack.end());
  const Consolidation kept = consolidate(all.vectors.view(), capacity, 0, 0, threads, {});
  next.settle(all, kept, threads);
  next.greedy_order = !kept.dropped.empty();
  next.calibration = a.state_->calibration.copy();
  for (HeldOut& image : b.state_->calibration.copy().images) {
    image.task = renamed[static_cast<std::size_t>(image.task)];
    next.calibration.images.push_back(std::move(image));
  }
  next.calibration.trim(Calibration::budget(capacity), next.tasks.size());
  merged.recalibrate(threads);
  return merged;
}

}  // namespace contcore
