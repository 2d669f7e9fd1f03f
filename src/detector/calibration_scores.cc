// In: images that are about to be learned. Out: what they would have scored. Fails as sampling
// does.
#include "detector/calibration_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
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
#include "coreset/greedy_budget.h"
#include "device/one_each.h"
#include "device/or_processor.h"
#include "device/packing.h"
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
constexpr std::size_t kMostTimesSpread = 16;  // as many, for an image of many tiles
constexpr std::size_t kFarthestOnline = 32;
constexpr std::size_t kSpreadOnline = 64;
// A fold is sampled from every other row and column of patches where no more than this part of them
// is taken, from every third at the second: neighbours overlap.
constexpr double kSparse = 1.0 / 16;
constexpr double kVerySparse = 1.0 / 64;
// Fewer than these are all looked at: among few patches the rare ones would be missing, which
// greedy sampling of all of them takes first.
constexpr std::size_t kManyPatches = 20000;

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

// Every so many rows and columns, so that there are about `count` in each tile, as far as all of
// them do not take too long.
std::size_t step_for(const PatchGrid& grid, std::size_t count) {
  if (grid.tile != 0) {
    const std::size_t tiles = grid.width * grid.height / (grid.tile * grid.tile);
    count *= std::clamp<std::size_t>(tiles, 1, kMostTimesSpread);
  }
  const double each = static_cast<double>(grid.patches()) / static_cast<double>(count);
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(std::sqrt(each))));
}

// Blocks of step × step places of a grid: the first patch of each that has any, and which of these
// stands for a patch.
struct Blocks {
  std::vector<std::uint32_t> first;
  std::vector<std::uint32_t> block_of;
};

Blocks blocks_of(const PatchGrid& grid, std::size_t step) {
  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  const std::size_t across = (grid.columns + step - 1) / step;
  std::vector<std::uint32_t> numbers(across * ((grid.rows + step - 1) / step), kNone);
  Blocks blocks;
  for (std::size_t i = 0; i < grid.patches(); ++i) {
    const std::size_t place = grid.place(i);
    std::uint32_t& number =
        numbers[place / grid.columns / step * across + place % grid.columns / step];
    if (number == kNone) {
      number = static_cast<std::uint32_t>(blocks.first.size());
      blocks.first.push_back(static_cast<std::uint32_t>(i));
    }
    blocks.block_of.push_back(number);
  }
  return blocks;
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
  const Blocks blocks = blocks_of(grid, step_for(grid, spread_count));
  std::vector<float> moved(distances.size());
  for (const std::vector<float>& level : thinned_of(blocks.first)) {
    for (std::size_t i = 0; i < moved.size(); ++i) {
      moved[i] = std::max(distances[i], level[blocks.block_of[i]]);
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
    const std::size_t r = grid.place(at) / grid.columns, c = grid.place(at) % grid.columns;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t y = grid.place(i) / grid.columns, x = grid.place(i) % grid.columns;
      if (std::max(y, r) - std::min(y, r) > kApart) continue;
      if (std::max(x, c) - std::min(x, c) <= kApart) values[i] = 0;
    }
  }
  suspects->patches = gather(patches, places);
  return suspects;
}

// Every stride-th row and column of the patches of some images, of those that are here. Each image
// begins at another place, so that products that always lie alike are seen everywhere. Through a
// region an image may have none there.
std::vector<std::size_t> sparse_rows(const TrainingSet& set, const std::vector<std::size_t>& images,
                                     std::size_t stride) {
  std::vector<std::size_t> rows;
  for (const std::size_t i : images) {
    if (!set.is_here(i)) continue;
    const PatchGrid& grid = set.grid(i);
    if (grid.inside) {
      for (std::size_t k = 0; k < grid.patches(); ++k) {
        const std::size_t y = grid.place(k) / grid.columns, x = grid.place(k) % grid.columns;
        if (y % stride == i % stride && x % stride == i / stride % stride) {
          rows.push_back(set.begin(i) + k);
        }
      }
      continue;
    }
    for (std::size_t y = i % std::min(stride, grid.rows); y < grid.rows; y += stride) {
      for (std::size_t x = i / stride % std::min(stride, grid.columns); x < grid.columns;
           x += stride) {
        rows.push_back(set.begin(i) + y * grid.columns + x);
      }
    }
  }
  return rows;
}

