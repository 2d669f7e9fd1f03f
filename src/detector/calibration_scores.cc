// In: images that are about to be learned. Out: what they would have scored. Fails as sampling
// does.
#include "detector/calibration_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/peak_memory.h"
#include "base/rows.h"
#include "contcore/greedy.h"
#include "contcore/nearest.h"
#include "memory/calibration.h"
#include "memory/contents.h"

namespace contcore {
namespace {

constexpr std::size_t kFolds = 5;
constexpr std::size_t kMostScored = Calibration::kMostImages;
// Patches of an image whose distances to fewer vectors are looked at: for the score of patches the
// farthest, since the others hardly become the farthest; for that of the map, which is of whole
// neighbourhoods, about so many all over the image.
constexpr std::size_t kFarthest = 64;
constexpr std::size_t kSpread = 256;
constexpr std::size_t kFarthestOnline = 32;
constexpr std::size_t kSpreadOnline = 64;
// A fold is sampled from every other row and column of patches where no more than this part of them
// is taken: neighbours overlap.
constexpr double kSparse = 1.0 / 16;

std::vector<std::uint32_t> farthest(std::span<const float> distances, std::size_t count) {
  std::vector<std::uint32_t> places(distances.size());
  std::iota(places.begin(), places.end(), 0U);
  count = std::min(count, places.size());
  std::nth_element(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count) - 1,
                   places.end(), [&](std::uint32_t a, std::uint32_t b) {
                     return distances[a] != distances[b] ? distances[a] > distances[b] : a < b;
                   });
  places.resize(count);
  return places;
}

// Every so many rows and columns, so that there are about `count`.
std::size_t step_for(const PatchGrid& grid, std::size_t count) {
  const double each = static_cast<double>(grid.rows * grid.columns) / static_cast<double>(count);
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(std::sqrt(each))));
}

std::vector<std::uint32_t> spread_over(const PatchGrid& grid, std::size_t step) {
  std::vector<std::uint32_t> places;
  for (std::size_t y = 0; y < grid.rows; y += step) {
    for (std::size_t x = 0; x < grid.columns; x += step) {
      places.push_back(static_cast<std::uint32_t>(y * grid.columns + x));
    }
  }
  return places;
}

// The score by all vectors, then by ever fewer. thinned(places) are the distances of some patches
// to these. By the map's score, a patch that is not looked at moves away as far as the one that is
// beside it; by that of patches it stays.
template <typename ThinnedOf>
std::vector<float> level_scores(std::vector<float> distances, const PatchGrid& grid, Score score,
                                std::size_t farthest_count, std::size_t spread_count,
                                const ThinnedOf& thinned_of) {
  std::vector<float> scores = {image_score(distances, grid, score)};
  if (score == Score::kPatch) {
    const std::vector<std::uint32_t> places = farthest(distances, farthest_count);
    for (const std::vector<float>& level : thinned_of(places)) {
      for (std::size_t i = 0; i < places.size(); ++i) distances[places[i]] = level[i];
      scores.push_back(image_score(distances, grid, score));
    }
    return scores;
  }
  const std::size_t step = step_for(grid, spread_count);
  const std::vector<std::uint32_t> places = spread_over(grid, step);
  const std::size_t across = (grid.columns + step - 1) / step;
  std::vector<float> moved(distances.size());
  for (const std::vector<float>& level : thinned_of(places)) {
    for (std::size_t y = 0; y < grid.rows; ++y) {
      for (std::size_t x = 0; x < grid.columns; ++x) {
        const std::size_t i = y / step * across + x / step;
        const std::size_t at = y * grid.columns + x;
        moved[at] = distances[at] + (level[i] - distances[places[i]]);
      }
    }
    scores.push_back(std::max(scores.back(), image_score(moved, grid, score)));
  }
  return scores;
}

// Every stride-th row and column of the patches of some images. Each image begins at another place,
// so that products that always lie alike are seen everywhere.
std::vector<std::size_t> sparse_rows(const TrainingSet& set, const std::vector<std::size_t>& images,
                                     std::size_t stride) {
  std::vector<std::size_t> rows;
  for (const std::size_t i : images) {
    const PatchGrid& grid = set.images[i].grid;
    for (std::size_t y = i % std::min(stride, grid.rows); y < grid.rows; y += stride) {
      for (std::size_t x = i / stride % std::min(stride, grid.columns); x < grid.columns;
           x += stride) {
        rows.push_back(set.begin(i) + y * grid.columns + x);
      }
    }
  }
  return rows;
}

std::size_t stride_for(const TrainingSet& set, const LearnHow& how) {
  const std::size_t room = how.memory_limit != 0 ? how.memory_limit / 4 : machine_memory() / 8;
  std::size_t stride = how.p > kSparse ? 1 : 2;
  while (set.features.bytes() / (stride * stride) > room) ++stride;
  return stride;
}

