#include "image/blur.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <vector>

#include "image/kernels.h"

namespace contcore {
namespace {

constexpr double kReach = 4;  // the kernel ends at this many σ

// Samples of a Gaussian, the sum of them 1.
std::vector<float> gaussian(double sigma) {
  const int radius = static_cast<int>(kReach * sigma + 0.5);
  const auto bell = [&](int i) { return std::exp(-0.5 * i * i / (sigma * sigma)); };
  double sum = 0;
  for (int i = -radius; i <= radius; ++i) sum += bell(i);
  std::vector<float> kernel;
  for (int i = -radius; i <= radius; ++i) kernel.push_back(static_cast<float>(bell(i) / sum));
  return kernel;
}

// … c b a | a b c … c | c b a …
std::size_t mirrored(std::ptrdiff_t i, std::size_t size) {
  const auto n = static_cast<std::ptrdiff_t>(size);
  i = (i % (2 * n) + 2 * n) % (2 * n);
  return static_cast<std::size_t>(i < n ? i : 2 * n - 1 - i);
}

// A row with the ends that a filter sees.
class WideRow {
 public:
  WideRow(std::size_t width, std::size_t radius) : width_(width), radius_(radius) {
    for (std::size_t i = 1; i <= radius; ++i) {
      before_.push_back(mirrored(-static_cast<std::ptrdiff_t>(i), width));
      behind_.push_back(mirrored(static_cast<std::ptrdiff_t>(width - 1 + i), width));
    }
    values_.resize(width + 2 * radius);
  }

  const float* of(const float* row) {
    std::copy_n(row, width_, values_.begin() + static_cast<std::ptrdiff_t>(radius_));
    for (std::size_t i = 0; i < radius_; ++i) {
      values_[radius_ - 1 - i] = row[before_[i]];
      values_[radius_ + width_ + i] = row[behind_[i]];
    }
    return values_.data();
  }

 private:
  std::size_t width_, radius_;
  std::vector<std::size_t> before_, behind_;
  std::vector<float> values_;
};

}  // namespace

Map blur(const Map& map, double sigma) {
  const std::vector<float> kernel = gaussian(sigma);
  const std::size_t radius = kernel.size() / 2;
  const auto across = std::make_unique_for_overwrite<float[]>(map.values.size());
  WideRow wide(map.width, radius);
  for (std::size_t y = 0; y < map.height; ++y) {
    image_kernels::filter_row(wide.of(map.values.data() + y * map.width), kernel.data(),
                              kernel.size(), map.width, across.get() + y * map.width);
  }
  std::vector<const float*> rows;
  for (std::size_t y = 0; y < map.height + 2 * radius; ++y) {
    const auto place = static_cast<std::ptrdiff_t>(y) - static_cast<std::ptrdiff_t>(radius);
    rows.push_back(across.get() + mirrored(place, map.height) * map.width);
  }
  Map out{map.width, map.height, std::vector<float>(map.values.size())};
  image_kernels::filter_columns(rows.data(), kernel.data() + radius, radius, map.height, map.width,
                                out.values.data());
  return out;
}

}  // namespace contcore
