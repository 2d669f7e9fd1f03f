#include "serve/store_schema.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

#include "contcore/error.h"
#include "serve/sqlite.h"

namespace contcore {
namespace {

constexpr std::int64_t kApplication = 0x43435354;  // "CCST"

// What makes each version of the one before it, the first of nothing: a new store and one that was
// upgraded are the same. Versions that were ever published are not changed any more; the next is
// added at the end.
//
// keeps       0: neither image nor map, 1: one of them, 2: the same, and a person said "defect"
// kept_bytes  of image and map
// learned     0: not, else store.cc
// reserved    the last id that may have been given away (store.cc)
// regions     store_regions.h
//
// Images and maps stand in tables of their own, so that a list reads none of their pages.
constexpr char kVersion1[] = R"sql(
CREATE TABLE inspection(
  id INTEGER PRIMARY KEY, time TEXT NOT NULL, task TEXT NOT NULL, source TEXT NOT NULL,
  score REAL NOT NULL, threshold REAL, verdict TEXT NOT NULL, latency_ms REAL NOT NULL,
  width INTEGER NOT NULL, height INTEGER NOT NULL, feedback TEXT NOT NULL,
  feedback_time TEXT NOT NULL, learned INTEGER NOT NULL, has_image INTEGER NOT NULL,
  keeps INTEGER NOT NULL, kept_bytes INTEGER NOT NULL);
CREATE INDEX inspection_keeps ON inspection(keeps, id);
CREATE INDEX inspection_task ON inspection(task, id);
CREATE INDEX inspection_score ON inspection(task, verdict, id, score);
CREATE INDEX inspection_verdict ON inspection(verdict, id);
CREATE INDEX inspection_source ON inspection(source, id);
CREATE INDEX inspection_feedback ON inspection(feedback, id);
CREATE TABLE image(
  id INTEGER PRIMARY KEY REFERENCES inspection(id), type TEXT NOT NULL, bytes BLOB NOT NULL);
CREATE TABLE map(
  id INTEGER PRIMARY KEY REFERENCES inspection(id), grid_w INTEGER NOT NULL,
  grid_h INTEGER NOT NULL, patches BLOB NOT NULL);
CREATE TABLE sample_time(step INTEGER PRIMARY KEY, time TEXT NOT NULL);
CREATE TABLE sample(
  step INTEGER NOT NULL REFERENCES sample_time(step), task TEXT NOT NULL,
  vectors INTEGER NOT NULL, certificate REAL, drift REAL, PRIMARY KEY(step, task)) WITHOUT ROWID;
CREATE TABLE setting(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE reserved(one INTEGER PRIMARY KEY CHECK(one = 1), last INTEGER NOT NULL);
INSERT INTO reserved VALUES(1, 0);
PRAGMA application_id = 1128485716;
PRAGMA user_version = 1;
)sql";
static_assert(kApplication == 1128485716, "as in kVersion1");

// What had no threshold was called unknown, which now is what is no known product.
constexpr char kVersion2[] = R"sql(
ALTER TABLE inspection ADD COLUMN reason TEXT NOT NULL DEFAULT '';
ALTER TABLE inspection ADD COLUMN regions TEXT NOT NULL DEFAULT '';
UPDATE inspection SET verdict = 'uncalibrated' WHERE verdict = 'unknown';
PRAGMA user_version = 2;
)sql";

// The index has all that is counted of a task's latest parts.
constexpr char kVersion3[] = R"sql(
ALTER TABLE sample ADD COLUMN alarms REAL;
ALTER TABLE sample ADD COLUMN good REAL;
DROP INDEX inspection_task;
CREATE INDEX inspection_task ON inspection(task, id, verdict, feedback, score, threshold);
PRAGMA user_version = 3;
)sql";

constexpr char kVersion4[] = R"sql(
ALTER TABLE inspection ADD COLUMN station TEXT NOT NULL DEFAULT '';
CREATE INDEX inspection_station ON inspection(station, id);
PRAGMA user_version = 4;
)sql";

// output  store_outputs.h; last: the inspection up to which all are done with
// series  tells the inspections of this store from those of another; file: birth_of_file()
constexpr char kVersion5[] = R"sql(
CREATE TABLE output(
  name TEXT PRIMARY KEY, last INTEGER NOT NULL, waiting INTEGER NOT NULL,
  delivered INTEGER NOT NULL, dropped INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE series(
  one INTEGER PRIMARY KEY CHECK(one = 1), name TEXT NOT NULL, file TEXT NOT NULL);
INSERT INTO series VALUES(1, lower(hex(randomblob(8))), '');
PRAGMA user_version = 5;
)sql";

