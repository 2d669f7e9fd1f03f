// In: a map and a level. Out: its connected parts above the level. Fails for a map that is none.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "contcore/image.h"
#include "image/pixels.h"

namespace contcore {
namespace {

// Pixels [begin, end) of a row, and the place of another of its region: its own is a region's
// first.
struct HotRun {
  std::size_t begin, end;
  std::size_t parent;
};

std::size_t first_of(std::vector<HotRun>& runs, std::size_t i) {
  while (runs[i].parent != i) i = runs[i].parent = runs[runs[i].parent].parent;
  return i;
}

// The larger of two roots is hung below the smaller: a region's root is its first run.
void join_runs(std::vector<HotRun>& runs, std::size_t a, std::size_t b) {
  a = first_of(runs, a);
  b = first_of(runs, b);
  runs[std::max(a, b)].parent = std::min(a, b);
}

// A run as a region of its own.
Region region_of(const HotRun& run, const float* row, std::size_t y) {
  const float most = *std::max_element(row + run.begin, row + run.end);
  return {run.begin, y, run.end - run.begin, 1, run.end - run.begin, most};
}

void take_in(Region& region, const Region& more) {
  const std::size_t right = std::max(region.x + region.width, more.x + more.width);
  const std::size_t bottom = std::max(region.y + region.height, more.y + more.height);
  region.x = std::min(region.x, more.x);
  region.y = std::min(region.y, more.y);
  region.width = right - region.x;
  region.height = bottom - region.y;
  region.area += more.area;
  region.score = std::max(region.score, more.score);
}

}  // namespace

std::vector<Region> regions_above(const Map& map, float level) {
  check_map(map);
  std::vector<HotRun> runs;
  std::vector<Region> parts;  // a run each
  std::size_t above = 0;      // the first run of the row above that may touch the next
  for (std::size_t y = 0; y < map.height; ++y) {
    const float* const row = map.values.data() + y * map.width;
    const std::size_t first = runs.size();
    for (std::size_t x = 0; x < map.width; ++x) {
      if (!(row[x] > level)) continue;
      const std::size_t begin = x;
      while (x < map.width && row[x] > level) ++x;
      const std::size_t at = runs.size();
      runs.push_back({begin, x, at});
      parts.push_back(region_of(runs[at], row, y));
      while (above < first && runs[above].end < begin) ++above;
      for (std::size_t i = above; i < first && runs[i].begin <= x; ++i) join_runs(runs, at, i);
    }
    above = first;
  }
  std::vector<Region> regions;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t root = first_of(runs, i);
    if (root != i) take_in(parts[root], parts[i]);
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].parent == i) regions.push_back(parts[i]);
  }
  std::stable_sort(regions.begin(), regions.end(),
                   [](const Region& a, const Region& b) { return a.score > b.score; });
  return regions;
}

Region to_original(const Region& region, const NetworkInput& input, std::size_t width,
                   std::size_t height) {
  const double across = (input.right - input.left) / static_cast<double>(input.width);
  const double down = (input.bottom - input.top) / static_cast<double>(input.height);
  // From the pixel that the first edge lies in to the one that the second does, at least one.
  const auto side = [](double from, double to, std::size_t most, std::size_t& size) {
    const double last = static_cast<double>(most) - 1;
    const double begin = std::clamp(std::floor(from + 1e-6), 0.0, last);
    size = static_cast<std::size_t>(std::clamp(std::ceil(to - 1e-6), begin + 1, last + 1) - begin);
    return static_cast<std::size_t>(begin);
  };
  const auto at = [](std::size_t pixel) { return static_cast<double>(pixel); };
  Region out;
  out.x = side(input.left + at(region.x) * across,
               input.left + at(region.x + region.width) * across, width, out.width);
  out.y = side(input.top + at(region.y) * down, input.top + at(region.y + region.height) * down,
               height, out.height);
  const double area = std::round(at(region.area) * across * down);
  out.area = static_cast<std::size_t>(std::clamp(area, 1.0, at(out.width) * at(out.height)));
  out.score = region.score;
  return out;
}

}  // namespace contcore