// The same on all ranks, for which the first one's room is asked.
std::size_t stride_for(const TrainingSet& set, const LearnHow& how) {
  const std::size_t mine = set.fold_room != 0      ? set.fold_room
                           : how.memory_limit != 0 ? how.memory_limit / 4
                                                   : machine_memory() / 8;
  const std::size_t room = all_of<std::size_t>(set.ranks(), {mine}).front();
  const Points& all = set.features;
  std::size_t stride = how.p > kSparse ? 1 : how.p > kVerySparse ? 2 : 3;
  while (stride > 1 && all.rows / (stride * stride) < kManyPatches) --stride;
  while (all.rows * all.here.cols * bytes_of(all.here.scalar) / (stride * stride) > room) ++stride;
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

// A greedy sample of some images' patches. Nothing where they cannot be sampled, which learning
// them will say. What a process has taken by now decides how fast it is, and not what it is.
std::optional<PickedPoints> fold_sample(const TrainingSet& set,
                                        const std::vector<std::size_t>& images,
                                        const Memory::Base& base, std::size_t vectors,
                                        const LearnHow& how, Compute& compute) {
  const std::size_t stride = stride_for(set, how);
  Vectors rows;
  do_on_all(set.ranks(),
            [&] { rows = gather(set.features.here, sparse_rows(set, images, stride)); });
  const Points points =
      set.ranks() != nullptr ? Points(rows.view(), *set.ranks()) : Points(rows.view());
  if (points.rows == 0) return std::nullopt;
  GreedyOptions options;
  // As many as all images give: they stand a little less densely here.
  options.count = std::clamp<std::size_t>(vectors, 1, picks_of(how.p, set.features.rows));
  if (how.memory_limit != 0) {
    options.memory_limit =
        std::max(how.memory_limit - std::min(how.memory_limit / 2, rows.view().bytes()),
                 greedy_least_memory(rows.view(), base.vectors.rows(), options.count));
  }
  options.points_name = fmt::format("task '{}'", how.task);
  options.base_name = "memory";
  options.progress = how.progress;
  try {
    return pick_points(points, base.vectors.view(), options, compute);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    return std::nullopt;
  }
}

// What the memory would have for the task, had it learned some images.
struct FoldMemory {
  Vectors vectors;      // the task's own in the order that smaller shares leave it the first of
  std::size_t own = 0;  // those; the others behind them are of other tasks
};

FoldMemory fold_memory(const Memory& memory, const TrainingSet& set,
                       const std::vector<std::size_t>& images, const Memory::Base& base,
                       std::size_t vectors, const LearnHow& how, Compute& compute) {
  PickedPoints sampled;
  if (!images.empty()) {
    auto made = fold_sample(set, images, base, vectors, how, compute);
    if (!made) return {};
    sampled = std::move(*made);
  }
  const std::size_t known = base.radii.size();
  const std::size_t all = known + sampled.vectors.rows();
  const auto row_of = [&](std::size_t i) {
    return i < known ? base.vectors.view().part(i, 1) : sampled.vectors.view().part(i - known, 1);
  };
  const auto gathered = [&](const std::vector<std::uint32_t>& order) {
    Vectors result(order.size(), memory.dimension(), memory.scalar());
    for (std::size_t i = 0; i < order.size(); ++i) result.set_rows(i, row_of(order[i]));
    return result;
  };
  std::vector<std::uint32_t> order(all);
  std::iota(order.begin(), order.end(), 0U);
  const bool shares = memory.consolidation().rule == Consolidate::Rule::kShare;
  if (!shares && all > memory.capacity()) {
    const double q = memory.consolidation().q;
    do_on_all(set.ranks(), [&] {
      order = or_processor(compute, [&](Compute& with) {
        return consolidate(gathered(order).view(), memory.capacity(), q, 0, with, {}).kept;
      });
    });
  }
  const auto is_own = [&](std::uint32_t i) { return i >= known || base.own[i]; };
  const auto radius = [&](std::uint32_t i) {
    return i < known ? base.radii[i] : sampled.greedy.radii[i - known];
  };
  const auto others = std::stable_partition(order.begin(), order.end(), is_own);
  std::stable_sort(order.begin(), others,
                   [&](std::uint32_t a, std::uint32_t b) { return radius(a) > radius(b); });
  if (shares) order.resize(std::min(order.size(), vectors));  // all are its own
  return {gathered(order),
          static_cast<std::size_t>(std::count_if(order.begin(), order.end(), is_own))};
}

// What tells all images from each other and from others (ImageScores::image).
std::vector<std::uint64_t> hashes_of(const TrainingSet& set, Compute& compute) {
  std::vector<std::uint64_t> here(set.images.size());
  do_on_all(set.ranks(), [&] {
    compute.threads().run(here.size(), [&](std::size_t i, std::size_t) {
      here[i] = hash_of(set.image(set.first + i));
    });
  });
  return all_of(set.ranks(), std::move(here));
}

// An image's number among the chosen, and what it scored.
using Scored = std::pair<std::size_t, ImageScores>;

Ranks::Bytes packed(const std::vector<Scored>& scores) {
  Packer packer;
  packer.put(scores.size());
  for (const auto& [k, image] : scores) {
    packer.put(k);
    packer.put(image.vectors);
    packer.put_all(image.scores);
    packer.put(image.image);
    packer.put(image.suspects->patches.rows());
    packer.put_rows(image.suspects->patches.view());
    packer.put_all(image.suspects->distances);
    packer.put_all(image.suspects->values);
    packer.put_all(image.mean);
  }
  return packer.bytes();
}

std::vector<Scored> unpacked(const Ranks::Bytes& bytes, const Memory& memory) {
  Unpacker from(bytes);
  std::vector<Scored> scores(from.get<std::size_t>());
  for (auto& [k, image] : scores) {
    k = from.get<std::size_t>();
    image.vectors = from.get<std::size_t>();
    image.scores = from.get_all<float>();
    image.image = from.get<std::uint64_t>();
    auto suspects = std::make_shared<Suspects>();
    const auto rows = from.get<std::size_t>();
    suspects->patches = Vectors(rows, memory.dimension(), memory.scalar());
    from.get_rows(suspects->patches, 0, rows);
    suspects->distances = from.get_all<float>();
    suspects->values = from.get_all<float>();
    image.suspects = std::move(suspects);
    image.mean = from.get_all<float>();
  }
  return scores;
}

// Those of all ranks, in order of their numbers.
std::vector<Scored> all_scored(std::vector<Scored> mine, const TrainingSet& set,
                               const Memory& memory) {
  if (set.ranks() != nullptr) {
    const std::vector<Ranks::Bytes> said = set.ranks()->all_gather(packed(mine));
    mine.clear();
    for (const Ranks::Bytes& bytes : said) {
      for (Scored& scored : unpacked(bytes, memory)) mine.push_back(std::move(scored));
    }
  }
  std::sort(mine.begin(), mine.end(),
            [](const Scored& a, const Scored& b) { return a.first < b.first; });
  return mine;
}

// What images score by the memory of a fold.
class FoldScorer {
 public:
  FoldScorer(const FoldMemory& made, const TrainingSet& set, Score score, Compute& compute)
      : all_(made.vectors.view()),
        set_(set),
        score_(score),
        sizes_(level_sizes(made.own)),
        rows_(all_.rows),
        own_(made.own),
        index_(all_, compute) {
    std::iota(rows_.begin(), rows_.end(), 0U);
  }

  ImageScores of(std::size_t image, std::uint64_t hash, Compute& compute) const {
    const VectorView patches = set_.image(image);
    const PatchGrid& grid = set_.grid(image);
    const std::span<const std::uint32_t> rows(rows_);
    std::vector<float> distances = index_.search(patches, 1, compute, "patches").distances;
    const auto thinned = [&](const std::vector<std::uint32_t>& places) {
      return thinned_distances(gather(patches, places).view(), all_, rows.first(own_), sizes_,
                               rows.subspan(own_), compute);
    };
    auto suspects = suspects_of(patches, distances, grid, score_);
    return {own_, level_scores(std::move(distances), grid, score_, kFarthest, kSpread, thinned),
            hash, std::move(suspects), mean_of_patches(patches)};
  }

 private:
  VectorView all_;
  const TrainingSet& set_;
  Score score_;
  std::vector<std::size_t> sizes_;
  std::vector<std::uint32_t> rows_;
  std::size_t own_;
  NearestIndex index_;
};

}  // namespace

