#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "contcore/error.h"
#include "contcore/metrics.h"
#include "evaluate/ranking.h"
#include "evaluate/regions.h"
#include "evaluate/thresholds.h"

namespace contcore {
namespace {

constexpr std::size_t kBlock = Thresholds::kBlock;
constexpr double kMostFalsePositives = 0.3;

bool has_its_size(std::size_t width, std::size_t height, std::size_t values) {
  if (width == 0 || height == 0) return values == 0;
  return values % width == 0 && values / width == height;
}

void check(const Map& map) {
  if (!has_its_size(map.width, map.height, map.values.size())) {
    throw Error(Error::Kind::kUsage,
                fmt::format("a map of {} × {} has {} values; it needs one for each pixel",
                            map.width, map.height, map.values.size()));
  }
  const auto nan = std::find_if(map.values.begin(), map.values.end(),
                                [](float value) { return std::isnan(value); });
  if (nan == map.values.end()) return;
  const auto at = static_cast<std::size_t>(nan - map.values.begin());
  throw Error(
      Error::Kind::kUsage,
      fmt::format("a map has NaN at column {}, row {}, which has no rank; leave the image out",
                  at % map.width, at / map.width));
}

void check(const Map& map, const Mask& mask) {
  check(map);
  if (mask.width == map.width && mask.height == map.height &&
      mask.values.size() == map.values.size()) {
    return;
  }
  throw Error(
      Error::Kind::kUsage,
      fmt::format("a mask of {} × {} with {} values does not fit a map of {} × {}; bring it "
                  "to the map's size first",
                  mask.width, mask.height, mask.values.size(), map.width, map.height));
}

// The area under straight lines from (0, 0) on, as far as x = kMostFalsePositives.
class Area {
 public:
  void line_to(double x, double y) {
    if (x_ < kMostFalsePositives) {
      const double end = std::min(x, kMostFalsePositives);
      const double y_end = x > end ? y_ + (y - y_) * (end - x_) / (x - x_) : y;
      sum_ += (end - x_) * (y_ + y_end) / 2;
    }
    x_ = x;
    y_ = y;
  }
  double sum() const { return sum_; }

 private:
  double x_ = 0;
  double y_ = 0;
  double sum_ = 0;
};

// Between two scores of defects only the rate of false positives grows, hence the level line before
// each score.
std::optional<double> aupro(const Thresholds& thresholds, std::span<const std::uint64_t> regions) {
  const auto good = static_cast<double>(thresholds.good());
  if (good == 0 || regions.empty()) return {};
  Area area;
  double overlap = 0;
  thresholds.for_each_level([&](const Thresholds::Level& level) {
    area.line_to(static_cast<double>(level.good_above) / good, overlap);
    for (const std::uint64_t pixel : level.at) {
      const auto size = static_cast<double>(regions[static_cast<std::uint32_t>(pixel)]);
      overlap += 1 / (size * static_cast<double>(regions.size()));
    }
    area.line_to(static_cast<double>(level.good) / good, overlap);
  });
  area.line_to(1, overlap);
  return area.sum() / kMostFalsePositives;
}

}  // namespace

void PixelScores::add_good(std::span<const float> values) {
  while (!values.empty()) {
    if (good_.empty() || good_.back().size() == kBlock) good_.emplace_back().reserve(kBlock);
    std::vector<float>& block = good_.back();
    const std::size_t n = std::min(values.size(), kBlock - block.size());
    block.insert(block.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n));
    values = values.subspan(n);
  }
}

void PixelScores::add(const Map& map) {
  check(map);
  add_good(map.values);
}

void PixelScores::add(const Map& map, const Mask& mask) {
  check(map, mask);
  const std::span<const float> values(map.values);
  const std::size_t known = region_pixels_.size();
  std::size_t at = 0;
  for (const Run& run : connected_runs(mask)) {
    add_good(values.subspan(at, run.begin - at));
    at = run.end;
    const std::size_t region = known + run.region;
    region_pixels_.resize(std::max(region_pixels_.size(), region + 1));
    region_pixels_[region] += run.end - run.begin;
    region_.insert(region_.end(), run.end - run.begin, static_cast<std::uint32_t>(region));
    defect_.insert(defect_.end(), map.values.begin() + static_cast<std::ptrdiff_t>(run.begin),
                   map.values.begin() + static_cast<std::ptrdiff_t>(run.end));
  }
  add_good(values.subspan(at));
}

PixelScores::Measures PixelScores::measure(Compute& compute) const {
  std::vector<std::uint64_t> words(defect_.size());
  std::transform(defect_.begin(), defect_.end(), region_.begin(), words.begin(), scored);
  Thresholds thresholds(std::move(words), compute);
  const auto block = [&](std::size_t i) { return std::span<const float>(good_[i]); };
  thresholds.count(good_.size(), block, compute);
  return {rank(thresholds), aupro(thresholds, region_pixels_)};
}

}  // namespace contcore
