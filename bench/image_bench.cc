// Resizing and blurring beside OpenCV, in one run and on one thread: contcore_image_bench
//
// Times are the best of many; what matters are the ratios. The results are compared too.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wdouble-promotion"
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#pragma GCC diagnostic pop

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "image/resize.h"

namespace {

using namespace contcore;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Both in turn, so that what else the machine does falls on both.
std::pair<double, double> best_of(int times, const std::function<void()>& theirs,
                                  const std::function<void()>& ours) {
  std::pair<double, double> best(std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::infinity());
  for (int i = 0; i < times; ++i) {
    best.first = std::min(best.first, seconds_of(theirs));
    best.second = std::min(best.second, seconds_of(ours));
  }
  return best;
}

void row(const std::string& what, const std::pair<double, double>& best, bool same) {
  fmt::print("{:<44} {:>9.1f} µs {:>9.1f} µs {:>7.1f} x  {}\n", what, best.first * 1e6,
             best.second * 1e6, best.first / best.second, same ? "same bits" : "BITS DIFFER");
}

void bench_image(std::size_t from_width, std::size_t from_height, std::size_t width,
                 std::size_t height) {
  Random random(1);
  Image image{from_width, from_height, std::vector<std::uint8_t>(from_width * from_height * 3)};
  for (std::uint8_t& v : image.rgb) v = static_cast<std::uint8_t>(random.below(256));
  const cv::Mat pixels(static_cast<int>(from_height), static_cast<int>(from_width), CV_8UC3,
                       image.rgb.data());
  const bool shrinks = width < from_width || height < from_height;
  cv::Mat theirs;
  Image ours;
  const auto best = best_of(
      60,
      [&] {
        theirs.release();
        cv::resize(pixels, theirs, {static_cast<int>(width), static_cast<int>(height)}, 0, 0,
                   shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
      },
      [&] { ours = resize_image(image, width, height); });
  row(fmt::format("image {} x {} to {} x {}", from_width, from_height, width, height), best,
      std::equal(ours.rgb.begin(), ours.rgb.end(), theirs.data));
}

cv::Mat gaussian_of(double sigma) {
  const int radius = static_cast<int>(4 * sigma + 0.5);
  const auto bell = [&](int i) { return std::exp(-0.5 * i * i / (sigma * sigma)); };
  double sum = 0;
  for (int i = -radius; i <= radius; ++i) sum += bell(i);
  cv::Mat kernel(1, 2 * radius + 1, CV_32F);
  for (int i = -radius; i <= radius; ++i) {
    kernel.at<float>(i + radius) = static_cast<float>(bell(i) / sum);
  }
  return kernel;
}

void bench_map(std::size_t grid, std::size_t side) {
  Random random(2);
  Map map{grid, grid, std::vector<float>(grid * grid)};
  for (float& v : map.values) v = static_cast<float>(random.uniform());
  const cv::Mat values(static_cast<int>(grid), static_cast<int>(grid), CV_32F, map.values.data());
  const double sigma = 4 * static_cast<double>(side) / 224;
  cv::Mat wide, smooth;
  Map ours;
  const auto both = best_of(
      200,
      [&] {
        wide.release();
        smooth.release();
        cv::resize(values, wide, {static_cast<int>(side), static_cast<int>(side)}, 0, 0,
                   cv::INTER_LINEAR);
        const cv::Mat kernel = gaussian_of(sigma);
        cv::sepFilter2D(wide, smooth, CV_32F, kernel, kernel, {-1, -1}, 0, cv::BORDER_REFLECT);
      },
      [&] {
        ours = anomaly_map(map.values, {grid, grid, side, side});
      });
  const bool same = std::equal(ours.values.begin(), ours.values.end(), smooth.ptr<float>(),
                               [](float a, float b) { return std::abs(a - b) < 1e-5F; });
  row(fmt::format("map {} x {} to {} x {}", grid, grid, side, side), both, same);
}

}  // namespace

int main() {
  cv::setNumThreads(1);
  fmt::print("{:<44} {:>12} {:>12} {:>9}\n", "", "OpenCV", "contcore", "ratio");
  bench_image(1024, 1024, 256, 256);
  bench_image(512, 512, 256, 256);
  bench_image(768, 768, 256, 256);
  bench_image(4096, 4096, 256, 256);
  bench_image(700, 700, 256, 256);
  bench_image(900, 900, 256, 256);
  bench_image(1000, 800, 256, 256);
  bench_image(1920, 1080, 455, 256);
  bench_image(300, 300, 256, 256);
  bench_image(128, 128, 256, 256);
  bench_image(200, 200, 256, 256);
  bench_image(107, 80, 321, 240);
  bench_image(1000, 100, 256, 256);
  bench_map(28, 224);
  bench_map(32, 256);
  bench_map(48, 384);
  bench_map(64, 512);
}
