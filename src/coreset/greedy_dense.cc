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
  worker.distances.resize(kernels::kScanPoints * kDenseBlock);
  std::size_t from = end;
  for (std::size_t i = 0; i < n; ++i) from = std::min<std::size_t>(from, seen[ids[i]]);
  for (; from < end; from += kDenseBlock) {
    const std::size_t stop = std::min(end, from + kDenseBlock);
    worker.points.reset(d, kernels::kScanPoints);
    std::uint32_t open[kernels::kScanPoints];
    std::size_t taken = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (seen[ids[i]] >= stop || state.bound[ids[i]] < threshold) continue;
      worker.points.add(state.points, ids[i]);
      open[taken++] = ids[i];
    }
    if (taken == 0) continue;
    const std::size_t width = stop - from;
    worker.centres.reset(d, kDenseBlock);
    for (std::size_t c = from; c < stop; ++c) worker.centres.add(state.centres.vector(c), 0);
    worker.points.measure(worker.centres, worker.distances.data());
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
