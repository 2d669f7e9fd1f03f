#include "memory/contents.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <exception>
#include <limits>
#include <numeric>
#include <utility>

#include "contcore/distance.h"
#include "contcore/error.h"
#include "coreset/sketch.h"

namespace contcore {
namespace {

// Then no vector is too far from any mean of others to be searched for.
constexpr float kMostSquaredNorm = kLargestSquaredNorm / 4 * 0.999F;

}  // namespace

std::string utc_time() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

std::int32_t Contents::add_task(const std::string& name) {
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (tasks[t].name == name) return static_cast<std::int32_t>(t);
  }
  tasks.push_back({});
  tasks.back().name = name;
  return static_cast<std::int32_t>(tasks.size() - 1);
}

Transaction::Transaction(Contents& contents)
    : contents_(contents),
      exceptions_(std::uncaught_exceptions()),
      greedy_order_(contents.greedy_order),
      tasks_(contents.tasks),
      columns_(contents.store.columns()) {}

Transaction::~Transaction() {
  if (std::uncaught_exceptions() == exceptions_) return;
  contents_.greedy_order = greedy_order_;
  contents_.tasks = std::move(tasks_);
  contents_.store.restore(std::move(columns_));
}

std::vector<std::size_t> vectors_of_tasks(const Contents& contents) {
  std::vector<std::size_t> vectors(contents.tasks.size());
  for (const std::uint32_t slot : contents.store.order()) {
    ++vectors[static_cast<std::size_t>(contents.store.origin()[slot])];
  }
  return vectors;
}

std::size_t picks_of(double p, std::size_t rows) {
  return std::max<std::size_t>(1, static_cast<std::size_t>(p * static_cast<double>(rows)));
}

void report_distances(const LearnHow& how, std::vector<float> squared) {
  if (!how.before) return;
  for (float& distance : squared) distance = std::sqrt(distance);
  how.before(squared);
}

void remember(TaskRecord& record, const LearnHow& how, std::size_t patches, std::size_t picked,
              float epsilon, float epsilon_hat) {
  record.images += how.images;
  record.patches += patches;
  record.picked += picked;
  if (std::isfinite(epsilon)) record.epsilon = std::max(record.epsilon, epsilon);
  record.epsilon_hat = std::max(record.epsilon_hat, epsilon_hat);
  record.learned = how.time.empty() ? utc_time() : how.time;
  if (how.region) record.region = how.region;
}

float bound(double distance, std::size_t dimension) {
  // A canonical square is off by at most D/32 + 8 roundings, its root by half of that. Twice that
  // covers that a true distance may be larger than the canonical one, and the reverse. The last
  // term is for squares that underflow.
  const double margin = (static_cast<double>(dimension) / 32 + 16) * 0x1p-23;
  const double tiny = std::sqrt(static_cast<double>(dimension)) * 0x1p-73;
  return std::nextafter(static_cast<float>(distance * (1 + margin) + tiny),
                        std::numeric_limits<float>::infinity());
}

void pass_slack(VectorStore& store, float from, float squared, std::uint32_t to) {
  const double through = std::sqrt(static_cast<double>(squared));
  float& slack = store.slack()[to];
  slack = std::max(slack, bound(static_cast<double>(from) + through, store.dimension()));
}

void check_reach(const float* vector, std::size_t dimension, const std::string& name) {
  const std::vector<float> zero(dimension, 0.0F);
  if (squared_distance(vector, zero.data(), dimension) <= kMostSquaredNorm) return;
  throw Error(Error::Kind::kInput,
              fmt::format("{}: values so large that squared distances may overflow float32; scale "
                          "the vectors down (norms up to 1e18 are fine)",
                          name));
}

void check_reach(VectorView vectors, const std::string& name) {
  std::vector<std::size_t> rows(vectors.rows);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  check_reach(vectors, rows, name);
}

}  // namespace contcore
