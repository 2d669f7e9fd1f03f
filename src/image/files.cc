// Images from files and into files. In: a file's bytes, whatever they are. Out: 8-bit RGB. Fails
// with the file, the reason and the remedy; nothing larger than the limits is allocated.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/file.h"
#include "base/refuse.h"
#include "contcore/error.h"
#include "contcore/image.h"
#include "image/bmp.h"
#include "image/jpeg.h"
#include "image/pixels.h"
#include "image/png.h"
#include "image/pnm.h"
#include "image/source.h"
#include "image/tiff.h"
#include "image/webp.h"

namespace contcore {
namespace {

// How a file of a format begins.
struct Format {
  std::string_view first;
  const char* name;
  Image (*decode)(const ImageBytes&);
};

constexpr std::array kFormats = {
    Format{{"\x89PNG\r\n\x1a\n", 8}, "PNG", decode_png},
    Format{{"\xff\xd8\xff", 3}, "JPEG", decode_jpeg},
    Format{{"BM", 2}, "BMP", decode_bmp},
    Format{{"II*\0", 4}, "TIFF", decode_tiff},
    Format{{"MM\0*", 4}, "TIFF", decode_tiff},
    Format{{"II+\0", 4}, "TIFF", decode_tiff},  // BigTIFF
    Format{{"MM\0+", 4}, "TIFF", decode_tiff},
    Format{{"RIFF", 4}, "WebP", decode_webp},  // WebP is not the only one
    Format{{"P5", 2}, "PGM", decode_pnm},
    Format{{"P6", 2}, "PPM", decode_pnm},
};

const Format* format_of(std::string_view bytes) {
  for (const Format& format : kFormats) {
    if (bytes.starts_with(format.first) &&
        (format.decode != decode_webp || bytes.find("WEBP", 8) == 8)) {
      return &format;
    }
  }
  return nullptr;
}

std::string ending_of(const std::string& path) {
  const std::size_t dot = path.find_last_of("./");
  std::string ending = dot == path.npos || path[dot] == '/' ? "" : path.substr(dot);
  std::transform(ending.begin(), ending.end(), ending.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return ending;
}

}  // namespace

Image read_image(const std::string& path, const ImageLimits& limits) {
  return decode_image(read_whole(path, "an image", limits.bytes), path, limits);
}

Image decode_image(std::span<const std::uint8_t> bytes, const std::string& name,
                   const ImageLimits& limits) {
  if (bytes.empty()) refuse(name, "is empty; give an image");
  if (bytes.size() > limits.bytes) {
    refuse(name, fmt::format("has {} bytes, more than the limit of {} for an image", bytes.size(),
                             limits.bytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const Format* format = format_of(text)) {
    return format->decode({bytes, name, limits, format->name});
  }
  if (text.starts_with("GIF8")) ImageBytes(bytes, name, limits, "GIF").unread("a GIF");
  refuse(name, "is not an image that can be read; give PNG, JPEG, BMP, TIFF, WebP, PGM or PPM");
}

void write_image(const std::string& path, const Image& image) {
  const std::string ending = ending_of(path);
  if (ending != ".png" && ending != ".jpg" && ending != ".jpeg") {
    refuse(path, "images are written as .png, .jpg or .jpeg; give a name that ends in one of them");
  }
  check_image(image);
  const std::vector<std::uint8_t> bytes = ending == ".png" ? encode_png(image) : encode_jpeg(image);
  const std::array parts = {std::as_bytes(std::span(bytes))};
  write_whole(path, parts);
}

std::vector<std::uint8_t> encode_png(const Image& image) {
  return encode_png_rgb(image.width, image.height, image.rgb);
}

}  // namespace contcore
