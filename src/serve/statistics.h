// What was inspected in a stretch of time, from the store's totals.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "serve/calendar.h"
#include "serve/store.h"
#include "serve/store_totals.h"

namespace contcore {

struct PartCounts {
  std::uint64_t good = 0;
  std::uint64_t defect = 0;
  std::uint64_t unknown = 0;
  std::uint64_t uncalibrated = 0;
  std::uint64_t called_good = 0;
  std::uint64_t called_defect = 0;

  std::uint64_t inspected() const { return good + defect + unknown + uncalibrated; }
  /// The part of the judged that is good. An unknown part is judged, and not good; an uncalibrated
  /// one is not judged. Nothing where none is.
  std::optional<double> yield() const;
  void add(int what, std::uint64_t n);
};

/// How many took how long.
class Latencies {
 public:
  void add(int bucket, std::uint64_t n);
  /// The smallest latency, in milliseconds, that a part `share` of them does not exceed; at most
  /// 4.5 % off. Nothing where there are none.
  std::optional<double> quantile(double share) const;

 private:
  std::map<int, std::uint64_t> buckets_;
  std::uint64_t n_ = 0;
};

/// Whole slots from `since` to before `until`.
struct StatisticsQuery {
  std::time_t since = 0;
  std::time_t until = 0;
  Period by = Period::kHour;
  std::optional<std::string> station;
  std::optional<std::string> task;
};

struct Statistics {
  struct Step {
    std::time_t begin;
    std::time_t end;
    PartCounts parts;
  };
  PartCounts parts;
  Latencies latencies;
  std::array<std::uint64_t, kPlaces> places{};  ///< defects that touch each, row after row
  std::vector<Step> steps;                      ///< all there are, also those without a part
  std::map<std::string, PartCounts> stations;   ///< at most 1000
  std::map<std::string, PartCounts> tasks;      ///< at most 1000
};

/// Throws Error (kUsage) when there would be more than 1000 steps.
Statistics statistics_of(Store& store, const Calendar& calendar, const StatisticsQuery& query);

}  // namespace contcore
