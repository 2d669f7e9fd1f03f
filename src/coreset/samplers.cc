#include "contcore/samplers.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/random.h"
#include "contcore/error.h"
#include "coreset/greedy.h"
#include "coreset/kernels.h"
#include "coreset/sketch.h"

namespace contcore {
namespace {

constexpr std::size_t kProjectedWidth = 128;
constexpr std::size_t kStartingPoints = 10;
constexpr std::size_t kHerdingBlock = 64;  // points measured at a time

struct Nearest {
  float distance = std::numeric_limits<float>::infinity();
  std::int64_t index = -1;
};

void check(VectorView points, std::size_t count, const std::string& name) {
  if (count == 0) {
    throw Error(Error::Kind::kUsage, "a count of 0 picks nothing; ask for at least 1");
  }
  if (points.rows == 0 || points.cols == 0) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: no vectors ({} rows of {})", name, points.rows, points.cols));
  }
}

// The mean in float64: herding multiplies it by the number of picks, and with it the rounding of a
// float32. Blocks of rows are summed apart and added in order, whatever the number of threads.
std::vector<double> precise_mean(VectorView points, Compute& compute) {
  const std::size_t d = points.cols;
  const std::size_t blocks = (points.rows + Sketch::kMeanBlock - 1) / Sketch::kMeanBlock;
  std::vector<double> sums(blocks * d, 0.0);
  Vectors scratch(compute.threads().count(), d);
  compute.threads().run(blocks, [&](std::size_t block, std::size_t worker) {
    const std::size_t end = std::min(points.rows, (block + 1) * Sketch::kMeanBlock);
    for (std::size_t i = block * Sketch::kMeanBlock; i < end; ++i) {
      const float* row = points.row(i, scratch.row(worker));
      kernels::add_columns(&row, 1, d, sums.data() + block * d);
    }
  });
  std::vector<double> mean(d, 0.0);
  for (std::size_t at = 0; at < sums.size(); ++at) mean[at % d] += sums[at];
  for (double& m : mean) m /= static_cast<double>(points.rows);
  return mean;
}

// A d × kProjectedWidth matrix of random numbers, drawn row after row and packed in panels for
// kernels::project. The scale keeps distances as they are, on average.
Vectors random_panels(std::size_t d, std::uint64_t seed) {
  const float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(kProjectedWidth)));
  Random random(seed);
  Vectors panels(kProjectedWidth / kernels::kPanel * d, kernels::kPanel);
  for (std::size_t i = 0; i < d; ++i) {
    for (std::size_t j = 0; j < kProjectedWidth; ++j) {
      panels.row(j / kernels::kPanel * d + i)[j % kernels::kPanel] = random.gaussian() * scale;
    }
  }
  return panels;
}

// Projects up to kProjectRows points from `first` on. Returns whether all that came out is finite.
bool project_block(VectorView points, const Vectors& panels, std::size_t first, float* widened,
                   Vectors& out) {
  const std::size_t n = std::min(kernels::kProjectRows, points.rows - first);
  const float* rows[kernels::kProjectRows];
  for (std::size_t i = 0; i < n; ++i) rows[i] = points.row(first + i, widened + i * points.cols);
  kernels::project(rows, n, points.cols, panels.data(), kProjectedWidth, out.row(first),
                   kProjectedWidth);
  return std::all_of(out.row(first), out.row(first) + n * kProjectedWidth,
                     [](float value) { return std::isfinite(value); });
}

Vectors project_randomly(VectorView points, const std::string& name, std::uint64_t seed,
                         Compute& compute, const Progress& progress) {
  const Vectors panels = random_panels(points.cols, seed);
  Vectors out(points.rows, kProjectedWidth);
  Vectors widened(compute.threads().count(), kernels::kProjectRows * points.cols);
  const std::size_t blocks = (points.rows + kernels::kProjectRows - 1) / kernels::kProjectRows;
  std::atomic<bool> bad{false};
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> done{0};
  compute.threads().run(blocks, [&](std::size_t block, std::size_t worker) {
    if (stop.load(std::memory_order_relaxed)) return;
    const std::size_t first = block * kernels::kProjectRows;
    if (!project_block(points, panels, first, widened.row(worker), out)) {
      bad.store(true, std::memory_order_relaxed);
    }
    const std::size_t finished = done.fetch_add(1, std::memory_order_relaxed) + 1;
    // Worker 0 is the calling thread, the only one to report from.
    if (worker == 0 && progress &&
        !progress(static_cast<double>(finished) / static_cast<double>(blocks))) {
      stop.store(true, std::memory_order_relaxed);
    }
  });
  if (stop) throw Error(Error::Kind::kCancelled, "stopped");
  if (bad) throw_bad_row(points, name);
  return out;
}

