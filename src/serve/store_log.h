// The store's log (its -wal file), to be flushed while others go on writing it.
#pragma once

#include <string>

#include "serve/sqlite.h"

namespace contcore {

/// A commit with synchronous = NORMAL leaves the log to the system; flushing it is what keeps the
/// commit. It is opened a second time here, so that the flush needs neither the connection nor the
/// mutex that guards it. (SQLite locks the database and its -shm file, never the log: closing ours
/// lets go of no lock.)
class StoreLog {
 public:
  /// A store in memory has none. Throws Error (kInput).
  StoreLog(sqlite3* db, const std::string& path);
  ~StoreLog();
  StoreLog(const StoreLog&) = delete;
  StoreLog& operator=(const StoreLog&) = delete;

  /// All that was committed before is on disk when it returns. Throws Error (kInput). May be called
  /// by several threads at once.
  void sync() const;

 private:
  const std::string& path_;
  int fd_ = -1;
};

}  // namespace contcore
