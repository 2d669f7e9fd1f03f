#include "serve/store_samples.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/utf8.h"
#include "contcore/error.h"

namespace contcore {
namespace {

constexpr char kAddingSample[] = "adding a sample";
constexpr char kReadingSamples[] = "reading the samples";
// Nothing longer was ever stored; a file that has it is not to fill the memory.
constexpr std::size_t kMostTextBytes = 3000;
constexpr std::int64_t kMostWindow = std::int64_t{1} << 30;

void bind_or_null(Statement& statement, int at, double value) {
  if (std::isnan(value)) {
    statement.bind_null(at);
  } else {
    statement.bind(at, value);
  }
}

double real_or_nan(const Statement& statement, int column) {
  return statement.is_null(column) ? std::numeric_limits<double>::quiet_NaN()
                                   : statement.real(column);
}

// n of them, spread evenly, the first and last among them; only the last if n is 1.
std::vector<std::int64_t> spread(const std::vector<std::int64_t>& all, std::size_t n) {
  if (all.size() <= n) return all;
  std::vector<std::int64_t> some;
  for (std::size_t i = 0; i < n; ++i) {
    some.push_back(n == 1 ? all.back() : all[i * (all.size() - 1) / (n - 1)]);
  }
  return some;
}

}  // namespace

StoreSamples::StoreSamples(sqlite3* db, const std::string& path, std::size_t window)
    : window_(static_cast<std::int64_t>(
          std::clamp<std::size_t>(window, 1, static_cast<std::size_t>(kMostWindow)))),
      path_(path),
      last_step_(db, path_, "SELECT max(step) FROM sample_time"),
      add_time_(db, path_, "INSERT INTO sample_time(step, time) VALUES(?1, ?2)"),
      add_sample_(db, path_,
                  "INSERT OR REPLACE INTO sample(step, task, vectors, certificate, drift, alarms, "
                  "good) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)"),
      steps_since_(db, path_, "SELECT step FROM sample_time WHERE time >= ?1 ORDER BY step"),
      at_step_(db, path_,
               "SELECT time, task, vectors, certificate, drift, alarms, good FROM sample JOIN "
               "sample_time USING(step) WHERE step = ?1 ORDER BY task"),
      delete_samples_(db, path_, "DELETE FROM sample WHERE step = ?1"),
      delete_time_(db, path_, "DELETE FROM sample_time WHERE step = ?1") {}

void StoreSamples::add(std::string_view time, std::span<const TaskSample> tasks) {
  std::int64_t step = 0;
  {
    const ResetGuard reset(last_step_);
    if (last_step_.step(kAddingSample)) step = std::max<std::int64_t>(last_step_.integer(0), 0);
  }
  if (step == std::numeric_limits<std::int64_t>::max()) {
    throw Error(Error::Kind::kDamaged, path_ + ": the samples are numbered beyond all bounds");
  }
  ++step;
  add_time_.bind(1, step);
  add_time_.bind(2, time);
  add_time_.run(kAddingSample);
  for (const TaskSample& task : tasks) {
    const std::string name = valid_utf8(task.task);
    add_sample_.bind(1, step);
    add_sample_.bind(2, name);
    add_sample_.bind(3, static_cast<std::int64_t>(task.vectors));
    bind_or_null(add_sample_, 4, task.certificate);
    bind_or_null(add_sample_, 5, task.drift);
    bind_or_null(add_sample_, 6, task.alarms);
    bind_or_null(add_sample_, 7, task.good);
    add_sample_.run(kAddingSample);
  }
  thin_out(step);
}

void StoreSamples::thin_out(std::int64_t newest) {
  for (int k = 0; k < 32; ++k) {
    const std::int64_t old = newest - (window_ << k);
    if (old <= 0) return;
    if (std::countr_zero(static_cast<std::uint64_t>(old)) != k) continue;
    for (Statement* statement : {&delete_samples_, &delete_time_}) {
      statement->bind(1, old);
      statement->run("removing old samples");
    }
  }
}

std::vector<std::int64_t> StoreSamples::steps(std::string_view since) {
  const ResetGuard reset(steps_since_);
  steps_since_.bind(1, since);
  std::vector<std::int64_t> steps;
  while (steps_since_.step(kReadingSamples)) steps.push_back(steps_since_.integer(0));
  return steps;
}

std::vector<StoredSample> StoreSamples::read(std::string_view since, std::size_t n) {
  std::vector<StoredSample> samples;
  for (const std::int64_t step : spread(steps(since), n)) {
    const ResetGuard reset(at_step_);
    at_step_.bind(1, step);
    while (at_step_.step(kReadingSamples)) {
      const auto vectors = std::max<std::int64_t>(at_step_.integer(2), 0);
      samples.push_back(
          {std::string(at_step_.text(0).substr(0, kMostTextBytes)),
           {std::string(at_step_.text(1).substr(0, kMostTextBytes)),
            static_cast<std::uint64_t>(vectors), real_or_nan(at_step_, 3), real_or_nan(at_step_, 4),
            real_or_nan(at_step_, 5), real_or_nan(at_step_, 6)}});
    }
  }
  return samples;
}

}  // namespace contcore
