// Learning by the paper's rule: expand on the whole memory, sample again from all.
//
// Slack: every feature ever learned is within slack[s] of the vector in slot s, for some s.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rows.h"
#include "contcore/greedy.h"
#include "memory/consolidate.h"
#include "memory/consolidate_online.h"
#include "memory/expand.h"
#include "memory/rule.h"

namespace contcore {
namespace {

// Makes what is kept of M̂ what the memory holds. Slack goes with the dropped vectors to the nearest
// that stays.
void assign_kept(Contents& to, const Entries& all, const Consolidation& kept, Compute& compute) {
  to.store.assign(all.part(kept.kept));
  if (kept.dropped.empty()) return;
  const VectorStore::Nearest stay =
      to.store.nearest(gather(all.vectors.view(), kept.dropped).view(), compute);
  for (std::size_t i = 0; i < kept.dropped.size(); ++i) {
    pass_slack(to.store, all.slack[kept.dropped[i]], stay.squared[i], stay.slots[i]);
  }
}

class PaperRule : public Rule {
 public:
  explicit PaperRule(double q) : q_(q) {}

  std::unique_ptr<Contents> learn(const Contents& now, const Points& features, const LearnHow& how,
                                  Compute& compute) const override {
    GreedyOptions options;
    options.count = picks_of(how.p, features.rows);
    options.memory_limit = how.memory_limit;
    options.points_name = fmt::format("task '{}'", how.task);
    options.base_name = "memory";
    options.progress = part_of(how.progress, 0.0, 0.8);
    Entries all = now.store.entries();
    PickedPoints expanded = pick_points(features, all.vectors.view(), options, compute);
    const GreedyResult& expansion = expanded.greedy;
    check_reach(expanded.vectors.view(), options.points_name);

    auto next = std::make_unique<Contents>(now.store, now.capacity);
    next->tasks = now.tasks;
    const std::int32_t task = next->add_task(how.task);
    const std::size_t picked = expansion.picks.size();
    all.append({std::move(expanded.vectors), std::vector<std::int32_t>(picked, task),
                expansion.radii, std::vector<float>(picked, 0.0F)});
    const float epsilon =
        bound(static_cast<double>(expansion.covering_radius), now.store.dimension());
    for (float& covered : all.slack) covered = std::max(covered, epsilon);

    const Consolidation kept = consolidate(all.vectors.view(), now.capacity, q_, how.memory_limit,
                                           compute, part_of(how.progress, 0.8, 1.0));
    report(how.progress, 1);
    assign_kept(*next, all, kept, compute);
    if (!kept.dropped.empty()) {
      next->greedy_order = nearest_share(q_, now.capacity) == 0;
    } else {
      next->greedy_order = now.store.size() == 0 || (picked == 0 && now.greedy_order);
    }
    remember(next->tasks[static_cast<std::size_t>(task)], how, features.rows, picked,
             expansion.covering_radius, kept.covering_radius);
    return next;
  }

  bool worth_online(const Contents& now, std::size_t /*picks*/) const override {
    return now.store.size() > 0 && updates_neighbours(q_, now.capacity);
  }

  void learn_online(Contents& contents, VectorView features, const LearnHow& how,
                    Compute& compute) const override {
    VectorStore& store = contents.store;
    const std::size_t n = std::min(picks_of(how.p, features.rows), features.rows);
    store.reserve(n, contents.capacity);
    const std::vector<float> squared = store.nearest(features, compute).squared;
    report_distances(how, squared);
    const Expansion expansion = expand_few(features, squared, n);
    const bool full = store.size() + expansion.picks.size() > contents.capacity;
    if (full && store.neighbours() == nullptr) store.start_neighbours(compute);
    check_reach(features, expansion.picks, fmt::format("task '{}'", how.task));

    const Transaction change(contents);
    const std::int32_t task = contents.add_task(how.task);
    const float epsilon = bound(static_cast<double>(expansion.covering_radius), store.dimension());
    for (float& covered : store.slack()) covered = std::max(covered, epsilon);
    const std::vector<std::uint32_t> added =
        store.add(features, expansion.picks, expansion.radii, task, epsilon, compute);
    if (!added.empty()) contents.greedy_order = false;
    float epsilon_hat = 0;
    if (store.neighbours() != nullptr) store.neighbours()->add(added, store.order(), compute);
    if (full) {
      const OnlineConsolidation kept = consolidate_online(
          store.order(), contents.capacity, q_, *store.neighbours(), store.slots(), compute);
      std::vector<std::uint32_t> left;
      for (const auto& dropped : kept.dropped) {
        pass_slack(store, store.slack()[dropped.slot], dropped.squared, dropped.nearest);
        epsilon_hat = std::max(epsilon_hat, std::sqrt(dropped.squared));
        left.push_back(dropped.slot);
      }
      store.keep(kept.kept, left);
    }
    remember(contents.tasks[static_cast<std::size_t>(task)], how, features.rows,
             expansion.picks.size(), expansion.covering_radius, epsilon_hat);
  }

  void shrink(const Contents& from, Contents& to, Compute& compute) const override {
    const Entries all = from.store.entries();
    Consolidation kept;
    if (from.greedy_order && to.capacity < all.size()) {
      kept.kept.resize(to.capacity);
      std::iota(kept.kept.begin(), kept.kept.end(), 0U);
      kept.dropped = others(all.size(), kept.kept);
    } else {
      kept = consolidate(all.vectors.view(), to.capacity, 0, 0, compute, {});
    }
    assign_kept(to, all, kept, compute);
    to.greedy_order = from.greedy_order || !kept.dropped.empty();
  }

  void merge(Entries ours, Entries theirs, const std::vector<TaskRecord>& /*their_tasks*/,
             Contents& to, Compute& compute) const override {
    ours.append(theirs);
    const Consolidation kept = consolidate(ours.vectors.view(), to.capacity, 0, 0, compute, {});
    assign_kept(to, ours, kept, compute);
    to.greedy_order = !kept.dropped.empty();
  }

  double certificate(const Contents& contents) const override {
    const VectorStore& store = contents.store;
    float largest = 0;
    for (const std::uint32_t slot : store.order()) {
      largest = std::max(largest, store.slack()[slot]);
    }
    return static_cast<double>(bound(static_cast<double>(largest), store.dimension()));
  }

  double certificate(const Contents& contents, std::int32_t /*task*/) const override {
    return certificate(contents);
  }

  const char* why_fewer(const Contents& /*contents*/, std::size_t /*vectors*/) const override {
    return "resampled";
  }
  bool expands_on_own() const override { return false; }

  std::size_t vectors_after(const Contents& now, std::int32_t task,
                            std::size_t picks) const override {
    return std::min(now.capacity, now.store.slots_of(task).size() + picks);
  }

 private:
  double q_;  // the part that is chosen by nearest neighbours alone
};

}  // namespace

std::unique_ptr<const Rule> make_paper_rule(const Consolidate& how) {
  return std::make_unique<PaperRule>(how.q);
}

}  // namespace contcore
