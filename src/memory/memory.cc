// The public face of the memory. In: patch vectors. Out: a memory that covers them, and distances
// to it. Fails on vectors and names that cannot be used; the memory is then as before.
#include "contcore/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "base/rows.h"
#include "base/task_name.h"
#include "contcore/error.h"
#include "coreset/points.h"
#include "device/or_processor.h"
#include "memory/state.h"

namespace contcore {
namespace {

const char* kind_of(Scalar scalar) { return scalar == Scalar::kUint8 ? "bytes" : "floats"; }

// Throws unless the vectors are of the memory's dimension and kind.
void check_kind(VectorView vectors, const Memory& memory, const std::string& name) {
  if (vectors.cols != memory.dimension()) {
    throw Error(Error::Kind::kInput, fmt::format("{} have {} dimensions, the memory {}", name,
                                                 vectors.cols, memory.dimension()));
  }
  const std::string kinds[] = {kind_of(vectors.scalar), kind_of(memory.scalar())};
  if (kinds[0] != kinds[1]) {
    throw Error(Error::Kind::kInput,
                fmt::format("{} are {}, but the memory holds {}; make them as those it learned "
                            "were made, or learn into a new memory",
                            name, kinds[0], kinds[1]));
  }
}

void check(const Points& features, const LearnHow& how, const Memory& memory) {
  if (features.rows == 0) {
    throw Error(Error::Kind::kInput, fmt::format("task '{}': no features to learn from", how.task));
  }
  check_kind(features.here, memory, fmt::format("task '{}': the features", how.task));
  if (!(how.p > 0 && how.p <= 1)) {
    throw Error(Error::Kind::kUsage,
                fmt::format("p is {}; it must be above 0, and at most 1", how.p));
  }
}

void add_record(TaskRecord& record, const TaskRecord& more) {
  record.images += more.images;
  record.patches += more.patches;
  record.picked += more.picked;
  record.epsilon = std::max(record.epsilon, more.epsilon);
  record.epsilon_hat = std::max(record.epsilon_hat, more.epsilon_hat);
  record.learned = std::max(record.learned, more.learned);
  record.region = more.region;  // the same, where both have it
  if (!record.set.score && !record.set.false_alarms) record.set = more.set;
}

bool is_known(const std::vector<TaskRecord>& tasks, const std::string& task) {
  return std::any_of(tasks.begin(), tasks.end(),
                     [&](const TaskRecord& record) { return record.name == task; });
}

// Of a region in a memory's file, at most.
std::size_t text_bytes(const SharedRegion& region) {
  constexpr std::size_t kPointBytes = 60;
  constexpr std::size_t kCountBytes = 10;
  if (!region) return 0;
  std::size_t points = 0;
  for (const RegionOfInterest::Polygon& polygon : region->polygons) points += polygon.size();
  return points * kPointBytes + region->counts.size() * kCountBytes;
}

// So that the file's text stays within what is read.
void check_room(const std::vector<TaskRecord>& tasks, const std::string& task,
                const SharedRegion& region) {
  constexpr std::size_t kMostTasks = 10000;
  constexpr std::size_t kMostRegionBytes = std::size_t{32} << 20;
  if (is_known(tasks, task)) return;
  if (region) {
    std::size_t bytes = text_bytes(region);
    for (const TaskRecord& record : tasks) bytes += text_bytes(record.region);
    if (bytes > kMostRegionBytes) {
      throw Error(Error::Kind::kInput,
                  fmt::format("task '{}': the memory has no room for another region of interest "
                              "({} tasks have one); draw polygons instead of masks, or learn it "
                              "into another memory",
                              task, std::ranges::count_if(tasks, [](const TaskRecord& record) {
                                return record.region != nullptr;
                              })));
    }
  }
  if (tasks.size() < kMostTasks) return;
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
  check_room(tasks, task, nullptr);
}

constexpr char kMergeRemedy[] = "learn one of them again as the other was made";

[[noreturn]] void refuse_merge(const std::string& thing, const std::string& a,
                               const std::string& b) {
  throw Error(Error::Kind::kInput,
              fmt::format("the memories differ in their {} ({} and {}) and cannot be merged; {}",
                          thing, a, b, kMergeRemedy));
}

using Source = std::map<std::string, std::string>;

// What a source says of a thing; where a file's hash is known on both sides it decides alone, and
// the name is for people.
struct Said {
  std::string shown;
  std::string compared;
};

Said said_of(const Source& source, const std::string& key, bool by_hash) {
  const auto value = source.find(key);
  const std::string text = value == source.end() ? "none" : value->second;
  if (!by_hash) return {text, value == source.end() ? "-" : "+" + text};
  const std::string& hash = source.at(key + ".sha256");
  return {fmt::format("{} of sha256 {:.12}…", text, hash), hash};
}

void check_sources(const Source& a, const Source& b) {
  Source all = a;
  all.insert(b.begin(), b.end());
  for (const auto& [key, value] : all) {
    const std::string hash = key + ".sha256";
    const bool by_hash = a.contains(hash) && b.contains(hash);
    const Said one = said_of(a, key, by_hash), other = said_of(b, key, by_hash);
    if (one.compared != other.compared) refuse_merge(key, one.shown, other.shown);
  }
}

void check_alike(const Memory& a, const Memory& b) {
  if (a.size() == 0 || b.size() == 0) {
    throw Error(Error::Kind::kInput, "an empty memory cannot be merged; learn into it first");
  }
  // First what decides about the rest: floats mostly have another dimension too.
  if (a.scalar() != b.scalar()) {
    refuse_merge("precision", kind_of(a.scalar()), kind_of(b.scalar()));
  }
  if (a.dimension() != b.dimension()) {
    refuse_merge("dimension", fmt::format("{}", a.dimension()), fmt::format("{}", b.dimension()));
  }
  const std::string rules[] = {a.consolidation().name(), b.consolidation().name()};
  if (rules[0] != rules[1]) refuse_merge("rule to consolidate by", rules[0], rules[1]);
  check_sources(a.source, b.source);
  for (const TaskRecord& task : b.tasks()) {
    if (!a.find_task(task.name) || same_region(a.region_of(task.name), task.region)) continue;
    throw Error(Error::Kind::kInput,
                fmt::format("task '{}' has another region of interest in each of the memories, "
                            "which cannot be merged; rename it in one of them",
                            task.name));
  }
}

}  // namespace

Memory::Memory(std::size_t dimension, std::size_t capacity, const Consolidate& how, Scalar scalar) {
  if (dimension == 0 || capacity == 0 || capacity > VectorStore::kMostVectors) {
    throw Error(
        Error::Kind::kUsage,
        fmt::format(
            "a memory of {} vectors of {} numbers cannot be; it must have at least one of one, "
            "and at most {}",
            capacity, dimension, VectorStore::kMostVectors));
  }
  if (!(how.q >= 0 && how.q <= 1)) {
    throw Error(Error::Kind::kUsage, fmt::format("q is {}; it must be from 0 to 1", how.q));
  }
  state_ = std::make_unique<State>(dimension, capacity, how, scalar);
}

Memory::Memory(std::unique_ptr<State> state) : state_(std::move(state)) {}
Memory::~Memory() = default;
Memory::Memory(Memory&&) noexcept = default;
Memory& Memory::operator=(Memory&&) noexcept = default;

std::size_t Memory::dimension() const { return state_->contents->store.dimension(); }
Scalar Memory::scalar() const { return state_->contents->store.scalar(); }
std::size_t Memory::capacity() const { return state_->contents->capacity; }
std::size_t Memory::size() const { return state_->contents->store.size(); }
const Consolidate& Memory::consolidation() const { return state_->how; }
const std::vector<TaskRecord>& Memory::tasks() const { return state_->contents->tasks; }

std::optional<std::size_t> Memory::find_task(const std::string& name) const {
  const auto& known = tasks();
  for (std::size_t t = 0; t < known.size(); ++t) {
    if (known[t].name == name) return t;
  }
  return std::nullopt;
}

Vectors Memory::vectors() const {
  return gather(state_->contents->store.vectors(), state_->contents->store.order());
}
std::vector<std::int32_t> Memory::origins() const {
  return choose(state_->contents->store.origin(), state_->contents->store.order());
}
std::vector<float> Memory::radii() const {
  const VectorStore& store = state_->contents->store;
  return choose(store.radius(), store.order());
}

double Memory::certificate() const { return state_->rule->certificate(*state_->contents); }

void Memory::check_task(const std::string& task) const { check_name(tasks(), task); }

std::vector<std::uint32_t> Memory::State::base_slots(const std::string& task) const {
  if (!rule->expands_on_own()) return contents->store.order();
  for (std::size_t t = 0; t < contents->tasks.size(); ++t) {
    if (contents->tasks[t].name == task) {
      return contents->store.slots_of(static_cast<std::int32_t>(t));
    }
  }
  return {};
}

std::vector<std::uint32_t> Memory::State::slots_of_others(std::int32_t task) const {
  std::vector<std::uint32_t> others;
  if (rule->expands_on_own()) return others;
  for (const std::uint32_t slot : contents->store.order()) {
    if (contents->store.origin()[slot] != task) others.push_back(slot);
  }
  return others;
}

SharedRegion Memory::region_of(const std::string& task) const {
  const auto known = find_task(task);
  return known ? tasks()[*known].region : nullptr;
}

void Memory::check_region(const std::string& task, const SharedRegion& region) const {
  const auto known = find_task(task);
  if (known && same_region(tasks()[*known].region, region)) return;
  if (region) contcore::check_region(*region);  // one that cannot be read again is not learned
  if (!known) return check_room(tasks(), task, region);
  throw Error(Error::Kind::kInput,
              fmt::format("task '{}' was learned {}; forget the task and learn it again to change "
                          "that, or learn these images as another task",
                          task,
                          tasks()[*known].region
                              ? "with another region of interest, which goes for all its "
                                "images"
                              : "without a region of interest"));
}

void Memory::check_learn(VectorView features, const LearnHow& how) const {
  check(features, how, *this);
  check_task(how.task);
  if (how.region) check_region(how.task, how.region);
}

void Memory::learn(VectorView features, const LearnHow& how, Compute& compute) {
  check_learn(features, how);
  or_processor(compute, [&](Compute& with) {
    state_->score_kept_patches(with);
    state_->contents = state_->rule->learn(*state_->contents, features, how, with);
  });
}

void Memory::learn(VectorView features, const LearnHow& how, Compute& compute, Ranks& ranks) {
  const Points all(features, ranks);
  do_on_all(&ranks, [&] {
    check(all, how, *this);
    check_task(how.task);
    if (how.region) check_region(how.task, how.region);
    or_processor(compute, [&](Compute& with) { state_->score_kept_patches(with); });
  });
  Compute processor(compute.threads().count());  // whatever failed on a GPU, failed on one rank
  std::unique_ptr<Contents> next;
  std::exception_ptr failure;  // after the sampling, which all fail in together
  try {
    next = state_->rule->learn(*state_->contents, all, how, processor);
  } catch (const RanksError&) {
    throw;
  } catch (const Error&) {
    failure = std::current_exception();
  }
  do_on_all(&ranks, [&] {
    if (failure) std::rethrow_exception(failure);
  });
  state_->contents = std::move(next);
}

void Memory::learn_online(VectorView features, const LearnHow& how, Compute& compute) {
  check_learn(features, how);
  const bool worth = state_->rule->worth_online(*state_->contents, picks_of(how.p, features.rows));
  const bool in_place = worth && features.scalar == scalar();
  or_processor(compute, [&](Compute& with) {
    if (in_place) {
      state_->score_kept_patches(with);
      return state_->rule->learn_online(*state_->contents, features, how, with);
    }
    if (how.before && !state_->base_slots(how.task).empty()) {
      const auto own = static_cast<std::int32_t>(find_task(how.task).value_or(0));
      const auto among = state_->rule->expands_on_own() ? std::optional(own) : std::nullopt;
      report_distances(how, state_->contents->store.nearest(features, with, among).squared);
    }
    learn(features, how, with);
  });
}

std::vector<float> Memory::distances(VectorView patches, Compute& compute,
                                     const Progress& progress) const {
  if (size() == 0) {
    throw Error(Error::Kind::kInput, "the memory is empty; learn good images first");
  }
  check_kind(patches, *this, "the patches");
  return or_processor(compute, [&](Compute& with) {
    return state_->contents->store.index(with).distances(patches, with, progress);
  });
}

// With nothing left of an earlier version's.
Calibration Memory::scored_calibration(Compute& compute) const {
  if (!state_->calibration.has_patches()) return state_->calibration.copy();
  const Memory same = copy();
  same.state_->score_kept_patches(compute);
  return std::move(same.state_->calibration);
}

Memory Memory::shrink(std::size_t count, Compute& compute) const {
  Memory smaller(dimension(), count, state_->how, scalar());
  smaller.source = source;
  Contents& next = *smaller.state_->contents;
  next.tasks = tasks();
  state_->rule->shrink(*state_->contents, next, compute);
  smaller.state_->calibration = scored_calibration(compute);
  smaller.state_->trim_calibration();
  smaller.state_->trim_defects(compute);
  return smaller;
}

Memory Memory::copy() const {
  Memory same(dimension(), capacity(), state_->how, scalar());
  same.source = source;
  Contents& next = *same.state_->contents;
  const Contents& now = *state_->contents;
  next.tasks = now.tasks;
  next.greedy_order = now.greedy_order;
  next.store.assign(now.store.entries(), now.store.parents_among(now.store.order()));
  same.state_->calibration = state_->calibration.copy();
  return same;
}

Memory Memory::merge(const Memory& a, const Memory& b, std::size_t capacity, Compute& compute) {
  check_alike(a, b);
  Memory merged(a.dimension(), capacity, a.state_->how, a.scalar());
  merged.source = a.source;
  Contents& next = *merged.state_->contents;
  next.tasks = a.tasks();
  std::vector<std::int32_t> renamed;  // tasks of b
  for (const TaskRecord& record : b.tasks()) {
    check_room(next.tasks, record.name, record.region);
    renamed.push_back(next.add_task(record.name));
    add_record(next.tasks[static_cast<std::size_t>(renamed.back())], record);
  }
  Entries theirs = b.state_->contents->store.entries();
  for (std::int32_t& task : theirs.origin) task = renamed[static_cast<std::size_t>(task)];
  merged.state_->rule->merge(a.state_->contents->store.entries(), std::move(theirs), b.tasks(),
                             next, compute);
  Calibration& calibration = merged.state_->calibration;
  calibration = a.scored_calibration(compute);
  Calibration other = b.scored_calibration(compute);
  for (std::size_t t = 0; t < other.tasks.size(); ++t) {
    TaskCalibration& to = calibration.of(static_cast<std::size_t>(renamed[t]));
    TaskCalibration& from = other.tasks[t];
    for (CalibratedImage& image : from.images) {
      if (!is_among(to.images, image.hash)) to.images.push_back(std::move(image));
    }
    // The latest come last: those of the larger part.
    std::stable_sort(
        to.images.begin(), to.images.end(),
        [](const CalibratedImage& x, const CalibratedImage& y) { return x.vectors < y.vectors; });
    to.learned = LearnedImages::joined(to.learned, from.learned);
    for (std::vector<float>& mean : from.means) {
      if (std::find(to.means.begin(), to.means.end(), mean) == to.means.end()) {
        to.means.push_back(std::move(mean));
      }
    }
    choose_images(to.images, Calibration::kMostImages);
    to.thin_means(Calibration::kMostMeans);
    if (from.defects.patches.rows() > 0) {
      to.defects.add(from.defects.patches.view(), from.defects.images, next.store, compute);
    }
  }
  merged.state_->trim_calibration();
  merged.state_->trim_defects(compute);
  for (TaskCalibration& task : calibration.tasks) task.measure_suspects(true, compute);
  return merged;
}

}  // namespace contcore
