#include "serve/sqlite.h"

#include <fmt/format.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "contcore/error.h"

namespace contcore {
namespace {

using Kind = Error::Kind;

// Long enough for another program to finish a query, short enough for those who wait behind us.
constexpr int kBusyMilliseconds = 250;

// A row is an image at most; a file that claims more is not believed.
constexpr int kMostRowBytes = 128 << 20;

std::string reason(sqlite3* db) {
  const int system = sqlite3_system_errno(db);
  const char* text = sqlite3_errmsg(db);
  return system == 0 ? text : fmt::format("{} ({})", text, std::strerror(system));
}

bool is_full(sqlite3* db, int code) {
  const int system = sqlite3_system_errno(db);
  return code == SQLITE_FULL || (code == SQLITE_IOERR && (system == ENOSPC || system == EDQUOT));
}

// A database brings code along: its schema may hold triggers, views and defaults that call
// functions. None of them is ours.
void disarm(sqlite3* db) {
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, nullptr);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, kMostRowBytes);
  sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
}

// SQLite may be built to read a name that begins with "file:" as a URL with options in it.
std::string plain_name(const std::string& path) {
  if (path.empty() || path.find('\0') != path.npos) {
    throw Error(Kind::kUsage, "the store needs the name of a file, or \":memory:\"");
  }
  return path.starts_with("file:") || (path.starts_with(":") && path != ":memory:") ? "./" + path
                                                                                    : path;
}

}  // namespace

void fail_sqlite(sqlite3* db, const std::string& path, std::string_view doing) {
  const int code = sqlite3_errcode(db) & 0xFF;
  const std::string what = fmt::format("{}: {} failed", path, doing);
  if (is_full(db, code)) {
    throw Error(Kind::kInput, what + ": the disk is full; make room on it");
  }
  switch (code) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      throw Error(Kind::kDamaged,
                  fmt::format("{}: {}; restore it from a copy, or move it away (with its -wal and "
                              "-shm files) to begin an empty one",
                              what, reason(db)));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw Error(Kind::kInput, what + ": another program has locked the file; close that program");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      throw Error(
          Kind::kInput,
          fmt::format(
              "{}: the file may not be written ({}); change its rights or choose another place",
              what, reason(db)));
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
    case SQLITE_PROTOCOL:
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      throw Error(Kind::kInput, fmt::format("{}: {}", what, reason(db)));
    default:
      throw Error(Kind::kInternal, fmt::format("{}: {}", what, reason(db)));
  }
}

Sqlite open_sqlite(const std::string& path) {
  sqlite3* raw = nullptr;
  const int flags =
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int result = sqlite3_open_v2(plain_name(path).c_str(), &raw, flags, nullptr);
  Sqlite db(raw);
  if (!db) throw std::bad_alloc();
  if (result != SQLITE_OK) fail_sqlite(db.get(), path, "opening the store");
  disarm(db.get());
  sqlite3_busy_timeout(db.get(), kBusyMilliseconds);
  if (sqlite3_db_readonly(db.get(), "main") == 1) {
    throw Error(Kind::kInput, fmt::format("{}: the file may not be written; change its rights or "
                                          "choose another place for the store",
                                          path));
  }
  return db;
}

Statement::Statement(sqlite3* db, const std::string& path, std::string_view sql)
    : db_(db), path_(path) {
  sqlite3_stmt* raw = nullptr;
  const int result = sqlite3_prepare_v3(db, sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  statement_.reset(raw);
  // What we ask for is right for our tables, so it is the tables that are wrong.
  if (result == SQLITE_ERROR) {
    throw Error(Kind::kDamaged, fmt::format("{}: is not the store it says it is: {}; restore it "
                                            "from a copy or move it away to begin an empty one",
                                            path, sqlite3_errmsg(db)));
  }
  check(result, "reading the store's tables");
}

void Statement::check(int result, std::string_view doing) {
  if (result == SQLITE_OK) return;
  // Resetting reports the same error once more and leaves it in the connection.
  if (statement_) sqlite3_reset(get());
  fail_sqlite(db_, path_, doing);
}

void Statement::bind(int at, std::int64_t value) {
  check(sqlite3_bind_int64(get(), at, value), "binding a number");
}
void Statement::bind(int at, double value) {
  check(sqlite3_bind_double(get(), at, value), "binding a number");
}
void Statement::bind(int at, std::string_view text) {
  // A null pointer would be bound as NULL, and an empty view may have one.
  const char* data = text.empty() ? "" : text.data();
  check(sqlite3_bind_text64(get(), at, data, text.size(), SQLITE_STATIC, SQLITE_UTF8),
        "binding a text");
}
void Statement::bind_blob(int at, std::span<const std::byte> bytes) {
  const void* data = bytes.empty() ? static_cast<const void*>("") : bytes.data();
  check(sqlite3_bind_blob64(get(), at, data, bytes.size(), SQLITE_STATIC), "binding bytes");
}
void Statement::bind_null(int at) { check(sqlite3_bind_null(get(), at), "binding nothing"); }

bool Statement::step(std::string_view doing) {
  const int result = sqlite3_step(get());
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) check(result, doing);
  return false;
}

void Statement::run(std::string_view doing) {
  const ResetGuard reset(*this);
  step(doing);
}

void Statement::reset() {
  sqlite3_reset(get());
  sqlite3_clear_bindings(get());
}

std::string_view Statement::text(int column) const {
  const auto* data = sqlite3_column_text(get(), column);
  if (data == nullptr) return {};
  return {reinterpret_cast<const char*>(data),
          static_cast<std::size_t>(sqlite3_column_bytes(get(), column))};
}

std::span<const std::byte> Statement::blob(int column) const {
  const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(get(), column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(get(), column))};
}

}  // namespace contcore
