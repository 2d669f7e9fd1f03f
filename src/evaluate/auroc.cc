#include "evaluate/auroc.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

namespace contcore {

double auroc(std::span<const float> scores, const std::vector<bool>& positive) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double below = 0;  // negatives with a smaller score
  double wins = 0;
  double positives = 0;
  for (std::size_t i = 0; i < order.size();) {
    double tied_positive = 0;
    double tied_negative = 0;
    const float score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i) {
      ++(positive[order[i]] ? tied_positive : tied_negative);
    }
    wins += tied_positive * (below + tied_negative / 2);
    below += tied_negative;
    positives += tied_positive;
  }
  if (positives == 0 || below == 0) return std::numeric_limits<double>::quiet_NaN();
  return wins / (positives * below);
}

}  // namespace contcore
