// In: images that are about to be learned. Out: what they would have scored. Fails as sampling
// does.
#include "detector/calibration_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "base/peak_memory.h"
#include "base/rows.h"
#include "contcore/defects.h"
#include "contcore/error.h"
#include "contcore/greedy.h"
#include "contcore/nearest.h"
#include "device/one_each.h"
#include "device/or_processor.h"
#include "memory/calibration.h"
#include "memory/consolidate.h"
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
// is taken, from every third at the second: neighbours overlap.
constexpr double kSparse = 1.0 / 16;
constexpr double kVerySparse = 1.0 / 64;
// Fewer than these are all looked at: among few patches the rare ones would be missing, which
// greedy sampling of all of them takes first.
constexpr std::size_t kManyPatches = 20000;
constexpr std::size_t kMostStrides = 8;  // that are tried

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
// to these. By the map's score, a patch that is not looked at is at least as far as the one that is
// beside it (one that is far already hardly moves); by that of patches it stays.
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
        moved[at] = std::max(distances[at], level[i]);
      }
    }
    scores.push_back(std::max(scores.back(), image_score(moved, grid, score)));
  }
  return scores;
}

// The strangest places of an image, none beside another: what it scores is the value of the first,
// and known defects may make one of the others the first.
std::shared_ptr<const Suspects> suspects_of(VectorView patches, std::span<const float> distances,
                                            const PatchGrid& grid, Score score) {
  constexpr std::size_t kApart = 2;  // cells
  std::vector<float> values = score == Score::kPatch
                                  ? std::vector<float>(distances.begin(), distances.end())
                                  : cell_values(distances, grid);
  auto suspects = std::make_shared<Suspects>();
  std::vector<std::uint32_t> places;
  while (places.size() < Suspects::kMost) {
    const auto peak = std::max_element(values.begin(), values.end());
    if (!(*peak > 0)) break;
    const auto at = static_cast<std::size_t>(peak - values.begin());
    places.push_back(static_cast<std::uint32_t>(at));
    suspects->distances.push_back(distances[at]);
    suspects->values.push_back(*peak);
    const std::size_t r = at / grid.columns, c = at % grid.columns;
    for (std::size_t y = r - std::min(r, kApart); y <= std::min(grid.rows - 1, r + kApart); ++y) {
      const std::size_t first = c - std::min(c, kApart);
      const std::size_t last = std::min(grid.columns - 1, c + kApart);
      for (std::size_t x = first; x <= last; ++x) values[y * grid.columns + x] = 0;
    }
  }
  suspects->patches = gather(patches, places);
  return suspects;
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
  std::size_t stride = how.p > kSparse ? 1 : how.p > kVerySparse ? 2 : 3;
  while (stride > 1 && set.features.rows / (stride * stride) < kManyPatches) --stride;
  while (set.features.bytes() / (stride * stride) > room) ++stride;
  return stride;
}

bool is_in(const std::vector<std::uint64_t>& hashes, std::uint64_t hash) {
  return std::find(hashes.begin(), hashes.end(), hash) != hashes.end();
}

// Those with the smallest hashes, of equal images one: a choice by chance that is the same when the
// folder comes again, also with some new images in it.
std::vector<std::size_t> to_score(const std::vector<std::uint64_t>& hashes) {
  std::vector<std::size_t> images(hashes.size());
  std::iota(images.begin(), images.end(), std::size_t{0});
  std::stable_sort(images.begin(), images.end(),
                   [&](std::size_t a, std::size_t b) { return hashes[a] < hashes[b]; });
  const auto same = [&](std::size_t a, std::size_t b) { return hashes[a] == hashes[b]; };
  images.erase(std::unique(images.begin(), images.end(), same), images.end());
  images.resize(std::min(images.size(), kMostScored));
  std::sort(images.begin(), images.end());
  return images;
}

