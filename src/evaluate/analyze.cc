#include "contcore/analyze.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/rows.h"
#include "contcore/compare.h"
#include "contcore/error.h"
#include "contcore/greedy.h"
#include "contcore/memory.h"
#include "evaluate/evaluation.h"

namespace contcore {
namespace {

constexpr std::size_t kDirections = 128;
constexpr std::uint64_t kDirectionSeed = 1;

std::vector<std::int64_t> greedy_picks(VectorView points, VectorView base, std::size_t count,
                                       Compute& compute) {
  GreedyOptions options;
  options.count = count;
  return greedy_sample(points, base, options, compute).picks;
}

double farthest(VectorView covered, VectorView by, Compute& compute) {
  return static_cast<double>(cover(covered, by, compute).largest);
}

Bound bound_of(const std::vector<VectorView>& tasks, VectorView all, const BoundOptions& options,
               Compute& compute) {
  Bound bound;
  bound.tasks = tasks.size();
  const std::size_t m = options.per_task * tasks.size();
  Memory memory(all.cols, m, Consolidate::paper(options.q));
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const Vectors before = memory.vectors();
    const std::size_t count = part_count(options.p, tasks[t].rows);
    const Vectors expansion =
        gather(tasks[t], greedy_picks(tasks[t], before.view(), count, compute));
    LearnHow how;
    how.task = std::to_string(t);
    how.p = options.p;
    memory.learn(tasks[t], how, compute);
    const Vectors after = memory.vectors();
    bound.epsilon.push_back(farthest(tasks[t], expansion.view(), compute));
    bound.epsilon_hat.push_back(farthest(joined(before, expansion).view(), after.view(), compute));
  }
  double rest = 0;
  for (std::size_t k = tasks.size(); k-- > 0;) {
    rest += bound.epsilon_hat[k];
    bound.continued = std::max(bound.continued, bound.epsilon[k] + rest);
  }
  const Vectors oracle = gather(all, greedy_picks(all, {}, m, compute));
  const Vectors last = memory.vectors();
  bound.epsilon_o = farthest(all, oracle.view(), compute);
  bound.distance = static_cast<double>(hausdorff(oracle.view(), last.view(), compute));
  bound.certificate = memory.certificate();
  bound.covering = farthest(all, last.view(), compute);
  return bound;
}

// How many rows of b are also rows of a, each counted once.
std::size_t common_rows(const Vectors& a, const Vectors& b) {
  const auto bytes = [](const Vectors& v, std::size_t i) {
    return std::string_view(reinterpret_cast<const char*>(v.row(i)), v.cols() * sizeof(float));
  };
  std::unordered_map<std::string_view, std::size_t> left;
  for (std::size_t i = 0; i < a.rows(); ++i) ++left[bytes(a, i)];
  std::size_t common = 0;
  for (std::size_t i = 0; i < b.rows(); ++i) {
    const auto found = left.find(bytes(b, i));
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++common;
  }
  return common;
}

}  // namespace

std::vector<Bound> analyze_bound(const EvaluationOptions& data, const BoundOptions& options,
                                 Compute& compute, const Progress& progress) {
  EvaluationOptions few = data;
  few.schedule.clear();  // one class after the other
  for (Dataset& dataset : few.datasets) {
    for (Product& product : dataset.products) {
      product.train.resize(std::min(product.train.size(), options.images));
    }
  }
  Evaluation::State parts(few);
  const std::size_t most = std::min(parts.products.size(), options.most_tasks);
  if (most < 2) throw Error(Error::Kind::kInput, "the bound is of at least two classes");
  FeatureStore all(parts.extractor.embedding().dimension, std::size_t{4} << 30);
  std::vector<std::size_t> ends;
  for (std::size_t c = 0; c < most; ++c) {
    const auto features = parts.train(c, compute, {});
    const VectorView view = features->vectors.view();
    all.append(view);
    ends.push_back(all.rows());
    report(progress, 0.5 * static_cast<double>(c + 1) / static_cast<double>(most));
  }
  const VectorView view = all.view();
  std::vector<Bound> bounds;
  std::vector<VectorView> tasks;
  for (std::size_t t = 0; t < most; ++t) {
    const std::size_t begin = t == 0 ? 0 : ends[t - 1];
    tasks.push_back(view.part(begin, ends[t] - begin));
    if (t > 0) bounds.push_back(bound_of(tasks, view.part(0, ends[t]), options, compute));
    report(progress, 0.5 + 0.5 * static_cast<double>(t + 1) / static_cast<double>(most));
  }
  return bounds;
}

std::vector<Likeness> analyze_compare(const EvaluationOptions& data,
                                      const std::vector<Setting>& settings,
                                      const Setting& reference, Compute& compute,
                                      const Progress& progress) {
  Evaluation::State parts(data);
  std::vector<std::unique_ptr<Method>> methods;
  methods.push_back(parts.method(reference));
  for (const Setting& setting : settings) methods.push_back(parts.method(setting));
  const std::size_t tasks = parts.schedule.size();
  const auto pieces = static_cast<double>(tasks * methods.size());
  for (std::size_t t = 0; t < tasks; ++t) {
    const Evaluation::State::Task task = parts.task(t, compute);
    for (std::size_t i = 0; i < methods.size(); ++i) {
      const auto done = static_cast<double>(t * methods.size() + i);
      methods[i]->learn(task.features, compute,
                        part_of(progress, done / pieces, (done + 1) / pieces));
    }
  }
  const Vectors target = methods[0]->coreset();
  std::vector<Likeness> rows;
  for (std::size_t i = 1; i < methods.size(); ++i) {
    const Vectors coreset = methods[i]->coreset();
    if (coreset.rows() == 0 || target.rows() == 0) {
      throw Error(Error::Kind::kUsage,
                  fmt::format("{} keeps no vectors to compare", settings[i - 1].method));
    }
    Likeness row;
    row.method = settings[i - 1].method;
    row.vectors = coreset.rows();
    row.overlap = common_rows(target, coreset);
    row.average_minimum = cover(target.view(), coreset.view(), compute).average;
    row.sliced_wasserstein =
        sliced_wasserstein(target.view(), coreset.view(), kDirections, kDirectionSeed, compute);
    row.hausdorff = static_cast<double>(hausdorff(target.view(), coreset.view(), compute));
    rows.push_back(row);
  }
  return rows;
}

}  // namespace contcore
