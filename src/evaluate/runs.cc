#include "evaluate/runs.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "contcore/error.h"
#include "coreset/points.h"
#include "device/packing.h"
#include "evaluate/contender.h"
#include "evaluate/evaluation.h"
#include "evaluate/result_cache.h"
#include "evaluate/result_packing.h"
#include "evaluate/sharing.h"

namespace contcore {
namespace {

void put_outcome(Packer& packer, const RunOutcome& outcome) {
  put_result(packer, outcome.result);
  packer.put<std::uint8_t>(outcome.from_cache ? 1 : 0);
  packer.put(outcome.seconds);
}

RunOutcome get_outcome(const Ranks::Bytes& bytes) {
  Unpacker from(bytes);
  RunOutcome outcome;
  outcome.result = get_result(from);
  outcome.from_cache = from.get<std::uint8_t>() != 0;
  outcome.seconds = from.get<double>();
  return outcome;
}

class Runs {
 public:
  Runs(const EvaluationOptions& options, const std::vector<Setting>& settings, Compute& compute,
       Ranks* ranks, RunsListener& listener)
      : options_(options),
        settings_(settings),
        compute_(compute),
        ranks_(ranks),
        listener_(listener),
        outcomes_(settings.size()),
        keys_(settings.size()) {}

  std::vector<RunResult> run() {
    if (ranks_ == nullptr) {
      for (std::size_t i = 0; i < settings_.size(); ++i) do_one(i, nullptr);
    } else {
      for (std::size_t i = 0; i < settings_.size();) i = prepare(i);
      const std::size_t alone = runs_alone(left_.size(), ranks_->size());
      do_alone(alone);
      for (std::size_t k = 0; k < alone; k += ranks_->size()) gather(k);
      for (std::size_t k = alone; k < left_.size(); ++k) do_one(left_[k], ranks_);
    }
    std::vector<RunResult> results;
    if (!is_first()) return results;
    for (std::optional<RunOutcome>& outcome : outcomes_) {
      results.push_back(std::move(outcome->result));
    }
    return results;
  }

 private:
  bool is_first() const { return ranks_ == nullptr || ranks_->rank() == 0; }

  bool same_evaluation(std::size_t a, std::size_t b) const {
    return settings_[a].backbone == settings_[b].backbone &&
           settings_[a].order == settings_[b].order;
  }

  // One at a time, since each has a network.
  Evaluation::State& evaluation(std::size_t i) {
    if (state_ != nullptr && same_evaluation(i, open_)) return *state_;
    EvaluationOptions own = options_;
    own.backbone = settings_[i].backbone;
    own.order = settings_[i].order;
    const bool first = state_ == nullptr;
    state_.reset();
    state_ = std::make_unique<Evaluation::State>(own);
    open_ = i;
    if (first) listener_.opened(state_->schedule, state_->products);
    return *state_;
  }

  void do_one(std::size_t i, Ranks* ranks) {
    Evaluation::State* parts = nullptr;
    do_on_all(ranks, [&] { parts = &evaluation(i); });
    RunOutcome outcome;
    const auto start = std::chrono::steady_clock::now();
    outcome.result =
        parts->run(settings_[i], compute_, ranks, listener_.running(i), &outcome.from_cache);
    outcome.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    listener_.finished(i, outcome);
    outcomes_[i] = std::move(outcome);
  }

  // ---- with ranks ------------------------------------------------------------------------------

  // All runs of one evaluation, from `begin` on: checked, and looked for in the cache. What is left
  // to do gets its features. Returns where the next one begins.
  std::size_t prepare(std::size_t begin) {
    std::size_t end = begin;
    while (end < settings_.size() && same_evaluation(begin, end)) ++end;
    do_on_all(ranks_, [&] {
      const Evaluation::State& parts = evaluation(begin);
      for (std::size_t i = begin; i < end; ++i) make_inside(parts, settings_[i]);
      if (is_first()) find_known(parts, begin, end);
    });
    check_same_parts(*state_, *ranks_);
    std::vector<std::uint64_t> left;
    for (std::size_t i = begin; is_first() && i < end; ++i) {
      if (!outcomes_[i]) left.push_back(i);
    }
    left = all_of(ranks_, left);
    left_.insert(left_.end(), left.begin(), left.end());
    if (!left.empty() && extracted_.insert(settings_[begin].backbone).second) {
      share_features(*state_, *ranks_, compute_, listener_.extracting(state_->backbone));
    }
    return end;
  }

  void find_known(const Evaluation::State& parts, std::size_t begin, std::size_t end) {
    const ResultCache results(parts.result_folder());
    for (std::size_t i = begin; i < end; ++i) {
      keys_[i] = parts.result_key(settings_[i]);
      if (options_.fresh) continue;
      std::optional<RunResult> found = results.find(keys_[i]);
      if (!found) continue;
      found->setting.backbone = parts.backbone;
      found->setting.order = parts.options.order;
      outcomes_[i] = RunOutcome{std::move(*found), true, 0};
      listener_.finished(i, *outcomes_[i]);
    }
  }

  // This rank's of the first so many. Who is told to stop tells the others, who mostly are told
  // too; of whatever else goes wrong one hears at once, not when the others have done theirs.
  void do_alone(std::size_t count) {
    std::optional<Error> stopped;
    try {
      for (std::size_t k = ranks_->rank(); k < count; k += ranks_->size()) {
        do_one(left_[k], nullptr);
      }
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kCancelled) throw;
      stopped = error;
    }
    do_on_all(ranks_, [&] {
      if (stopped) throw Error(*stopped);
    });
  }

  // A round of those: from each rank to the first, which keeps what its cache has not. Round by
  // round, since results with their pictures take room.
  void gather(std::size_t begin) {
    const std::size_t own = left_[begin + ranks_->rank()];
    Packer packer;
    if (!is_first()) put_outcome(packer, *outcomes_[own]);
    const std::vector<Ranks::Bytes> said = ranks_->all_gather(packer.bytes());
    if (!is_first()) outcomes_[own].reset();
    do_on_all(ranks_, [&] {
      if (!is_first()) return;
      const ResultCache results(state_->result_folder());
      for (std::size_t r = 1; r < said.size(); ++r) {
        const std::size_t i = left_[begin + r];
        outcomes_[i] = get_outcome(said[r]);
        if (!results.has(keys_[i])) results.keep(keys_[i], outcomes_[i]->result);
        listener_.finished(i, *outcomes_[i]);
      }
    });
  }

  const EvaluationOptions& options_;
  const std::vector<Setting>& settings_;
  Compute& compute_;
  Ranks* ranks_;
  RunsListener& listener_;
  std::unique_ptr<Evaluation::State> state_;
  std::size_t open_ = 0;  // a run of it
  std::vector<std::optional<RunOutcome>> outcomes_;
  std::vector<std::string> keys_;    // on the first rank
  std::vector<std::uint64_t> left_;  // the runs that are not known
  std::set<std::string> extracted_;  // backbones
};

}  // namespace

std::size_t runs_alone(std::size_t runs, std::size_t ranks) { return runs / ranks * ranks; }

std::vector<RunResult> run_all(const EvaluationOptions& options,
                               const std::vector<Setting>& settings, Compute& compute, Ranks* ranks,
                               RunsListener& listener) {
  return Runs(options, settings, compute, ranks, listener).run();
}

}  // namespace contcore