// A greedy sample of some images' patches, from fewer of them where memory is tight. Nothing where
// it is too tight for any: the task is then learned without these scores.
std::optional<GreedyResult> fold_sample(const TrainingSet& set,
                                        const std::vector<std::size_t>& images,
                                        const Memory::Base& base, std::size_t vectors,
                                        const LearnHow& how, Compute& compute, Vectors& points) {
  const std::size_t first = stride_for(set, how);
  for (std::size_t stride = first; stride < first + kMostStrides; ++stride) {
    points = gather(set.features, sparse_rows(set, images, stride));
    GreedyOptions options;
    // As many as all images give: they stand a little less densely here.
    options.count = std::clamp<std::size_t>(vectors, 1, picks_of(how.p, set.features.rows));
    options.memory_limit = how.memory_limit - std::min(how.memory_limit / 2, points.view().bytes());
    options.points_name = fmt::format("task '{}'", how.task);
    options.base_name = "memory";
    options.progress = how.progress;
    try {
      return greedy_sample(points.view(), base.vectors.view(), options, compute);
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kInput) throw;
    }
  }
  return std::nullopt;
}

// What the memory would have for the task, had it learned some images.
struct FoldMemory {
  Vectors vectors;      // the task's own in the order that smaller shares leave it the first of
  std::size_t own = 0;  // those; the others behind them are of other tasks
};

FoldMemory fold_memory(const Memory& memory, const TrainingSet& set,
                       const std::vector<std::size_t>& images, const Memory::Base& base,
                       std::size_t vectors, const LearnHow& how, Compute& compute) {
  GreedyResult sampled;
  Vectors points(0, set.features.cols);
  if (!images.empty()) {
    auto made = fold_sample(set, images, base, vectors, how, compute, points);
    if (!made) return {};
    sampled = std::move(*made);
  }
  const std::size_t known = base.radii.size();
  const std::size_t all = known + sampled.picks.size();
  const auto row_of = [&](std::size_t i) {
    return i < known ? base.vectors.view().part(i, 1)
                     : points.view().part(static_cast<std::size_t>(sampled.picks[i - known]), 1);
  };
  const auto gathered = [&](const std::vector<std::uint32_t>& order) {
    Vectors result(order.size(), set.features.cols, memory.scalar());
    for (std::size_t i = 0; i < order.size(); ++i) result.set_rows(i, row_of(order[i]));
    return result;
  };
  std::vector<std::uint32_t> order(all);
  std::iota(order.begin(), order.end(), 0U);
  const bool shares = memory.consolidation().rule == Consolidate::Rule::kShare;
  if (!shares && all > memory.capacity()) {
    order = consolidate(gathered(order).view(), memory.capacity(), memory.consolidation().q, 0,
                        compute, {})
                .kept;
  }
  const auto is_own = [&](std::uint32_t i) { return i >= known || base.own[i]; };
  const auto radius = [&](std::uint32_t i) {
    return i < known ? base.radii[i] : sampled.radii[i - known];
  };
  const auto others = std::stable_partition(order.begin(), order.end(), is_own);
  std::stable_sort(order.begin(), others,
                   [&](std::uint32_t a, std::uint32_t b) { return radius(a) > radius(b); });
  if (shares) order.resize(std::min(order.size(), vectors));  // all are its own
  return {gathered(order),
          static_cast<std::size_t>(std::count_if(order.begin(), order.end(), is_own))};
}

// What tells the images from each other and from others (ImageScores::image).
std::vector<std::uint64_t> hashes_of(const TrainingSet& set, Compute& compute) {
  std::vector<std::uint64_t> hashes(set.images.size());
  compute.threads().run(hashes.size(),
                        [&](std::size_t i, std::size_t) { hashes[i] = hash_of(set.image(i)); });
  return hashes;
}

