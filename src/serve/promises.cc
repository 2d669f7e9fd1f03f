// In: the latest inspections of a task, and its threshold. Out: rates, and a warning in words where
// they are not what chance would make them. Fails where the store does.
#include "serve/promises.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "contcore/error.h"
#include "serve/chance.h"

namespace contcore {
namespace {

// What happens by chance less often than this is not put down to it.
constexpr double kLevel = 0.001;
// A rate that is promised of good parts on average, with images drawn by chance, is not exact.
constexpr double kManyTimes = 2;
constexpr std::size_t kFirstParts = 101;   // odd: one of them is the median
constexpr std::size_t kLatestParts = 100;  // called good, beside these
// Parts that come one after the other are more alike than chance has it; less than this is common.
constexpr double kMuch = 0.15;
constexpr std::string_view kPrefix = "promise/";

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of the images a threshold rests on, those above it.
std::size_t images_above(const Threshold& threshold) {
  const auto n = static_cast<double>(threshold.images);
  const double rank = std::ceil((n + 1) * (1 - threshold.false_alarms) - 1e-9);
  return threshold.images - static_cast<std::size_t>(std::clamp(rank, 1.0, n));
}

std::string percent(double part) { return fmt::format("{:.3g} %", 100 * part); }

std::string alarms_warning(const TaskPromise& promise, const Threshold& threshold) {
  if (threshold.images == 0) return "";
  const std::size_t above = images_above(threshold);
  const std::size_t below = threshold.images - above - 1;
  const std::string told = fmt::format(
      "of the latest {} parts that nobody called defect, {} were rejected ({}), where {} are "
      "promised",
      promise.parts, promise.alarms, percent(*promise.alarm_rate()),
      percent(threshold.false_alarms));
  if (*promise.alarm_rate() > kManyTimes * threshold.false_alarms &&
      at_least_by_chance(promise.alarms, promise.parts, threshold.false_alarms) < kLevel) {
    const bool beyond = at_least_above(promise.alarms, promise.parts, above, below) < kLevel;
    return told +
           (beyond ? ": more than by chance. Either so many are defective: call them defect; or "
                     "good parts look different from those learned: learn some of them"
                   : fmt::format(": more than by chance, but {} images to calibrate with leave "
                                 "that open; learn more good ones",
                                 threshold.images));
  }
  // Fewer is what is promised too, as long as the images it is calibrated with leave it open.
  if (1 - at_least_above(promise.alarms + 1, promise.parts, above, below) < kLevel) {
    return told +
           ": fewer than by chance. The parts differ less than those learned, and defects may "
           "pass; "
           "is it the same part again and again?";
  }
  return "";
}

std::string good_warning(const TaskPromise& promise, std::size_t compared, std::size_t higher) {
  constexpr std::size_t kHalf = kFirstParts / 2;
  if (compared < Promises::kFewest) return "";
  const double moved = *promise.good / *promise.good_at_first - 1;
  if (!(std::abs(moved) > kMuch)) return "";
  const std::size_t farther = moved > 0 ? higher : compared - higher;
  if (at_least_above(farther, compared, kHalf, kHalf) >= kLevel / 2) return "";
  return fmt::format(
      "parts called good score {} {} than the first ones did ({:.2f} of the threshold, then "
      "{:.2f}): light, focus, the camera's place or the parts have changed",
      percent(std::abs(moved)), moved > 0 ? "more" : "less", *promise.good, *promise.good_at_first);
}

}  // namespace

std::optional<double> TaskPromise::alarm_rate() const {
  if (parts == 0) return std::nullopt;
  return static_cast<double>(alarms) / static_cast<double>(parts);
}

Promises::Promises(Store& store) : store_(store) {
  for (const auto& [key, value] : store_.settings()) {
    if (!key.starts_with(kPrefix)) continue;
    const nlohmann::json kept = nlohmann::json::parse(value, nullptr, false);
    const auto number = [&](const char* name) {
      return kept.is_object() && kept.contains(name) && kept[name].is_number_integer();
    };
    const bool has_first = kept.is_object() && kept.contains("first") && kept["first"].is_number();
    Beginning beginning;
    if (number("since")) beginning.since = kept["since"].get<std::int64_t>();
    if (number("until") && has_first && kept["first"].get<double>() > 0) {
      beginning.until = kept["until"].get<std::int64_t>();
      beginning.first = kept["first"].get<double>();
    }
    beginnings_[key.substr(kPrefix.size())] = beginning;
  }
}

void Promises::keep(const std::string& task, const Beginning& beginning) {
  beginnings_[task] = beginning;
  nlohmann::json kept = {{"since", beginning.since}};
  if (beginning.first) {
    kept["until"] = beginning.until;
    kept["first"] = *beginning.first;
  }
  try {
    store_.set(std::string(kPrefix) + task, kept.dump());
  } catch (const Error&) {
    // A full disk, or ten thousand tasks: it holds until the service ends.
  }
}

void Promises::changed(const std::string& task) {
  const std::lock_guard lock(mutex_);
  seen_.erase(task);
}

void Promises::begin_anew(const std::string& task) {
  const std::lock_guard lock(mutex_);
  std::vector<StoredPart> latest;
  try {
    latest = store_.latest_parts(task, 0, 1);
  } catch (const Error&) {
    return;  // as before; what it follows from has happened
  }
  keep(task, {latest.empty() ? 0 : latest[0].id, 0, std::nullopt});
  seen_.erase(task);
}

Promises::Seen Promises::count(const std::string& task) {
  Seen seen;
  Beginning beginning;
  if (const auto known = beginnings_.find(task); known != beginnings_.end()) {
    beginning = known->second;
  }
  struct GoodPart {
    std::int64_t id;
    double score;  // as part of the threshold
  };
  std::vector<GoodPart> good;  // newest first
  for (const StoredPart& part : store_.latest_parts(task, beginning.since, kParts)) {
    if (part.feedback == "defect" || (part.verdict != "good" && part.verdict != "defect")) continue;
    ++seen.parts;
    if (part.verdict == "defect") {
      ++seen.alarms;
    } else if (part.threshold && *part.threshold > 0) {
      good.push_back(
          {part.id, static_cast<double>(part.score) / static_cast<double>(*part.threshold)});
    }
  }
  if (good.empty()) return seen;
  if (!beginning.first && good.size() >= kFirstParts) {
    std::vector<double> first;
    for (auto part = good.end() - kFirstParts; part != good.end(); ++part) {
      first.push_back(part->score);
    }
    beginning.until = good[good.size() - kFirstParts].id;
    beginning.first = median(std::move(first));
    if (*beginning.first > 0) keep(task, beginning);
  }
  good.resize(std::min(good.size(), kLatestParts));
  std::vector<double> latest;
  for (const GoodPart& part : good) {
    latest.push_back(part.score);
    if (!beginning.first || part.id <= beginning.until) continue;
    ++seen.compared;
    if (part.score > *beginning.first) ++seen.higher;
  }
  seen.good_parts = latest.size();
  seen.good = median(std::move(latest));
  return seen;
}

const Promises::Seen& Promises::seen(const std::string& task) {
  const auto known = seen_.find(task);
  if (known != seen_.end()) return known->second;
  return seen_[task] = count(task);
}

TaskPromise Promises::of(const std::string& task, const std::optional<Threshold>& threshold) {
  const std::lock_guard lock(mutex_);
  const Seen& seen = this->seen(task);
  TaskPromise promise;
  promise.parts = seen.parts;
  promise.alarms = seen.alarms;
  promise.good_parts = seen.good_parts;
  promise.good = seen.good;
  if (const auto known = beginnings_.find(task); known != beginnings_.end()) {
    promise.good_at_first = known->second.first;
  }
  if (promise.good && promise.good_at_first) {
    promise.good_warning = good_warning(promise, seen.compared, seen.higher);
  }
  if (!threshold || threshold->by_hand) return promise;
  promise.rate = threshold->false_alarms;
  if (promise.parts >= kFewest) promise.warning = alarms_warning(promise, *threshold);
  return promise;
}

}  // namespace contcore
