// Learning by equal shares: a task expands on what it has itself, and each task keeps the first of
// its own order. docs/memory.md has the reasons and the proof of the certificate. In: what the
// memory holds, and features of a task. Out: what it holds then. Fails as memory/rule.h says.
//
// Slack: every feature of a task is within slack[s] of the vector in slot s, for some s of its own
// slots; but those of its first learning, which are covered by TaskRecord::covering.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/rows.h"
#include "contcore/greedy.h"
#include "memory/consolidate.h"
#include "memory/expand.h"
#include "memory/parents.h"
#include "memory/rule.h"
#include "memory/shares.h"

namespace contcore {
namespace {

// What the i-th pick must be farther than to come in: nothing while there is room, then the radius
// of the vector that leaves for it, the smallest of its task first.
std::vector<float> to_come_in(std::vector<float> radii, std::size_t room) {
  std::sort(radii.begin(), radii.end());
  radii.insert(radii.begin(), room, 0.0F);
  return radii;
}

// Share of a task if it had so many vectors.
std::size_t share_of(const Contents& contents, std::int32_t task, std::size_t vectors) {
  const auto t = static_cast<std::size_t>(task);
  std::vector<std::size_t> sizes(std::max(contents.tasks.size(), t + 1), 0);
  for (const std::uint32_t slot : contents.store.order()) {
    ++sizes[static_cast<std::size_t>(contents.store.origin()[slot])];
  }
  sizes[t] = vectors;
  return equal_shares(sizes, contents.capacity)[t];
}

// What the features of this learning are within, of the memory.
struct Coverage {
  float epsilon;  // covering radius of the expansion, as far as its picks come in
  float bound;
};

Coverage coverage_of(std::span<const float> radii, float covering_radius, std::size_t admitted,
                     std::size_t dimension) {
  const float epsilon = admitted == radii.size() ? covering_radius : radii[admitted];
  return {epsilon, bound(static_cast<double>(epsilon), dimension)};
}

// Vectors have been removed from their tasks: coverings and slacks take it up.
void cover_removed(Contents& contents, const Entries& removed, Compute& compute) {
  std::vector<TaskRecord>& tasks = contents.tasks;
  VectorStore& store = contents.store;
  std::vector<std::vector<std::uint32_t>> relied(tasks.size());  // on by later learning
  for (std::uint32_t i = 0; i < removed.size(); ++i) {
    const auto task = static_cast<std::size_t>(removed.origin[i]);
    tasks[task].covering = std::max(
        tasks[task].covering, bound(static_cast<double>(removed.radius[i]), store.dimension()));
    if (removed.slack[i] > 0) relied[task].push_back(i);
  }
  for (std::size_t task = 0; task < relied.size(); ++task) {
    if (relied[task].empty()) continue;
    const auto own = static_cast<std::int32_t>(task);
    if (store.slots_of(own).empty()) {
      tasks[task].covering = std::numeric_limits<float>::infinity();
      continue;
    }
    const VectorStore::Nearest stay =
        store.nearest(gather(removed.vectors.view(), relied[task]).view(), compute, own);
    for (std::size_t i = 0; i < relied[task].size(); ++i) {
      pass_slack(store, removed.slack[relied[task][i]], stay.squared[i], stay.slots[i]);
    }
  }
}

// Makes `all` but those at some places what the memory holds.
void assign_but(Contents& to, const Entries& all, const std::vector<std::uint32_t>& dropped,
                std::vector<std::uint32_t> parents, Compute& compute) {
  to.store.assign(all.part(others(all.size(), dropped)), std::move(parents));
  if (dropped.empty()) return;
  const Entries removed = all.part(dropped);
  cover_removed(to, removed, compute);
  renew_parents(to.store, removed.origin, dropped, compute);
}

class ShareRule : public Rule {
 public:
  std::unique_ptr<Contents> learn(const Contents& now, const Points& features, const LearnHow& how,
                                  Compute& compute) const override {
    const std::size_t dimension = now.store.dimension();
    auto next = std::make_unique<Contents>(now.store, now.capacity);
    next->tasks = now.tasks;
    const std::int32_t task = next->add_task(how.task);
    TaskRecord& record = next->tasks[static_cast<std::size_t>(task)];
    Entries all = now.store.entries();
    const std::vector<std::uint32_t> own = all.of_task(task);
    GreedyOptions options;
    // More picks than the share could never stay, so they need not be made: the radius of the first
    // that is not made is the covering radius.
    const std::size_t n = picks_of(how.p, features.rows);
    options.count = std::clamp<std::size_t>(share_of(now, task, own.size() + n), 1, n);
    options.memory_limit = how.memory_limit;
    options.points_name = fmt::format("task '{}'", how.task);
    options.base_name = "memory";
    options.progress = part_of(how.progress, 0.0, 0.98);
    PickedPoints expanded =
        pick_points(features, gather(all.vectors.view(), own).view(), options, compute);
    const GreedyResult& expansion = expanded.greedy;
    check_reach(expanded.vectors.view(), options.points_name);

    const Admission admission =
        admit(all.origin, all.radius, next->tasks.size(), task, expansion.radii, now.capacity);
    const Coverage covered =
        coverage_of(expansion.radii, expansion.covering_radius, admission.picks, dimension);
    const std::size_t picks = admission.picks;
    if (picks < expanded.vectors.rows()) {
      Vectors first(picks, dimension, expanded.vectors.scalar());
      first.set_rows(0, expanded.vectors.view().part(0, picks));
      expanded.vectors = std::move(first);
    }
    all.append(
        {std::move(expanded.vectors),
         std::vector<std::int32_t>(picks, task),
         {expansion.radii.begin(), expansion.radii.begin() + static_cast<std::ptrdiff_t>(picks)},
         std::vector<float>(picks, 0.0F)});
    if (record.patches == 0) {
      record.covering = covered.bound;
    } else {
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all.origin[i] == task) all.slack[i] = std::max(all.slack[i], covered.bound);
      }
      if (own.empty() && picks == 0) record.covering = std::numeric_limits<float>::infinity();
    }
    report(how.progress, 1);
    assign_but(*next, all, admission.dropped, {}, compute);
    remember(record, how, features.rows, picks, covered.epsilon, 0);
    return next;
  }

