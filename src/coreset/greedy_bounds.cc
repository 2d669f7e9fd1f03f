#include "coreset/greedy_bounds.h"

#include <algorithm>
#include <cmath>

#include "contcore/distance.h"

namespace contcore {
namespace {

float squared_norm(const GreedyState& state, std::size_t i) {
  return state.sketch.tail(state.sketches.byte_row(i)).squared_distance;
}

// An upper bound of the canonical squared distance of two vectors, one `away` from the sketch's
// centre and one with squared norm `norm` about it.
float upper_bound(const GreedyState& state, double away, float norm) {
  const auto d = static_cast<double>(state.points.cols);
  const double sum = away + std::sqrt(static_cast<double>(norm));
  const double slack = 1 + static_cast<double>(state.points.cols + 64) * 0x1p-22;
  return static_cast<float>(sum * sum * slack + d * 0x1p-120);
}

}  // namespace

std::size_t farthest_from_mean(const GreedyState& state, const std::vector<float>& mean) {
  const VectorView& points = state.points;
  // |z − mean| ≤ |z − centre| + |centre − mean|: only points far from the sketch's centre count.
  const double away = std::sqrt(
      static_cast<double>(squared_distance(state.sketch.centre(), mean.data(), points.cols)));
  std::size_t best = 0;
  for (std::size_t i = 1; i < points.rows; ++i) {
    if (squared_norm(state, i) > squared_norm(state, best)) best = i;
  }
  const std::size_t likely = best;
  std::vector<float> scratch(points.cols);
  const auto distance_of = [&](std::size_t i) {
    return squared_distance(points.row(i, scratch.data()), mean.data(), points.cols);
  };
  float farthest = distance_of(likely);
  for (std::size_t i = 0; i < points.rows; ++i) {
    if (i == likely || upper_bound(state, away, squared_norm(state, i)) < farthest) continue;
    const float distance = distance_of(i);
    if (distance > farthest || (distance == farthest && i < best)) {
      farthest = distance;
      best = i;
    }
  }
  return best;
}

void bound_by_triangle(GreedyState& state, std::size_t c) {
  const double away = std::sqrt(
      static_cast<double>(state.sketch.tail(state.centres.sketch_of(c)).squared_distance));
  for (std::size_t i = 0; i < state.points.rows; ++i) {
    if (state.bound[i] != kPicked)
      state.bound[i] = upper_bound(state, away, squared_norm(state, i));
  }
}

void bound_by_centre(GreedyState& state, std::size_t c, Compute& compute) {
  constexpr std::size_t kBlock = 4096;
  constexpr std::size_t kRows = 64;
  const std::uint8_t* centre = state.centres.sketch_of(c);
  compute.threads().run((state.points.rows + kBlock - 1) / kBlock,
                        [&](std::size_t block, std::size_t) {
                          const std::size_t end = std::min(state.points.rows, (block + 1) * kBlock);
                          for (std::size_t first = block * kBlock; first < end; first += kRows) {
                            const std::size_t n = std::min(kRows, end - first);
                            const std::uint8_t* rows[kRows];
                            std::int32_t dots[kRows];
                            for (std::size_t i = 0; i < n; ++i)
                              rows[i] = state.sketches.byte_row(first + i);
                            kernels::step_dots(centre, rows, n, state.sketch.width(), dots);
                            for (std::size_t i = 0; i < n; ++i) {
                              float& bound = state.bound[first + i];
                              bound = std::min(bound, state.sketch.upper(rows[i], centre, dots[i]));
                            }
                          }
                        });
}

}  // namespace contcore
