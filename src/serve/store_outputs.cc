#include "serve/store_outputs.h"

#include <algorithm>

#include "base/file.h"

namespace contcore {
namespace {

constexpr char kCountingOutputs[] = "counting what waits for the outputs";

std::size_t at_least_none(std::int64_t number) {
  return static_cast<std::size_t>(std::max<std::int64_t>(number, 0));
}

}  // namespace

StoreOutputs::StoreOutputs(sqlite3* db, const std::string& path)
    : db_(db),
      path_(path),
      all_(db, path, "SELECT name, waiting, delivered, dropped FROM output ORDER BY name"),
      one_(db, path, "SELECT last, waiting, dropped FROM output WHERE name = ?1"),
      count_(db, path, "SELECT count(*) FROM inspection WHERE id > ?1"),
      after_(db, path, "SELECT id FROM inspection WHERE id > ?1 ORDER BY id LIMIT 1"),
      added_(db, path, "UPDATE output SET waiting = waiting + 1"),
      drop_(db, path,
            "UPDATE output SET waiting = waiting - 1, dropped = dropped + 1 WHERE name = ?1 AND "
            "last < ?2 AND waiting > 0"),
      settle_(db, path,
              "UPDATE output SET last = max(last, ?2), waiting = max(0, waiting - ?3), delivered = "
              "delivered + ?4, dropped = dropped + ?5 WHERE name = ?1") {}

StoreOutputs::Counts StoreOutputs::counts(std::string_view name) {
  const ResetGuard reset(one_);
  one_.bind(1, name);
  if (!one_.step(kCountingOutputs)) return {};
  return {one_.integer(0), one_.integer(1), one_.integer(2)};
}

std::vector<StoredOutput> StoreOutputs::use(std::span<const std::string> names, std::size_t most,
                                            std::int64_t last) {
  name_series();
  most_ = most;
  taken_.clear();
  skipped_.clear();
  std::vector<StoredOutput> forgotten;
  for (StoredOutput& known : read()) {
    if (std::ranges::find(names, known.name) != names.end()) continue;
    Statement forget(db_, path_, "DELETE FROM output WHERE name = ?1");
    forget.bind(1, known.name);
    forget.run(kCountingOutputs);
    forgotten.push_back(std::move(known));
  }
  for (const std::string& name : names) {
    Statement begin(db_, path_, "INSERT OR IGNORE INTO output VALUES(?1, ?2, 0, 0, 0)");
    begin.bind(1, name);
    begin.bind(2, last);
    begin.run(kCountingOutputs);
    resume(name, most);
  }
  return forgotten;
}

void StoreOutputs::name_series() {
  const std::string file = birth_of_file(path_);
  Statement name(db_, path_,
                 "UPDATE series SET name = lower(hex(randomblob(8))), file = ?1 WHERE file <> ?1");
  name.bind(1, file);
  name.run("naming the series");
}

// What was at hand when the process ended waits again, unless it went meanwhile; and so does what
// was passed over while something before it was at hand.
void StoreOutputs::resume(const std::string& name, std::size_t most) {
  Counts now = counts(name);
  std::int64_t kept = 0;
  {
    const ResetGuard reset(count_);
    count_.bind(1, now.last);
    if (count_.step(kCountingOutputs)) kept = count_.integer(0);
  }
  if (const auto room = static_cast<std::int64_t>(most); kept > room) {
    Statement newest(db_, path_,
                     "SELECT id FROM inspection WHERE id > ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2");
    newest.bind(1, now.last);
    newest.bind(2, room);
    if (newest.step(kCountingOutputs)) now.last = newest.integer(0);
    kept = room;
  }
  Statement set(db_, path_,
                "UPDATE output SET last = ?2, waiting = ?3, dropped = ?4 WHERE name = ?1");
  set.bind(1, name);
  set.bind(2, now.last);
  set.bind(3, kept);
  set.bind(4, std::max<std::int64_t>(0, now.dropped + now.waiting - kept));
  set.run(kCountingOutputs);
  taken_[name] = now.last;
}

std::int64_t StoreOutputs::after(std::int64_t id) {
  const ResetGuard reset(after_);
  after_.bind(1, id);
  return after_.step(kCountingOutputs) ? after_.integer(0) : 0;
}

void StoreOutputs::added(std::int64_t id) {
  skipped_.clear();
  if (taken_.empty()) return;
  added_.run(kCountingOutputs);
  for (const auto& [name, taken] : taken_) {
    if (at_least_none(counts(name).waiting) > most_) skip(name, taken, id);
  }
}

// The oldest that is not at hand.
void StoreOutputs::skip(std::string_view name, std::int64_t taken, std::int64_t newest) {
  const std::int64_t oldest = after(taken);
  if (oldest == 0 || oldest == newest) return;
  drop_.bind(1, name);
  drop_.bind(2, oldest);
  drop_.run(kCountingOutputs);
  skipped_[std::string(name)] = oldest;
}

void StoreOutputs::written() {
  for (const auto& [name, id] : skipped_) take(name, id);
  skipped_.clear();
}

void StoreOutputs::removed(std::int64_t id) {
  for (const auto& [name, taken] : taken_) {
    const auto skipped = skipped_.find(name);
    if (id <= taken || (skipped != skipped_.end() && id <= skipped->second)) continue;
    drop_.bind(1, name);
    drop_.bind(2, id);
    drop_.run(kCountingOutputs);
  }
}

void StoreOutputs::settle(std::string_view name, const OutputReport& report) {
  settle_.bind(1, name);
  settle_.bind(2, report.last);
  settle_.bind(3, static_cast<std::int64_t>(report.rows));
  settle_.bind(4, static_cast<std::int64_t>(report.delivered));
  settle_.bind(5, static_cast<std::int64_t>(report.dropped));
  settle_.run("noting what was delivered");
}

std::int64_t StoreOutputs::taken(std::string_view name) const {
  const auto found = taken_.find(name);
  return found == taken_.end() ? 0 : found->second;
}

void StoreOutputs::take(std::string_view name, std::int64_t id) {
  const auto found = taken_.find(name);
  if (found != taken_.end()) found->second = std::max(found->second, id);
}

std::vector<StoredOutput> StoreOutputs::read() {
  const ResetGuard reset(all_);
  std::vector<StoredOutput> outputs;
  while (all_.step(kCountingOutputs)) {
    outputs.push_back({std::string(all_.text(0)), at_least_none(all_.integer(1)),
                       at_least_none(all_.integer(2)), at_least_none(all_.integer(3))});
  }
  return outputs;
}

std::string StoreOutputs::series() {
  Statement name(db_, path_, "SELECT name FROM series");
  return name.step(kCountingOutputs) ? std::string(name.text(0).substr(0, 16)) : "";
}

}  // namespace contcore