// Each point's mean distance to a few random points, squared. Infinities and NaNs pass through: the
// sampler looks at every value before it uses these.
std::vector<float> starting_distances(VectorView points, std::uint64_t seed, Compute& compute) {
  constexpr std::size_t kBlock = 64;
  const std::size_t d = points.cols;
  const std::vector<std::int64_t> starts = random_sample(points.rows, kStartingPoints, seed);
  Vectors start_scratch(starts.size(), d);
  std::vector<const float*> start_rows(starts.size());
  for (std::size_t j = 0; j < starts.size(); ++j) {
    start_rows[j] = points.row(static_cast<std::size_t>(starts[j]), start_scratch.row(j));
  }
  std::vector<float> squared_means(points.rows);
  Vectors scratch(compute.threads().count(), d);
  compute.threads().run(
      (points.rows + kBlock - 1) / kBlock, [&](std::size_t block, std::size_t worker) {
        const std::size_t end = std::min(points.rows, (block + 1) * kBlock);
        float squared[kStartingPoints];
        for (std::size_t i = block * kBlock; i < end; ++i) {
          const float* row = points.row(i, scratch.row(worker));
          kernels::squared_distances(&row, 1, start_rows.data(), starts.size(), d, squared);
          double sum = 0;
          for (std::size_t j = 0; j < starts.size(); ++j) {
            sum += static_cast<double>(std::sqrt(squared[j]));
          }
          const double mean = sum / static_cast<double>(starts.size());
          squared_means[i] = static_cast<float>(mean * mean);
        }
      });
  return squared_means;
}

// Greedy sampling of what is left after the projection, if there was one.
GreedyResult sample_from_starts(VectorView points, const GreedyOptions& options, Compute& compute) {
  // A stream of its own, apart from the projection's.
  const std::vector<float> initial = starting_distances(points, ~options.seed, compute);
  if (std::all_of(initial.begin(), initial.end(), [](float x) { return x == 0; })) {
    // All points coincide, and one of them stands for all.
    GreedyOptions first = options;
    first.start = GreedyOptions::Start::kIndex;
    return greedy_sample(points, {}, first, compute);
  }
  return greedy_sample_tuned(points, {}, options, compute, {}, &initial);
}

// The part of the work that the projection is: multiplications for each point, about.
double projection_share(std::size_t cols, std::size_t count) {
  const double projecting = static_cast<double>(cols * kProjectedWidth);
  const double picking = static_cast<double>(count) * 32 + 128 * kProjectedWidth;
  return projecting / (projecting + picking);
}

// What the memory limit leaves to the sampler beside the projection.
std::size_t remaining_memory(VectorView points, const GreedyOptions& options) {
  if (options.memory_limit == 0) return 0;
  const std::size_t taken = points.rows * kProjectedWidth * sizeof(float);
  if (taken < options.memory_limit) return options.memory_limit - taken;
  throw Error(Error::Kind::kInput,
              fmt::format("a memory limit of {} bytes is too small for {} points: projecting them "
                          "alone takes {} bytes",
                          options.memory_limit, points.rows, taken));
}

}  // namespace

std::vector<std::int64_t> random_sample(std::size_t rows, std::size_t count, std::uint64_t seed) {
  // The beginning of a shuffle of 0, 1, 2, …, of which only the places that differ are kept.
  std::unordered_map<std::size_t, std::size_t> moved;
  const auto at = [&](std::size_t place) {
    const auto found = moved.find(place);
    return found == moved.end() ? place : found->second;
  };
  std::vector<std::int64_t> indices(std::min(rows, count));
  Random random(seed);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t other = i + random.below(rows - i);
    indices[i] = static_cast<std::int64_t>(at(other));
    moved[other] = at(i);
    moved.erase(i);  // it is not looked at again
  }
  return indices;
}

