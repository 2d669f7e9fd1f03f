// In: an image's patches and where a person sees a defect. Out: the patches that show it. Fails
// when nothing there is stranger than the rest of the image.
#include "contcore/defects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/rows.h"
#include "contcore/error.h"
#include "contcore/verdict.h"
#include "detector/heat_scale.h"
#include "image/map_rows.h"
#include "memory/calibration.h"

namespace contcore {
namespace {

constexpr double kStranger = 0.99;       // of the patches beside the mark
constexpr std::size_t kLeastBeside = 8;  // one in so many of all patches must be
constexpr std::uint8_t kBright = 128;    // of a mask: the defect

// Where side i of n cells begins, in the image's pixels.
double edge(double first, double last, std::size_t i, std::size_t n) {
  return first + (last - first) * static_cast<double>(i) / static_cast<double>(n);
}

bool overlap(double a0, double a1, double b0, double b1) {
  return std::min(a1, b1) > std::max(a0, b0);
}

// Of each place; of those outside of the region nothing can be marked, since there are no patches.
std::vector<bool> of_patches(const std::vector<bool>& places, const PatchGrid& grid) {
  std::vector<bool> result;
  for (std::size_t i = 0; i < grid.patches(); ++i) result.push_back(places[grid.place(i)]);
  return result;
}

std::vector<bool> touched(const DefectBox& box, const Patches& patches) {
  const NetworkInput& seen = patches.input;
  std::vector<bool> inside;
  for (std::size_t r = 0; r < patches.grid_height; ++r) {
    const double top = edge(seen.top, seen.bottom, r, patches.grid_height);
    const double bottom = edge(seen.top, seen.bottom, r + 1, patches.grid_height);
    for (std::size_t c = 0; c < patches.grid_width; ++c) {
      const double left = edge(seen.left, seen.right, c, patches.grid_width);
      const double right = edge(seen.left, seen.right, c + 1, patches.grid_width);
      inside.push_back(overlap(top, bottom, box.y, box.y + box.height) &&
                       overlap(left, right, box.x, box.x + box.width));
    }
  }
  return of_patches(inside, patches.grid());
}

// The cell that the centre of pixel i lies in; nothing: it is not seen.
std::optional<std::size_t> cell_of(std::size_t i, double first, double last, std::size_t n) {
  const double at = (static_cast<double>(i) + 0.5 - first) / (last - first);
  if (!(at >= 0 && at < 1)) return std::nullopt;
  return std::min(n - 1, static_cast<std::size_t>(at * static_cast<double>(n)));
}

std::vector<bool> touched(const Image& mask, const Patches& patches) {
  if (mask.width != patches.image_width || mask.height != patches.image_height) {
    throw Error(Error::Kind::kInput,
                fmt::format("the mask has {} × {} pixels, the image {} × {}; give the mask of this "
                            "image",
                            mask.width, mask.height, patches.image_width, patches.image_height));
  }
  const NetworkInput& seen = patches.input;
  std::vector<bool> inside(patches.grid_width * patches.grid_height);
  for (std::size_t y = 0; y < mask.height; ++y) {
    const auto r = cell_of(y, seen.top, seen.bottom, patches.grid_height);
    if (!r) continue;
    for (std::size_t x = 0; x < mask.width; ++x) {
      const std::uint8_t* rgb = mask.rgb.data() + 3 * (y * mask.width + x);
      if (std::max({rgb[0], rgb[1], rgb[2]}) < kBright) continue;
      const auto c = cell_of(x, seen.left, seen.right, patches.grid_width);
      if (c) inside[*r * patches.grid_width + *c] = true;
    }
  }
  return of_patches(inside, patches.grid());
}

std::vector<bool> outlined(const Memory& memory, const std::string& task, const Patches& patches,
                           std::vector<float> distances, const DefectMark& mark, Compute& compute) {
  InspectOptions options;
  options.task = task;
  options.map = false;
  const Inspection seen = judge(memory, patches, distances, options, compute);
  const std::vector<float> values = cell_values(distances, patches.grid());
  const float peak = *std::max_element(values.begin(), values.end());
  const auto threshold = seen.threshold ? std::optional(seen.threshold->score) : std::nullopt;
  if (!mark.level && !threshold) {
    throw Error(Error::Kind::kUsage,
                fmt::format("task '{}' has no threshold, so nothing is outlined; mark the defect, "
                            "or learn more good images",
                            task));
  }
  const float level =
      mark.level.value_or(outline_level(score_of(memory.source), seen.score, threshold, peak));
  std::vector<bool> inside;
  for (const float value : values) inside.push_back(value > level);
  return inside;
}

// The distance that 99 of 100 patches beside the mark do not reach.
float usual_beside(const std::vector<bool>& inside, const PatchGrid& grid,
                   std::span<const float> distances) {
  // Patches see a little of what is beside them, and the map spreads.
  const std::size_t side =
      grid.tile != 0 ? grid.tile * grid.columns / grid.width : std::min(grid.rows, grid.columns);
  const std::size_t apart = std::max<std::size_t>(1, side / 24);
  std::vector<bool> near(grid.columns * grid.rows);
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (!inside[i]) continue;
    const std::size_t r = grid.place(i) / grid.columns, c = grid.place(i) % grid.columns;
    for (std::size_t y = r - std::min(r, apart); y <= std::min(grid.rows - 1, r + apart); ++y) {
      for (std::size_t x = c - std::min(c, apart); x <= std::min(grid.columns - 1, c + apart);
           ++x) {
        near[y * grid.columns + x] = true;
      }
    }
  }
  std::vector<float> beside;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (!near[grid.place(i)]) beside.push_back(distances[i]);
  }
  if (kLeastBeside * beside.size() < inside.size()) {
    throw Error(
        Error::Kind::kInput,
        "what is marked is most of the image, which leaves too little to tell a defect from; "
        "mark the defect alone");
  }
  std::sort(beside.begin(), beside.end());
  const auto at = static_cast<std::size_t>(kStranger * static_cast<double>(beside.size()));
  return beside[std::min(at, beside.size() - 1)];
}

}  // namespace

