#include "image/outline.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace contcore {
namespace {

// Pixels [from, to) of a row.
struct Run {
  std::size_t from, to;
};

// The outermost pixels above the level: those with a neighbour at one of their sides that is not.
std::vector<std::vector<Run>> border_runs(const Map& map, float level) {
  const std::size_t width = map.width;
  std::vector<std::vector<Run>> runs(map.height);
  for (std::size_t y = 0; y < map.height; ++y) {
    const float* const row = map.values.data() + y * width;
    const bool first = y == 0, last = y + 1 == map.height;
    for (std::size_t x = 0; x < width; ++x) {
      if (!(row[x] > level)) continue;
      const bool inside = !first && !last && x > 0 && x + 1 < width && row[x - 1] > level &&
                          row[x + 1] > level && *(row + x - width) > level &&
                          row[x + width] > level;
      if (inside) continue;
      if (!runs[y].empty() && runs[y].back().to == x) {
        ++runs[y].back().to;
      } else {
        runs[y].push_back({x, x + 1});
      }
    }
  }
  return runs;
}

// Draws along the runs with a round brush.
void draw_runs(const std::vector<std::vector<Run>>& runs, std::size_t width, std::size_t diameter,
               Ink ink, std::vector<Ink>& out) {
  const std::size_t reach = diameter / 2;
  const double radius = static_cast<double>(diameter) / 2;
  std::vector<std::size_t> sideways(reach + 1);  // by how far the brush reaches, rows away
  for (std::size_t away = 0; away <= reach; ++away) {
    const auto down = static_cast<double>(away);
    sideways[away] = static_cast<std::size_t>(std::sqrt(radius * radius - down * down));
  }
  std::vector<int> begun(width + 1);  // how many spans begin at a pixel, less those that end
  for (std::size_t y = 0; y < runs.size(); ++y) {
    std::fill(begun.begin(), begun.end(), 0);
    const std::size_t last = std::min(runs.size() - 1, y + reach);
    for (std::size_t from = y - std::min(y, reach); from <= last; ++from) {
      const std::size_t more = sideways[from < y ? y - from : from - y];
      for (const Run& run : runs[from]) {
        ++begun[run.from - std::min(run.from, more)];
        --begun[std::min(width, run.to + more)];
      }
    }
    int open = 0;
    for (std::size_t x = 0; x < width; ++x) {
      open += begun[x];
      if (open > 0) out[y * width + x] = ink;
    }
  }
}

}  // namespace

std::vector<Ink> outline(const Map& map, float level) {
  // Odd: about the pixels it runs over. In a large picture, seen from afar, it must be bold.
  const std::size_t grown = std::min(map.width, map.height) / 240 | 1;
  const std::size_t line = grown > 1 ? grown + 2 : 1;
  const std::size_t edge = std::max<std::size_t>(2, grown / 2);
  const std::vector<std::vector<Run>> runs = border_runs(map, level);
  std::vector<Ink> out(map.values.size());
  draw_runs(runs, map.width, line + 2 * edge, Ink::kEdge, out);
  draw_runs(runs, map.width, line, Ink::kLine, out);
  return out;
}

}  // namespace contcore
