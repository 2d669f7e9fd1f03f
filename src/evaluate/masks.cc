#include "evaluate/masks.h"

#include <fmt/format.h>

#include <algorithm>

#include "contcore/error.h"

namespace contcore {
namespace {

// The pixel of `size` under the centre of pixel i of n that show [from, to).
std::size_t pixel_under(std::size_t i, std::size_t n, double from, double to, std::size_t size) {
  const double at = from + (static_cast<double>(i) + 0.5) * (to - from) / static_cast<double>(n);
  return static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(size - 1)));
}

}  // namespace

Mask read_mask(const std::string& file, const ImagePlace& place) {
  const Image read = read_image(file);
  if (read.width != place.image_width || read.height != place.image_height) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: the mask is {} x {}, but its image {} x {}", file, read.width,
                            read.height, place.image_width, place.image_height));
  }
  // Black and white, or (VisA) small numbers for kinds of defects.
  const bool numbered = *std::max_element(read.rgb.begin(), read.rgb.end()) < 128;
  const int above = numbered ? 0 : 127;
  const NetworkInput& input = place.input;
  Mask mask{input.width, input.height, std::vector<std::uint8_t>(input.width * input.height)};
  std::vector<std::size_t> columns(input.width);
  for (std::size_t x = 0; x < input.width; ++x) {
    columns[x] = pixel_under(x, input.width, input.left, input.right, read.width);
  }
  for (std::size_t y = 0; y < input.height; ++y) {
    const std::size_t row = pixel_under(y, input.height, input.top, input.bottom, read.height);
    for (std::size_t x = 0; x < input.width; ++x) {
      const std::uint8_t* pixel = read.rgb.data() + (row * read.width + columns[x]) * 3;
      mask.values[y * input.width + x] = std::max({pixel[0], pixel[1], pixel[2]}) > above ? 1 : 0;
    }
  }
  return mask;
}

}  // namespace contcore
