#include "memory/calibration.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "contcore/distance.h"
#include "coreset/kernels.h"
#include "coreset/row_distances.h"

namespace contcore {
namespace {

constexpr std::size_t kFewImages = 20;  // a rate of 5 % needs 19
constexpr std::size_t kFewLearned = 256;

// What an image takes in a file, beside its scores.
constexpr std::size_t kImageBytes = 32;
constexpr std::size_t kHashBytes = 4;
constexpr std::size_t kSuspectBytes = 12;

// How many times as far as the images that calibrate a stranger is at least, and by how much more
// where they are few (docs/method.md).
constexpr double kMargin = 1.25;
constexpr double kMarginOfFew = 4;  // over their number

// The rank among n that a new value is above with a probability of at most `rate`, if there is one:
// it takes any of n + 1 ranks with the same.
struct ConformalRank {
  std::size_t rank;  // from 1
  double rate;       // what was asked, or that of the largest
};

ConformalRank conformal_rank(std::size_t count, double rate) {
  const auto n = static_cast<double>(count);
  const double rank = std::ceil((n + 1) * (1 - rate) - 1e-9);
  if (rank > n) return {count, 1 / (n + 1)};
  return {static_cast<std::size_t>(std::max(rank, 1.0)), rate};
}

std::size_t level_size(std::size_t vectors, std::size_t level) {
  return static_cast<std::size_t>(static_cast<double>(vectors) *
                                  std::pow(2.0, -0.5 * static_cast<double>(level)));
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  return (std::rotl(hash, 27) ^ word) * 0x9E3779B97F4A7C15U;
}

std::uint64_t finished(std::uint64_t hash) {
  hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93U;
  return std::max<std::uint64_t>(1, hash ^ hash >> 32);
}

// Images without a hash are told apart by their scores.
std::uint64_t key_of(const CalibratedImage& image) {
  if (image.hash != 0) return image.hash;
  return finished(mixed(image.vectors, std::bit_cast<std::uint32_t>(image.first)));
}

// The k-th smallest, digit by digit: no memory is needed that might not be there.
std::uint64_t kth_key(const std::vector<CalibratedImage>& images, std::size_t k) noexcept {
  std::uint64_t prefix = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    std::size_t counts[256] = {};
    for (const CalibratedImage& image : images) {
      const std::uint64_t key = key_of(image);
      if (shift == 56 || key >> (shift + 8) == prefix) ++counts[key >> shift & 255];
    }
    std::uint64_t digit = 0;
    while (k >= counts[digit]) k -= counts[digit++];
    prefix = prefix << 8 | digit;
  }
  return prefix;
}

}  // namespace

bool is_threshold(const SetThreshold& set) {
  if (set.score && !(*set.score > 0 && std::isfinite(*set.score))) return false;
  if (set.false_alarms && !(*set.false_alarms > 0 && *set.false_alarms < 1)) return false;
  return !(set.score && set.false_alarms);
}

std::vector<std::size_t> level_sizes(std::size_t vectors) {
  std::vector<std::size_t> sizes = {vectors};
  while (sizes.size() < kMostLevels) {
    const std::size_t size = level_size(vectors, sizes.size());
    if (size == 0) break;
    sizes.push_back(size);
  }
  return sizes;
}

