#include "image/pixels.h"

#include <fmt/format.h>

#include "contcore/error.h"

namespace contcore {
namespace {

// Larger than anything that is read, and small enough for products of sizes.
constexpr std::size_t kLongestDrawn = std::size_t{1} << 20;
constexpr std::size_t kMostDrawn = std::size_t{1} << 29;

}  // namespace

Image blank_image(std::size_t width, std::size_t height) {
  Image image{width, height, {}};
  image.rgb.resize(width * height * 3);
  return image;
}

void check_image(const Image& image) {
  if (image.width == 0 || image.height == 0 || image.width > kLongestDrawn ||
      image.height > kLongestDrawn || image.width > kMostDrawn / image.height ||
      image.rgb.size() != image.width * image.height * 3) {
    throw Error(Error::Kind::kInternal, fmt::format("an image of {} × {} pixels with {} bytes",
                                                    image.width, image.height, image.rgb.size()));
  }
}

void check_map(const Map& map) {
  if (map.width == 0 || map.height == 0 || map.width > kMostDrawn / map.height ||
      map.values.size() != map.width * map.height) {
    throw Error(Error::Kind::kInternal, fmt::format("a map of {} × {} pixels with {} values",
                                                    map.width, map.height, map.values.size()));
  }
}

}  // namespace contcore
