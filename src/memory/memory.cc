#include "contcore/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "base/rows.h"
#include "base/task_name.h"
#include "contcore/error.h"
#include "contcore/greedy.h"
#include "memory/consolidate.h"
#include "memory/online.h"
#include "memory/state.h"

namespace contcore {
namespace {

void check(VectorView features, const LearnHow& how, std::size_t dimension) {
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

void add_record(TaskRecord& record, const TaskRecord& more) {
  record.images += more.images;
  record.held += more.held;
  record.patches += more.patches;
  record.picked += more.picked;
  record.epsilon = std::max(record.epsilon, more.epsilon);
  record.epsilon_hat = std::max(record.epsilon_hat, more.epsilon_hat);
  record.learned = std::max(record.learned, more.learned);
  if (!record.set.score && !record.set.false_alarms) record.set = more.set;
}

bool is_known(const std::vector<TaskRecord>& tasks, const std::string& task) {
  return std::any_of(tasks.begin(), tasks.end(),
                     [&](const TaskRecord& record) { return record.name == task; });
}

void check_room(const std::vector<TaskRecord>& tasks, const std::string& task) {
  constexpr std::size_t kMostTasks = 10000;  // so that the file's text stays within what is read
  if (tasks.size() < kMostTasks || is_known(tasks, task)) return;
  throw Error(Error::Kind::kInput,
              fmt::format("task '{}': the memory has {} tasks already, and no room for another; "
                          "learn it into another memory",
                          task, tasks.size()));
}

// What is known already keeps its name, whatever it is.
void check_name(const std::vector<TaskRecord>& tasks, const std::string& task) {
  if (is_known(tasks, task)) return;
  const std::string fault = task_name_fault(task);
  if (!fault.empty()) throw Error(Error::Kind::kInput, fault);
  check_room(tasks, task);
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
  const std::string rules[] = {a.consolidation().name(), b.consolidation().name()};
  if (rules[0] != rules[1]) {
    throw Error(Error::Kind::kInput,
                fmt::format("the memories are consolidated by different rules ({} and {}) and "
                            "cannot be merged",
                            rules[0], rules[1]));
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

Consolidate::Rule Consolidate::parse(const std::string& name) {
  if (name == "share") return Rule::kShare;
  if (name == "paper") return Rule::kPaper;
  throw Error(
      Error::Kind::kUsage,
      fmt::format("there is no rule '{}' to consolidate by; there are share and paper", name));
}

Memory::Memory(std::size_t dimension, std::size_t capacity, const Consolidate& how)
    : state_(std::make_unique<State>()) {
  if (dimension == 0 || capacity == 0 || capacity > kMostVectors) {
    throw Error(
        Error::Kind::kUsage,
        fmt::format(
            "a memory of {} vectors of {} numbers cannot be; it must have at least one of one, "
            "and at most {}",
            capacity, dimension, kMostVectors));
  }
  if (!(how.q >= 0 && how.q <= 1)) {
    throw Error(Error::Kind::kUsage, fmt::format("q is {}; it must be from 0 to 1", how.q));
  }
  state_->dimension = dimension;
  state_->capacity = capacity;
  state_->how = how;
  state_->slots = Vectors(0, dimension);
}

Memory::Memory(std::unique_ptr<State> state) : state_(std::move(state)) {}
Memory::~Memory() = default;
Memory::Memory(Memory&&) noexcept = default;
Memory& Memory::operator=(Memory&&) noexcept = default;

std::size_t Memory::dimension() const { return state_->dimension; }
std::size_t Memory::capacity() const { return state_->capacity; }
std::size_t Memory::size() const { return state_->size(); }
const Consolidate& Memory::consolidation() const { return state_->how; }
const std::vector<TaskRecord>& Memory::tasks() const { return state_->tasks; }

Vectors Memory::vectors() const {
  return gather({state_->slots.data(), state_->slots.rows(), state_->dimension}, state_->order);
}
std::vector<std::int32_t> Memory::origins() const { return choose(state_->origin, state_->order); }
std::vector<float> Memory::radii() const { return choose(state_->radius, state_->order); }

double Memory::certificate() const {
  if (state_->how.rule == Consolidate::Rule::kPaper) return state_->certificate(0);
  double largest = 0;
  for (std::size_t t = 0; t < state_->tasks.size(); ++t) {
    largest = std::max(largest, state_->certificate(static_cast<std::int32_t>(t)));
  }
  return largest;
}

void Memory::check_task(const std::string& task) const { check_name(state_->tasks, task); }

void Memory::learn(VectorView features, const LearnHow& how, Compute& compute) {
  check(features, how, state_->dimension);
  check_task(how.task);
  state_ = state_->how.rule == Consolidate::Rule::kPaper
               ? state_->learn_paper(features, how, compute)
               : state_->learn_share(features, how, compute);
}

void Memory::learn_online(VectorView features, const LearnHow& how, Compute& compute) {
  check(features, how, state_->dimension);
  check_task(how.task);
  const bool paper = state_->how.rule == Consolidate::Rule::kPaper;
  const std::size_t n = picks_of(how.p, features.rows);
  const bool worth = paper
                         ? state_->size() > 0 && updates_neighbours(state_->how.q, state_->capacity)
                         : n <= state_->size() / 4;
  const bool in_place = worth && features.scalar == Scalar::kFloat32;
  if (!in_place) return learn(features, how, compute);
  if (paper) {
    state_->learn_paper_online(features, how, compute);
  } else {
    state_->learn_share_online(features, how, compute);
  }
}

std::vector<float> Memory::distances(VectorView patches, Compute& compute) const {
  if (size() == 0) {
    throw Error(Error::Kind::kInput, "the memory is empty; learn good images first");
  }
  return state_->searchable(compute).distances(patches, compute);
}

void Memory::hold_out(VectorView patches, std::span<const std::size_t> ends,
                      const std::string& task, Compute& compute) {
  const auto known = std::find_if(state_->tasks.begin(), state_->tasks.end(),
                                  [&](const TaskRecord& record) { return record.name == task; });
  if (known == state_->tasks.end()) {
    throw Error(Error::Kind::kUsage, fmt::format("task '{}' was not learned", task));
  }
  check_ends(patches, ends, task);
  const auto index = static_cast<std::int32_t>(known - state_->tasks.begin());
  Calibration next = state_->calibration.copy();
  const std::vector<Vectors> shells = state_->shells(index);
  std::vector<NearestIndex> searched;
  for (const Vectors& shell : shells) searched.emplace_back(shell.view(), compute);
  std::vector<HeldOut> images;
  const std::size_t room = next.room(index);
  for (std::size_t i = 0, first = 0; i < std::min(ends.size(), room); first = ends[i++]) {
    const VectorView image = patches.part(first, ends[i] - first);
    // The memory's, and those of its task alone with fewer and fewer vectors.
    std::vector<std::vector<float>> all;
    for (const NearestIndex& shell : searched) {
      all.push_back(shell.search(image, 1, compute, "patches").distances);
      if (all.size() == 1) continue;
      const std::vector<float>& fewer = all[all.size() - 2];
      std::transform(fewer.begin(), fewer.end(), all.back().begin(), all.back().begin(),
                     [](float a, float b) { return std::min(a, b); });
    }
    all.push_back(distances(image, compute));
    std::reverse(all.begin(), all.end());
    images.push_back(contcore::hold_out(image, all, index));
    const Vectors& kept = images.back().patches;
    for (std::size_t j = 0; j < kept.rows(); ++j) {
      check_reach(kept.row(j), kept.cols(), fmt::format("task '{}'", task));
    }
  }
  std::move(images.begin(), images.end(), std::back_inserter(next.images));
  next.trim(Calibration::budget(state_->capacity), state_->tasks.size());
  // From here on nothing throws.
  state_->tasks[static_cast<std::size_t>(index)].held += ends.size();
  state_->calibration = std::move(next);
}

void Memory::recalibrate(Compute& compute) {
  std::size_t rows = 0;
  for (const HeldOut& image : state_->calibration.images) rows += image.patches.rows();
  if (rows == 0) return;
  Vectors patches(rows, state_->dimension);
  std::size_t at = 0;
  for (const HeldOut& image : state_->calibration.images) {
    std::copy_n(image.patches.data(), image.patches.rows() * state_->dimension, patches.row(at));
    at += image.patches.rows();
  }
  const std::vector<float> all = distances(patches.view(), compute);
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
  const SetThreshold& set = tasks()[task].set;
  std::optional<Threshold> result = state_->calibration.threshold(
      static_cast<std::int32_t>(task), set.false_alarms.value_or(false_alarms));
  if (set.score) {
    if (!result) result.emplace();
    result->score = *set.score;
    result->by_hand = true;
  }
  return result;
}

void Memory::set_threshold(const std::string& task, const SetThreshold& set) {
  const auto known = std::find_if(state_->tasks.begin(), state_->tasks.end(),
                                  [&](const TaskRecord& record) { return record.name == task; });
  if (known == state_->tasks.end()) {
    throw Error(Error::Kind::kUsage, fmt::format("there is no task '{}' in this memory", task));
  }
  if (!is_threshold(set)) {
    throw Error(Error::Kind::kUsage,
                "a threshold is a score above 0, or a rate of false alarms between 0 and 1");
  }
  known->set = set;
}

std::optional<std::size_t> Memory::recognise(VectorView patches) const {
  if (patches.cols != dimension()) {
    throw Error(Error::Kind::kInput, fmt::format("the patches have {} dimensions, the memory {}",
                                                 patches.cols, dimension()));
  }
  return state_->calibration.recognise(patches);
}

double TaskState::drift() const {
  if (!(first_score > 0)) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(score) / static_cast<double>(first_score);
}

std::vector<TaskState> Memory::states() const {
  const bool share = state_->how.rule == Consolidate::Rule::kShare;
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
    states[t].certificate = state_->certificate(static_cast<std::int32_t>(t));
    states[t].why = states[t].vectors == state_->tasks[t].picked ? "all it took"
                    : share                                      ? "equal share"
                                                                 : "resampled";
    states[t].first_score = median(first);
    states[t].score = median(now);
  }
  return states;
}

std::vector<float> Memory::held_out_scores(std::size_t task) const {
  return state_->calibration.scores(static_cast<std::int32_t>(task));
}

Memory Memory::shrink(std::size_t count, Compute& compute) const {
  Memory smaller(dimension(), count, state_->how);
  smaller.source = source;
  State& next = *smaller.state_;
  next.tasks = state_->tasks;
  if (state_->how.rule == Consolidate::Rule::kShare) {
    state_->copy_shares(next, compute);
  } else {
    const Joined all = state_->joined();
    Consolidation kept;
    if (state_->greedy_order && count < size()) {
      kept.kept.resize(count);
      std::iota(kept.kept.begin(), kept.kept.end(), 0U);
      kept.dropped = others(size(), kept.kept);
    } else {
      kept = consolidate(all.vectors.view(), count, 0, 0, compute, {});
    }
    next.settle(all, kept, compute);
    next.greedy_order = state_->greedy_order || !kept.dropped.empty();
  }
  next.calibration = state_->calibration.copy();
  next.calibration.trim(Calibration::budget(count), next.tasks.size());
  smaller.recalibrate(compute);
  return smaller;
}

Memory Memory::copy() const {
  std::unique_ptr<State> same = state_->emptied();
  const Joined all = state_->joined();
  Consolidation everything;
  everything.kept.resize(size());
  std::iota(everything.kept.begin(), everything.kept.end(), 0U);
  Compute alone(1);  // nothing is dropped, so nothing is searched
  same->settle(all, everything, alone);
  same->earlier = state_->earlier_among(state_->order);
  same->greedy_order = state_->greedy_order;
  same->calibration = state_->calibration.copy();
  Memory result(std::move(same));
  result.source = source;
  return result;
}

Memory Memory::merge(const Memory& a, const Memory& b, std::size_t capacity, Compute& compute) {
  check_alike(a, b);
  Memory merged(a.dimension(), capacity, a.state_->how);
  merged.source = a.source;
  State& next = *merged.state_;
  next.tasks = a.tasks();
  std::vector<std::int32_t> renamed;  // tasks of b
  for (const TaskRecord& record : b.tasks()) {
    check_room(next.tasks, record.name);
    renamed.push_back(next.task_index(record.name));
    add_record(next.tasks[static_cast<std::size_t>(renamed.back())], record);
  }
  Joined all = a.state_->joined();
  Joined more = b.state_->joined();
  for (std::int32_t& task : more.origin) task = renamed[static_cast<std::size_t>(task)];
  const bool paper = a.state_->how.rule == Consolidate::Rule::kPaper;
  if (!paper) next.meet(all, more, b.tasks(), compute);
  join(all, more.vectors);
  all.origin.insert(all.origin.end(), more.origin.begin(), more.origin.end());
  all.radius.insert(all.radius.end(), more.radius.begin(), more.radius.end());
  all.slack.insert(all.slack.end(), more.slack.begin(), more.slack.end());
  const Consolidation kept = paper ? consolidate(all.vectors.view(), capacity, 0, 0, compute, {})
                                   : next.share_out(all, capacity);
  next.settle(all, kept, compute);
  next.greedy_order = !kept.dropped.empty();
  next.calibration = a.state_->calibration.copy();
  for (HeldOut& image : b.state_->calibration.copy().images) {
    image.task = renamed[static_cast<std::size_t>(image.task)];
    next.calibration.images.push_back(std::move(image));
  }
  next.calibration.trim(Calibration::budget(capacity), next.tasks.size());
  merged.recalibrate(compute);
  return merged;
}

}  // namespace contcore