std::vector<std::vector<float>> thinned_distances(VectorView patches, VectorView vectors,
                                                  std::span<const std::uint32_t> rows,
                                                  std::span<const std::size_t> sizes,
                                                  std::span<const std::uint32_t> always,
                                                  Compute& compute) {
  std::vector<std::vector<float>> result(sizes.size() - 1, std::vector<float>(patches.rows));
  if (result.empty()) return result;
  // Blocks of patches and vectors, so that what was read is used for all of the other.
  constexpr std::size_t kAtATime = 256;
  constexpr std::size_t kVectorsAtATime = 256;
  const std::size_t blocks = (patches.rows + kAtATime - 1) / kAtATime;
  compute.threads().run(blocks, [&](std::size_t block, std::size_t) {
    const std::size_t begin = block * kAtATime;
    const std::size_t n = std::min(kAtATime, patches.rows - begin);
    float least[kAtATime];
    std::fill(least, least + n, std::numeric_limits<float>::infinity());
    std::uint32_t from[kAtATime];
    std::iota(from, from + n, static_cast<std::uint32_t>(begin));
    std::vector<float> squared(n * kVectorsAtATime);
    const auto look_at = [&](std::span<const std::uint32_t> some) {
      for (std::size_t at = 0; at < some.size(); at += kVectorsAtATime) {
        const std::size_t count = std::min(kVectorsAtATime, some.size() - at);
        squared_distances(patches, {from, n}, vectors, some.subspan(at, count), squared.data());
        for (std::size_t i = 0; i < n; ++i) {
          const float* of = squared.data() + i * count;
          least[i] = std::min(least[i], *std::min_element(of, of + count));
        }
      }
    };
    look_at(always);
    std::size_t row = 0;
    for (std::size_t level = sizes.size() - 1; level > 0; --level) {
      look_at(rows.subspan(row, sizes[level] - row));
      row = sizes[level];
      for (std::size_t i = 0; i < n; ++i) result[level - 1][begin + i] = std::sqrt(least[i]);
    }
  });
  return result;
}

std::vector<float> mean_of_patches(VectorView patches) {
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

std::uint64_t hash_of(VectorView patches) {
  const auto* data = static_cast<const unsigned char*>(patches.data);
  const std::size_t bytes = patches.bytes();
  std::uint64_t hash = patches.cols;
  for (std::size_t at = 0; at < bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, std::min<std::size_t>(8, bytes - at));
    hash = mixed(hash, word);
  }
  return finished(hash);
}

bool CalibratedImage::knows(std::size_t vectors_now) const {
  return vectors_now > 0 && vectors_now >= level_size(vectors, level + scores.size() - 1);
}

float CalibratedImage::score_at(std::size_t vectors_now) const {
  const double halves =
      2 * std::log2(static_cast<double>(vectors) / static_cast<double>(vectors_now)) -
      static_cast<double>(level);
  if (!(halves > 0)) return scores.front();
  if (halves >= static_cast<double>(scores.size() - 1)) return scores.back();
  const auto at = static_cast<std::size_t>(halves);
  const auto part = static_cast<float>(halves - static_cast<double>(at));
  return scores[at] + part * (scores[at + 1] - scores[at]);
}

float CalibratedImage::raised_score_at(std::size_t vectors_now) const {
  const float score = score_at(vectors_now);
  // With fewer vectors all of its patches are farther from what is normal, about as the score is.
  const float grown = first > 0 ? score / first : 1.0F;
  float raised = score;
  for (std::size_t k = 0; k < to_defect.size(); ++k) {
    const float distance = suspects->distances[k] * grown;
    if (!(to_defect[k] < distance)) continue;
    const float factor = raised_distance(distance, to_defect[k]) / distance;
    raised = std::max(raised, suspects->values[k] * grown * factor);
  }
  return raised;
}

std::size_t TaskCalibration::image_bytes() const {
  std::size_t all = 0;
  for (const CalibratedImage& image : images) all += kImageBytes + 4 * image.scores.size();
  return all;
}

std::size_t TaskCalibration::most_bytes(std::size_t dimension, std::size_t number) {
  const std::size_t suspects = Suspects::kMost * (dimension * number + 16);
  return Calibration::kMostImages * (kImageBytes + 4 * kMostLevels + suspects) +
         Calibration::kMostMeans * dimension * number + Calibration::kMostLearned * kHashBytes;
}

std::size_t TaskCalibration::bytes(std::size_t number) const {
  std::size_t all = image_bytes();
  for (const std::vector<float>& mean : means) all += number * mean.size();
  return all + kHashBytes * learned.hashes.size();
}

std::size_t TaskCalibration::suspect_bytes(std::size_t number) const {
  std::size_t all = 0;
  for (const CalibratedImage& image : images) {
    if (image.suspects_kept == 0) continue;
    all += image.suspects_kept * (kSuspectBytes + number * image.suspects->patches.cols());
  }
  return all;
}

