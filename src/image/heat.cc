// The anomaly map: patch distances spread over the pixels.
#include <algorithm>
#include <cmath>

#include "contcore/image.h"
#include "image/opencv.h"

namespace contcore {
namespace {

constexpr double kSigma = 4;        // in pixels, at
constexpr double kShortSide = 224;  // this short side
constexpr double kReach = 4;        // the kernel ends at this many σ

// Samples of a Gaussian, the sum of them 1.
cv::Mat gaussian(double sigma) {
  const int radius = static_cast<int>(kReach * sigma + 0.5);
  cv::Mat kernel(1, 2 * radius + 1, CV_32F);
  double sum = 0;
  const auto bell = [&](int i) { return std::exp(-0.5 * i * i / (sigma * sigma)); };
  for (int i = -radius; i <= radius; ++i) sum += bell(i);
  for (int i = -radius; i <= radius; ++i) {
    kernel.at<float>(i + radius) = static_cast<float>(bell(i) / sum);
  }
  return kernel;
}

}  // namespace

Map anomaly_map(std::span<const float> patches, std::size_t grid_width, std::size_t grid_height,
                std::size_t width, std::size_t height) {
  settle_opencv();
  Map grid{grid_width, grid_height, {patches.begin(), patches.end()}};
  check_map(grid);
  Map map{width, height, std::vector<float>(width * height)};
  check_map(map);
  const cv::Size size(static_cast<int>(width), static_cast<int>(height));
  cv::Mat spread;
  cv::resize(pixels_of(grid), spread, size, 0, 0, cv::INTER_LINEAR);
  cv::Mat smooth = pixels_of(map);
  const cv::Mat kernel =
      gaussian(kSigma * static_cast<double>(std::min(width, height)) / kShortSide);
  cv::sepFilter2D(spread, smooth, CV_32F, kernel, kernel, {-1, -1}, 0, cv::BORDER_REFLECT);
  return map;
}

}  // namespace contcore
