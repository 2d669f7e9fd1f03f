// In: the patches of an image and a memory. Out: what was seen, and the verdict. Fails when the
// memory is empty or has no such task.
#include "contcore/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "contcore/error.h"
#include "contcore/score.h"
#include "detector/heat_scale.h"
#include "detector/judging.h"
#include "detector/reason.h"
#include "image/region_mask.h"

namespace contcore {
namespace {

std::size_t task_named(const Memory& memory, const std::string& name) {
  if (const auto task = memory.find_task(name)) return *task;
  std::string known;
  for (const TaskRecord& task : memory.tasks()) known += (known.empty() ? "" : ", ") + task.name;
  throw Error(Error::Kind::kUsage,
              fmt::format("there is no task '{}' in this memory; it knows {}", name, known));
}

void check_seen_through(const Memory& memory, std::size_t task, const SharedRegion& region) {
  if (same_region(memory.tasks()[task].region, region)) return;
  throw Error(Error::Kind::kUsage,
              fmt::format("the image was not seen through the region of interest of task '{}'; "
                          "extract its patches with that",
                          memory.tasks()[task].name));
}

// Of the patch that is farthest, as much as lies in the region of interest.
Region farthest_of(const Patches& patches, std::span<const float> distances, const RegionRows& rows,
                   float peak) {
  const auto farthest = std::max_element(distances.begin(), distances.end());
  const std::size_t place =
      patches.inside->places[static_cast<std::size_t>(farthest - distances.begin())];
  // Of the pixels [from, to) the place i of n, as far as the image goes.
  const auto side = [](double from, double to, std::size_t i, std::size_t n, std::size_t most,
                       std::size_t& size) {
    constexpr double kRounding = 1e-6;
    const double step = (to - from) / static_cast<double>(n);
    const double first = from + static_cast<double>(i) * step;
    const auto pixel = [&](double at) {
      return static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(most)));
    };
    const std::size_t begin = pixel(std::floor(first - kRounding));
    size = pixel(std::ceil(first + step + kRounding)) - begin;
    return begin;
  };
  const NetworkInput& input = patches.input;
  Region cell;
  cell.x = side(input.left, input.right, place % patches.grid_width, patches.grid_width,
                patches.image_width, cell.width);
  cell.y = side(input.top, input.bottom, place / patches.grid_width, patches.grid_height,
                patches.image_height, cell.height);
  cell.area = cell.width * cell.height;
  cell.score = peak;
  return clipped(cell, rows);
}

// Found in the map as the backbone saw it: as many work whatever the image's size is.
std::vector<Region> regions_of(const Inspection& seen, const Patches& patches,
                               std::span<const float> distances, Score by) {
  const Map map = anomaly_map(distances, patches.grid());
  const float peak = *std::max_element(map.values.begin(), map.values.end());
  const float level = outline_level(by, seen.score, seen.threshold->score, peak);
  std::vector<Region> regions = regions_above(map, level);
  for (Region& region : regions) {
    region = to_original(region, patches.input, patches.image_width, patches.image_height);
  }
  if (!patches.inside) return regions;
  // A patch reaches beyond the edge of the region of interest, where nothing is looked at.
  const RegionRows rows =
      region_rows(*patches.inside->region, patches.image_width, patches.image_height);
  std::vector<Region> seen_ones;
  for (const Region& region : regions) {
    const Region part = clipped(region, rows);
    if (part.area != 0) seen_ones.push_back(part);
  }
  if (seen_ones.empty()) seen_ones.push_back(farthest_of(patches, distances, rows, peak));
  return seen_ones;
}

// How far what is out of place can have moved the mean patch: as far on average as its patches are
// from normal ones. Where most of the image is, and about as far as its farthest patch, there is no
// defect in it to speak of.
float moved_by_defects(std::span<const float> distances, float threshold) {
  const float farthest = *std::max_element(distances.begin(), distances.end());
  const float as_far = std::max(threshold, farthest / 2);
  double sum = 0;
  std::size_t far = 0;
  for (const float distance : distances) {
    if (distance > threshold) sum += static_cast<double>(distance);
    if (distance > as_far) ++far;
  }
  if (2 * far >= distances.size()) return 0;
  return static_cast<float>(sum / static_cast<double>(distances.size()));
}

// What is out of place is told by the calibration, whatever a person lets pass or not.
float moved_by_defects(const Memory& memory, const Inspection& seen,
                       std::span<const float> distances, double false_alarms) {
  if (!seen.task) return 0;
  const auto calibrated = memory.calibrated_threshold(*seen.task, false_alarms);
  const auto& threshold = calibrated ? calibrated : seen.threshold;
  if (!threshold || seen.score <= threshold->score) return 0;
  return moved_by_defects(distances, threshold->score);
}

