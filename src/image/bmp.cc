#include "image/bmp.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

namespace contcore {
namespace {

constexpr std::size_t kMasked = 3;  // a compression that is none: masks say where the colours are

struct BmpHeader {
  std::size_t info, pixels;  // bytes of the second header; where the pixels begin
  std::size_t width, height, bits, compression = 0, colours = 0;
  bool from_below = true;
};

BmpHeader bmp_header(const ImageBytes& file) {
  BmpHeader header{};
  header.pixels = file.little32(10);
  header.info = file.little32(14);
  header.from_below = true;
  if (header.info == 12) {
    header.width = file.little16(18);
    header.height = file.little16(20);
    header.bits = file.little16(24);
  } else if (header.info >= 40) {
    const auto height = static_cast<std::int32_t>(file.little32(22));
    if (height == INT32_MIN) file.damaged("its height has no bounds");
    header.from_below = height > 0;
    header.width = file.little32(18);
    header.height = static_cast<std::size_t>(height < 0 ? -height : height);
    header.bits = file.little16(28);
    header.compression = file.little32(30);
    header.colours = file.little32(46);
  } else {
    file.damaged(fmt::format("its header has {} bytes", header.info));
  }
  if (header.width > INT32_MAX) file.damaged("its width is negative");
  return header;
}

void check_bmp_kind(const ImageBytes& file, const BmpHeader& header) {
  const auto& [info, pixels, width, height, bits, compression, colours, from_below] = header;
  const bool plain = compression == 0 && (bits == 1 || bits == 4 || bits == 8 || bits == 24);
  const bool masked = (compression == 0 || compression == kMasked) && (bits == 16 || bits == 32);
  if (!plain && !masked) {
    file.unread(fmt::format("a BMP of {} bits with compression {}", bits, compression));
  }
  if (bits <= 8 && colours > 256) file.damaged(fmt::format("it has {} colours", colours));
}

using Palette = std::array<std::array<std::uint8_t, 3>, 256>;  // RGB; black where the file has none

Palette bmp_palette(const ImageBytes& file, const BmpHeader& header) {
  Palette palette{};
  const std::size_t bytes = header.info == 12 ? 3 : 4;
  const std::size_t colours = header.colours == 0 ? std::size_t{1} << header.bits : header.colours;
  const auto all = file.part(14 + header.info, colours * bytes);
  for (std::size_t i = 0; i < colours; ++i) {
    for (std::size_t c = 0; c < 3; ++c) palette[i][c] = all[i * bytes + 2 - c];
  }
  return palette;
}

// Where a colour's bits are in a pixel. Fewer than eight become its upper ones.
struct Channel {
  std::uint32_t mask;

  std::uint8_t of(std::uint32_t pixel) const {
    if (mask == 0) return 0;
    const std::uint32_t value = (pixel & mask) >> std::countr_zero(mask);
    const int bits = 32 - std::countl_zero(mask) - std::countr_zero(mask);
    return static_cast<std::uint8_t>(bits > 8 ? value >> (bits - 8) : value << (8 - bits));
  }
};

std::array<Channel, 3> bmp_channels(const ImageBytes& file, const BmpHeader& header) {
  if (header.compression != kMasked) {
    return header.bits == 16 ? std::array<Channel, 3>{{{0x7c00}, {0x3e0}, {0x1f}}}
                             : std::array<Channel, 3>{{{0xff0000}, {0xff00}, {0xff}}};
  }
  std::array<Channel, 3> channels;
  for (std::size_t c = 0; c < 3; ++c) {
    // Within the second header or behind it: that is the same place.
    channels[c].mask = static_cast<std::uint32_t>(file.little32(54 + c * 4));
  }
  return channels;
}

// The least bytes first.
template <std::size_t bytes>
void masked_row(const std::uint8_t* row, std::size_t width, const std::array<Channel, 3>& channels,
                std::uint8_t* rgb) {
  for (std::size_t x = 0; x < width; ++x, row += bytes, rgb += 3) {
    std::uint32_t pixel = 0;
    for (std::size_t i = bytes; i-- > 0;) pixel = pixel << 8 | row[i];
    for (std::size_t c = 0; c < 3; ++c) rgb[c] = channels[c].of(pixel);
  }
}

void indexed_row(const std::uint8_t* row, std::size_t width, std::size_t bits,
                 const Palette& palette, std::uint8_t* rgb) {
  for (std::size_t x = 0; x < width; ++x, rgb += 3) {
    const std::size_t at = x * bits;  // the first pixel is in the upper bits
    const std::size_t index = row[at / 8] >> (8 - bits - at % 8) & ((1u << bits) - 1);
    std::memcpy(rgb, palette[index].data(), 3);
  }
}

void plain_row(const std::uint8_t* row, std::size_t width, std::uint8_t* rgb) {
  for (std::size_t x = 0; x < width; ++x, row += 3, rgb += 3) {
    rgb[0] = row[2];
    rgb[1] = row[1];
    rgb[2] = row[0];
  }
}

// Turns a row of pixels into RGB.
class BmpRow {
 public:
  BmpRow(const ImageBytes& file, const BmpHeader& header)
      : width_(header.width), bits_(header.bits) {
    if (bits_ <= 8) palette_ = bmp_palette(file, header);
    if (bits_ == 16 || bits_ == 32) channels_ = bmp_channels(file, header);
  }

  void convert(const std::uint8_t* row, std::uint8_t* rgb) const {
    if (bits_ == 24) return plain_row(row, width_, rgb);
    if (bits_ == 16) return masked_row<2>(row, width_, channels_, rgb);
    if (bits_ == 32) return masked_row<4>(row, width_, channels_, rgb);
    indexed_row(row, width_, bits_, palette_, rgb);
  }

 private:
  std::size_t width_, bits_;
  Palette palette_{};
  std::array<Channel, 3> channels_{};
};

}  // namespace

Image decode_bmp(const ImageBytes& file) {
  const BmpHeader header = bmp_header(file);
  const auto& [info, pixels, width, height, bits, compression, colours, from_below] = header;
  check_bmp_kind(file, header);
  const std::size_t row = (width * bits + 31) / 32 * 4;
  if (row != 0 && (pixels > file.size() || (file.size() - pixels) / row < height)) {
    file.cut_short();
  }
  file.check_size(width, height);
  const BmpRow reader(file, header);
  const std::uint8_t* from = file.part(pixels, row * height).data();
  Image image{width, height, std::vector<std::uint8_t>(width * height * 3)};
  for (std::size_t y = 0; y < height; ++y, from += row) {
    reader.convert(from, image.rgb.data() + (from_below ? height - 1 - y : y) * width * 3);
  }
  return image;
}

}  // namespace contcore
