#include "detector/strangers.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace contcore {
namespace {

// Half of a normal distribution lies within so many deviations of its middle.
constexpr double kQuartile = 0.6745;
// Scores of good images of real products spread by 5 to 10 %. Where most are closer by chance, the
// others are not strangers for that.
constexpr double kLeastSpread = 0.07;

double log_of(float score) { return std::log(std::max(static_cast<double>(score), 1e-30)); }

}  // namespace

UsualScores usual_scores(std::span<const float> scores) {
  if (scores.empty()) return {};
  std::vector<double> logs;
  for (const float score : scores) logs.push_back(log_of(score));
  std::sort(logs.begin(), logs.end());
  const std::size_t half = logs.size() / 2 + 1;
  std::size_t narrowest = 0;
  const auto width = [&](std::size_t i) { return logs[i + half - 1] - logs[i]; };
  for (std::size_t i = 1; i + half <= logs.size(); ++i) {
    if (width(i) < width(narrowest)) narrowest = i;
  }
  return {logs[narrowest] + width(narrowest) / 2,
          std::max(kLeastSpread, width(narrowest) / 2 / kQuartile)};
}

double strangeness(const UsualScores& usual, float score) {
  return (log_of(score) - usual.middle) / usual.spread;
}

}  // namespace contcore
