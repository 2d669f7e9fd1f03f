#include "image/orientation.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace contcore {

// Laid out as a TIFF: byte order, 42, the place of a directory; there a count, and entries of 12
// bytes: tag, type, count, value.
int exif_orientation(std::span<const std::uint8_t> exif) {
  constexpr std::size_t kOrientation = 0x112;
  const bool little = exif.size() >= 8 && exif[0] == 'I' && exif[1] == 'I';
  const bool big = exif.size() >= 8 && exif[0] == 'M' && exif[1] == 'M';
  if (!little && !big) return 1;
  const auto u16 = [&](std::size_t at) -> std::size_t {
    if (at + 2 > exif.size()) return 0;
    const std::size_t first = exif[at];
    const std::size_t second = exif[at + 1];
    return little ? first | second << 8 : first << 8 | second;
  };
  const std::size_t directory = little ? u16(4) | u16(6) << 16 : u16(4) << 16 | u16(6);
  const std::size_t entries = u16(directory);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t at = directory + 2 + i * 12;
    if (at + 12 > exif.size()) break;
    if (u16(at) != kOrientation) continue;
    const std::size_t value = u16(at + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image upright(Image image, int orientation) {
  if (orientation < 2 || orientation > 8) return image;
  const bool turned = orientation >= 5;  // by a quarter: rows become columns
  const bool from_right = orientation == 2 || orientation == 3 || orientation >= 7;
  const bool from_below =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const auto across = static_cast<std::ptrdiff_t>(image.width);
  const auto down = static_cast<std::ptrdiff_t>(image.height);
  const std::ptrdiff_t start = (from_right ? across - 1 : 0) + (from_below ? down - 1 : 0) * across;
  std::ptrdiff_t step_x = from_right ? -1 : 1;
  std::ptrdiff_t step_y = from_below ? -across : across;
  Image out{image.width, image.height, std::vector<std::uint8_t>(image.rgb.size())};
  if (turned) {
    std::swap(out.width, out.height);
    std::swap(step_x, step_y);
  }
  // In blocks, since one of the two is walked through column by column.
  constexpr std::size_t kBlock = 32;
  for (std::size_t top = 0; top < out.height; top += kBlock) {
    for (std::size_t left = 0; left < out.width; left += kBlock) {
      for (std::size_t y = top; y < std::min(top + kBlock, out.height); ++y) {
        for (std::size_t x = left; x < std::min(left + kBlock, out.width); ++x) {
          const std::ptrdiff_t from = start + static_cast<std::ptrdiff_t>(x) * step_x +
                                      static_cast<std::ptrdiff_t>(y) * step_y;
          std::memcpy(&out.rgb[(y * out.width + x) * 3],
                      &image.rgb[static_cast<std::size_t>(from) * 3], 3);
        }
      }
    }
  }
  return out;
}

}  // namespace contcore
