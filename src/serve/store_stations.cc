#include "serve/store_stations.h"

#include <algorithm>

#include "base/utf8.h"

namespace contcore {
namespace {

constexpr char kCounting[] = "counting the stations' inspections";
// A client may name another with every image.
constexpr std::size_t kMostStations = 1000;

void count_verdict(StationCounts& station, std::string_view verdict, std::size_t n) {
  if (verdict == "good") station.good += n;
  if (verdict == "defect") station.defect += n;
  if (verdict == "unknown") station.unknown += n;
  if (verdict == "uncalibrated") station.uncalibrated += n;
}

}  // namespace

// The stations themselves are found by jumping from one to the next in the index.
StoreStations::StoreStations(sqlite3* db, const std::string& path)
    : latest_(db, path,
              "WITH RECURSIVE name(station) AS (SELECT min(station) FROM inspection UNION ALL "
              "SELECT (SELECT min(station) FROM inspection WHERE station > name.station) FROM name "
              "WHERE name.station IS NOT NULL) SELECT station, (SELECT max(id) FROM inspection "
              "WHERE station = name.station) AS latest FROM name WHERE station IS NOT NULL ORDER "
              "BY latest DESC LIMIT 1000"),
      counts_(
          db, path,
          "SELECT station, verdict, count(*) FROM inspection WHERE time >= ?1 GROUP BY station, "
          "verdict") {}

void StoreStations::count(std::string_view since) {
  stations_.clear();
  since_.clear();
  {
    const ResetGuard reset(latest_);
    while (latest_.step(kCounting)) {
      const std::string name(latest_.text(0).substr(0, 1000));
      StationCounts& station = stations_[name];
      station.name = name;
      station.latest = latest_.integer(1);
    }
  }
  const ResetGuard reset(counts_);
  counts_.bind(1, since);
  while (counts_.step(kCounting)) {
    const auto found = stations_.find(counts_.text(0));
    if (found == stations_.end()) continue;
    count_verdict(found->second, counts_.text(1),
                  static_cast<std::size_t>(std::max<std::int64_t>(counts_.integer(2), 0)));
  }
  since_ = since;
}

void StoreStations::forget_oldest() {
  if (stations_.size() <= kMostStations) return;
  stations_.erase(std::min_element(
      stations_.begin(), stations_.end(),
      [](const auto& a, const auto& b) { return a.second.latest < b.second.latest; }));
}

void StoreStations::add(std::int64_t id, const StoredInspection& inspection) {
  if (since_.empty()) return;
  const std::string name = valid_utf8(inspection.station);
  StationCounts& station = stations_[name];
  station.name = name;
  station.latest = std::max(station.latest, id);
  if (inspection.time >= since_) count_verdict(station, inspection.verdict, 1);
  forget_oldest();
}

std::vector<StationCounts> StoreStations::read(std::string_view since) {
  if (since_ != since) count(since);
  std::vector<StationCounts> list;
  list.reserve(stations_.size());
  for (const auto& [name, station] : stations_) list.push_back(station);
  return list;
}

}  // namespace contcore