FoldScores fold_scores(const Memory& memory, const TrainingSet& set, const LearnHow& how,
                       Compute& compute) {
  const std::vector<std::uint64_t> hashes = hashes_of(set, compute);
  const std::vector<std::size_t> chosen = to_score(hashes);
  const std::size_t folds = std::min(kFolds, chosen.size());
  const Score score = score_of(memory.source);
  const Memory::Base base = memory.base_of(how.task);
  const std::size_t vectors = memory.vectors_after(how.task, picks_of(how.p, set.features.rows));
  std::vector<Scored> result;  // of images that are here
  for (std::size_t fold = 0; fold < folds; ++fold) {
    std::vector<Scored> scored;  // of those that are here
    std::vector<std::uint64_t> left_out;
    for (std::size_t k = fold; k < chosen.size(); k += folds) {
      // One that was learned would score too little; it keeps its score, if it has one.
      if (!memory.is_new(how.task, hashes[chosen[k]])) continue;
      if (set.is_here(chosen[k])) scored.emplace_back(k, ImageScores{});
      left_out.push_back(hashes[chosen[k]]);
    }
    if (left_out.empty()) continue;
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
    const auto score_them = [&](Compute& with) {
      const FoldScorer scorer(made, set, score, with);
      OneEach alone(with);
      with.threads().run(scored.size(), [&](std::size_t i, std::size_t worker) {
        if (worker == 0) report(part_of(progress, 0.5, 1.0), part_done(i, scored.size()));
        const std::size_t at = chosen[scored[i].first];
        scored[i].second = scorer.of(at, hashes[at], alone[worker]);
      });
    };
    do_on_all(set.ranks(), [&] { or_processor(compute, score_them); });
    std::move(scored.begin(), scored.end(), std::back_inserter(result));
  }
  FoldScores result_of_all{hashes, {}, {}};
  for (auto& [k, scores] : all_scored(std::move(result), set, memory)) {
    result_of_all.images.push_back(chosen[k]);
    result_of_all.scores.push_back(std::move(scores));
  }
  return result_of_all;
}

