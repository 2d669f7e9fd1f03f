#include "contcore/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "contcore/error.h"
#include "evaluate/ranking.h"
#include "evaluate/thresholds.h"

namespace contcore {
namespace {

void check(std::span<const float> scores, const char* kind) {
  const auto nan =
      std::find_if(scores.begin(), scores.end(), [](float s) { return std::isnan(s); });
  if (nan == scores.end()) return;
  throw Error(Error::Kind::kUsage,
              fmt::format("score {} of the {} is NaN and has no rank; leave out what has no score",
                          nan - scores.begin(), kind));
}

}  // namespace

// The area is Σ over the defects of the good ones below and half of those at the same score, out of
// all pairs. Precision, recall and F1 with p defects and q good ones at or above the threshold, of
// d defects in all: p / (p + q), p / d, 2 p / (p + q + d). All sums are of whole and half numbers
// up to the last division, or of numbers from 0 to 1.
Ranking rank(const Thresholds& thresholds) {
  const auto good = static_cast<double>(thresholds.good());
  const auto defects = static_cast<double>(thresholds.defects());
  if (good == 0 || defects == 0) return {};
  double pairs = 0;
  double precision = 0;
  double f1_max = 0;
  thresholds.for_each_level([&](const Thresholds::Level& level) {
    const auto here = static_cast<double>(level.at.size());
    const auto caught = static_cast<double>(level.defects);
    const auto false_alarms = static_cast<double>(level.good);
    pairs += here * (good - (static_cast<double>(level.good_above) + false_alarms) / 2);
    precision += here * (caught / (caught + false_alarms));
    f1_max = std::max(f1_max, 2 * caught / (caught + false_alarms + defects));
  });
  return {pairs / (good * defects), precision / defects, f1_max};
}

Ranking rank(std::span<const float> good, std::span<const float> defect, Compute& compute) {
  check(good, "good");
  check(defect, "defects");
  std::vector<std::uint64_t> words(defect.size());
  std::transform(defect.begin(), defect.end(), words.begin(), [](float s) { return scored(s, 0); });
  Thresholds thresholds(std::move(words), compute);
  constexpr std::size_t kBlock = Thresholds::kBlock;
  const auto block = [&](std::size_t i) {
    return good.subspan(i * kBlock, std::min(kBlock, good.size() - i * kBlock));
  };
  thresholds.count((good.size() + kBlock - 1) / kBlock, block, compute);
  return rank(thresholds);
}

}  // namespace contcore