bool is_among(const std::vector<CalibratedImage>& images, std::uint64_t hash) {
  return hash != 0 && std::any_of(images.begin(), images.end(),
                                  [&](const CalibratedImage& image) { return image.hash == hash; });
}

bool LearnedImages::is_new(std::uint64_t hash) const {
  const auto upper = static_cast<std::uint32_t>(hash >> 32);
  return upper < limit && !std::binary_search(hashes.begin(), hashes.end(), upper);
}

bool LearnedImages::has(std::uint64_t hash) const {
  return std::binary_search(hashes.begin(), hashes.end(), static_cast<std::uint32_t>(hash >> 32));
}

void LearnedImages::keep(std::size_t most) noexcept {
  if (hashes.size() <= most) return;
  limit = hashes[most];
  hashes.resize(most);
}

LearnedImages LearnedImages::joined(const LearnedImages& a, const LearnedImages& b) {
  LearnedImages both;
  both.limit = std::min(a.limit, b.limit);
  std::set_union(a.hashes.begin(), a.hashes.end(), b.hashes.begin(), b.hashes.end(),
                 std::back_inserter(both.hashes));
  std::erase_if(both.hashes, [&](std::uint32_t hash) { return hash >= both.limit; });
  both.keep(Calibration::kMostLearned);
  return both;
}

LearnedImages LearnedImages::of(std::span<const std::uint64_t> hashes) {
  LearnedImages images;
  for (const std::uint64_t hash : hashes) {
    images.hashes.push_back(static_cast<std::uint32_t>(hash >> 32));
  }
  std::sort(images.hashes.begin(), images.hashes.end());
  images.hashes.erase(std::unique(images.hashes.begin(), images.hashes.end()), images.hashes.end());
  return images;
}

float nearest_other(const std::vector<float>& mean,
                    const std::vector<std::vector<float>>& means) noexcept {
  float least = 0;
  for (const std::vector<float>& known : means) {
    const float distance = squared_distance(mean.data(), known.data(), mean.size());
    if (distance > 0 && (least == 0 || distance < least)) least = distance;
  }
  return std::isfinite(least) ? std::sqrt(least) : 0;  // a file may have means that are too far
}

void TaskCalibration::thin_means(std::size_t most) noexcept {
  const std::size_t n = means.size();
  if (n <= most) return;
  float farthest = 0;  // of those that go
  for (std::size_t i = 0; i < n; ++i) {
    if (stays_when_thinned(i, most, n)) continue;
    float least = std::numeric_limits<float>::infinity();
    for (std::size_t j = 0; j < n; ++j) {
      if (!stays_when_thinned(j, most, n)) continue;
      least = std::min(least, squared_distance(means[i].data(), means[j].data(), means[i].size()));
    }
    farthest = std::max(farthest, std::sqrt(least));
  }
  thin_out(means, most);
  float known = 0;
  for (const CalibratedImage& image : images) known = std::max(known, image.strange);
  if (!(known > 0) || !(farthest > known) || !std::isfinite(farthest)) return;
  for (CalibratedImage& image : images) image.strange = farthest * (image.strange / known);
}

std::vector<const CalibratedImage*> TaskCalibration::calibrating(std::size_t vectors) const {
  std::size_t most = 0;
  for (const CalibratedImage& image : images) most = std::max<std::size_t>(most, image.vectors);
  most = std::min(most, vectors);
  std::vector<const CalibratedImage*> result;
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (!images[i].knows(vectors)) continue;
    const bool needed = images.size() - i <= kFewImages;
    if (!needed && std::size_t{2} * images[i].vectors < most) continue;
    result.push_back(&images[i]);
  }
  return result;
}

std::vector<float> TaskCalibration::scores(std::size_t vectors) const {
  std::vector<float> result;
  for (const CalibratedImage* image : calibrating(vectors)) {
    result.push_back(image->score_at(vectors));
  }
  return result;
}

