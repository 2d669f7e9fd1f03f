#include "contcore/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/rows.h"
#include "contcore/error.h"
#include "contcore/nearest.h"
#include "coreset/kernels.h"
#include "coreset/sketch.h"

namespace contcore {
namespace {

void check(VectorView a, const std::string& name_a, VectorView b, const std::string& name_b) {
  if (a.rows == 0 || b.rows == 0) {
    throw Error(Error::Kind::kInput,
                fmt::format("the {} has {} vectors and the {} has {}; both need at least one",
                            name_a, a.rows, name_b, b.rows));
  }
  if (a.cols != b.cols) {
    throw Error(Error::Kind::kInput, fmt::format("the {} has {} dimensions, but the {} has {}",
                                                 name_a, a.cols, name_b, b.cols));
  }
  if ((a.scalar == Scalar::kUint8) != (b.scalar == Scalar::kUint8)) {
    const bool bytes = a.scalar == Scalar::kUint8;
    throw Error(
        Error::Kind::kInput,
        fmt::format("the {} holds {}, but the {} {}; give both as uint8 or both as float32", name_a,
                    bytes ? "bytes" : "floats", name_b, bytes ? "floats" : "bytes"));
  }
  if (a.cols == 0) {
    throw Error(Error::Kind::kInput,
                fmt::format("the {} and the {} have vectors of 0 dimensions", name_a, name_b));
  }
}

// Unit vectors in uniformly random directions (as far as the generator's gaussians are gaussian).
Vectors random_directions(std::size_t count, std::size_t d, std::uint64_t seed) {
  Random random(seed);
  Vectors directions(count, d);
  for (std::size_t i = 0; i < count; ++i) {
    float* direction = directions.row(i);
    double length = 0;
    while (length == 0) {
      for (std::size_t j = 0; j < d; ++j) direction[j] = random.gaussian();
      length = std::sqrt(kernels::dot64(direction, direction, d));
    }
    for (std::size_t j = 0; j < d; ++j) {
      direction[j] = static_cast<float>(static_cast<double>(direction[j]) / length);
    }
  }
  return directions;
}

std::vector<double> sorted_projections(VectorView vectors, const float* direction,
                                       const std::string& name) {
  std::vector<double> projections(vectors.rows);
  std::vector<float> scratch(vectors.cols);
  for (std::size_t i = 0; i < vectors.rows; ++i) {
    projections[i] = kernels::dot64(vectors.row(i, scratch.data()), direction, vectors.cols);
    // No finite float32s overflow a float64, so there is a bad value in the row.
    if (!std::isfinite(projections[i])) throw_bad_row(vectors, name);
  }
  std::sort(projections.begin(), projections.end());
  return projections;
}

// ∫ (F⁻¹_a − F⁻¹_b)² over [0, 1]. The quantile functions are steps of 1/|a| and 1/|b|; counted in
// units of 1/(|a|·|b|) both break at whole numbers.
double squared_wasserstein(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  std::uint64_t at = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::uint64_t end_a = static_cast<std::uint64_t>(i + 1) * b.size();
    const std::uint64_t end_b = static_cast<std::uint64_t>(j + 1) * a.size();
    const std::uint64_t end = std::min(end_a, end_b);
    const double difference = a[i] - b[j];
    sum += difference * difference * static_cast<double>(end - at);
    at = end;
    if (end == end_a) ++i;
    if (end == end_b) ++j;
  }
  return sum / static_cast<double>(a.size()) / static_cast<double>(b.size());
}

std::vector<std::int64_t> sorted(std::span<const std::int64_t> indices) {
  std::vector<std::int64_t> copy(indices.begin(), indices.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

}  // namespace

Cover cover(VectorView covered, VectorView by, Compute& compute, const Progress& progress) {
  check(covered, "covered set", by, "covering set");
  const NearestIndex index(by, compute, "covering set");
  const NearestResult nearest = index.search(covered, 1, compute, "covered set", progress);
  Cover result;
  double sum = 0;
  for (const float distance : nearest.distances) {
    result.largest = std::max(result.largest, distance);
    sum += static_cast<double>(distance);
  }
  result.average = sum / static_cast<double>(covered.rows);
  return result;
}

float hausdorff(VectorView a, VectorView b, Compute& compute, const Progress& progress) {
  const Cover there = cover(a, b, compute, part_of(progress, 0, 0.5));
  return std::max(there.largest, cover(b, a, compute, part_of(progress, 0.5, 1)).largest);
}

double sliced_wasserstein(VectorView a, VectorView b, std::size_t directions, std::uint64_t seed,
                          Compute& compute, const Progress& progress) {
  if (directions == 0) {
    throw Error(Error::Kind::kUsage, "0 directions measure nothing; ask for at least 1");
  }
  check(a, "first set", b, "second set");
  const Vectors lines = random_directions(directions, a.cols, seed);
  std::vector<double> squared(directions);
  compute.threads().run(directions, [&](std::size_t i, std::size_t worker) {
    if (worker == 0) report(progress, part_done(i, directions));
    squared[i] = squared_wasserstein(sorted_projections(a, lines.row(i), "first set"),
                                     sorted_projections(b, lines.row(i), "second set"));
  });
  double sum = 0;
  for (const double s : squared) sum += s;
  return std::sqrt(sum / static_cast<double>(directions));
}

std::size_t overlap(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  const std::vector<std::int64_t> sorted_a = sorted(a);
  const std::vector<std::int64_t> sorted_b = sorted(b);
  std::vector<std::int64_t> common;
  std::set_intersection(sorted_a.begin(), sorted_a.end(), sorted_b.begin(), sorted_b.end(),
                        std::back_inserter(common));
  return common.size();
}

}  // namespace contcore
