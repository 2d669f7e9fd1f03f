// What a memory knows of good images that were not learned. In: their patches. Out: conformal
// thresholds, drift, the product an image is of. The memory is as before where something throws.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "base/rows.h"
#include "contcore/error.h"
#include "contcore/memory.h"
#include "contcore/nearest.h"
#include "memory/state.h"

namespace contcore {
namespace {

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

// A task's vectors by the order that expansion took them in, in shells: the first shell is what it
// would be left with at a sixteenth of its vectors, and each next one what it would have more if it
// had to do with √2 times as many, short of all. None for a task with few.
std::vector<Vectors> shells_of(const VectorStore& store, std::int32_t task) {
  constexpr int kThinnest = 8;  // half powers of two
  std::vector<std::uint32_t> own = store.slots_of(task);
  std::stable_sort(own.begin(), own.end(), [&](std::uint32_t a, std::uint32_t b) {
    return store.radius()[a] > store.radius()[b];
  });
  std::vector<Vectors> result;
  std::size_t begin = 0;
  for (int halves = kThinnest; halves > 0; --halves) {
    const auto end =
        static_cast<std::size_t>(static_cast<double>(own.size()) * std::pow(2.0, -0.5 * halves));
    if (end == begin) continue;
    const std::vector<std::uint32_t> shell(own.begin() + static_cast<std::ptrdiff_t>(begin),
                                           own.begin() + static_cast<std::ptrdiff_t>(end));
    result.push_back(gather(store.vectors(), shell));
    begin = end;
  }
  return result;
}

float median(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void Memory::hold_out(VectorView patches, std::span<const std::size_t> ends,
                      const std::string& task, Compute& compute) {
  const std::optional<std::size_t> known = find_task(task);
  if (!known) throw Error(Error::Kind::kUsage, fmt::format("task '{}' was not learned", task));
  check_ends(patches, ends, task);
  const auto index = static_cast<std::int32_t>(*known);
  Calibration next = state_->calibration.copy();
  // None to be held out, and there is nothing to search for.
  const std::vector<Vectors> shells =
      ends.empty() ? std::vector<Vectors>() : shells_of(state_->contents->store, index);
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
  next.trim(Calibration::budget(capacity()), tasks().size());
  // From here on nothing throws.
  state_->contents->tasks[*known].held += ends.size();
  state_->calibration = std::move(next);
}

void Memory::recalibrate(Compute& compute) {
  std::size_t rows = 0;
  for (const HeldOut& image : state_->calibration.images) rows += image.patches.rows();
  if (rows == 0) return;
  Vectors patches(rows, dimension());
  std::size_t at = 0;
  for (const HeldOut& image : state_->calibration.images) {
    std::copy_n(image.patches.data(), image.patches.rows() * dimension(), patches.row(at));
    at += image.patches.rows();
  }
  const std::vector<float> all = distances(patches.view(), compute);
  at = 0;
  for (HeldOut& image : state_->calibration.images) {
    image.score =
        *std::max_element(all.begin() + static_cast<std::ptrdiff_t>(at),
                          all.begin() + static_cast<std::ptrdiff_t>(at + image.patches.rows()));
    at += image.patches.rows();
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
  const std::optional<std::size_t> known = find_task(task);
  if (!known) {
    throw Error(Error::Kind::kUsage, fmt::format("there is no task '{}' in this memory", task));
  }
  if (!is_threshold(set)) {
    throw Error(Error::Kind::kUsage,
                "a threshold is a score above 0, or a rate of false alarms between 0 and 1");
  }
  state_->contents->tasks[*known].set = set;
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
  std::vector<TaskState> states(tasks().size());
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
    states[t].certificate =
        state_->rule->certificate(*state_->contents, static_cast<std::int32_t>(t));
    const bool all = states[t].vectors == tasks()[t].picked;
    states[t].why = all ? "all it took" : state_->rule->why_fewer();
    states[t].first_score = median(first);
    states[t].score = median(now);
  }
  return states;
}

std::vector<float> Memory::held_out_scores(std::size_t task) const {
  return state_->calibration.scores(static_cast<std::int32_t>(task));
}

}  // namespace contcore