// What the memory would have of the task, had it learned these images: in the order that smaller
// shares leave it the first of.
Vectors fold_order(const TrainingSet& set, const std::vector<std::size_t>& images,
                   const Memory::Base& base, std::size_t vectors, const LearnHow& how,
                   Compute& compute) {
  GreedyResult sampled;
  Vectors points(0, set.features.cols);
  if (!images.empty()) {
    points = gather(set.features, sparse_rows(set, images, stride_for(set, how)));
    GreedyOptions options;
    // As many as all images give: they stand a little less densely here.
    options.count = std::clamp<std::size_t>(vectors, 1, picks_of(how.p, set.features.rows));
    options.memory_limit = how.memory_limit - std::min(how.memory_limit / 2, points.view().bytes());
    options.points_name = fmt::format("task '{}'", how.task);
    options.base_name = "memory";
    options.progress = how.progress;
    sampled = greedy_sample(points.view(), base.vectors.view(), options, compute);
  }
  const std::size_t known = base.radii.size();
  std::vector<float> radii = base.radii;
  radii.insert(radii.end(), sampled.radii.begin(), sampled.radii.end());
  std::vector<std::size_t> order(radii.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return radii[a] > radii[b]; });
  order.resize(std::min(order.size(), vectors));
  Vectors result(order.size(), set.features.cols,
                 set.features.scalar == Scalar::kUint8 ? Scalar::kUint8 : Scalar::kFloat32);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const VectorView row =
        order[i] < known
            ? base.vectors.view().part(order[i], 1)
            : points.view().part(static_cast<std::size_t>(sampled.picks[order[i] - known]), 1);
    result.set_rows(i, row);
  }
  return result;
}

}  // namespace

std::vector<ImageScores> fold_scores(const Memory& memory, const TrainingSet& set,
                                     const LearnHow& how, Compute& compute) {
  const std::size_t n = set.images.size();
  const std::size_t count = std::min(n, kMostScored);
  const std::size_t folds = std::min(kFolds, count);
  const Score score = score_of(memory.source);
  const Memory::Base base = memory.base_of(how.task);
  const std::size_t vectors = memory.vectors_after(how.task, picks_of(how.p, set.features.rows));
  std::vector<ImageScores> result(count);
  for (std::size_t fold = 0; fold < folds; ++fold) {
    std::vector<std::size_t> scored;  // numbers among the chosen
    std::vector<std::size_t> others;
    for (std::size_t i = 0, k = 0; i < n; ++i) {
      const bool chosen = k < count && i == k * n / count;
      if (chosen && k % folds == fold) {
        scored.push_back(k);
      } else {
        others.push_back(i);
      }
      k += chosen ? 1 : 0;
    }
    const double part = 1.0 / static_cast<double>(folds);
    const Progress progress = part_of(how.progress, static_cast<double>(fold) * part,
                                      static_cast<double>(fold + 1) * part);
    LearnHow sampling = how;
    sampling.progress = part_of(progress, 0.0, 0.5);
    const Vectors order = fold_order(set, others, base, vectors, sampling, compute);
    if (order.rows() == 0) return {};
    const NearestIndex index(order.view(), compute);
    const std::vector<std::size_t> sizes = level_sizes(order.rows());
    std::vector<std::uint32_t> rows(order.rows());
    std::iota(rows.begin(), rows.end(), 0U);
    compute.threads().run(scored.size(), [&](std::size_t i, std::size_t worker) {
      if (worker == 0) {
        report(part_of(progress, 0.5, 1.0),
               static_cast<double>(i) / static_cast<double>(scored.size()));
      }
      Compute one(1);
      const std::size_t at = scored[i] * n / count;
      const VectorView patches = set.image(at);
      std::vector<float> distances = index.search(patches, 1, one, "patches").distances;
      const auto thinned = [&](const std::vector<std::uint32_t>& places) {
        return thinned_distances(gather(patches, places).view(), order.view(), rows, sizes, one);
      };
      result[scored[i]] = {vectors, level_scores(std::move(distances), set.images[at].grid, score,
                                                 kFarthest, kSpread, thinned)};
    });
  }
  return result;
}

ImageScores next_scores(const Memory& memory, const Patches& patches, const std::string& task,
                        std::span<const float> distances, Compute& compute) {
  std::size_t vectors = 0;
  const auto thinned = [&](const std::vector<std::uint32_t>& places) {
    Memory::Thinned made =
        memory.thinned(gather(patches.vectors.view(), places).view(), task, compute);
    vectors = made.vectors;
    return std::move(made.distances);
  };
  std::vector<float> scores =
      level_scores({distances.begin(), distances.end()}, patches.grid(), score_of(memory.source),
                   kFarthestOnline, kSpreadOnline, thinned);
  return {vectors, std::move(scores)};
}

}  // namespace contcore