// Also with its defects repaired, which may have moved its mean patch by `moved`.
bool is_stranger(const Memory& memory, std::size_t task, VectorView patches, double rate,
                 float moved) {
  if (rate == 0) return false;
  const auto strangeness = memory.strangeness(task, patches, rate);
  return strangeness && strangeness->distance - moved > strangeness->limit;
}

// The product that an image is of which is a stranger to the one that was named.
std::optional<std::size_t> resembled(const Memory& memory, VectorView patches,
                                     const SharedRegion& region, double rate) {
  const auto task = memory.recognise(patches, region);
  if (!task || is_stranger(memory, *task, patches, rate, 0)) return std::nullopt;
  return task;
}

bool is_far(const Inspection& seen) { return seen.threshold && seen.score > seen.threshold->score; }

}  // namespace

Inspection judge_patches(const Memory& memory, VectorView patches, const PatchGrid& grid,
                         std::span<float> distances, const InspectOptions& options,
                         Compute& compute) {
  Inspection seen;
  const SharedRegion region = grid.region();
  seen.task =
      options.task.empty() ? memory.recognise(patches, region) : task_named(memory, options.task);
  if (seen.task) check_seen_through(memory, *seen.task, region);
  if (seen.task) memory.raise(*seen.task, patches, distances, compute);
  seen.score = image_score(distances, grid, score_of(memory.source));
  if (seen.task) seen.threshold = memory.threshold(*seen.task, options.false_alarms);
  const float moved = moved_by_defects(memory, seen, distances, options.false_alarms);
  seen.stranger = seen.task && is_stranger(memory, *seen.task, patches, options.strangers, moved);
  seen.unknown = seen.stranger && options.task.empty();
  if (seen.stranger && !seen.unknown) {
    seen.resembles = resembled(memory, patches, region, options.strangers);
  }
  seen.rejected = is_far(seen) || seen.stranger;
  return seen;
}

Inspection judge(const Memory& memory, const Patches& patches, std::span<float> distances,
                 const InspectOptions& options, Compute& compute) {
  Inspection seen =
      judge_patches(memory, patches.vectors.view(), patches.grid(), distances, options, compute);
  if (is_far(seen)) seen.regions = regions_of(seen, patches, distances, score_of(memory.source));
  seen.reason = reason_of(seen, memory);
  return seen;
}

Inspection inspect(const Memory& memory, const Patches& patches, const InspectOptions& options,
                   Compute& compute) {
  std::vector<float> distances = memory.distances(patches.vectors.view(), compute);
  Inspection seen = judge(memory, patches, distances, options, compute);
  if (!options.map) return seen;
  seen.map = to_original(anomaly_map(distances, patches.grid()), patches.input, patches.image_width,
                         patches.image_height);
  if (patches.inside) {
    clear_outside(seen.map,
                  region_rows(*patches.inside->region, patches.image_width, patches.image_height));
  }
  const auto peak = std::max_element(seen.map.values.begin(), seen.map.values.end());
  const auto at = static_cast<std::size_t>(peak - seen.map.values.begin());
  seen.peak_x = at % seen.map.width;
  seen.peak_y = at / seen.map.width;
  const auto threshold = seen.threshold ? std::optional(seen.threshold->score) : std::nullopt;
  seen.level = outline_level(score_of(memory.source), seen.score, threshold, *peak);
  return seen;
}

const char* verdict(const Inspection& seen) {
  if (seen.unknown) return "unknown";
  if (seen.rejected) return "defect";
  return seen.threshold ? "good" : "uncalibrated";
}

Image draw_inspection(const Image& image, const Inspection& seen) {
  Overlay overlay;
  overlay.rejected = seen.rejected;
  overlay.judged = seen.rejected || seen.threshold;
  overlay.unknown = seen.unknown;
  overlay.level = seen.level;
  const HeatRange range = heat_range(seen.map, seen.level);
  overlay.low = range.low;
  overlay.high = range.high;
  const char* word = seen.unknown ? "UNKNOWN" : seen.rejected ? "DEFECT" : verdict(seen);
  overlay.caption = fmt::format("{}  {:.2f}", word, seen.score);
  if (seen.threshold) overlay.caption += fmt::format(" / {:.2f}", seen.threshold->score);
  return draw_overlay(image, seen.map, overlay);
}

}  // namespace contcore
