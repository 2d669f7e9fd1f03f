#include "serve/store_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file_system.h"
#include "contcore/error.h"

namespace contcore {
namespace {

[[noreturn]] void fail_sync(const std::string& path, int reason) {
  throw Error(
      Error::Kind::kInput,
      fmt::format("{}: the disk did not flush what was written ({}); look into the system's "
                  "log",
                  path, std::strerror(reason)));
}

// SQLite's first flush of a log that it has made flushes the folder as well.
void sync_by_sqlite(sqlite3* db, const std::string& path) {
  sqlite3_file* log = nullptr;
  const int asked = sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (asked == SQLITE_OK && log != nullptr && log->pMethods != nullptr &&
      log->pMethods->xSync(log, SQLITE_SYNC_NORMAL) != SQLITE_OK) {
    fail_sync(path, EIO);
  }
}

}  // namespace

StoreLog::StoreLog(sqlite3* db, const std::string& path) : path_(path) {
  const char* file = sqlite3_db_filename(db, "main");
  if (file == nullptr || *file == '\0') return;
  sync_by_sqlite(db, path);
  const char* log = sqlite3_filename_wal(file);
  fd_ = ::open(log, O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) {
    throw Error(Error::Kind::kInput, fmt::format("{}: cannot be opened ({}); see to the rights of "
                                                 "the folder",
                                                 log, std::strerror(errno)));
  }
}

StoreLog::~StoreLog() {
  if (fd_ >= 0) ::close(fd_);
}

void StoreLog::sync() const {
  while (fd_ >= 0 && file_system().sync(fd_) != 0) {
    if (errno != EINTR) fail_sync(path_, errno);
  }
}

}  // namespace contcore