std::vector<float> TaskCalibration::raised_scores(std::size_t vectors) const {
  std::vector<float> result;
  for (const CalibratedImage* image : calibrating(vectors)) {
    if (!image->to_defect.empty()) result.push_back(image->raised_score_at(vectors));
  }
  return result;
}

bool TaskCalibration::raises(std::size_t vectors) const {
  if (!defects.enough()) return false;
  const std::vector<const CalibratedImage*> all = calibrating(vectors);
  const auto telling = static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(),
                    [](const CalibratedImage* image) { return image->suspects_kept > 0; }));
  return telling > 0 && (telling == all.size() || telling >= kFewImages);
}

void TaskCalibration::measure_suspects(bool all, Compute& compute) {
  for (CalibratedImage& image : images) {
    if (!defects.enough() || image.suspects_kept == 0) {
      image.to_defect.clear();
    } else if (all || image.to_defect.size() != image.suspects_kept) {
      image.to_defect =
          defects.distances(image.suspects->patches.view().part(0, image.suspects_kept), compute);
    }
  }
}

std::size_t Calibration::budget(std::size_t memory_bytes) {
  return std::max<std::size_t>(std::size_t{1} << 20, memory_bytes / 10);
}

Calibration Calibration::copy() const {
  Calibration other;
  for (const TaskCalibration& task : tasks) {
    TaskCalibration& same = other.tasks.emplace_back();
    same.images = task.images;
    same.means = task.means;
    same.learned = task.learned;
    same.defects = task.defects.copy();
    for (const Vectors& patches : task.patches) {
      same.patches.emplace_back(patches.rows(), patches.cols(), patches.scalar());
      same.patches.back().set_rows(0, patches.view());
    }
  }
  return other;
}

TaskCalibration& Calibration::of(std::size_t task) {
  if (task >= tasks.size()) tasks.resize(task + 1);
  return tasks[task];
}

bool Calibration::has_patches() const {
  return std::any_of(tasks.begin(), tasks.end(),
                     [](const TaskCalibration& task) { return !task.patches.empty(); });
}

void choose_images(std::vector<CalibratedImage>& images, std::size_t most) noexcept {
  if (images.size() <= most) return;
  const std::uint64_t end = kth_key(images, most);
  const auto below = std::count_if(images.begin(), images.end(),
                                   [&](const CalibratedImage& i) { return key_of(i) < end; });
  std::size_t equal = most - static_cast<std::size_t>(below);  // of as many as there are
  std::erase_if(images, [&](const CalibratedImage& image) {
    const std::uint64_t key = key_of(image);
    if (key == end && equal > 0) return --equal, false;
    return key >= end;
  });
}

void Calibration::trim(std::size_t budget, std::size_t number,
                       std::span<const std::size_t> vectors) noexcept {
  const std::size_t share = budget / std::max<std::size_t>(1, vectors.size());
  std::size_t mean = 0;  // bytes of one
  for (const TaskCalibration& task : tasks) {
    if (!task.means.empty()) mean = number * task.means.front().size();
  }
  const bool room_for_means = mean + kFewImages * (kImageBytes + 4 * kMostLevels) <= share;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    TaskCalibration& task = tasks[t];
    if (!room_for_means) task.means.clear();
    std::uint32_t most = Suspects::kMost;  // of an image
    while (most > 0 && task.bytes(number) + task.suspect_bytes(number) > share) {
      --most;
      for (CalibratedImage& image : task.images) {
        image.suspects_kept = std::min(image.suspects_kept, most);
        image.to_defect.resize(std::min<std::size_t>(image.to_defect.size(), most));
      }
    }
    if (task.bytes(number) <= share) continue;
    for (CalibratedImage& image : task.images) {
      // The last level that is not below what the task has, and all that are.
      while (image.scores.size() > 1) {
        const double next = static_cast<double>(image.vectors) *
                            std::pow(2.0, -0.5 * static_cast<double>(image.level + 1));
        if (next < static_cast<double>(vectors[t])) break;
        image.scores.erase(image.scores.begin());
        ++image.level;
      }
    }
    const auto over = [&] {
      const std::size_t now = task.bytes(number);
      return now - std::min(now, share);
    };
    if (mean > 0) {
      const std::size_t fewer = std::min(task.means.size(), (over() + mean - 1) / mean);
      task.thin_means(std::max<std::size_t>(1, task.means.size() - fewer));
    }
    const auto keep_learned = [&](std::size_t least) {
      const std::size_t has = task.learned.hashes.size();
      const std::size_t fewer = std::min(has, (over() + kHashBytes - 1) / kHashBytes);
      task.learned.keep(std::max(std::min(has, least), has - fewer));
    };
    keep_learned(std::min(kFewLearned, share / 8 / kHashBytes));
    const std::size_t others = task.bytes(number) - task.image_bytes();
    const std::size_t room = share - std::min(share, others);
    if (task.image_bytes() > room) {
      choose_images(task.images, task.images.size() * room / task.image_bytes());
    }
    while (!task.images.empty() && over() > 0) task.images.erase(task.images.begin());
    keep_learned(0);
  }
}

