// SQLite with owners for what it hands out, and Error for what goes wrong.
#pragma once

#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace contcore {

/// Closes its connection.
struct CloseSqlite {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
using Sqlite = std::unique_ptr<sqlite3, CloseSqlite>;

/// Opens or makes the database file at `path` (":memory:": none), in a mode in which the file
/// cannot make the library do more than keep tables. Not to be used by two threads at once. Throws
/// Error.
Sqlite open_sqlite(const std::string& path);

/// Throws what the last failed call on `db` means for whoever runs the service: kDamaged for a file
/// that is no sound database, kInput for a disk that is full, a file that is locked or may not be
/// written. `doing` is what failed, such as "adding an inspection".
[[noreturn]] void fail_sqlite(sqlite3* db, const std::string& path, std::string_view doing);

/// One prepared statement. Values are only ever bound to it, never put into its text. Parameters
/// and columns are counted from 1 and 0, as SQLite does.
class Statement {
 public:
  Statement(sqlite3* db, const std::string& path, std::string_view sql);

  /// What is bound must live until the statement has been reset: nothing is copied.
  void bind(int at, std::int64_t value);
  void bind(int at, double value);
  void bind(int at, std::string_view text);
  void bind_blob(int at, std::span<const std::byte> bytes);
  void bind_null(int at);

  /// Whether there is a row. Throws Error, having reset the statement.
  bool step(std::string_view doing);
  /// For a statement that gives no rows: runs it and resets it.
  void run(std::string_view doing);
  void reset();

  std::int64_t integer(int column) const { return sqlite3_column_int64(get(), column); }
  double real(int column) const { return sqlite3_column_double(get(), column); }
  bool is_null(int column) const { return sqlite3_column_type(get(), column) == SQLITE_NULL; }
  /// Valid until the next step or reset.
  std::string_view text(int column) const;
  std::span<const std::byte> blob(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  sqlite3_stmt* get() const { return statement_.get(); }
  void check(int result, std::string_view doing);

  sqlite3* db_;
  const std::string& path_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// Resets a statement when its rows have been read, also when reading them throws: a statement
/// left in the middle keeps a read transaction open and the log from being folded in.
class ResetGuard {
 public:
  explicit ResetGuard(Statement& statement) : statement_(statement) {}
  ~ResetGuard() { statement_.reset(); }
  ResetGuard(const ResetGuard&) = delete;
  ResetGuard& operator=(const ResetGuard&) = delete;

 private:
  Statement& statement_;
};

}  // namespace contcore
