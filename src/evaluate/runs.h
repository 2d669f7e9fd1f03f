// Many runs: one after the other, or shared out among ranks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/evaluate.h"
#include "contcore/progress.h"
#include "contcore/ranks.h"

namespace contcore {

struct RunOutcome {
  RunResult result;
  bool from_cache = false;
  double seconds = 0;  ///< it took here and now
};

/// Who is told how it goes. A run is named by its place in the list.
class RunsListener {
 public:
  virtual ~RunsListener() = default;
  /// The evaluation of the first run.
  virtual void opened(const Schedule& /*schedule*/, const std::vector<Product>& /*products*/) {}
  /// What is extracted before the runs begin, by several ranks, and a run; the progress is used
  /// until the next begins, or the run is over.
  virtual Progress extracting(const std::string& /*backbone*/) { return {}; }
  virtual Progress running(std::size_t /*run*/) { return {}; }
  /// In order; with ranks, on the first one in the order in which it hears of them.
  virtual void finished(std::size_t /*run*/, const RunOutcome& /*outcome*/) {}
};

/// How many of so many runs are done by one rank each: as many as are whole rounds of all ranks.
/// The others are done by all together, one after the other, since they would leave ranks idle.
std::size_t runs_alone(std::size_t runs, std::size_t ranks);

/// Does all runs; each setting's backbone and order take the place of those in the options. Of all
/// ranks, where there are any: the first one returns what one process would, but for times and peak
/// memory; the others return nothing. What the first rank's cache has is taken from there, the
/// others are shared out. What each rank did is kept by itself, and by the first one. What is wrong
/// with a setting, an order or a backbone is thrown on all before anything is run, as is what stops
/// one (kCancelled) after the runs that the others are at; another error in a run that a rank does
/// by itself is thrown there at once, and there alone.
std::vector<RunResult> run_all(const EvaluationOptions& options,
                               const std::vector<Setting>& settings, Compute& compute, Ranks* ranks,
                               RunsListener& listener);

}  // namespace contcore
