// Learning by the paper's rule: expand on the whole memory, sample again from all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/rows.h"
#include "contcore/greedy.h"
#include "memory/consolidate.h"
#include "memory/online.h"
#include "memory/state.h"

namespace contcore {

std::unique_ptr<Memory::State> Memory::State::learn_paper(VectorView features,
                                                          const LearnHow& learning,
                                                          Compute& compute) {
  GreedyOptions options;
  options.count = picks_of(learning.p, features.rows);
  options.memory_limit = learning.memory_limit;
  options.points_name = fmt::format("task '{}'", learning.task);
  options.base_name = "memory";
  options.progress = part_of(learning.progress, 0.0, 0.8);
  Joined all = joined();
  const GreedyResult expansion = greedy_sample(features, all.vectors.view(), options, compute);
  check_reach(features, expansion.picks, options.points_name);

  std::unique_ptr<State> next = emptied();
  const std::int32_t task = next->task_index(learning.task);
  join(all, gather(features, expansion.picks));
  all.origin.resize(all.vectors.rows(), task);
  all.radius.insert(all.radius.end(), expansion.radii.begin(), expansion.radii.end());
  all.slack.resize(all.vectors.rows(), 0);
  const float epsilon = bound(static_cast<double>(expansion.covering_radius));
  for (float& covered : all.slack) covered = std::max(covered, epsilon);

  const Consolidation kept = consolidate(all.vectors.view(), capacity, how.q, learning.memory_limit,
                                         compute, part_of(learning.progress, 0.8, 1.0));
  report(learning.progress, 1);
  next->settle(all, kept, compute);
  if (!kept.dropped.empty()) {
    next->greedy_order = nearest_share(how.q, capacity) == 0;
  } else {
    next->greedy_order = size() == 0 || (expansion.picks.empty() && greedy_order);
  }
  remember(next->tasks[static_cast<std::size_t>(task)], learning, features.rows,
           expansion.picks.size(), expansion.covering_radius, kept.covering_radius);
  next->calibration = std::move(calibration);
  return next;
}

void Memory::State::learn_paper_online(VectorView features, const LearnHow& learning,
                                       Compute& compute) {
  const std::size_t n = std::min(picks_of(learning.p, features.rows), features.rows);
  make_room(n);
  const Expansion expansion = expand_few(features, nearest(features, compute).squared, n);
  const bool full = size() + expansion.picks.size() > capacity;
  if (full && !neighbours) {
    lay(slots.rows());
    auto made = std::make_unique<Neighbours>(slots);
    made->start(searchable(compute), size(), compute);
    neighbours = std::move(made);
  }
  check_reach(features, expansion.picks, fmt::format("task '{}'", learning.task));
  const AllOrNothing change(*this);
  const std::int32_t task = task_index(learning.task);
  const float epsilon = bound(static_cast<double>(expansion.covering_radius));
  for (float& covered : slack) covered = std::max(covered, epsilon);
  const std::vector<std::uint32_t> added =
      put(features, expansion.picks, expansion.radii, task, epsilon, compute);
  if (!added.empty()) greedy_order = false;
  float epsilon_hat = 0;
  if (neighbours) neighbours->add(added, order, compute);
  if (full) {
    const OnlineConsolidation kept =
        consolidate_online(order, capacity, how.q, *neighbours, slots.rows(), compute);
    order = kept.kept;
    std::vector<std::uint32_t> left;
    for (const auto& dropped : kept.dropped) {
      pass_slack(slack[dropped.slot], dropped.squared, dropped.nearest);
      epsilon_hat = std::max(epsilon_hat, std::sqrt(dropped.squared));
      left.push_back(dropped.slot);
    }
    leave(left);
  }
  remember(tasks[static_cast<std::size_t>(task)], learning, features.rows, expansion.picks.size(),
           expansion.covering_radius, epsilon_hat);
}

}  // namespace contcore
