// Results put together: repetitions averaged, and those found that differ in one thing alone.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "contcore/evaluate.h"

namespace contcore {

struct Statistic {
  double mean = 0;
  double deviation = 0;   ///< of the sample (n − 1); 0 for one value
  std::size_t count = 0;  ///< of values
};
using Statistics = std::array<std::optional<Statistic>, kMeasures>;

/// Nothing when there are no values or one is undefined.
std::optional<Statistic> statistic(std::span<const std::optional<double>> values);

/// Runs that differ in the seed or the order alone. Of runs with the same setting one counts: they
/// are the same result.
struct Group {
  Setting setting;  ///< seed and order are the first run's
  std::vector<const RunResult*> runs;
  std::string label;  ///< the method, and what tells it from its others: "contcore, m=5,000"
  Statistics average, forgetting, classes;
  std::vector<Statistics> curve;  ///< after each task, the mean over the tasks so far
};

/// Methods in the order they first appear in, each with its groups together. The results must
/// outlive the groups.
std::vector<Group> group_runs(const std::vector<RunResult>& results);

/// A class by its name and which of that name it is: two data sets may share one.
using ClassKey = std::pair<std::string, std::size_t>;
std::vector<ClassKey> class_keys(const RunResult& result);
/// After the last task.
Statistics class_statistics(const Group& group, const ClassKey& key);

/// What groups may differ in.
enum Parameter { kM, kP, kQ, kBackbone, kParameters };
const char* parameter_name(Parameter parameter);
std::string parameter_text(const Setting& setting, Parameter parameter);

/// Groups that differ in one parameter alone, as lines over its values.
struct Sweep {
  struct Line {
    std::string label;
    std::vector<const Group*> groups;  ///< for each value; null where there is none
  };
  Parameter parameter = kM;
  std::vector<std::string> values;  ///< ascending
  std::vector<Line> lines;          ///< each with two groups at least
};
std::vector<Sweep> find_sweeps(const std::vector<Group>& groups);

}  // namespace contcore
