#include "serve/store_transaction.h"

#include <utility>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::size_t kMostRows = 64;
constexpr std::size_t kMostPendingBytes = std::size_t{4} << 20;
constexpr std::chrono::milliseconds kMostTime{200};

// Free pages are used again by the rows that come, so they are given back only when they have
// become many, as after keeping less than before.
constexpr std::int64_t kFreePagesKept = 1024;

std::int64_t number(Statement& statement) {
  const ResetGuard reset(statement);
  return statement.step("asking for the size") ? statement.integer(0) : 0;
}

}  // namespace

StoreTransaction::StoreTransaction(sqlite3* db, const std::string& path, Store::Clock now)
    : db_(db),
      now_(std::move(now)),
      begin_(db, path, "BEGIN IMMEDIATE"),
      commit_(db, path, "COMMIT"),
      savepoint_(db, path, "SAVEPOINT change"),
      release_(db, path, "RELEASE change"),
      rollback_to_(db, path, "ROLLBACK TO change"),
      page_count_(db, path, "PRAGMA page_count"),
      free_pages_(db, path, "PRAGMA freelist_count"),
      vacuum_(db, path, "PRAGMA incremental_vacuum(64)") {}

void StoreTransaction::begin() {
  if (sqlite3_get_autocommit(db_) == 0) return;
  begin_.run("beginning to write");
  tally_at_begin_ = tally;
  begun_ = now_();
}

void StoreTransaction::undo(const StoreTally& before) {
  // A full or failing disk may have made SQLite give the whole transaction up.
  if (sqlite3_get_autocommit(db_) != 0) return abandon();
  try {
    rollback_to_.run("undoing a change");
    release_.run("undoing a change");
    tally = before;
  } catch (const Error&) {
    abandon();
  }
}

void StoreTransaction::abandon(std::size_t told) {
  if (sqlite3_get_autocommit(db_) == 0) {
    sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  tally = tally_at_begin_;
  lost_ += std::exchange(pending_, 0) - told;
  pending_bytes_ = 0;
  doubted_ = true;
  // On a full disk the log may be what fills it. Folded in, it gives its room back, and the store,
  // which fills its own free pages, may go on. Whether it helps, the next write will tell.
  sqlite3_wal_checkpoint_v2(db_, "main", SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
}

bool StoreTransaction::is_due() const {
  return sqlite3_get_autocommit(db_) == 0 &&
         (doubted_ || pending_ >= kMostRows || pending_bytes_ >= kMostPendingBytes ||
          now_() - begun_ >= kMostTime);
}

void StoreTransaction::commit(std::size_t told) {
  if (sqlite3_get_autocommit(db_) != 0) return;
  try {
    commit_.run("writing");
  } catch (const Error&) {
    abandon(told);
    throw;
  }
  ++commits_;
  doubted_ = false;
  pending_ = 0;
  pending_bytes_ = 0;
  give_back_pages();
}

void StoreTransaction::give_back_pages() {
  try {
    const std::int64_t free = number(free_pages_);
    if (free <= kFreePagesKept || free <= number(page_count_) / 4) return;
    const ResetGuard reset(vacuum_);
    while (vacuum_.step("giving space back")) {
    }
  } catch (const Error&) {
    // What was to be written is written; the space can be given back another time.
  }
}

}  // namespace contcore
