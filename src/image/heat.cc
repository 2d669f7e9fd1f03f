// The anomaly map: patch distances spread over the pixels, and the image's score.
//
// Bilinear interpolation and smoothing are linear and separable, so the map is A_y · D · A_xᵀ, D
// being the grid of distances. Each row of A has a few weights only, which makes the map cheap
// enough to score every image by it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "contcore/error.h"
#include "contcore/image.h"
#include "contcore/score.h"
#include "image/kernels.h"
#include "image/map_rows.h"
#include "image/pixels.h"

namespace contcore {
namespace {

constexpr double kSigma = 4;        // in pixels, at
constexpr double kShortSide = 224;  // this short side
constexpr double kReach = 4;        // the Gaussian ends at this many σ

// Samples of a Gaussian, the sum of them 1.
std::vector<double> gaussian(double sigma) {
  const int radius = static_cast<int>(kReach * sigma + 0.5);
  std::vector<double> kernel;
  double sum = 0;
  for (int i = -radius; i <= radius; ++i) {
    kernel.push_back(std::exp(-0.5 * i * i / (sigma * sigma)));
    sum += kernel.back();
  }
  for (double& weight : kernel) weight /= sum;
  return kernel;
}

// … c b a | a b c … c | c b a …
std::size_t mirrored(std::ptrdiff_t i, std::size_t size) {
  const auto n = static_cast<std::ptrdiff_t>(size);
  if (i >= 0 && i < n) return static_cast<std::size_t>(i);
  i = (i % (2 * n) + 2 * n) % (2 * n);
  return static_cast<std::size_t>(i < n ? i : 2 * n - 1 - i);
}

// One side of the map: pixel i is the sum of `terms` cells of the grid from first[i] on, weighed.
// Where fewer are needed the others weigh 0.
struct Spread {
  std::size_t terms = 0;
  std::vector<std::size_t> first;
  std::vector<float> weights;
};

Spread spread_of(std::size_t cells, std::size_t pixels, const std::vector<double>& kernel) {
  const auto radius = static_cast<std::ptrdiff_t>(kernel.size() / 2);
  const double scale = static_cast<double>(cells) / static_cast<double>(pixels);
  // Before smoothing, a pixel lies between two cells.
  std::vector<std::size_t> low(pixels);
  std::vector<double> part(pixels);
  for (std::size_t i = 0; i < pixels; ++i) {
    const double at = std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0,
                                 static_cast<double>(cells - 1));
    low[i] = static_cast<std::size_t>(at);
    part[i] = at - static_cast<double>(low[i]);
  }
  // Pixels seen by pixel i, of the map mirrored at its ends.
  const auto seen = [&](std::size_t i, std::ptrdiff_t t) {
    return mirrored(static_cast<std::ptrdiff_t>(i) + t, pixels);
  };
  Spread out;
  for (std::size_t i = 0; i < pixels; ++i) {
    std::size_t first = cells;
    std::size_t last = 0;
    for (std::ptrdiff_t t = -radius; t <= radius; ++t) {
      const std::size_t cell = low[seen(i, t)];
      first = std::min(first, cell);
      last = std::max(last, std::min(cell + 1, cells - 1));
    }
    out.first.push_back(first);
    out.terms = std::max(out.terms, last + 1 - first);
  }
  out.weights.resize(pixels * out.terms);
  std::vector<double> sums(out.terms + 1);  // what lies behind the last cell weighs nothing
  for (std::size_t i = 0; i < pixels; ++i) {
    out.first[i] = std::min(out.first[i], cells - out.terms);
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::ptrdiff_t t = -radius; t <= radius; ++t) {
      const std::size_t pixel = seen(i, t);
      const double weight = kernel[static_cast<std::size_t>(t + radius)];
      sums[low[pixel] - out.first[i]] += weight * (1 - part[pixel]);
      sums[low[pixel] - out.first[i] + 1] += weight * part[pixel];
    }
    std::transform(sums.begin(), sums.end() - 1,
                   out.weights.begin() + static_cast<std::ptrdiff_t>(i * out.terms),
                   [](double weight) { return static_cast<float>(weight); });
  }
  return out;
}

std::vector<float> transposed(std::span<const float> values, std::size_t rows, std::size_t cols) {
  std::vector<float> out(rows * cols);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) out[c * rows + r] = values[r * cols + c];
  }
  return out;
}

// Both sides of a map. The same sizes come again and again, and making them takes as long as the
// map.
struct Sides {
  PatchGrid grid;
  Spread down;
  Spread across;
};

const Sides& sides_of(PatchGrid grid) {
  thread_local Sides last;
  grid.inside = nullptr;  // they are the same
  if (last.grid == grid) return last;
  // What is smoothed is as wide in patches whether an image is one view or many.
  const double short_side =
      static_cast<double>(grid.tile != 0 ? grid.tile : std::min(grid.width, grid.height));
  const std::vector<double> kernel = gaussian(kSigma * short_side / kShortSide);
  Spread down = spread_of(grid.rows, grid.height, kernel);
  const bool square = grid.rows == grid.columns && grid.height == grid.width;
  Spread across = square ? down : spread_of(grid.columns, grid.width, kernel);
  last = {grid, std::move(down), std::move(across)};
  return last;
}

void check_patches(std::span<const float> patches, const PatchGrid& grid) {
  if (!patches.empty() && patches.size() == grid.patches()) return;
  throw Error(Error::Kind::kInternal,
              fmt::format("{} distances for {} of {} × {} patches", patches.size(), grid.patches(),
                          grid.columns, grid.rows));
}

