#include "contcore/evaluate.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/rows.h"
#include "coreset/points.h"
#include "evaluate/contender.h"
#include "evaluate/evaluation.h"
#include "evaluate/judge.h"
#include "evaluate/result_cache.h"
#include "evaluate/result_packing.h"
#include "evaluate/sharing.h"

namespace contcore {
namespace {

// What the first rank finds, told to all.
std::optional<RunResult> found_by_first(const ResultCache& results, const std::string& key,
                                        Ranks* ranks) {
  if (ranks == nullptr) return results.find(key);
  Packer packer;
  if (ranks->rank() == 0) {
    if (const std::optional<RunResult> found = results.find(key)) put_result(packer, *found);
  }
  const Ranks::Bytes said = ranks->all_gather(packer.bytes())[0];
  if (said.empty()) return {};
  Unpacker from(said);
  return get_result(from);
}

}  // namespace

Evaluation::Evaluation(const EvaluationOptions& options)
    : state_(std::make_unique<State>(options)) {}
Evaluation::~Evaluation() = default;
Evaluation::Evaluation(Evaluation&&) noexcept = default;

const Schedule& Evaluation::schedule() const { return state_->schedule; }
const std::vector<Product>& Evaluation::products() const { return state_->products; }

RunResult Evaluation::run(const Setting& setting, Compute& compute, const Progress& progress,
                          bool* from_cache) {
  return state_->run(setting, compute, nullptr, progress, from_cache);
}

RunResult Evaluation::run(const Setting& setting, Compute& compute, Ranks& ranks,
                          const Progress& progress, bool* from_cache) {
  check_same_parts(*state_, ranks);
  return state_->run(setting, compute, &ranks, progress, from_cache);
}

RunResult Evaluation::State::run(const Setting& setting, Compute& compute, Ranks* ranks,
                                 const Progress& progress, bool* from_cache) {
  std::unique_ptr<Contender> method;
  std::optional<ResultCache> results;
  std::string key;
  do_on_all(ranks, [&] {
    method = make_inside(*this, setting);
    results.emplace(result_folder());
    key = result_key(setting);
  });
  if (from_cache != nullptr) *from_cache = false;
  if (!options.fresh) {
    if (std::optional<RunResult> found = found_by_first(*results, key, ranks)) {
      found->setting.backbone = backbone;
      found->setting.order = options.order;
      if (from_cache != nullptr) *from_cache = true;
      return std::move(*found);
    }
  }
  RunResult result = judge_method(*this, *method, setting, compute, ranks, progress);
  do_on_all(ranks, [&] {
    if (ranks == nullptr || ranks->rank() == 0) results->keep(key, result);
    report(progress, 1);
  });
  return result;
}

// Not by way of the cache of results, which cannot know whether the method has changed.
RunResult Evaluation::run(OutsideMethod& method, const Setting& setting, Compute& compute,
                          const Progress& progress) {
  Setting own = setting;
  own.method = method.name();
  const std::unique_ptr<Contender> contender = make_outside(*state_, own, method);
  RunResult result = judge_method(*state_, *contender, own, compute, nullptr, progress);
  report(progress, 1);
  return result;
}

}  // namespace contcore
