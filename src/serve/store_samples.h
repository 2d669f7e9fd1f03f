// The state of the tasks over time, in a space that hardly grows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/sqlite.h"
#include "serve/store.h"

namespace contcore {

/// Steps are counted 1, 2, 3 … With a window of w, step t goes when it is w · 2^k steps old, 2^k
/// being the largest power of two that divides t: what is old is kept at ever wider distances, at
/// about w / 2 steps for each doubling of the time. A call removes no more steps than a number has
/// bits. Inside a transaction.
class StoreSamples {
 public:
  StoreSamples(sqlite3* db, const std::string& path, std::size_t window);

  void add(std::string_view time, std::span<const TaskSample> tasks);
  std::vector<StoredSample> read(std::string_view since, std::size_t n);

 private:
  std::vector<std::int64_t> steps(std::string_view since);
  void thin_out(std::int64_t newest);

  std::int64_t window_;
  std::string path_;
  Statement last_step_;
  Statement add_time_;
  Statement add_sample_;
  Statement steps_since_;
  Statement at_step_;
  Statement delete_samples_;
  Statement delete_time_;
};

}  // namespace contcore