void Calibration::trim_defects(std::size_t budget, std::size_t number, Compute& compute) {
  const auto has = [](const TaskCalibration& task) { return task.defects.patches.rows() > 0; };
  const auto sharing = static_cast<std::size_t>(std::count_if(tasks.begin(), tasks.end(), has));
  for (TaskCalibration& task : tasks) {
    if (!has(task)) continue;
    const std::size_t most = budget / sharing / (number * task.defects.patches.cols());
    if (task.defects.patches.rows() <= most) continue;
    task.defects.keep(most);
    task.measure_suspects(true, compute);
  }
}

std::optional<Threshold> Calibration::threshold(std::size_t task, std::size_t vectors,
                                                double false_alarms) const {
  if (task >= tasks.size()) return std::nullopt;
  const TaskCalibration& own = tasks[task];
  std::vector<float> sorted =
      own.raises(vectors) ? own.raised_scores(vectors) : own.scores(vectors);
  if (sorted.empty()) return std::nullopt;
  std::sort(sorted.begin(), sorted.end());
  const auto [rank, rate] = conformal_rank(sorted.size(), false_alarms);
  Threshold result;
  result.images = sorted.size();
  result.score = sorted[rank - 1];
  result.false_alarms = rate;
  return result;
}

std::optional<Memory::Recognised> Calibration::recognise(
    VectorView patches, const std::vector<bool>& is_eligible) const {
  if (patches.rows == 0) return std::nullopt;
  const std::vector<float> mean = mean_of_patches(patches);
  std::optional<Memory::Recognised> nearest;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (!is_eligible.empty() && !is_eligible[t]) continue;
    for (const std::vector<float>& known : tasks[t].means) {
      const float distance = squared_distance(mean.data(), known.data(), mean.size());
      if (nearest && distance >= nearest->distance) continue;
      nearest = {t, distance};
    }
  }
  if (nearest) nearest->distance = std::sqrt(nearest->distance);
  return nearest;
}

std::optional<Strangeness> Calibration::strangeness(std::size_t task,
                                                    const std::vector<float>& mean,
                                                    double rate) const {
  if (task >= tasks.size() || tasks[task].means.empty()) return std::nullopt;
  std::vector<float> sorted;
  for (const CalibratedImage& image : tasks[task].images) {
    if (image.strange > 0) sorted.push_back(image.strange);
  }
  if (sorted.empty()) return std::nullopt;
  std::sort(sorted.begin(), sorted.end());
  const auto [rank, stands_for] = conformal_rank(sorted.size(), rate);
  const double margin = kMargin + kMarginOfFew / static_cast<double>(sorted.size());
  Strangeness result;
  result.limit = static_cast<float>(margin * static_cast<double>(sorted[rank - 1]));
  result.rate = stands_for;
  result.images = sorted.size();
  if (mean.empty()) return result;
  float least = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& known : tasks[task].means) {
    least = std::min(least, squared_distance(mean.data(), known.data(), mean.size()));
  }
  result.distance = std::sqrt(least);
  return result;
}

}  // namespace contcore
