#include "evaluate/method.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "contcore/error.h"
#include "contcore/greedy.h"

namespace contcore {
namespace {

struct Known {
  MethodInfo info;
  MakeMethod make;
};

const std::vector<Known>& known() {
  static const std::vector<Known> all = {
      {{"contcore", "greedy expansion within m, an equal share for each task", false, true},
       make_contcore},
      {{"contcore-online", "the same, one image at a time, each seen once", true, true},
       make_contcore_online},
      {{"contcore-paper", "greedy expansion, greedy consolidation of all within m (the paper)",
        false, true},
       make_contcore_paper},
      {{"contcore-paper-online", "the same, one image at a time", true, true},
       make_contcore_paper_online},
      {{"patchcore", "a memory for each class, told the class; no limit", false, true},
       make_patchcore},
      {{"patchcore-unbounded", "one memory that takes in every task's coreset; no limit", false,
        true},
       make_patchcore_unbounded},
      {{"patchcore-oracle", "m shared out evenly, the number of tasks known in advance", false,
        true},
       make_patchcore_oracle},
      {{"patchcore-oracle-online", "the same, one image at a time", true, true},
       make_patchcore_oracle_online},
      {{"random", "expansion and consolidation at random within m", false, true}, make_random},
      {{"reservoir", "a uniform sample of m of all features so far", false, true}, make_reservoir},
      {{"herding", "picks that keep each task's mean, m shared by the tasks so far", false, true},
       make_herding},
      {{"latest-only", "the coreset of the last task alone", false, true}, make_latest_only},
      {{"dne", "a Gaussian of each task on one feature for an image; no maps", false, false},
       make_dne},
  };
  return all;
}

}  // namespace

const std::vector<MethodInfo>& methods() {
  static const std::vector<MethodInfo> all = [] {
    std::vector<MethodInfo> infos;
    for (const Known& k : known()) infos.push_back(k.info);
    return infos;
  }();
  return all;
}

std::unique_ptr<Method> make_method(const std::string& name, const MethodOptions& options) {
  std::string names;
  for (const Known& k : known()) {
    if (k.info.name == name) return k.make(options);
    names += (names.empty() ? "" : ", ") + k.info.name;
  }
  throw Error(Error::Kind::kUsage,
              fmt::format("there is no method '{}'; there are {}", name, names));
}

std::size_t part_count(double p, std::size_t rows) {
  const auto count = static_cast<std::size_t>(std::floor(p * static_cast<double>(rows)));
  return std::clamp<std::size_t>(count, 1, std::max<std::size_t>(1, rows));
}

std::span<const std::int64_t> TaskFeatures::greedy(std::size_t n, Compute& compute,
                                                   const Progress& progress) const {
  if (order->asked < n) {
    GreedyOptions options;
    options.count = n;
    options.progress = progress;
    options.points_name = "features";
    order->picks = greedy_sample(all, {}, options, compute).picks;
    order->asked = n;
  }
  return std::span(order->picks).first(std::min(n, order->picks.size()));
}

void VectorMethod::prepare(Compute& compute) {
  if (memory_.rows() == 0) throw Error(Error::Kind::kInternal, "nothing was learned");
  if (!index_) index_.emplace(memory_.view(), compute);
}

Scored VectorMethod::score(VectorView patches, std::size_t /*product*/, Compute& compute) const {
  return score_patches(*index_, patches, compute);
}

Scored score_patches(const NearestIndex& index, VectorView patches, Compute& compute) {
  Scored scored;
  scored.patches = index.search(patches, 1, compute, "patches").distances;
  return scored;
}

Vectors joined(const Vectors& a, const Vectors& b) {
  if (a.rows() == 0) {
    Vectors copy(b.rows(), b.cols());
    std::copy(b.data(), b.data() + b.rows() * b.cols(), copy.data());
    return copy;
  }
  Vectors both(a.rows() + b.rows(), a.cols());
  std::copy(a.data(), a.data() + a.rows() * a.cols(), both.data());
  std::copy(b.data(), b.data() + b.rows() * b.cols(), both.row(a.rows()));
  return both;
}

}  // namespace contcore
