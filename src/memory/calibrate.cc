// What a memory knows of good images that it had not learned when they were scored. In: their
// scores and patches. Out: conformal thresholds, drift, the product an image is of. The memory is
// as before where something throws.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/rows.h"
#include "contcore/error.h"
#include "contcore/memory.h"
#include "device/or_processor.h"
#include "memory/state.h"

namespace contcore {
namespace {

// A task's vectors in the order that smaller shares leave it the first of.
std::vector<std::uint32_t> in_greedy_order(const VectorStore& store,
                                           std::vector<std::uint32_t> slots) {
  std::stable_sort(slots.begin(), slots.end(), [&](std::uint32_t a, std::uint32_t b) {
    return store.radius()[a] > store.radius()[b];
  });
  return slots;
}

std::size_t number_bytes(const VectorStore& store) { return bytes_of(store.vectors().scalar); }

float median(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool can_be(const Suspects* suspects, const Memory& memory) {
  if (suspects == nullptr) return true;
  const auto is_length = [](float value) { return value >= 0 && std::isfinite(value); };
  const std::size_t n = suspects->patches.rows();
  return n <= Suspects::kMost && suspects->distances.size() == n && suspects->values.size() == n &&
         suspects->patches.cols() == memory.dimension() &&
         suspects->patches.scalar() == memory.scalar() &&
         std::all_of(suspects->distances.begin(), suspects->distances.end(), is_length) &&
         std::all_of(suspects->values.begin(), suspects->values.end(), is_length);
}

CalibratedImage checked(const ImageScores& image, const Memory& memory, const std::string& task) {
  const bool fine = !image.scores.empty() && image.vectors > 0 &&
                    image.vectors <= VectorStore::kMostVectors &&
                    image.scores.size() <= kMostLevels && image.scores.front() >= 0 &&
                    std::is_sorted(image.scores.begin(), image.scores.end()) &&
                    std::all_of(image.scores.begin(), image.scores.end(),
                                [](float score) { return std::isfinite(score); });
  if (!fine || !can_be(image.suspects.get(), memory)) {
    throw Error(Error::Kind::kUsage,
                fmt::format("task '{}': an image cannot have these scores", task));
  }
  const std::size_t suspects = image.suspects ? image.suspects->patches.rows() : 0;
  return {static_cast<std::uint32_t>(image.vectors),
          0,
          image.scores[0],
          image.scores,
          image.image,
          image.suspects,
          static_cast<std::uint32_t>(suspects),
          {}};
}

// Of bytes it is rounded to them, as a file has it.
std::vector<float> as_kept(std::vector<float> mean, Scalar scalar) {
  if (scalar != Scalar::kUint8) return mean;
  for (float& value : mean) value = std::round(value);
  return mean;
}

std::vector<float> checked_mean(VectorView patches, const Memory& memory, const std::string& task) {
  if (patches.cols != memory.dimension() || patches.rows == 0) {
    throw Error(Error::Kind::kInput,
                fmt::format("task '{}': an image of {} patches with {} dimensions; the memory has "
                            "{}",
                            task, patches.rows, patches.cols, memory.dimension()));
  }
  std::vector<float> mean = mean_of_patches(patches);
  check_reach(mean.data(), mean.size(), fmt::format("task '{}'", task));
  return mean;
}

// What stands with an image's scores; empty: not known.
std::vector<float> checked_mean_of(const ImageScores& image, const Memory& memory,
                                   const std::string& task) {
  const bool fine = image.mean.empty() || (image.mean.size() == memory.dimension() &&
                                           std::all_of(image.mean.begin(), image.mean.end(),
                                                       [](float v) { return std::isfinite(v); }));
  if (!fine) {
    throw Error(Error::Kind::kUsage,
                fmt::format("task '{}': an image cannot have this mean patch", task));
  }
  check_reach(image.mean.data(), image.mean.size(), fmt::format("task '{}'", task));
  return image.mean;
}

void check_false_alarms(double rate) {
  if (rate >= 0 && rate <= 1) return;
  throw Error(Error::Kind::kUsage,
              fmt::format("a rate of false alarms of {} cannot be; it is from 0 to 1", rate));
}

}  // namespace

std::size_t Memory::State::calibration_budget() const {
  const VectorStore& store = contents->store;
  return Calibration::budget(contents->capacity * store.dimension() * number_bytes(store));
}

void Memory::State::trim_calibration() {
  const std::vector<std::size_t> vectors = vectors_of_tasks(*contents);
  calibration.trim(calibration_budget(), number_bytes(contents->store), vectors);
}

// Patches that a file of an earlier version has are scored with ever fewer of the task's vectors,
// before it is left with fewer. A few patches of an image are kept, so that these scores are lower
// bounds.
void Memory::State::score_kept_patches(Compute& compute) {
  const VectorStore& store = contents->store;
  for (std::size_t t = 0; t < calibration.tasks.size(); ++t) {
    TaskCalibration& task = calibration.tasks[t];
    if (task.patches.empty()) continue;
    const auto number = static_cast<std::int32_t>(t);
    const std::vector<std::uint32_t> own = in_greedy_order(store, store.slots_of(number));
    const std::vector<std::uint32_t> others = slots_of_others(number);
    const std::vector<std::size_t> sizes = level_sizes(own.size());
    std::vector<std::vector<float>> scores;
    for (std::size_t i = 0; i < task.images.size(); ++i) {
      std::vector<float>& all = scores.emplace_back(task.images[i].scores);
      const auto thinned =
          thinned_distances(task.patches[i].view(), store.vectors(), own, sizes, others, compute);
      for (const std::vector<float>& distances : thinned) {
        all.push_back(std::max(all.back(), *std::max_element(distances.begin(), distances.end())));
      }
    }
    for (std::size_t i = 0; i < task.images.size(); ++i) {
      task.images[i].scores = std::move(scores[i]);
    }
    task.patches.clear();
  }
}

bool Memory::is_new(const std::string& task, std::uint64_t image) const {
  const std::optional<std::size_t> known = find_task(task);
  if (!known || *known >= state_->calibration.tasks.size()) return true;
  const TaskCalibration& own = state_->calibration.tasks[*known];
  return own.learned.is_new(image) && !is_among(own.images, image);
}

bool Memory::was_learned(std::size_t task, std::uint64_t image) const {
  if (task >= state_->calibration.tasks.size()) return false;
  const TaskCalibration& own = state_->calibration.tasks[task];
  return own.learned.has(image) || is_among(own.images, image);
}

void Memory::check_image(const std::string& task, VectorView patches) const {
  checked_mean(patches, *this, task);
}

std::size_t Memory::vectors_after(const std::string& task, std::size_t picks) const {
  const auto known = find_task(task);
  return state_->rule->vectors_after(
      *state_->contents, static_cast<std::int32_t>(known.value_or(tasks().size())), picks);
}

Memory::Base Memory::base_of(const std::string& task) const {
  const VectorStore& store = state_->contents->store;
  const std::vector<std::uint32_t> slots = in_greedy_order(store, state_->base_slots(task));
  const auto known = find_task(task);
  std::vector<bool> own;
  for (const std::uint32_t slot : slots) {
    own.push_back(known && store.origin()[slot] == static_cast<std::int32_t>(*known));
  }
  return {gather(store.vectors(), slots), choose(store.radius(), slots), std::move(own)};
}

Memory::Thinned Memory::thinned(VectorView patches, const std::string& task,
                                Compute& compute) const {
  const VectorStore& store = state_->contents->store;
  const auto number = static_cast<std::int32_t>(find_task(task).value_or(tasks().size()));
  const std::vector<std::uint32_t> own = in_greedy_order(store, store.slots_of(number));
  return or_processor(compute, [&](Compute& with) -> Thinned {
    return {own.size(), thinned_distances(patches, store.vectors(), own, level_sizes(own.size()),
                                          state_->slots_of_others(number), with)};
  });
}

void Memory::calibrate(const std::string& task, std::span<const ImageScores> scores,
                       std::span<const VectorView> images, Keep keep,
                       std::span<const std::uint64_t> learned) {
  const std::optional<std::size_t> known = find_task(task);
  if (!known) throw Error(Error::Kind::kUsage, fmt::format("task '{}' was not learned", task));
  TaskCalibration more;
  for (const ImageScores& image : scores) more.images.push_back(checked(image, *this, task));
  for (const VectorView& patches : images) {
    more.means.push_back(as_kept(checked_mean(patches, *this, task), scalar()));
  }
  const std::vector<std::size_t> vectors = vectors_of_tasks(*state_->contents);
  if (state_->calibration.has_patches()) {
    Compute alone(1);
    state_->score_kept_patches(alone);
  }
  TaskCalibration& own = state_->calibration.of(*known);
  Compute alone(1);
  more.defects = own.defects.copy();
  more.measure_suspects(true, alone);
  own.images.reserve(own.images.size() + more.images.size());
  own.means.reserve(own.means.size() + more.means.size());
  LearnedImages all_learned = LearnedImages::joined(own.learned, LearnedImages::of(learned));
  std::vector<std::vector<float>> of_scored;
  for (const ImageScores& image : scores) {
    of_scored.push_back(as_kept(checked_mean_of(image, *this, task), scalar()));
  }
  // From here on nothing throws.
  const auto tell_strangers = [&] {
    for (std::size_t i = 0; i < more.images.size(); ++i) {
      if (!of_scored[i].empty()) more.images[i].strange = nearest_other(of_scored[i], own.means);
    }
  };
  // The next of a stream is told by those before it.
  if (keep == Keep::kLatest) tell_strangers();
  for (std::vector<float>& mean : more.means) {
    const bool known_already =
        std::find(own.means.begin(), own.means.end(), mean) != own.means.end();
    if (!known_already) own.means.push_back(std::move(mean));
  }
  const auto keep_latest = [](auto& values, std::size_t most) {
    const std::size_t over = values.size() - std::min(values.size(), most);
    values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(over));
  };
  if (keep == Keep::kSpread) {
    own.thin_means(Calibration::kMostMeans);
    tell_strangers();
  } else {
    keep_latest(own.means, Calibration::kMostMeans);
  }
  std::swap(own.learned, all_learned);
  for (CalibratedImage& image : more.images) {
    if (!is_among(own.images, image.hash)) own.images.push_back(std::move(image));
  }
  if (keep == Keep::kSpread) {
    choose_images(own.images, Calibration::kMostImages);
  } else {
    keep_latest(own.images, Calibration::kMostImages);
  }
  state_->calibration.trim(state_->calibration_budget(), number_bytes(state_->contents->store),
                           vectors);
}

std::optional<Threshold> Memory::calibrated_threshold(std::size_t task, double false_alarms) const {
  check_false_alarms(false_alarms);
  if (task >= tasks().size()) return std::nullopt;
  return state_->calibration.threshold(task, vectors_of_tasks(*state_->contents)[task],
                                       false_alarms);
}

std::optional<Threshold> Memory::threshold(std::size_t task, double false_alarms) const {
  check_false_alarms(false_alarms);
  if (task >= tasks().size()) return std::nullopt;
  const SetThreshold& set = tasks()[task].set;
  std::optional<Threshold> result =
      calibrated_threshold(task, set.false_alarms.value_or(false_alarms));
  if (set.score) {
    if (!result) result.emplace();
    result->score = *set.score;
    result->by_hand = true;
  }
  return result;
}

void Memory::set_threshold(const std::string& task, const SetThreshold& set) {
  const std::optional<std::size_t> known = find_task(task);
  if (!known) {
    throw Error(Error::Kind::kUsage, fmt::format("there is no task '{}' in this memory", task));
  }
  if (!is_threshold(set)) {
    throw Error(Error::Kind::kUsage,
                "a threshold is a score above 0, or a rate of false alarms between 0 and 1");
  }
  if (state_->calibration.has_patches()) {  // once, not whenever this is saved
    Compute alone(1);
    state_->score_kept_patches(alone);
  }
  state_->contents->tasks[*known].set = set;
}

std::optional<std::size_t> Memory::recognise(VectorView patches, const SharedRegion& region) const {
  const auto found = resemblance(patches, region);
  return found ? std::optional(found->task) : std::nullopt;
}

std::optional<Memory::Recognised> Memory::resemblance(VectorView patches,
                                                      const SharedRegion& region) const {
  if (patches.cols != dimension()) {
    throw Error(Error::Kind::kInput, fmt::format("the patches have {} dimensions, the memory {}",
                                                 patches.cols, dimension()));
  }
  std::vector<bool> is_eligible;
  for (const TaskRecord& task : tasks()) is_eligible.push_back(same_region(task.region, region));
  return state_->calibration.recognise(patches, is_eligible);
}

std::optional<Strangeness> Memory::strangeness(std::size_t task, VectorView patches,
                                               double rate) const {
  if (!(rate >= 0 && rate <= 1)) {
    throw Error(Error::Kind::kUsage,
                fmt::format("a rate of strangers of {} cannot be; it is from 0 to 1", rate));
  }
  if (patches.rows == 0) return state_->calibration.strangeness(task, {}, rate);
  if (patches.cols != dimension()) {
    throw Error(Error::Kind::kInput, fmt::format("the patches have {} dimensions, the memory {}",
                                                 patches.cols, dimension()));
  }
  return state_->calibration.strangeness(task, as_kept(mean_of_patches(patches), scalar()), rate);
}

double TaskState::drift() const {
  if (!(first_score > 0)) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(score) / static_cast<double>(first_score);
}

std::vector<TaskState> Memory::states() const {
  const std::vector<std::size_t> vectors = vectors_of_tasks(*state_->contents);
  std::vector<TaskState> states(tasks().size());
  for (std::size_t t = 0; t < states.size(); ++t) {
    states[t].vectors = vectors[t];
    states[t].certificate =
        state_->rule->certificate(*state_->contents, static_cast<std::int32_t>(t));
    const bool all = states[t].vectors == tasks()[t].picked;
    states[t].why = vectors[t] == 0 ? "no room"
                    : all           ? "all it took"
                                    : state_->rule->why_fewer(*state_->contents, vectors[t]);
    if (t >= state_->calibration.tasks.size()) continue;
    std::vector<float> first;
    std::vector<float> now;
    for (const CalibratedImage& image : state_->calibration.tasks[t].images) {
      if (!image.knows(vectors[t])) continue;
      first.push_back(image.first);
      now.push_back(image.score_at(vectors[t]));
    }
    states[t].calibrated = state_->calibration.tasks[t].scores(vectors[t]).size();
    states[t].first_score = median(std::move(first));
    states[t].score = median(std::move(now));
  }
  return states;
}

std::vector<float> Memory::calibration_scores(std::size_t task) const {
  if (task >= state_->calibration.tasks.size()) return {};
  const TaskCalibration& own = state_->calibration.tasks[task];
  const std::size_t vectors = vectors_of_tasks(*state_->contents)[task];
  return own.raises(vectors) ? own.raised_scores(vectors) : own.scores(vectors);
}

}  // namespace contcore
