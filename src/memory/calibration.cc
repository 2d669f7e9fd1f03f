#include "memory/calibration.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rows.h"
#include "contcore/distance.h"
#include "coreset/kernels.h"

namespace contcore {
namespace {

constexpr std::size_t kFewPatches = 4;  // images are given up before patches fall below this
constexpr std::size_t kFewImages = 20;  // but not below this: a rate of 5 % needs 19

std::vector<float> mean_of(VectorView patches) {
  std::vector<double> sums(patches.cols, 0.0);
  std::vector<float> scratch(patches.cols);
  for (std::size_t i = 0; i < patches.rows; ++i) {
    const float* row = patches.row(i, scratch.data());
    kernels::add_columns(&row, 1, patches.cols, sums.data());
  }
  std::vector<float> mean(patches.cols);
  for (std::size_t j = 0; j < mean.size(); ++j) {
    mean[j] = static_cast<float>(sums[j] / static_cast<double>(patches.rows));
  }
  return mean;
}

// By turns the farthest from each memory of those left.
std::vector<std::uint32_t> telling(const std::vector<std::vector<float>>& distances,
                                   std::size_t count) {
  const std::size_t patches = distances[0].size();
  std::vector<bool> chosen(patches, false);
  std::vector<std::uint32_t> result;
  while (result.size() < std::min(count, patches)) {
    const std::vector<float>& from = distances[result.size() % distances.size()];
    std::size_t best = patches;
    for (std::size_t i = 0; i < patches; ++i) {
      if (!chosen[i] && (best == patches || from[i] > from[best])) best = i;
    }
    chosen[best] = true;
    result.push_back(static_cast<std::uint32_t>(best));
  }
  return result;
}

// `count` of the images of a task, evenly spread over the order they came in.
std::vector<std::size_t> spread(const std::vector<std::size_t>& images, std::size_t count) {
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(images[i * images.size() / count]);
  return some;
}

}  // namespace

bool is_threshold(const SetThreshold& set) {
  if (set.score && !(*set.score > 0 && std::isfinite(*set.score))) return false;
  if (set.false_alarms && !(*set.false_alarms > 0 && *set.false_alarms < 1)) return false;
  return !(set.score && set.false_alarms);
}

std::size_t Calibration::budget(std::size_t capacity) {
  return std::max<std::size_t>(1000, capacity / 10);
}

Calibration Calibration::copy() const {
  Calibration other;
  for (const HeldOut& image : images) {
    HeldOut same{image.task, image.first_score, image.score, image.mean, {}};
    same.patches = Vectors(image.patches.rows(), image.patches.cols());
    std::copy_n(image.patches.data(), image.patches.rows() * image.patches.cols(),
                same.patches.data());
    other.images.push_back(std::move(same));
  }
  return other;
}

HeldOut hold_out(VectorView patches, const std::vector<std::vector<float>>& distances,
                 std::int32_t task) {
  HeldOut image;
  image.task = task;
  image.score = image.first_score = *std::max_element(distances[0].begin(), distances[0].end());
  image.mean = mean_of(patches);
  image.patches = gather(patches, telling(distances, Calibration::kMostPatches));
  return image;
}

std::size_t Calibration::room(std::int32_t task) const {
  return kMostImages - std::min(kMostImages, scores(task).size());
}

void Calibration::trim(std::size_t budget, std::size_t tasks) {
  const std::size_t share = budget / std::max<std::size_t>(1, tasks);
  std::vector<std::size_t> kept;
  for (std::size_t task = 0; task < tasks; ++task) {
    std::vector<std::size_t> own;
    for (std::size_t i = 0; i < images.size(); ++i) {
      if (images[i].task == static_cast<std::int32_t>(task)) own.push_back(i);
    }
    std::size_t most = std::max(share / (1 + kFewPatches), std::min(kFewImages, share / 2));
    most = std::min(most, kMostImages);
    if (own.size() > most) own = spread(own, most);
    if (own.empty()) continue;
    const std::size_t patches = std::max<std::size_t>(1, share / own.size() - 1);
    for (const std::size_t i : own) {
      Vectors& all = images[i].patches;
      if (all.rows() <= patches) continue;
      std::vector<std::uint32_t> first(patches);
      std::iota(first.begin(), first.end(), 0U);
      all = gather(all.view(), first);
    }
    kept.insert(kept.end(), own.begin(), own.end());
  }
  std::sort(kept.begin(), kept.end());
  std::vector<HeldOut> left;
  for (const std::size_t i : kept) left.push_back(std::move(images[i]));
  images = std::move(left);
}

std::vector<float> Calibration::scores(std::int32_t task) const {
  std::vector<float> result;
  for (const HeldOut& image : images) {
    if (image.task == task) result.push_back(image.score);
  }
  return result;
}

std::optional<Threshold> Calibration::threshold(std::int32_t task, double false_alarms) const {
  std::vector<float> sorted = scores(task);
  if (sorted.empty()) return std::nullopt;
  std::sort(sorted.begin(), sorted.end());
  // A new image is as likely to take any rank among n + 1: above the k-th smallest of the n with
  // probability 1 − k / (n + 1).
  const double n = static_cast<double>(sorted.size());
  const double rank = std::ceil((n + 1) * (1 - false_alarms) - 1e-9);
  Threshold result;
  result.images = sorted.size();
  if (rank > n) {
    result.score = sorted.back();
    result.false_alarms = 1 / (n + 1);
  } else {
    result.score = sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
    result.false_alarms = false_alarms;
  }
  return result;
}

std::optional<std::size_t> Calibration::recognise(VectorView patches) const {
  if (images.empty() || patches.rows == 0) return std::nullopt;
  const std::vector<float> mean = mean_of(patches);
  const HeldOut* nearest = nullptr;
  float least = 0;
  for (const HeldOut& image : images) {
    const float distance = squared_distance(mean.data(), image.mean.data(), mean.size());
    if (nearest != nullptr && distance >= least) continue;
    nearest = &image;
    least = distance;
  }
  return static_cast<std::size_t>(nearest->task);
}

}  // namespace contcore