// Of each place; empty: all are.
std::vector<bool> places_inside(const PatchGrid& grid) {
  if (!grid.inside) return {};
  std::vector<bool> is_inside(grid.columns * grid.rows);
  for (const std::uint32_t place : grid.inside->places) is_inside[place] = true;
  return is_inside;
}

// Outside of a region the distances go on as they are at its edge, as beyond the edge of an image:
// so a defect there scores as it does elsewhere. Each place has the value of one that is nearest,
// counted in steps to neighbours.
std::vector<float> spread_outside(std::span<const float> patches, const PatchGrid& grid) {
  check_patches(patches, grid);
  if (!grid.inside) return {patches.begin(), patches.end()};
  std::vector<float> cells = on_grid(patches, grid);
  std::vector<bool> is_known = places_inside(grid);
  std::vector<std::uint32_t> reached = grid.inside->places;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const std::size_t at = reached[i], r = at / grid.columns, c = at % grid.columns;
    const auto reach = [&](bool there, std::size_t place) {
      if (!there || is_known[place]) return;
      is_known[place] = true;
      cells[place] = cells[at];
      reached.push_back(static_cast<std::uint32_t>(place));
    };
    reach(r > 0, at - grid.columns);
    reach(c > 0, at - 1);
    reach(c + 1 < grid.columns, at + 1);
    reach(r + 1 < grid.rows, at + grid.columns);
  }
  return cells;
}

// Row y of the map is 0 where its cells are outside. Returns the largest value that is left.
float clear_row(const PatchGrid& grid, const std::vector<bool>& is_inside, std::size_t y,
                float* row) {
  const std::size_t first = y * grid.rows / grid.height * grid.columns;
  float largest = 0;
  for (std::size_t x = 0; x < grid.width; ++x) {
    if (!is_inside[first + x * grid.columns / grid.width]) row[x] = 0;
    largest = std::max(largest, row[x]);
  }
  return largest;
}

// Makes the map row by row: row_at(y) is room for a row, made(y) is told when it is made. Returns
// the largest value.
template <typename RowAt, typename Made>
float make_map(std::span<const float> patches, const PatchGrid& grid, const RowAt& row_at,
               const Made& made) {
  const std::vector<float> cells = spread_outside(patches, grid);
  check_map({grid.columns, grid.rows, cells});
  if (grid.width == 0 || grid.height == 0) {
    throw Error(Error::Kind::kInternal,
                fmt::format("a map of {} × {} pixels", grid.width, grid.height));
  }
  const auto& [same, down, across] = sides_of(grid);
  // Across first, on the grid's columns laid as rows: so both ways whole rows are mixed.
  const std::vector<float> columns = transposed(cells, grid.rows, grid.columns);
  std::vector<float> wide(grid.width * grid.rows);
  for (std::size_t x = 0; x < grid.width; ++x) {
    image_kernels::mix_rows(columns.data() + across.first[x] * grid.rows, grid.rows,
                            across.weights.data() + x * across.terms, across.terms, grid.rows,
                            wide.data() + x * grid.rows);
  }
  const std::vector<float> rows = transposed(wide, grid.width, grid.rows);
  const std::vector<bool> is_inside = places_inside(grid);
  float largest = -std::numeric_limits<float>::infinity();
  for (std::size_t y = 0; y < grid.height; ++y) {
    const float most = image_kernels::mix_rows(rows.data() + down.first[y] * grid.width, grid.width,
                                               down.weights.data() + y * down.terms, down.terms,
                                               grid.width, row_at(y));
    largest = std::max(largest, grid.inside ? clear_row(grid, is_inside, y, row_at(y)) : most);
    made(y);
  }
  return largest;
}

}  // namespace

Map anomaly_map(std::span<const float> patches, const PatchGrid& grid) {
  Map map{grid.width, grid.height, std::vector<float>(grid.width * grid.height)};
  make_map(
      patches, grid, [&](std::size_t y) { return map.values.data() + y * grid.width; },
      [](std::size_t) {});
  return map;
}

void map_rows(std::span<const float> patches, const PatchGrid& grid,
              const std::function<void(std::size_t, std::span<const float>)>& use) {
  std::vector<float> row(grid.width);
  make_map(
      patches, grid, [&](std::size_t) { return row.data(); }, [&](std::size_t y) { use(y, row); });
}

const char* score_name(Score score) { return score == Score::kMap ? "map" : "patch"; }

Score parse_score(const std::string& name) {
  if (name == "map") return Score::kMap;
  if (name == "patch") return Score::kPatch;
  throw Error(Error::Kind::kUsage,
              fmt::format("there is no score '{}'; there are map and patch", name));
}

Score score_of(const std::map<std::string, std::string>& source) {
  const auto found = source.find("score");
  if (found == source.end() || found->second == score_name(Score::kPatch)) return Score::kPatch;
  if (found->second == score_name(Score::kMap)) return Score::kMap;
  throw Error(Error::Kind::kInput,
              fmt::format("its images have the score '{}', which this version does not make; use a "
                          "later one",
                          found->second));
}

std::vector<float> on_grid(std::span<const float> patches, const PatchGrid& grid) {
  check_patches(patches, grid);
  if (!grid.inside) return {patches.begin(), patches.end()};
  std::vector<float> cells(grid.columns * grid.rows, 0.0F);
  for (std::size_t i = 0; i < patches.size(); ++i) cells[grid.inside->places[i]] = patches[i];
  return cells;
}

float image_score(std::span<const float> distances, const PatchGrid& grid, Score score) {
  if (score == Score::kPatch) {
    check_patches(distances, grid);
    return *std::max_element(distances.begin(), distances.end());
  }
  std::vector<float> row(grid.width);
  return make_map(
      distances, grid, [&](std::size_t) { return row.data(); }, [](std::size_t) {});
}

}  // namespace contcore
