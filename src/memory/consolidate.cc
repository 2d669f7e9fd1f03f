#include "memory/consolidate.h"

#include <algorithm>
#include <numeric>

#include "base/rows.h"
#include "contcore/distance.h"
#include "contcore/greedy.h"
#include "contcore/nearest.h"

namespace contcore {
namespace {

// Squared canonical distance of each vector to the nearest other one.
std::vector<float> nearest_squared(VectorView joined, Compute& compute, const Progress& progress) {
  const NearestIndex index(joined, compute, "memory");
  const NearestResult found = index.search(joined, 2, compute, "memory", progress);
  std::vector<float> squared(joined.rows);
  for (std::size_t i = 0; i < joined.rows; ++i) {
    // The vector itself is one of the two, unless two others coincide with it.
    const std::int64_t self = static_cast<std::int64_t>(i);
    const std::int64_t other = found.ids[2 * i] == self ? found.ids[2 * i + 1] : found.ids[2 * i];
    squared[i] = squared_distance(joined, i, joined, static_cast<std::size_t>(other));
  }
  return squared;
}

}  // namespace

std::size_t nearest_share(double q, std::size_t m) {
  return static_cast<std::size_t>(q * static_cast<double>(m));
}

bool updates_neighbours(double q, std::size_t m) { return q >= 0.5 && nearest_share(q, m) > 0; }

std::vector<std::uint32_t> others(std::size_t count, const std::vector<std::uint32_t>& kept) {
  std::vector<bool> taken(count, false);
  for (const std::uint32_t i : kept) taken[i] = true;
  std::vector<std::uint32_t> rest;
  rest.reserve(count - kept.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!taken[i]) rest.push_back(i);
  }
  return rest;
}

Consolidation consolidate(VectorView joined, std::size_t m, double q, std::size_t memory_limit,
                          Compute& compute, const Progress& progress) {
  Consolidation result;
  std::vector<std::uint32_t> order(joined.rows);
  std::iota(order.begin(), order.end(), 0U);
  if (joined.rows <= m) {
    result.kept = std::move(order);
    return result;
  }
  const std::size_t isolated = nearest_share(q, m);
  if (isolated > 0) {
    const std::vector<float> squared =
        nearest_squared(joined, compute, part_of(progress, 0.0, 0.3));
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return squared[a] > squared[b]; });
    result.kept.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(isolated));
  }
  const std::vector<std::uint32_t> rest = others(joined.rows, result.kept);
  const Vectors base = gather(joined, result.kept);
  const Vectors points = gather(joined, rest);
  GreedyOptions options;
  options.count = std::max<std::size_t>(1, m - isolated);
  options.memory_limit = memory_limit;
  options.progress = part_of(progress, 0.3, 1.0);
  options.points_name = options.base_name = "memory";
  const GreedyResult greedy = greedy_sample(points.view(), base.view(), options, compute);
  if (m == isolated) {
    result.covering_radius = greedy.radii.empty() ? 0 : greedy.radii[0];
  } else {
    result.covering_radius = greedy.covering_radius;
    for (const std::int64_t pick : greedy.picks) {
      result.kept.push_back(rest[static_cast<std::size_t>(pick)]);
    }
  }
  result.dropped = others(joined.rows, result.kept);
  return result;
}

}  // namespace contcore
