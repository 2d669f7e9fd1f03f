#include "detector/image_look.h"

#include <algorithm>
#include <cstdlib>

namespace contcore {
namespace {

constexpr int kNear = 12;          // levels that a lossy format may add
constexpr double kNearly = 0.995;  // of the pixels

// Calls use(rgb) for each pixel of the rows, until it says false.
template <typename Use>
void each_pixel(const Image& image, const RegionRows& rows, const Use& use) {
  for (std::size_t y = 0; y < rows.size(); ++y) {
    for (const PixelRun& run : rows[y]) {
      for (std::size_t x = run.begin; x < run.end; ++x) {
        if (!use(image.rgb.data() + 3 * (y * image.width + x))) return;
      }
    }
  }
}

}  // namespace

ImageLook look_at(const Image& image, const SharedRegion& region) {
  const RegionRows rows =
      region ? region_rows(*region, image.width, image.height)
             : RegionRows(image.height, {{0, static_cast<std::uint32_t>(image.width)}});
  ImageLook look{true, false};
  bool tinted = false;
  int least = 255;
  int most = 0;
  std::size_t pixels = 0;
  each_pixel(image, rows, [&](const std::uint8_t* rgb) {
    const int r = rgb[0];
    const int g = rgb[1];
    const int b = rgb[2];
    // A gray file is gray to the bit; a gray thing in a file of colours is not.
    if (r != g || g != b) look.gray = false;
    tinted = std::abs(r - g) > kNear || std::abs(g - b) > kNear || std::abs(r - b) > kNear;
    least = std::min(least, g);
    most = std::max(most, g);
    ++pixels;
    return !tinted;
  });
  if (tinted) return look;
  std::size_t near = 0;
  each_pixel(image, rows, [&](const std::uint8_t* rgb) {
    const int g = rgb[1];
    near += g - least <= kNear || most - g <= kNear ? 1 : 0;
    return true;
  });
  look.blank = static_cast<double>(near) >= kNearly * static_cast<double>(pixels);
  return look;
}

}  // namespace contcore
