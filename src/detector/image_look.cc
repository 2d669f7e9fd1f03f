#include "detector/image_look.h"

#include <algorithm>
#include <cstdlib>

namespace contcore {

ImageLook look_at(const Image& image) {
  constexpr int kNear = 12;          // levels that a lossy format may add
  constexpr double kNearly = 0.995;  // of the pixels
  ImageLook look{true, false};
  bool tinted = false;
  int least = 255;
  int most = 0;
  const std::size_t pixels = image.rgb.size() / 3;
  for (std::size_t i = 0; i < pixels && !tinted; ++i) {
    const int r = image.rgb[3 * i];
    const int g = image.rgb[3 * i + 1];
    const int b = image.rgb[3 * i + 2];
    // A gray file is gray to the bit; a gray thing in a file of colours is not.
    if (r != g || g != b) look.gray = false;
    tinted = std::abs(r - g) > kNear || std::abs(g - b) > kNear || std::abs(r - b) > kNear;
    least = std::min(least, g);
    most = std::max(most, g);
  }
  if (tinted) return look;
  std::size_t near = 0;
  for (std::size_t i = 0; i < pixels; ++i) {
    const int g = image.rgb[3 * i + 1];
    near += g - least <= kNear || most - g <= kNear ? 1 : 0;
  }
  look.blank = static_cast<double>(near) >= kNearly * static_cast<double>(pixels);
  return look;
}

}  // namespace contcore