Reservoir::Reservoir(std::size_t places, std::uint64_t seed) : places_(places), random_(seed) {
  if (places == 0) {
    throw Error(Error::Kind::kUsage, "a reservoir of 0 places holds nothing; ask for at least 1");
  }
}

std::int64_t Reservoir::offer() {
  const auto index = static_cast<std::int64_t>(seen_++);
  if (held_.size() < places_) {
    held_.push_back(index);
    return index;
  }
  const std::uint64_t place = below(random_, seen_);
  if (place >= places_) return -1;
  held_[place] = index;
  return static_cast<std::int64_t>(place);
}

std::vector<std::int64_t> herding_sample(VectorView points, std::size_t count, Compute& compute,
                                         const Progress& progress) {
  check(points, count, "points");
  const std::size_t d = points.cols;
  const std::vector<double> mean = precise_mean(points, compute);
  for (const double value : mean) {
    if (!std::isfinite(value)) throw_bad_row(points, "points");
  }
  const std::size_t taken = std::min(count, points.rows);
  const std::size_t blocks = (points.rows + kHerdingBlock - 1) / kHerdingBlock;
  std::vector<bool> picked(points.rows);
  std::vector<Nearest> nearest(blocks);
  Vectors widened(points.scalar == Scalar::kFloat32 ? 0 : compute.threads().count() * kHerdingBlock,
                  d);
  std::vector<double> sum(d, 0.0);
  std::vector<float> target(d);
  std::vector<float> scratch(d);
  std::vector<std::int64_t> picks;
  picks.reserve(taken);
  while (picks.size() < taken) {
    const double number = static_cast<double>(picks.size() + 1);
    for (std::size_t j = 0; j < d; ++j) {
      target[j] = static_cast<float>(number * mean[j] - sum[j]);
    }
    compute.threads().run(blocks, [&](std::size_t block, std::size_t worker) {
      const std::size_t first = block * kHerdingBlock;
      const std::size_t n = std::min(kHerdingBlock, points.rows - first);
      const float* rows[kHerdingBlock] = {};
      float distances[kHerdingBlock];
      for (std::size_t i = 0; i < n; ++i) {
        float* room = widened.rows() == 0 ? nullptr : widened.row(worker * kHerdingBlock + i);
        rows[i] = points.row(first + i, room);
      }
      const float* from = target.data();
      kernels::squared_distances(&from, 1, rows, n, d, distances);
      nearest[block] = {};
      for (std::size_t i = 0; i < n; ++i) {
        if (!picked[first + i] && distances[i] < nearest[block].distance) {
          nearest[block] = {distances[i], static_cast<std::int64_t>(first + i)};
        }
      }
    });
    Nearest best;
    for (const Nearest& candidate : nearest) {
      if (candidate.distance < best.distance) best = candidate;
    }
    if (best.index < 0) {
      throw Error(Error::Kind::kInput, "points: the values are too large to take distances of");
    }
    picked[static_cast<std::size_t>(best.index)] = true;
    picks.push_back(best.index);
    const float* row = points.row(static_cast<std::size_t>(best.index), scratch.data());
    kernels::add_columns(&row, 1, d, sum.data());
    if (progress && !progress(number / static_cast<double>(taken))) {
      throw Error(Error::Kind::kCancelled, "stopped");
    }
  }
  return picks;
}

GreedyResult patchcore_sample(VectorView points, const GreedyOptions& options, Compute& compute) {
  check(points, options.count, options.points_name);
  GreedyOptions rest = options;
  rest.start = GreedyOptions::Start::kMean;  // there is no first pick to choose
  rest.start_index = 0;
  if (points.cols <= kProjectedWidth) return sample_from_starts(points, rest, compute);

  rest.memory_limit = remaining_memory(points, options);
  const double share = projection_share(points.cols, options.count);
  Progress projecting;
  if (options.progress) {
    projecting = [&](double part) { return options.progress(part * share); };
    rest.progress = [&](double part) { return options.progress(share + part * (1 - share)); };
  }
  const Vectors projected =
      project_randomly(points, options.points_name, options.seed, compute, projecting);
  return sample_from_starts(projected.view(), rest, compute);
}

}  // namespace contcore
