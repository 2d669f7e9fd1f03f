// Many small changes in one transaction, each of them whole or not at all.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "serve/sqlite.h"
#include "serve/store.h"

namespace contcore {

/// What the rows add up to; kept with them so that no call has to count.
struct StoreTally {
  std::size_t inspections = 0;
  std::size_t kept_bytes = 0;
  std::size_t evidence = 0;
  std::size_t evidence_bytes = 0;
};

/// Changes gather in an open transaction until they are 64 rows, 4 MiB or 200 ms old. That is what
/// makes adding cheap: a transaction for each row would cost more than the row. When a change
/// fails, what it had done is undone, and the tally goes back with it. After a write has failed
/// every change is due at once, until one has been written: nobody is promised what the disk will
/// not take.
class StoreTransaction {
 public:
  StoreTransaction(sqlite3* db, const std::string& path, Store::Clock now);

  /// Runs `work` inside the transaction. `rows` and `bytes` count towards the limits.
  template <typename Work>
  void change(std::size_t rows, std::size_t bytes, const Work& work) {
    begin();
    const StoreTally before = tally;
    savepoint_.run("beginning a change");
    try {
      work();
      release_.run("ending a change");
    } catch (...) {
      undo(before);
      throw;
    }
    pending_ += rows;
    pending_bytes_ += bytes;
  }

  bool is_due() const;
  /// Hands all to the system. Throws Error when it fails; the rows are then lost, and counted but
  /// for `told`: those of the caller, who hears of it.
  void commit(std::size_t told = 0);
  /// How many times something was handed over.
  std::uint64_t commits() const { return commits_; }

  std::size_t pending() const { return pending_; }
  std::size_t lost() const { return lost_; }

  StoreTally tally;

 private:
  void begin();
  void undo(const StoreTally& before);
  void abandon(std::size_t told = 0);
  void give_back_pages();

  sqlite3* db_;
  Store::Clock now_;
  Statement begin_;
  Statement commit_;
  Statement savepoint_;
  Statement release_;
  Statement rollback_to_;
  Statement page_count_;
  Statement free_pages_;
  Statement vacuum_;
  StoreTally tally_at_begin_;
  std::chrono::steady_clock::time_point begun_;
  std::size_t pending_ = 0;
  std::size_t pending_bytes_ = 0;
  std::size_t lost_ = 0;
  std::uint64_t commits_ = 0;
  bool doubted_ = false;  // the last write failed
};

}  // namespace contcore
