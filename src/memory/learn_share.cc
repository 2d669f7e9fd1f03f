// Learning by equal shares: a task expands on what it has itself, and each task keeps the first of
// its own order. docs/memory.md has the reasons and the proof of the certificate.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "base/rows.h"
#include "contcore/distance.h"
#include "contcore/greedy.h"
#include "coreset/kernels.h"
#include "coreset/sketch.h"
#include "memory/online.h"
#include "memory/share.h"
#include "memory/state.h"

namespace contcore {
namespace {

std::vector<std::uint32_t> places_of(const Joined& all, std::int32_t task) {
  std::vector<std::uint32_t> places;
  for (std::uint32_t i = 0; i < all.origin.size(); ++i) {
    if (all.origin[i] == task) places.push_back(i);
  }
  return places;
}

// What the i-th pick must be farther than to come in: nothing while there is room, then the radius
// of the vector that leaves for it, the smallest of its task first.
std::vector<float> to_come_in(std::vector<float> radii, std::size_t room) {
  std::sort(radii.begin(), radii.end());
  radii.insert(radii.begin(), room, 0.0F);
  return radii;
}

}  // namespace

std::size_t Memory::State::share_of(std::int32_t task, std::size_t vectors) const {
  std::vector<std::size_t> sizes(std::max(tasks.size(), static_cast<std::size_t>(task) + 1), 0);
  for (const std::uint32_t slot : order) ++sizes[static_cast<std::size_t>(origin[slot])];
  sizes[static_cast<std::size_t>(task)] = vectors;
  return equal_shares(sizes, capacity)[static_cast<std::size_t>(task)];
}

std::unique_ptr<Memory::State> Memory::State::learn_share(VectorView features,
                                                          const LearnHow& learning,
                                                          Compute& compute) {
  std::unique_ptr<State> next = emptied();
  const std::int32_t task = next->task_index(learning.task);
  TaskRecord& record = next->tasks[static_cast<std::size_t>(task)];
  Joined all = joined();
  const std::vector<std::uint32_t> own = places_of(all, task);
  GreedyOptions options;
  // More picks than the share could never stay, so they need not be made: the radius of the first
  // that is not made is the covering radius.
  const std::size_t n = picks_of(learning.p, features.rows);
  options.count = std::clamp<std::size_t>(share_of(task, own.size() + n), 1, n);
  options.memory_limit = learning.memory_limit;
  options.points_name = fmt::format("task '{}'", learning.task);
  options.base_name = "memory";
  options.progress = part_of(learning.progress, 0.0, 0.98);
  const GreedyResult expansion =
      greedy_sample(features, gather(all.vectors.view(), own).view(), options, compute);
  check_reach(features, expansion.picks, options.points_name);

  const Admission admission =
      admit(all.origin, all.radius, next->tasks.size(), task, expansion.radii, capacity);
  const bool whole = admission.picks == expansion.picks.size();
  const float epsilon = whole ? expansion.covering_radius : expansion.radii[admission.picks];
  const float covered = bound(static_cast<double>(epsilon));
  std::vector<std::int64_t> picks = expansion.picks;
  picks.resize(admission.picks);
  join(all, gather(features, picks));
  all.origin.resize(all.vectors.rows(), task);
  all.radius.insert(all.radius.end(), expansion.radii.begin(),
                    expansion.radii.begin() + static_cast<std::ptrdiff_t>(picks.size()));
  all.slack.resize(all.vectors.rows(), 0);
  if (record.patches == 0) {
    record.covering = covered;
  } else {
    for (std::size_t i = 0; i < all.origin.size(); ++i) {
      if (all.origin[i] == task) all.slack[i] = std::max(all.slack[i], covered);
    }
    if (own.empty() && picks.empty()) record.covering = std::numeric_limits<float>::infinity();
  }
  report(learning.progress, 1);
  next->settle(all, {others(all.origin.size(), admission.dropped), admission.dropped, 0}, compute);
  remember(record, learning, features.rows, picks.size(), epsilon, 0);
  next->calibration = std::move(calibration);
  return next;
}

void Memory::State::learn_share_online(VectorView features, const LearnHow& learning,
                                       Compute& compute) {
  const auto known = std::find_if(tasks.begin(), tasks.end(), [&](const TaskRecord& record) {
    return record.name == learning.task;
  });
  const auto task = static_cast<std::int32_t>(known - tasks.begin());
  const std::vector<float> radii = choose(radius, own_slots(task));
  const std::size_t own = radii.size();
  const std::size_t all = std::min(picks_of(learning.p, features.rows), features.rows);
  const std::size_t share = share_of(task, own + all);
  const std::size_t n = std::clamp<std::size_t>(share, 1, all);
  make_room(n);
  Expansion expansion;
  Nearest base;
  if (own > 0) {
    base = nearest(features, compute, task);
    expansion =
        expand_few(features, base.squared, n, to_come_in(radii, share - std::min(share, own)));
  } else {
    GreedyOptions options;
    options.count = n;
    options.points_name = fmt::format("task '{}'", learning.task);
    const GreedyResult found = greedy_sample(features, {}, options, compute);
    expansion.picks.assign(found.picks.begin(), found.picks.end());
    expansion.radii = found.radii;
    expansion.covering_radius = found.covering_radius;
  }
  check_reach(features, expansion.picks, fmt::format("task '{}'", learning.task));
  const AllOrNothing change(*this);
  TaskRecord& record = tasks[static_cast<std::size_t>(task_index(learning.task))];
  const Admission admission = admit(choose(origin, order), choose(radius, order), tasks.size(),
                                    task, expansion.radii, capacity);
  const bool whole = admission.picks == expansion.picks.size();
  const float epsilon = whole ? expansion.covering_radius : expansion.radii[admission.picks];
  const float covered = bound(static_cast<double>(epsilon));
  const bool first = record.patches == 0;
  if (first) {
    record.covering = covered;
  } else {
    for (const std::uint32_t slot : own_slots(task)) slack[slot] = std::max(slack[slot], covered);
    if (own == 0 && admission.picks == 0) {
      record.covering = std::numeric_limits<float>::infinity();
    }
  }
  const std::vector<std::uint32_t> added =
      put(features, std::span(expansion.picks).first(admission.picks), expansion.radii, task,
          first ? 0 : covered, compute);
  for (std::size_t i = 0; i < added.size() && own > 0; ++i) {
    earlier[added[i]] = base.slots[expansion.picks[i]];
  }
  remember(record, learning, features.rows, admission.picks, epsilon, 0);
  if (admission.dropped.empty()) return;
  const std::vector<std::uint32_t> left = choose(order, admission.dropped);
  const Joined gone = {gather(slots.view(), left), choose(origin, left), choose(radius, left),
                       choose(slack, left)};
  order = choose(order, others(order.size(), admission.dropped));
  leave(left);
  cover_left(gone, compute);
  renew_radii(gone.origin, admission.dropped, compute);
}

Consolidation Memory::State::share_out(const Joined& all, std::size_t m) const {
  const Admission admission = admit(all.origin, all.radius, tasks.size(), -1, {}, m);
  return {others(all.origin.size(), admission.dropped), admission.dropped, 0};
}

void Memory::State::copy_shares(State& smaller, Compute& compute) const {
  const std::vector<std::uint32_t> dropped =
      admit(choose(origin, order), choose(radius, order), tasks.size(), -1, {}, smaller.capacity)
          .dropped;
  const std::vector<std::uint32_t> stay = choose(order, others(order.size(), dropped));
  const std::vector<std::uint32_t> left = choose(order, dropped);
  smaller.slots = gather(slots.view(), stay);
  smaller.origin = choose(origin, stay);
  smaller.radius = choose(radius, stay);
  smaller.slack = choose(slack, stay);
  smaller.order.resize(stay.size());
  std::iota(smaller.order.begin(), smaller.order.end(), 0U);
  smaller.earlier = earlier_among(stay);
  const Joined gone = {gather(slots.view(), left), choose(origin, left), choose(radius, left),
                       choose(slack, left)};
  smaller.cover_left(gone, compute);
  smaller.renew_radii(gone.origin, dropped, compute);
}

void Memory::State::meet(Joined& all, Joined& more, const std::vector<TaskRecord>& theirs,
                         Compute& compute) {
  std::vector<std::uint32_t> stay;  // places in `more`, in their new order
  std::vector<float> radii;
  for (const TaskRecord& record : theirs) {
    const std::int32_t task = task_index(record.name);
    float& covering = tasks[static_cast<std::size_t>(task)].covering;
    const std::vector<std::uint32_t> ours = places_of(all, task);
    const std::vector<std::uint32_t> others = places_of(more, task);
    if (ours.empty() || others.empty()) {
      covering = std::max(covering, record.covering);
      stay.insert(stay.end(), others.begin(), others.end());
      for (const std::uint32_t i : others) radii.push_back(more.radius[i]);
      continue;
    }
    GreedyOptions options;
    options.count = others.size();
    const GreedyResult expansion =
        greedy_sample(gather(more.vectors.view(), others).view(),
                      gather(all.vectors.view(), ours).view(), options, compute);
    float late = record.covering;
    for (const std::uint32_t i : others) late = std::max(late, more.slack[i]);
    late = bound(static_cast<double>(late));
    for (const std::uint32_t i : ours) all.slack[i] = std::max(all.slack[i], late);
    for (const std::int64_t pick : expansion.picks) {
      stay.push_back(others[static_cast<std::size_t>(pick)]);
      more.slack[stay.back()] = late;
    }
    radii.insert(radii.end(), expansion.radii.begin(), expansion.radii.end());
  }
  more = gather(more, stay);
  more.radius = std::move(radii);
}

void Memory::State::cover_left(const Joined& left, Compute& compute) {
  std::vector<std::vector<std::uint32_t>> relied(tasks.size());  // on by later learning
  for (std::uint32_t i = 0; i < left.origin.size(); ++i) {
    const auto task = static_cast<std::size_t>(left.origin[i]);
    tasks[task].covering =
        std::max(tasks[task].covering, bound(static_cast<double>(left.radius[i])));
    if (left.slack[i] > 0) relied[task].push_back(i);
  }
  for (std::size_t task = 0; task < relied.size(); ++task) {
    if (relied[task].empty()) continue;
    const auto own = static_cast<std::int32_t>(task);
    if (own_slots(own).empty()) {
      tasks[task].covering = std::numeric_limits<float>::infinity();
      continue;
    }
    const Nearest stay = nearest(gather(left.vectors.view(), relied[task]).view(), compute, own);
    for (std::size_t i = 0; i < relied[task].size(); ++i) {
      pass_slack(left.slack[relied[task][i]], stay.squared[i], stay.slots[i]);
    }
  }
}

void Memory::State::renew_radii(const std::vector<std::int32_t>& of,
                                const std::vector<std::uint32_t>& places, Compute& compute) {
  std::vector<bool> done(tasks.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (done[static_cast<std::size_t>(of[i])]) continue;
    done[static_cast<std::size_t>(of[i])] = true;
    const std::size_t first = places[i] - i;  // what came before has lost nothing
    std::vector<std::uint32_t> own;
    std::vector<std::uint32_t> orphans;  // places in `own`
    for (std::size_t at = 0; at < order.size(); ++at) {
      const std::uint32_t slot = order[at];
      if (origin[slot] != of[i]) continue;
      if (at >= first && earlier[slot] == kUnknown) {
        orphans.push_back(static_cast<std::uint32_t>(own.size()));
      }
      own.push_back(slot);
    }
    if (orphans.empty()) continue;
    if (worth_an_index(of[i], orphans.size() * own.size() / 2)) {
      find_earlier(of[i], own, orphans, compute);
    }
    measure_earlier(own, orphans, compute);
  }
}

// Most have an earlier one among their nearest few; the others stay in the list.
void Memory::State::find_earlier(std::int32_t task, const std::vector<std::uint32_t>& own,
                                 std::vector<std::uint32_t>& orphans, Compute& compute) {
  constexpr std::size_t kFew = 8;
  std::vector<std::uint32_t> place(slots.rows());
  for (std::uint32_t k = 0; k < own.size(); ++k) place[own[k]] = k;
  const std::vector<std::uint32_t> found =
      searchable(task, compute)
          .nearest(gather(slots.view(), choose(own, orphans)).view(), kFew, compute);
  std::vector<std::uint32_t> rest;
  for (std::size_t i = 0; i < orphans.size(); ++i) {
    const auto few = std::span(found).subspan(i * kFew, kFew);
    const auto first = std::find_if(few.begin(), few.end(), [&](std::uint32_t slot) {
      return slot != SlotIndex::kNone && place[slot] < orphans[i];
    });
    if (first == few.end()) {
      rest.push_back(orphans[i]);
      continue;
    }
    const std::uint32_t slot = own[orphans[i]];
    earlier[slot] = *first;
    radius[slot] =
        std::sqrt(squared_distance(slots.row(slot), slots.row(earlier[slot]), dimension));
  }
  orphans = std::move(rest);
}

void Memory::State::measure_earlier(const std::vector<std::uint32_t>& own,
                                    const std::vector<std::uint32_t>& orphans, Compute& compute) {
  constexpr std::size_t kBlock = 16;  // a kernel makes the most of several vectors at once
  std::vector<const float*> rows(own.size());
  for (std::size_t k = 0; k < own.size(); ++k) rows[k] = slots.row(own[k]);
  compute.threads().run(
      (orphans.size() + kBlock - 1) / kBlock, [&](std::size_t block, std::size_t) {
        const std::size_t begin = block * kBlock;
        const std::size_t n = std::min(kBlock, orphans.size() - begin);
        const std::vector<const float*> asked =
            choose(rows, std::vector<std::uint32_t>(&orphans[begin], &orphans[begin] + n));
        const std::size_t most = orphans[begin + n - 1];
        std::vector<float> squared(n * most);
        kernels::squared_distances(asked.data(), n, rows.data(), most, dimension, squared.data());
        for (std::size_t i = 0; i < n; ++i) {
          const float* row = squared.data() + i * most;
          const std::uint32_t k = orphans[begin + i];
          const float* nearest = std::min_element(row, row + k);
          radius[own[k]] = k == 0 ? kInfinity : std::sqrt(*nearest);
          earlier[own[k]] = k == 0 ? kUnknown : own[static_cast<std::size_t>(nearest - row)];
        }
      });
}

}  // namespace contcore
