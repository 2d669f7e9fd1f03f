// The dense way of greedy_update.h: every point of a block against every centre of a block.
#include <algorithm>

#include "coreset/greedy_update.h"

namespace contcore {
namespace {

constexpr std::size_t kDenseBlock = 64;

void scan_dense(GreedyState& state, const std::uint32_t* ids, std::size_t n,
                std::vector<std::uint32_t>& seen, std::size_t end, float threshold,
                GreedyWorker& worker) {
  const std::size_t d = state.points.cols;
  worker.point_scratch.resize(kernels::kScanPoints * d);
  worker.centre_scratch.resize(kDenseBlock * d);
  worker.centre_rows.resize(kDenseBlock);
  worker.distances.resize(kernels::kScanPoints * kDenseBlock);
  std::size_t from = end;
  for (std::size_t i = 0; i < n; ++i) from = std::min<std::size_t>(from, seen[ids[i]]);
  for (; from < end; from += kDenseBlock) {
    const std::size_t stop = std::min(end, from + kDenseBlock);
    const float* rows[kernels::kScanPoints];
    std::uint32_t open[kernels::kScanPoints];
    std::size_t taken = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (seen[ids[i]] >= stop || state.bound[ids[i]] < threshold) continue;
      rows[taken] = state.points.row(ids[i], worker.point_scratch.data() + taken * d);
      open[taken++] = ids[i];
    }
    if (taken == 0) continue;
    const std::size_t width = stop - from;
    for (std::size_t c = 0; c < width; ++c) {
      worker.centre_rows[c] = state.centres.row(from + c, worker.centre_scratch.data() + c * d);
    }
    kernels::squared_distances(rows, taken, worker.centre_rows.data(), width, d,
                               worker.distances.data());
    worker.counts.full += taken * width;
    for (std::size_t i = 0; i < taken; ++i) {
      worker.counts.dense += stop - std::max<std::size_t>(from, seen[open[i]]);
      const float* begin = worker.distances.data() + i * width;
      state.bound[open[i]] =
          std::min(state.bound[open[i]], *std::min_element(begin, begin + width));
      seen[open[i]] = static_cast<std::uint32_t>(stop);
    }
  }
}

}  // namespace

void update_dense(GreedyState& state, const std::uint32_t* ids, std::size_t n, float threshold,
                  GreedyWorker& worker) {
  scan_dense(state, ids, n, state.seen, state.centres.size(), threshold, worker);
  if (state.base.rows > 0) {
    scan_dense(state, ids, n, state.base_seen, state.base.rows, threshold, worker);
  }
}

}  // namespace contcore
