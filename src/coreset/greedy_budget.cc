#include "coreset/greedy_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "contcore/error.h"
#include "coreset/greedy_state.h"

namespace contcore {
namespace {

std::size_t bytes_needed(const VectorView& points, std::size_t base, std::size_t count,
                         std::size_t width) {
  const std::size_t d = points.cols;
  const std::size_t each = StepSketch::row_bytes(width);
  const std::size_t state = 4 * 5 + sizeof(PendingCentres) + 8 * d / Sketch::kMeanBlock + 1;
  const std::size_t centres = base + count;
  const std::size_t sample = width == 0 ? 0 : 2048 * d * 3 * sizeof(float);
  const std::size_t fixed = (std::size_t{8} << 20) + sample;
  return fixed + points.rows * (each + state) + base * each + centres * Centres::bytes_each(width) +
         count * 24;
}

}  // namespace

std::size_t greedy_least_memory(const VectorView& points, std::size_t base, std::size_t count) {
  return bytes_needed(points, base, std::min(count, points.rows), 0);
}

std::size_t greedy_width(const VectorView& points, const VectorView& base,
                         const GreedyOptions& options) {
  const std::size_t count = std::min(options.count, points.rows);
  for (const std::size_t width : std::initializer_list<std::size_t>{64, 32, 16, 0}) {
    if (width > 0 && (points.cols < 2 * width || points.rows < 512)) continue;
    if (options.memory_limit == 0 ||
        bytes_needed(points, base.rows, count, width) <= options.memory_limit) {
      return width;
    }
  }
  throw Error(
      Error::Kind::kInput,
      fmt::format("a memory limit of {} bytes is too small for {} points: at least {} "
                  "bytes are needed",
                  options.memory_limit, points.rows, bytes_needed(points, base.rows, count, 0)));
}

}  // namespace contcore