std::vector<float> cell_values(std::span<const float> distances, const PatchGrid& grid) {
  std::vector<float> of_places(grid.columns * grid.rows);
  map_rows(distances, grid, [&](std::size_t y, std::span<const float> row) {
    float* const cells = of_places.data() + y * grid.rows / grid.height * grid.columns;
    for (std::size_t x = 0; x < row.size(); ++x) {
      float& value = cells[x * grid.columns / row.size()];
      value = std::max(value, row[x]);
    }
  });
  std::vector<float> values;
  for (std::size_t i = 0; i < grid.patches(); ++i) values.push_back(of_places[grid.place(i)]);
  return values;
}

std::vector<std::uint32_t> defect_patches(const Memory& memory, const std::string& task,
                                          const Patches& patches, const DefectMark& mark,
                                          Compute& compute) {
  const std::vector<float> distances = memory.distances(patches.vectors.view(), compute);
  const bool by_hand = mark.box || mark.mask != nullptr;
  const std::vector<bool> inside = mark.box ? touched(*mark.box, patches)
                                   : mark.mask
                                       ? touched(*mark.mask, patches)
                                       : outlined(memory, task, patches, distances, mark, compute);
  if (std::find(inside.begin(), inside.end(), true) == inside.end()) {
    throw Error(Error::Kind::kInput,
                by_hand ? "what is marked lies outside of what is looked at of the image; mark the "
                          "defect"
                        : "nothing is outlined in it; mark where the defect is");
  }
  const float usual = usual_beside(inside, patches.grid(), distances);
  std::vector<std::uint32_t> rows;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] && distances[i] > usual) rows.push_back(static_cast<std::uint32_t>(i));
  }
  if (rows.empty()) {
    throw Error(Error::Kind::kInput,
                "what is marked is no stranger than the rest of the image, so nothing can be "
                "learned of it; mark the defect alone");
  }
  return rows;
}

void learn_defect(Memory& memory, const std::string& task, const Patches& patches,
                  const DefectMark& mark, Compute& compute) {
  const std::vector<std::uint32_t> rows = defect_patches(memory, task, patches, mark, compute);
  memory.learn_defect(task, gather(patches.vectors.view(), rows).view(),
                      hash_of(patches.vectors.view()), compute);
}

}  // namespace contcore
