#include "memory/defect_bank.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/rows.h"
#include "coreset/greedy.h"
#include "coreset/row_distances.h"

namespace contcore {

bool DefectBank::knows(std::uint64_t image) const {
  return std::binary_search(images.begin(), images.end(), image);
}

DefectBank DefectBank::copy() const {
  DefectBank same;
  same.images = images;
  same.patches = Vectors(patches.rows(), patches.cols(), patches.scalar());
  same.patches.set_rows(0, patches.view());
  return same;
}

void DefectBank::add(VectorView more, const std::vector<std::uint64_t>& more_images,
                     const VectorStore& normal, Compute& compute) {
  std::vector<std::uint64_t> shown;
  std::set_union(images.begin(), images.end(), more_images.begin(), more_images.end(),
                 std::back_inserter(shown));
  shown.resize(std::min(shown.size(), kMostImages));
  Vectors all(patches.rows() + more.rows, more.cols, more.scalar);
  all.set_rows(0, patches.view());
  all.set_rows(patches.rows(), more);
  std::vector<float> squared = normal.index(compute).distances(all.view(), compute);
  for (float& distance : squared) distance *= distance;
  GreedyOptions options;
  options.count = kMostPatches;
  options.points_name = "known defects";
  patches =
      gather(all.view(), greedy_sample_tuned(all.view(), {}, options, compute, {}, &squared).picks);
  images = std::move(shown);
}

void DefectBank::keep(std::size_t most) {
  if (patches.rows() <= most) return;
  Vectors fewer(most, patches.cols(), patches.scalar());
  fewer.set_rows(0, patches.view().part(0, most));
  patches = std::move(fewer);
}

std::vector<float> DefectBank::distances(VectorView of, Compute& compute) const {
  constexpr std::size_t kAtATime = 64;
  std::vector<std::uint32_t> known(patches.rows());
  std::iota(known.begin(), known.end(), 0U);
  std::vector<float> result(of.rows);
  const std::size_t blocks = (of.rows + kAtATime - 1) / kAtATime;
  compute.threads().run(blocks, [&](std::size_t block, std::size_t) {
    const std::size_t begin = block * kAtATime;
    const std::size_t n = std::min(kAtATime, of.rows - begin);
    std::uint32_t from[kAtATime];
    std::iota(from, from + n, static_cast<std::uint32_t>(begin));
    std::vector<float> squared(n * known.size());
    squared_distances(of, {from, n}, patches.view(), known, squared.data());
    for (std::size_t i = 0; i < n; ++i) {
      const float* row = squared.data() + i * known.size();
      result[begin + i] = std::sqrt(*std::min_element(row, row + known.size()));
    }
  });
  return result;
}

}  // namespace contcore
