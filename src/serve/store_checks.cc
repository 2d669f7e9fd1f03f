#include "serve/store_checks.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/refuse.h"
#include "base/utf8.h"

namespace contcore {
namespace {

// For messages: short, and text.
std::string quoted(std::string_view text) { return '"' + valid_utf8(text.substr(0, 40)) + '"'; }

int two_digits(std::string_view text, std::size_t at) {
  return (text[at] - '0') * 10 + (text[at + 1] - '0');
}

}  // namespace

bool is_stored_time(std::string_view text) {
  constexpr std::string_view kShape = "0000-00-00T00:00:00.000Z";
  if (text.size() != kShape.size()) return false;
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == '0' ? !digit : text[i] != kShape[i]) return false;
  }
  const int month = two_digits(text, 5);
  const int day = two_digits(text, 8);
  // A second may be the sixtieth.
  return month >= 1 && month <= 12 && day >= 1 && day <= 31 && two_digits(text, 11) <= 23 &&
         two_digits(text, 14) <= 59 && two_digits(text, 17) <= 60;
}

void check_time(std::string_view time) {
  if (!is_stored_time(time)) {
    refuse(
        fmt::format("{} is no time; write it in UTC like 2024-05-31T23:59:59.999Z", quoted(time)));
  }
}

void check_length(std::string_view text, std::size_t most, std::string_view what) {
  if (text.size() > most) {
    refuse(fmt::format("the {} has {} bytes; at most {} are kept", what, text.size(), most));
  }
}

void check_verdict(std::string_view verdict) {
  if (verdict != "good" && verdict != "defect" && verdict != "unknown" &&
      verdict != "uncalibrated") {
    refuse(fmt::format("{} is no verdict; it is good, defect, unknown or uncalibrated",
                       quoted(verdict)));
  }
}

void check_feedback(std::string_view label, std::string_view time) {
  if (!label.empty() && label != "good" && label != "defect") {
    refuse(fmt::format("{} is no feedback; it is good or defect, or empty to take it back",
                       quoted(label)));
  }
  if (!label.empty() || !time.empty()) check_time(time);
}

void check_inspection(const StoredInspection& inspection) {
  check_time(inspection.time);
  check_length(inspection.task, kMostTaskBytes, "task's name");
  check_length(inspection.source, kMostSourceBytes, "source");
  check_length(inspection.station, kMostStationBytes, "station's name");
  check_verdict(inspection.verdict);
  check_length(inspection.reason, kMostReasonBytes, "reason");
  if (inspection.regions.size() > kMostStoredRegions) {
    refuse(fmt::format("there are {} regions; at most {} are kept", inspection.regions.size(),
                       kMostStoredRegions));
  }
  for (const Region& region : inspection.regions) {
    if (!std::isfinite(region.score)) refuse("the score of a region is not a finite number");
  }
  check_feedback(inspection.feedback, inspection.feedback_time);
  if (!std::isfinite(inspection.score)) refuse("the score is not a finite number");
  if (inspection.threshold && !std::isfinite(*inspection.threshold)) {
    refuse("the threshold is not a finite number");
  }
  if (!std::isfinite(inspection.latency_ms)) refuse("the latency is not a finite number");
}

void check_map(std::span<const float> patches, std::uint32_t grid_w, std::uint32_t grid_h) {
  if (std::uint64_t{grid_w} * grid_h != patches.size() && !patches.empty()) {
    refuse(fmt::format("the map has {} values, not {} × {}", patches.size(), grid_w, grid_h));
  }
}

void check_sample(const TaskSample& sample) {
  check_length(sample.task, kMostTaskBytes, "task's name");
  if (sample.vectors > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    refuse("the number of vectors is beyond what can be kept");
  }
}

}  // namespace contcore
