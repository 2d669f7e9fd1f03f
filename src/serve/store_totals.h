// What inspections add up to, for each hour, station and task.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "serve/calendar.h"
#include "serve/sqlite.h"
#include "serve/store.h"

namespace contcore {

/// What is counted, as it is numbered in the file. Places and latencies follow.
///
///     0 good, 1 defect, 2 unknown, 3 uncalibrated, 4 called good, 5 called defect
///     1000 + row * 16 + column   defects of which a region touches that place of the picture
///     2000 + bucket              latencies nearest 2^(bucket / 8) ms, bucket from -53 to 186
enum CountedAs : int {
  kCountedGood,
  kCountedDefect,
  kCountedUnknown,
  kCountedUncalibrated,
  kCalledGood,
  kCalledDefect,
  kFirstPlace = 1000,
  kFirstLatency = 2000,
};

/// The picture's width and height are cut into so many places each.
inline constexpr int kPlacesAcross = 16;
inline constexpr int kPlaces = kPlacesAcross * kPlacesAcross;

/// Buckets of latencies, each 9 % wider than the one before it: what is read from them is at most
/// 4.5 % off, from 0.01 ms to 10^7 ms.
int latency_bucket(double milliseconds);
double latency_of(int bucket);

/// Kept by the transaction that adds an inspection, so they are right wherever the power goes, and
/// stay when its row goes. When they are more than may be, the oldest go. For one thread.
class StoreTotals {
 public:
  StoreTotals(sqlite3* db, const std::string& path, const Calendar& calendar, std::size_t most);

  /// Whether the rows of an earlier version are still to be counted, and counts them.
  bool is_due();
  void count_rows();

  /// Within a transaction.
  void add(const StoredInspection& inspection);
  /// A person has called it otherwise; `station` and `task` as they are stored.
  void call(std::string_view time, std::string_view station, std::string_view task,
            std::string_view before, std::string_view after);
  void rename_task(std::string_view from, std::string_view to);

  /// Those of slots that begin before `until`, in order, beginning behind `last`; at most 4096.
  std::vector<StoredTotal> read(const StoredTotal& last, std::int64_t until);

 private:
  void count(std::int64_t slot, std::string_view station, std::string_view task, int what, int n);
  void make_room();
  void count_own_rows();
  std::int64_t slot_of(std::string_view time);

  const std::string& path_;
  sqlite3* db_;
  const Calendar calendar_;
  const std::size_t most_;
  Statement count_;
  Statement read_;
  Statement remove_oldest_;
  std::size_t rows_ = 0;  // at least as many as there are
  std::string minute_;    // whose slot is known: all its seconds are of one
  std::int64_t slot_ = 0;
};

}  // namespace contcore
