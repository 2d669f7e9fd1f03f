#include "serve/store_totals.h"

#include <algorithm>
#include <bitset>
#include <cmath>

#include "base/utf8.h"
#include "serve/store_checks.h"
#include "serve/store_regions.h"
#include "serve/store_schema.h"

namespace contcore {
namespace {

constexpr char kCountingTotals[] = "counting inspections";
constexpr std::size_t kMostTotalsRead = 4096;
constexpr std::size_t kMostTextRead = 3000;  // nothing longer was ever stored
constexpr double kBucketsPerDoubling = 8;
constexpr std::size_t kMinuteText = 16;  // "2031-05-04T03:02"

int counted_as(std::string_view verdict) {
  if (verdict == "good") return kCountedGood;
  if (verdict == "defect") return kCountedDefect;
  return verdict == "unknown" ? kCountedUnknown : kCountedUncalibrated;
}

// The first and last place that a box touches, along one side of the picture.
struct PlaceRange {
  int first;
  int last;
};
PlaceRange place_range(std::size_t at, std::size_t length, std::uint32_t side) {
  const auto place = [&](double pixel) {
    return static_cast<int>(std::clamp(pixel * kPlacesAcross / side, 0.0, kPlacesAcross - 1.0));
  };
  const auto begin = static_cast<double>(at);
  return {place(begin), place(begin + std::max(static_cast<double>(length), 1.0) - 1)};
}

std::bitset<kPlaces> places_of(const StoredInspection& inspection) {
  std::bitset<kPlaces> places;
  if (inspection.verdict != "defect" || inspection.width == 0 || inspection.height == 0) {
    return places;
  }
  for (const Region& region : inspection.regions) {
    const PlaceRange columns = place_range(region.x, region.width, inspection.width);
    const PlaceRange rows = place_range(region.y, region.height, inspection.height);
    for (int row = rows.first; row <= rows.last; ++row) {
      for (int column = columns.first; column <= columns.last; ++column) {
        places.set(static_cast<std::size_t>(row * kPlacesAcross + column));
      }
    }
  }
  return places;
}

}  // namespace

int latency_bucket(double milliseconds) {
  return static_cast<int>(
      std::lround(kBucketsPerDoubling * std::log2(std::clamp(milliseconds, 0.01, 1e7))));
}

double latency_of(int bucket) { return std::exp2(bucket / kBucketsPerDoubling); }

StoreTotals::StoreTotals(sqlite3* db, const std::string& path, const Calendar& calendar,
                         std::size_t most)
    : path_(path),
      db_(db),
      calendar_(calendar),
      most_(most),
      count_(db, path,
             "INSERT INTO hour_total(begin, station, task, what, n) VALUES(?1, ?2, ?3, ?4, "
             "max(?5, 0)) ON CONFLICT DO UPDATE SET n = max(n + ?5, 0) RETURNING n"),
      read_(db, path,
            "SELECT begin, station, task, what, n FROM hour_total WHERE (begin, station, task, "
            "what) > (?1, ?2, ?3, ?4) AND begin < ?5 ORDER BY begin, station, task, what LIMIT ?6"),
      remove_oldest_(db, path,
                     "DELETE FROM hour_total WHERE begin = (SELECT min(begin) FROM hour_total)") {
  count_own_rows();
}

void StoreTotals::count_own_rows() {
  Statement all(db_, path_, "SELECT count(*) FROM hour_total");
  if (all.step(kCountingTotals)) rows_ = static_cast<std::size_t>(all.integer(0));
}

std::int64_t StoreTotals::slot_of(std::string_view time) {
  const std::string_view minute = time.substr(0, kMinuteText);
  if (minute != minute_) {
    slot_ = calendar_.slot_begin(seconds_of(time));
    minute_ = minute;
  }
  return slot_;
}

void StoreTotals::count(std::int64_t slot, std::string_view station, std::string_view task,
                        int what, int n) {
  const ResetGuard reset(count_);
  count_.bind(1, slot);
  count_.bind(2, station);
  count_.bind(3, task);
  count_.bind(4, std::int64_t{what});
  count_.bind(5, std::int64_t{n});
  // Of a new row n is what it was begun with; one that was undone seems new again.
  if (count_.step(kCountingTotals) && count_.integer(0) <= 1) ++rows_;
}

void StoreTotals::add(const StoredInspection& inspection) {
  const std::string station = valid_utf8(inspection.station);
  const std::string task = valid_utf8(inspection.task);
  const std::int64_t slot = slot_of(inspection.time);
  const auto add_one = [&](int what) { count(slot, station, task, what, 1); };
  add_one(counted_as(inspection.verdict));
  add_one(kFirstLatency + latency_bucket(inspection.latency_ms));
  const std::bitset<kPlaces> places = places_of(inspection);
  for (int place = 0; place < kPlaces && places.any(); ++place) {
    if (places.test(static_cast<std::size_t>(place))) add_one(kFirstPlace + place);
  }
  call(inspection.time, station, task, "", inspection.feedback);
  make_room();
}

void StoreTotals::call(std::string_view time, std::string_view station, std::string_view task,
                       std::string_view before, std::string_view after) {
  if (before == after || !is_stored_time(time)) return;
  const auto count_label = [&](std::string_view label, int n) {
    if (label.empty()) return;
    count(slot_of(time), station, task, label == "good" ? kCalledGood : kCalledDefect, n);
  };
  count_label(before, -1);
  count_label(after, 1);
}

// What began first goes, whole: what is left of a slot would be counts of other things.
void StoreTotals::make_room() {
  if (rows_ <= most_) return;
  count_own_rows();
  if (rows_ <= most_) return;
  remove_oldest_.run(kCountingTotals);
  rows_ -= std::min(rows_, static_cast<std::size_t>(sqlite3_changes(db_)));
}

void StoreTotals::rename_task(std::string_view from, std::string_view to) {
  if (from == to) return;
  constexpr char kRenaming[] = "renaming a task";
  Statement merge(db_, path_,
                  "INSERT INTO hour_total(begin, station, task, what, n) SELECT begin, station, "
                  "?2, what, n FROM hour_total WHERE task = ?1 ON CONFLICT DO UPDATE SET n = n + "
                  "excluded.n");
  merge.bind(1, from);
  merge.bind(2, to);
  merge.run(kRenaming);
  Statement remove(db_, path_, "DELETE FROM hour_total WHERE task = ?1");
  remove.bind(1, from);
  remove.run(kRenaming);
}

std::vector<StoredTotal> StoreTotals::read(const StoredTotal& last, std::int64_t until) {
  const ResetGuard reset(read_);
  read_.bind(1, last.begin);
  read_.bind(2, last.station);
  read_.bind(3, last.task);
  read_.bind(4, std::int64_t{last.what});
  read_.bind(5, until);
  read_.bind(6, static_cast<std::int64_t>(kMostTotalsRead));
  std::vector<StoredTotal> totals;
  while (read_.step(kCountingTotals)) {
    totals.push_back({read_.integer(0), std::string(read_.text(1).substr(0, kMostTextRead)),
                      std::string(read_.text(2).substr(0, kMostTextRead)),
                      static_cast<int>(read_.integer(3)),
                      static_cast<std::uint64_t>(std::max<std::int64_t>(read_.integer(4), 0))});
  }
  return totals;
}

bool StoreTotals::is_due() {
  Statement counted(db_, path_, "SELECT totals FROM reserved");
  return counted.step(kCountingTotals) && counted.integer(0) == 0;
}

void StoreTotals::count_rows() {
  Statement all(db_, path_,
                "SELECT time, station, task, verdict, latency_ms, width, height, regions, feedback "
                "FROM inspection ORDER BY id");
  while (all.step(kCountingTotals)) {
    StoredInspection row;
    row.time = all.text(0).substr(0, kMostTextRead);
    if (!is_stored_time(row.time)) continue;
    row.station = all.text(1).substr(0, kMostTextRead);
    row.task = all.text(2).substr(0, kMostTextRead);
    row.verdict = all.text(3).substr(0, kMostTextRead);
    row.latency_ms = all.real(4);
    row.width = static_cast<std::uint32_t>(all.integer(5));
    row.height = static_cast<std::uint32_t>(all.integer(6));
    if (row.verdict == "defect") row.regions = regions_from(all.text(7));
    row.feedback = all.text(8).substr(0, kMostTextRead);
    add(row);
  }
  execute(db_, path_, "UPDATE reserved SET totals = 1", kCountingTotals);
}

}  // namespace contcore