  bool worth_online(const Contents& now, std::size_t picks) const override {
    return picks <= now.store.size() / 4;
  }

  void learn_online(Contents& contents, VectorView features, const LearnHow& how,
                    Compute& compute) const override {
    VectorStore& store = contents.store;
    const auto known =
        std::find_if(contents.tasks.begin(), contents.tasks.end(),
                     [&](const TaskRecord& record) { return record.name == how.task; });
    const auto task = static_cast<std::int32_t>(known - contents.tasks.begin());
    const std::size_t own = store.slots_of(task).size();
    VectorStore::Nearest base;
    const Expansion expansion = expand(contents, features, how, task, base, compute);
    check_reach(features, expansion.picks, fmt::format("task '{}'", how.task));

    const Transaction change(contents);
    TaskRecord& record = contents.tasks[static_cast<std::size_t>(contents.add_task(how.task))];
    const Admission admission =
        admit(choose(store.origin(), store.order()), choose(store.radius(), store.order()),
              contents.tasks.size(), task, expansion.radii, contents.capacity);
    const Coverage covered =
        coverage_of(expansion.radii, expansion.covering_radius, admission.picks, store.dimension());
    const bool first = record.patches == 0;
    if (first) {
      record.covering = covered.bound;
    } else {
      for (const std::uint32_t slot : store.slots_of(task)) {
        store.slack()[slot] = std::max(store.slack()[slot], covered.bound);
      }
      if (own == 0 && admission.picks == 0) {
        record.covering = std::numeric_limits<float>::infinity();
      }
    }
    const std::vector<std::uint32_t> added =
        store.add(features, std::span(expansion.picks).first(admission.picks), expansion.radii,
                  task, first ? 0 : covered.bound, compute);
    // Picks of the same update do not count as parents: a pick's radius is at most that of an
    // earlier one, which can only grow, so it leaves first.
    for (std::size_t i = 0; i < added.size() && own > 0; ++i) {
      store.parent()[added[i]] = base.slots[expansion.picks[i]];
    }
    remember(record, how, features.rows, admission.picks, covered.epsilon, 0);
    if (admission.dropped.empty()) return;
    const std::vector<std::uint32_t> left = choose(store.order(), admission.dropped);
    const Entries removed = store.entries(left);
    store.keep(choose(store.order(), others(store.size(), admission.dropped)), left);
    cover_removed(contents, removed, compute);
    renew_parents(store, removed.origin, admission.dropped, compute);
  }

  void shrink(const Contents& from, Contents& to, Compute& compute) const override {
    const VectorStore& store = from.store;
    const Entries all = store.entries();
    const std::vector<std::uint32_t> dropped =
        admit(all.origin, all.radius, from.tasks.size(), -1, {}, to.capacity).dropped;
    const std::vector<std::uint32_t> stay = choose(store.order(), others(store.size(), dropped));
    assign_but(to, all, dropped, store.parents_among(stay), compute);
  }

