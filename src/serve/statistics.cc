#include "serve/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::size_t kMostSteps = 1000;
// A client may name another with every image.
constexpr std::size_t kMostNamesCounted = 1000;

std::vector<Statistics::Step> steps_of(const Calendar& calendar, const StatisticsQuery& query) {
  std::vector<Statistics::Step> steps;
  for (std::time_t at = query.since; at < query.until; at = steps.back().end) {
    if (steps.size() == kMostSteps) {
      throw Error(Error::Kind::kUsage,
                  "that is more than 1000 steps; ask for less time, or by=shift, day or week");
    }
    steps.push_back({at, std::min(calendar.end(query.by, at), query.until), {}});
  }
  return steps;
}

void add_to(std::map<std::string, PartCounts>& counts, const std::string& name,
            const StoredTotal& total) {
  auto found = counts.find(name);
  if (found == counts.end()) {
    if (counts.size() == kMostNamesCounted) return;
    found = counts.try_emplace(name).first;
  }
  found->second.add(total.what, total.n);
}

}  // namespace

std::optional<double> PartCounts::yield() const {
  const std::uint64_t judged = good + defect + unknown;
  if (judged == 0) return std::nullopt;
  return static_cast<double>(good) / static_cast<double>(judged);
}

void PartCounts::add(int what, std::uint64_t n) {
  if (what == kCountedGood) good += n;
  if (what == kCountedDefect) defect += n;
  if (what == kCountedUnknown) unknown += n;
  if (what == kCountedUncalibrated) uncalibrated += n;
  if (what == kCalledGood) called_good += n;
  if (what == kCalledDefect) called_defect += n;
}

void Latencies::add(int bucket, std::uint64_t n) {
  buckets_[bucket] += n;
  n_ += n;
}

std::optional<double> Latencies::quantile(double share) const {
  const double wanted = std::max(1.0, std::ceil(share * static_cast<double>(n_)));
  double seen = 0;
  for (const auto& [bucket, n] : buckets_) {
    seen += static_cast<double>(n);
    if (seen >= wanted) return latency_of(bucket);
  }
  return std::nullopt;
}

Statistics statistics_of(Store& store, const Calendar& calendar, const StatisticsQuery& query) {
  const auto station = query.station ? std::optional(valid_utf8(*query.station)) : std::nullopt;
  const auto task = query.task ? std::optional(valid_utf8(*query.task)) : std::nullopt;
  Statistics sum;
  sum.steps = steps_of(calendar, query);
  auto step = sum.steps.begin();
  store.totals(query.since, query.until, [&](const StoredTotal& total) {
    if ((station && total.station != *station) || (task && total.task != *task)) return;
    while (step->end <= total.begin) ++step;  // they come in order, and none begins behind the last
    const int place = total.what - kFirstPlace;
    if (place >= kPlaces) {
      sum.latencies.add(total.what - kFirstLatency, total.n);
    } else if (place >= 0) {
      sum.places[static_cast<std::size_t>(place)] += total.n;
    } else {
      sum.parts.add(total.what, total.n);
      step->parts.add(total.what, total.n);
      add_to(sum.stations, total.station, total);
      add_to(sum.tasks, total.task, total);
    }
  });
  return sum;
}

}  // namespace contcore
