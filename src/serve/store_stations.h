// What the stations have inspected since a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "serve/sqlite.h"
#include "serve/store.h"

namespace contcore {

/// Counts once, from the rows; then each inspection is added as it comes. So the counts go on being
/// right when old rows go, and a page may ask every second.
class StoreStations {
 public:
  StoreStations(sqlite3* db, const std::string& path);

  void add(std::int64_t id, const StoredInspection& inspection);
  std::vector<StationCounts> read(std::string_view since);

 private:
  void count(std::string_view since);
  void forget_oldest();

  Statement latest_;
  Statement counts_;
  std::string since_;  // empty: not counted yet
  std::map<std::string, StationCounts, std::less<>> stations_;
};

}  // namespace contcore
