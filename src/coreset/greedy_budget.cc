#include "coreset/greedy_budget.h"

#include <fmt/format.h>

#include <algorithm>

#include "contcore/error.h"
#include "coreset/greedy_state.h"

namespace contcore {
namespace {

std::size_t bytes_needed(const VectorView& points, const VectorView& base, std::size_t count,
                         const std::vector<std::size_t>& widths) {
  const std::size_t d = points.cols;
  const std::size_t first = widths.empty() ? 0 : widths.front();
  const std::size_t row_floats = Sketch::row_floats(widths);
  const std::size_t each = sizeof(float) * row_floats;
  const std::size_t state = 4 * 5 + sizeof(PendingCentres) + 8 * d / Sketch::kMeanBlock + 1;
  const std::size_t centres = base.rows + count;
  const std::size_t sample = widths.empty() ? 0 : 2048 * d * 3 * sizeof(float);
  const std::size_t fixed = (std::size_t{8} << 20) + sample;
  return fixed + points.rows * (each + state) + base.rows * each +
         centres * Centres::bytes_each(first, widths.size(), row_floats) + count * 24;
}

}  // namespace

std::vector<std::size_t> greedy_widths(const VectorView& points, const VectorView& base,
                                       const GreedyOptions& options) {
  const std::size_t count = std::min(options.count, points.rows);
  std::vector<std::vector<std::size_t>> choices = {{32, 64}, {32}, {16}, {}};
  if (points.cols < 128) choices.erase(choices.begin());
  if (points.cols < 64 || points.rows < 512) choices = {{}};
  for (const auto& widths : choices) {
    if (options.memory_limit == 0 ||
        bytes_needed(points, base, count, widths) <= options.memory_limit) {
      return widths;
    }
  }
  throw Error(
      Error::Kind::kInput,
      fmt::format("a memory limit of {} bytes is too small for {} points: at least {} "
                  "bytes are needed",
                  options.memory_limit, points.rows, bytes_needed(points, base, count, {})));
}

}  // namespace contcore