// What inspections add up to (store_totals.h), and whether those of an earlier version have been
// counted.
constexpr char kVersion6[] = R"sql(
CREATE TABLE hour_total(
  begin INTEGER NOT NULL, station TEXT NOT NULL, task TEXT NOT NULL, what INTEGER NOT NULL,
  n INTEGER NOT NULL, PRIMARY KEY(begin, station, task, what)) WITHOUT ROWID;
CREATE INDEX inspection_time ON inspection(time);
ALTER TABLE reserved ADD COLUMN totals INTEGER NOT NULL DEFAULT 0;
UPDATE reserved SET totals = NOT EXISTS(SELECT 1 FROM inspection);
PRAGMA user_version = 6;
)sql";

constexpr const char* kVersions[] = {kVersion1, kVersion2, kVersion3,
                                     kVersion4, kVersion5, kVersion6};
constexpr auto kVersion = static_cast<std::int64_t>(std::size(kVersions));

// No mapping: a file that another program shortens would end the process. No wiping of what is
// deleted: it would be written twice.
constexpr char kSettings[] = R"sql(
PRAGMA synchronous = NORMAL;
PRAGMA foreign_keys = ON;
PRAGMA cell_size_check = ON;
PRAGMA mmap_size = 0;
PRAGMA temp_store = MEMORY;
PRAGMA secure_delete = OFF;
PRAGMA cache_size = -16000;
PRAGMA journal_size_limit = 16777216;
PRAGMA wal_autocheckpoint = 1000;
)sql";

std::int64_t number(sqlite3* db, const std::string& path, const char* sql) {
  Statement statement(db, path, sql);
  return statement.step("reading the store") ? statement.integer(0) : 0;
}

// Of its tables; 0 if there are none yet. Throws if there are others.
std::int64_t version_of(sqlite3* db, const std::string& path) {
  const std::int64_t application = number(db, path, "PRAGMA application_id");
  const std::int64_t version = number(db, path, "PRAGMA user_version");
  const std::int64_t tables = number(db, path, "SELECT count(*) FROM sqlite_schema");
  if (application == 0 && version == 0 && tables == 0) return 0;
  if (application != kApplication) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: is the database of another program; name another file", path));
  }
  if (version > kVersion) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: was written by a newer contcore (store version {}, this one knows "
                            "{}); update contcore or name another file",
                            path, version, kVersion));
  }
  if (version < 1) {
    throw Error(Error::Kind::kDamaged,
                fmt::format("{}: says it is store version {}, which there never was; restore it "
                            "from a copy or move it away",
                            path, version));
  }
  return version;
}

// Whole or not at all: a store is of one version.
void upgrade(sqlite3* db, const std::string& path) {
  constexpr char kDoing[] = "making the store's tables";
  execute(db, path, "BEGIN IMMEDIATE", kDoing);
  try {
    // Another process may have been faster.
    for (std::int64_t version = version_of(db, path); version < kVersion; ++version) {
      execute(db, path, kVersions[version], kDoing);
    }
    execute(db, path, "COMMIT", kDoing);
  } catch (...) {
    sqlite3_exec(db, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

// Readers and the writer do not wait for each other across processes, and a commit is a write
// without a flush.
void use_log(sqlite3* db, const std::string& path) {
  Statement mode(db, path, "PRAGMA journal_mode = WAL");
  const bool row = mode.step("opening the store's log");
  if (!row || (mode.text(0) != "wal" && mode.text(0) != "memory")) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: this file system cannot hold a store; choose a local disk", path));
  }
}

}  // namespace

void execute(sqlite3* db, const std::string& path, const char* sql, std::string_view doing) {
  if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail_sqlite(db, path, doing);
}

void prepare_store(sqlite3* db, const std::string& path) {
  constexpr char kDoing[] = "setting the store up";
  const std::int64_t version = version_of(db, path);
  // Only before the first table can it be said that free pages may be given back.
  if (version == 0) execute(db, path, "PRAGMA auto_vacuum = INCREMENTAL", kDoing);
  use_log(db, path);
  execute(db, path, kSettings, kDoing);
  if (version < kVersion) upgrade(db, path);
}

}  // namespace contcore
