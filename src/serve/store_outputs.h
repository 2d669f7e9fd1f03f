// How far the verdicts have come that are sent to others (serve/outputs.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/sqlite.h"
#include "serve/store.h"

namespace contcore {

/// For each output: the last inspection it was told of, how many wait, how many were delivered and
/// dropped. They are rows that change in the transactions that change the inspections, so that,
/// whenever the process ends, waiting + delivered + dropped is what was added since the output was
/// first named.
///
/// What an output has taken is at its hands: it says of each what became of it. The rows behind may
/// go meanwhile, for want of room or because too many wait; they are dropped.
class StoreOutputs {
 public:
  StoreOutputs(sqlite3* db, const std::string& path);

  bool empty() const { return taken_.empty(); }

  /// Those of these names; a new one begins after `last`. Others are forgotten, and returned.
  /// Inside a transaction, as is all that follows.
  std::vector<StoredOutput> use(std::span<const std::string> names, std::size_t most,
                                std::int64_t last);
  /// An inspection was added. It is not the one that goes when too many wait.
  void added(std::int64_t id);
  /// And has been written.
  void written();
  /// An inspection is no longer kept.
  void removed(std::int64_t id);
  void settle(std::string_view name, const OutputReport& report);

  /// The last inspection that an output was handed, or that was dropped.
  std::int64_t taken(std::string_view name) const;
  void take(std::string_view name, std::int64_t id);

  std::vector<StoredOutput> read();
  /// What tells the inspections of this store from those of another. A copy of its file has one of
  /// its own from when it is first used: both give the same ids to what comes.
  std::string series();

 private:
  struct Counts {
    std::int64_t last = 0;
    std::int64_t waiting = 0;
    std::int64_t dropped = 0;
  };
  Counts counts(std::string_view name);
  void name_series();
  void resume(const std::string& name, std::size_t most);
  std::int64_t after(std::int64_t id);
  void skip(std::string_view name, std::int64_t taken, std::int64_t newest);

  sqlite3* db_;
  const std::string& path_;
  Statement all_;
  Statement one_;
  Statement count_;
  Statement after_;
  Statement added_;
  Statement drop_;
  Statement settle_;
  std::size_t most_ = 0;
  std::map<std::string, std::int64_t, std::less<>> taken_;    // by name
  std::map<std::string, std::int64_t, std::less<>> skipped_;  // the same, once it is written
};

}  // namespace contcore