std::vector<float> scores_by_others(const Memory& memory, const TrainingSet& set,
                                    const FoldScores& folds, const std::vector<std::size_t>& images,
                                    const LearnHow& how, Compute& compute) {
  if (images.empty()) return {};
  const std::size_t vectors = memory.vectors_after(how.task, picks_of(how.p, set.features.rows));
  const FoldMemory made =
      fold_memory(memory, set, folds.images, memory.base_of(how.task), vectors, how, compute);
  if (made.own == 0) return {};
  std::vector<std::size_t> here;
  std::copy_if(images.begin(), images.end(), std::back_inserter(here),
               [&](std::size_t i) { return set.is_here(i); });
  const Score score = score_of(memory.source);
  std::vector<float> scores(here.size());
  const auto score_them = [&](Compute& with) {
    const NearestIndex index(made.vectors.view(), with);
    OneEach alone(with);
    with.threads().run(here.size(), [&](std::size_t i, std::size_t worker) {
      if (worker == 0) report(how.progress, part_done(i, here.size()));
      const auto found = index.search(set.image(here[i]), 1, alone[worker], "patches");
      scores[i] = image_score(found.distances, set.grid(here[i]), score);
    });
  };
  do_on_all(set.ranks(), [&] { or_processor(compute, score_them); });
  return all_of(set.ranks(), std::move(scores));
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
