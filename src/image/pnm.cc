#include "image/pnm.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace contcore {
namespace {

// "P5" (gray) or "P6" (RGB), then width, height and the largest value in decimal, with spaces and
// comments between them, one space, and the pixels.
class PnmHeader {
 public:
  explicit PnmHeader(const ImageBytes& file) : file_(file) {
    width = number();
    height = number();
    largest = number();
    if (largest == 0 || largest > 65535) {
      file_.damaged(fmt::format("its largest value is {}", largest));
    }
    if (!is_space(file_.byte(at_))) file_.damaged("its header has no end");
    pixels = at_ + 1;
  }

  std::size_t width, height, largest;
  std::size_t pixels;  // where they begin

 private:
  static bool is_space(std::size_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  std::size_t number() {
    while (is_space(file_.byte(at_)) || file_.byte(at_) == '#') {
      if (file_.byte(at_++) != '#') continue;
      while (file_.byte(at_) != '\n' && file_.byte(at_) != '\r') ++at_;
    }
    const std::size_t start = at_;
    std::size_t value = 0;
    for (; file_.byte(at_) >= '0' && file_.byte(at_) <= '9'; ++at_) {
      value = value * 10 + (file_.byte(at_) - '0');
      if (value > INT32_MAX) file_.damaged("a number of its header is too large");
    }
    if (at_ == start) file_.damaged(fmt::format("there is no number at byte {}", at_));
    return value;
  }

  const ImageBytes& file_;
  std::size_t at_ = 2;
};

// What each value is in 8 bits. Of two bytes the upper ones stay.
std::vector<std::uint8_t> shades_to(std::size_t largest) {
  std::vector<std::uint8_t> shades(largest > 255 ? 65536 : 256, 255);
  for (std::size_t v = 0; v <= largest; ++v) {
    shades[v] = static_cast<std::uint8_t>(largest > 255 ? v * 256 / (largest + 1)
                                                        : (v * 255 + largest / 2) / largest);
  }
  return shades;
}

}  // namespace

Image decode_pnm(const ImageBytes& file) {
  const PnmHeader header(file);
  const std::size_t samples = file.byte(1) == '6' ? 3 : 1;
  const std::size_t bytes = header.largest > 255 ? 2 : 1;
  const std::size_t row = header.width * samples * bytes;
  if (row != 0 && (file.size() - header.pixels) / row < header.height) file.cut_short();
  file.check_size(header.width, header.height);
  const std::size_t pixels = header.width * header.height;
  const std::uint8_t* const from = file.part(header.pixels, pixels * samples * bytes).data();
  Image image{header.width, header.height, std::vector<std::uint8_t>(pixels * 3)};
  if (samples == 3 && header.largest == 255) {
    std::copy_n(from, pixels * 3, image.rgb.data());
    return image;
  }
  const std::vector<std::uint8_t> shades = shades_to(header.largest);
  for (std::size_t i = 0; i < pixels * samples; ++i) {
    const std::uint8_t* const at = from + i * bytes;
    const std::uint8_t shade = shades[bytes == 2 ? std::size_t{at[0]} << 8 | at[1] : at[0]];
    if (samples == 3) {
      image.rgb[i] = shade;
    } else {
      std::fill_n(image.rgb.data() + i * 3, 3, shade);
    }
  }
  return image;
}

}  // namespace contcore
