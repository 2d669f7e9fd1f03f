// The anomaly map: patch distances spread over the pixels.
#include <fmt/format.h>

#include <algorithm>

#include "contcore/error.h"
#include "contcore/image.h"
#include "image/blur.h"
#include "image/pixels.h"
#include "image/resize.h"

namespace contcore {
namespace {

constexpr double kSigma = 4;        // in pixels, at
constexpr double kShortSide = 224;  // this short side

}  // namespace

Map anomaly_map(std::span<const float> patches, std::size_t grid_width, std::size_t grid_height,
                std::size_t width, std::size_t height) {
  const Map grid{grid_width, grid_height, {patches.begin(), patches.end()}};
  check_map(grid);
  if (width == 0 || height == 0) {
    throw Error(Error::Kind::kInternal, fmt::format("a map of {} × {} pixels", width, height));
  }
  const double sigma = kSigma * static_cast<double>(std::min(width, height)) / kShortSide;
  return blur(resize_map(grid, width, height), sigma);
}

}  // namespace contcore
