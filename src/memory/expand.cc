#include "memory/expand.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <span>

#include "coreset/row_distances.h"
#include "memory/farthest_first.h"

namespace contcore {

Expansion expand_few(VectorView points, const std::vector<float>& squared, std::size_t n,
                     const std::vector<float>& beyond) {
  Expansion result;
  // Distances only ever fall, so a point is measured against the latest picks when it is at the
  // top, and not before.
  std::priority_queue<FarthestFirst> heap;
  for (std::uint32_t i = 0; i < points.rows; ++i) heap.push({squared[i], i});
  std::vector<std::uint32_t> seen(points.rows, 0);  // how many picks it was measured against
  std::vector<std::uint32_t>& picked = result.picks;
  std::vector<float> to_picks(n);
  for (;;) {
    FarthestFirst top = heap.top();
    std::uint32_t& from = seen[top.at];
    if (from < picked.size()) {
      heap.pop();
      const std::size_t count = picked.size() - from;
      squared_distances(points, {&top.at, 1}, points, std::span(picked).subspan(from),
                        to_picks.data());
      top.squared =
          std::min(top.squared, *std::min_element(to_picks.data(), to_picks.data() + count));
      from += static_cast<std::uint32_t>(count);
      heap.push(top);
      continue;
    }
    const float far = std::sqrt(top.squared);
    const std::size_t i = picked.size();
    if (i == n || top.squared == 0 || (!beyond.empty() && far <= beyond[i])) {
      result.covering_radius = far;
      return result;
    }
    picked.push_back(top.at);
    result.radii.push_back(far);
  }
}

}  // namespace contcore