  // A task that both know learns the other's vectors; then each task keeps its share.
  void merge(Entries ours, Entries theirs, const std::vector<TaskRecord>& their_tasks, Contents& to,
             Compute& compute) const override {
    std::vector<std::uint32_t> stay;  // places in `theirs`, in their new order
    std::vector<float> radii;
    for (const TaskRecord& record : their_tasks) {
      const std::int32_t task = to.add_task(record.name);
      float& covering = to.tasks[static_cast<std::size_t>(task)].covering;
      const std::vector<std::uint32_t> own = ours.of_task(task);
      const std::vector<std::uint32_t> other = theirs.of_task(task);
      if (own.empty() || other.empty()) {
        covering = std::max(covering, record.covering);
        stay.insert(stay.end(), other.begin(), other.end());
        for (const std::uint32_t i : other) radii.push_back(theirs.radius[i]);
        continue;
      }
      GreedyOptions options;
      options.count = other.size();
      const GreedyResult expansion =
          greedy_sample(gather(theirs.vectors.view(), other).view(),
                        gather(ours.vectors.view(), own).view(), options, compute);
      float late = record.covering;
      for (const std::uint32_t i : other) late = std::max(late, theirs.slack[i]);
      late = bound(static_cast<double>(late), to.store.dimension());
      for (const std::uint32_t i : own) ours.slack[i] = std::max(ours.slack[i], late);
      for (const std::int64_t pick : expansion.picks) {
        stay.push_back(other[static_cast<std::size_t>(pick)]);
        theirs.slack[stay.back()] = late;
      }
      radii.insert(radii.end(), expansion.radii.begin(), expansion.radii.end());
    }
    theirs = theirs.part(stay);
    theirs.radius = std::move(radii);
    ours.append(theirs);
    const std::vector<std::uint32_t> dropped =
        admit(ours.origin, ours.radius, to.tasks.size(), -1, {}, to.capacity).dropped;
    assign_but(to, ours, dropped, {}, compute);
    to.greedy_order = !dropped.empty();
  }

  double certificate(const Contents& contents) const override {
    double largest = 0;
    for (std::size_t t = 0; t < contents.tasks.size(); ++t) {
      largest = std::max(largest, certificate(contents, static_cast<std::int32_t>(t)));
    }
    return largest;
  }

  double certificate(const Contents& contents, std::int32_t task) const override {
    const VectorStore& store = contents.store;
    float largest = contents.tasks[static_cast<std::size_t>(task)].covering;
    for (const std::uint32_t slot : store.order()) {
      if (store.origin()[slot] == task) largest = std::max(largest, store.slack()[slot]);
    }
    return static_cast<double>(bound(static_cast<double>(largest), store.dimension()));
  }

  const char* why_fewer(const Contents& contents, std::size_t vectors) const override {
    const bool full = contents.store.size() == contents.capacity;
    // One that was cut while the memory was smaller, or had more tasks, stays as it was left.
    return full && vectors >= contents.capacity / contents.tasks.size() ? "equal share"
                                                                        : "cut earlier";
  }
  bool expands_on_own() const override { return true; }

  std::size_t vectors_after(const Contents& now, std::int32_t task,
                            std::size_t picks) const override {
    return share_of(now, task, now.store.slots_of(task).size() + picks);
  }

 private:
  // G_n of an image's features on those of its task; `base` is the nearest of these to each.
  static Expansion expand(Contents& contents, VectorView features, const LearnHow& how,
                          std::int32_t task, VectorStore::Nearest& base, Compute& compute) {
    VectorStore& store = contents.store;
    const std::vector<float> radii = choose(store.radius(), store.slots_of(task));
    const std::size_t own = radii.size();
    const std::size_t all = std::min(picks_of(how.p, features.rows), features.rows);
    const std::size_t share = share_of(contents, task, own + all);
    const std::size_t n = std::clamp<std::size_t>(share, 1, all);
    store.reserve(n, contents.capacity);
    if (own > 0) {
      base = store.nearest(features, compute, task);
      report_distances(how, base.squared);
      return expand_few(features, base.squared, n, to_come_in(radii, share - std::min(share, own)));
    }
    GreedyOptions options;
    options.count = n;
    options.points_name = fmt::format("task '{}'", how.task);
    const GreedyResult found = greedy_sample(features, {}, options, compute);
    return {{found.picks.begin(), found.picks.end()}, found.radii, found.covering_radius};
  }
};

}  // namespace

std::unique_ptr<const Rule> make_share_rule(const Consolidate& /*how*/) {
  return std::make_unique<ShareRule>();
}

}  // namespace contcore