FoldScores scores_of_folds(const Memory& memory, const TrainingSet& set, const LearnHow& how,
                           Compute& compute) {
  const std::vector<std::uint64_t> hashes = hashes_of(set, compute);
  const std::vector<std::size_t> chosen = to_score(hashes);
  const std::size_t folds = std::min(kFolds, chosen.size());
  const Score score = score_of(memory.source);
  const Memory::Base base = memory.base_of(how.task);
  const std::size_t vectors = memory.vectors_after(how.task, picks_of(how.p, set.features.rows));
  std::vector<ImageScores> result(chosen.size());
  for (std::size_t fold = 0; fold < folds; ++fold) {
    std::vector<std::size_t> scored;  // numbers among the chosen
    std::vector<std::uint64_t> left_out;
    for (std::size_t k = fold; k < chosen.size(); k += folds) {
      // One that was learned would score too little; it keeps its score, if it has one.
      if (!memory.is_new(how.task, hashes[chosen[k]])) continue;
      scored.push_back(k);
      left_out.push_back(hashes[chosen[k]]);
    }
    if (scored.empty()) continue;
    std::vector<std::size_t> others;
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      if (!is_in(left_out, hashes[i])) others.push_back(i);
    }
    const double part = 1.0 / static_cast<double>(folds);
    const Progress progress = part_of(how.progress, static_cast<double>(fold) * part,
                                      static_cast<double>(fold + 1) * part);
    LearnHow sampling = how;
    sampling.progress = part_of(progress, 0.0, 0.5);
    const FoldMemory made = fold_memory(memory, set, others, base, vectors, sampling, compute);
    if (made.own == 0) continue;
    const VectorView all = made.vectors.view();
    const NearestIndex index(all, compute);
    const std::vector<std::size_t> sizes = level_sizes(made.own);
    std::vector<std::uint32_t> rows(all.rows);
    std::iota(rows.begin(), rows.end(), 0U);
    const std::span<const std::uint32_t> own(rows.data(), made.own);
    const std::span<const std::uint32_t> always(rows.data() + made.own, rows.size() - made.own);
    OneEach alone(compute);
    compute.threads().run(scored.size(), [&](std::size_t i, std::size_t worker) {
      if (worker == 0) {
        report(part_of(progress, 0.5, 1.0),
               static_cast<double>(i) / static_cast<double>(scored.size()));
      }
      Compute& one = alone[worker];
      const std::size_t at = chosen[scored[i]];
      const VectorView patches = set.image(at);
      std::vector<float> distances = index.search(patches, 1, one, "patches").distances;
      const auto thinned = [&](const std::vector<std::uint32_t>& places) {
        return thinned_distances(gather(patches, places).view(), all, own, sizes, always, one);
      };
      auto suspects = suspects_of(patches, distances, set.images[at].grid, score);
      result[scored[i]] = {made.own,
                           level_scores(std::move(distances), set.images[at].grid, score, kFarthest,
                                        kSpread, thinned),
                           hashes[at], std::move(suspects), mean_of_patches(patches)};
    });
  }
  FoldScores scored{hashes, {}, {}};
  for (std::size_t k = 0; k < chosen.size(); ++k) {
    if (result[k].scores.empty()) continue;
    scored.images.push_back(chosen[k]);
    scored.scores.push_back(std::move(result[k]));
  }
  return scored;
}

std::vector<float> scores_by_folds(const Memory& memory, const TrainingSet& set,
                                   const FoldScores& folds, const std::vector<std::size_t>& images,
                                   const LearnHow& how, Compute& compute) {
  if (images.empty()) return {};
  const std::size_t vectors = memory.vectors_after(how.task, picks_of(how.p, set.features.rows));
  const FoldMemory made =
      fold_memory(memory, set, folds.images, memory.base_of(how.task), vectors, how, compute);
  if (made.own == 0) return {};
  const NearestIndex index(made.vectors.view(), compute);
  const Score score = score_of(memory.source);
  std::vector<float> scores(images.size());
  OneEach alone(compute);
  compute.threads().run(images.size(), [&](std::size_t i, std::size_t worker) {
    if (worker == 0) {
      report(how.progress, static_cast<double>(i) / static_cast<double>(images.size()));
    }
    const auto found = index.search(set.image(images[i]), 1, alone[worker], "patches");
    scores[i] = image_score(found.distances, set.images[images[i]].grid, score);
  });
  return scores;
}

}  // namespace

FoldScores fold_scores(const Memory& memory, const TrainingSet& set, const LearnHow& how,
                       Compute& compute) {
  return or_processor(compute,
                      [&](Compute& with) { return scores_of_folds(memory, set, how, with); });
}

std::vector<float> scores_by_others(const Memory& memory, const TrainingSet& set,
                                    const FoldScores& folds, const std::vector<std::size_t>& images,
                                    const LearnHow& how, Compute& compute) {
  return or_processor(compute, [&](Compute& with) {
    return scores_by_folds(memory, set, folds, images, how, with);
  });
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
  return {vectors, std::move(scores), 0,
          suspects_of(patches.vectors.view(), distances, patches.grid(), score_of(memory.source)),
          mean_of_patches(patches.vectors.view())};
}

}  // namespace contcore
