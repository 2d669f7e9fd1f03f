#include "coreset/ranks_mean.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "coreset/kernels.h"
#include "coreset/sketch.h"
#include "device/packing.h"

namespace contcore {
namespace {

constexpr std::size_t kMeanRows = Sketch::kMeanBlock;  // of a block

std::vector<float> mean_of_bytes(const Points& points, Compute& compute) {
  const std::size_t d = points.here.cols;
  std::vector<std::uint64_t> sums(compute.threads().count() * d, 0);
  compute.threads().run(
      (points.here.rows + kMeanRows - 1) / kMeanRows, [&](std::size_t block, std::size_t worker) {
        const std::size_t end = std::min(points.here.rows, (block + 1) * kMeanRows);
        for (std::size_t i = block * kMeanRows; i < end; ++i) {
          const std::uint8_t* row = points.here.byte_row(i);
          kernels::add_byte_columns(&row, 1, d, sums.data() + worker * d);
        }
      });
  std::vector<std::uint64_t> mine(d, 0);
  for (std::size_t i = 0; i < sums.size(); ++i) mine[i % d] += sums[i];
  Packer packer;
  packer.put_all(mine);
  std::vector<std::uint64_t> all(d, 0);
  for (const Ranks::Bytes& said : points.ranks->all_gather(packer.bytes())) {
    const std::vector<std::uint64_t> theirs = Unpacker(said).get_all<std::uint64_t>();
    for (std::size_t j = 0; j < d; ++j) all[j] += theirs[j];
  }
  std::vector<float> mean(d);
  for (std::size_t j = 0; j < d; ++j) {
    mean[j] = static_cast<float>(static_cast<double>(all[j]) / static_cast<double>(points.rows));
  }
  return mean;
}

// Adds rows [first, end) of those here to some sums, in order.
void add_rows(const Points& points, std::size_t first, std::size_t end, float* scratch,
              double* sums) {
  for (std::size_t i = first; i < end; ++i) {
    const float* row = points.here.row(i, scratch);
    kernels::add_columns(&row, 1, points.here.cols, sums);
  }
}

std::vector<float> mean_of_floats(const Points& points, Compute& compute) {
  const std::size_t d = points.here.cols;
  const std::size_t rows = points.here.rows;
  // Those here that end the block of the rank before, then whole blocks, then the beginning of one.
  const std::size_t head = std::min(rows, (kMeanRows - points.first % kMeanRows) % kMeanRows);
  const std::size_t blocks = (rows - head) / kMeanRows;
  std::vector<double> whole(blocks * d, 0.0);
  Vectors scratch(compute.threads().count(), d);
  compute.threads().run(blocks, [&](std::size_t b, std::size_t worker) {
    add_rows(points, head + b * kMeanRows, head + (b + 1) * kMeanRows, scratch.row(worker),
             whole.data() + b * d);
  });
  std::vector<double> sums(2 * d,
                           0.0);  // of the blocks that have ended, and of the one that has not
  const auto take = [&](const double* block) {
    for (std::size_t j = 0; j < d; ++j) sums[j] += block[j];
  };
  const auto end_block = [&] {
    take(sums.data() + d);
    std::fill(sums.begin() + static_cast<std::ptrdiff_t>(d), sums.end(), 0.0);
  };
  for (std::size_t r = 0; r < points.ranks->size(); ++r) {
    Packer packer;
    if (r == points.ranks->rank()) {
      add_rows(points, 0, head, scratch.row(0), sums.data() + d);
      if (head > 0 && (points.first + head) % kMeanRows == 0) end_block();
      for (std::size_t b = 0; b < blocks; ++b) take(whole.data() + b * d);
      add_rows(points, head + blocks * kMeanRows, rows, scratch.row(0), sums.data() + d);
      packer.put_all(sums);
    }
    sums = Unpacker(points.ranks->all_gather(packer.bytes())[r]).get_all<double>();
  }
  if (points.rows % kMeanRows != 0) end_block();
  std::vector<float> mean(d);
  for (std::size_t j = 0; j < d; ++j) {
    mean[j] = static_cast<float>(sums[j] / static_cast<double>(points.rows));
  }
  return mean;
}

}  // namespace

std::vector<float> mean_of_points(const Points& points, Compute& compute) {
  return points.here.scalar == Scalar::kUint8 ? mean_of_bytes(points, compute)
                                              : mean_of_floats(points, compute);
}

}  // namespace contcore
