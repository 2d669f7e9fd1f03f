// Images from files and into files.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>

#include "base/file.h"
#include "base/refuse.h"
#include "contcore/error.h"
#include "contcore/image.h"
#include "image/header.h"
#include "image/opencv.h"

namespace contcore {
namespace {

constexpr std::size_t kLongestSide = 65535;
constexpr int kJpegQuality = 92;

// A small file of few pixels may still keep a decoder busy. Within these one image takes a core
// about two seconds: a scan costs up to 0.7 ns a pixel, a byte unpacked up to 4.5 ns. Sixteen
// scans, or eight bits of four colours, of the largest picture.
constexpr std::size_t kMostScanned = 16 * (std::size_t{100} << 20);
constexpr std::size_t kMostUnpacked = 4 * (std::size_t{100} << 20);

void check_size(const ImageHeader& header, const std::string& name, const ImageLimits& limits) {
  const auto& [format, width, height, scanned, unpacked] = header;
  if (width > kLongestSide || height > kLongestSide) {
    refuse(name, fmt::format("claims {} × {} pixels; sides of up to {} are read: cut it into parts",
                             width, height, kLongestSide));
  }
  if (width > limits.pixels / height) {
    refuse(name, fmt::format("claims {} × {} pixels, more than the limit of {}; make it smaller",
                             width, height, limits.pixels));
  }
  if (scanned > kMostScanned) {
    refuse(name, fmt::format("the {} has {} × {} pixels in {} scans or more, too many to decode; "
                             "save it without scans (not progressive), or make it smaller",
                             format, width, height, scanned / (width * height)));
  }
  if (unpacked > kMostUnpacked) {
    refuse(name, fmt::format("the {} of {} × {} pixels unpacks to {} bytes, more than the limit of "
                             "{}; save it with 8 bits for each colour, or make it smaller",
                             format, width, height, unpacked, kMostUnpacked));
  }
}

cv::Mat decode(std::span<const std::uint8_t> bytes) {
  const std::vector<std::uint8_t> picture = picture_of(bytes);
  cv::Mat bgr;
  quietly([&] {
    try {
      bgr = cv::imdecode(picture, cv::IMREAD_COLOR);
    } catch (const cv::Exception&) {
      bgr.release();
    }
  });
  return bgr;
}

std::string ending_of(const std::string& path) {
  const std::size_t dot = path.find_last_of("./");
  std::string ending = dot == path.npos || path[dot] == '/' ? "" : path.substr(dot);
  std::transform(ending.begin(), ending.end(), ending.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return ending;
}

std::vector<std::uint8_t> encode(const Image& image, const std::string& ending) {
  settle_opencv();
  check_image(image);
  cv::Mat bgr;
  cv::cvtColor(pixels_of(image), bgr, cv::COLOR_RGB2BGR);
  std::vector<std::uint8_t> bytes;
  const bool done = cv::imencode(ending, bgr, bytes, {cv::IMWRITE_JPEG_QUALITY, kJpegQuality});
  if (!done) {
    throw Error(Error::Kind::kInternal, fmt::format("an image of {} × {} pixels cannot be encoded",
                                                    image.width, image.height));
  }
  return bytes;
}

}  // namespace

Image read_image(const std::string& path, const ImageLimits& limits) {
  return decode_image(read_whole(path, "an image", limits.bytes), path, limits);
}

Image decode_image(std::span<const std::uint8_t> bytes, const std::string& name,
                   const ImageLimits& limits) {
  settle_opencv();
  if (bytes.size() > limits.bytes) {
    refuse(name, fmt::format("has {} bytes, more than the limit of {} for an image", bytes.size(),
                             limits.bytes));
  }
  const ImageHeader header = read_image_header(bytes, name);
  check_size(header, name, limits);
  const cv::Mat bgr = decode(bytes);
  const auto width = static_cast<std::size_t>(bgr.cols);
  const auto height = static_cast<std::size_t>(bgr.rows);
  // Turned by a quarter, a picture is as wide as it was high.
  const bool as_claimed = (width == header.width && height == header.height) ||
                          (width == header.height && height == header.width);
  if (bgr.empty() || bgr.type() != CV_8UC3 || !as_claimed) {
    refuse(name, fmt::format("the {} cannot be decoded: it is damaged or of a rare kind; save it "
                             "again as PNG",
                             header.format));
  }
  Image image = blank_image(width, height);
  cv::Mat rgb = pixels_of(image);
  cv::cvtColor(bgr, rgb, cv::COLOR_BGR2RGB);
  return image;
}

void write_image(const std::string& path, const Image& image) {
  const std::string ending = ending_of(path);
  if (ending != ".png" && ending != ".jpg" && ending != ".jpeg") {
    refuse(path, "images are written as .png, .jpg or .jpeg; give a name that ends in one of them");
  }
  const std::vector<std::uint8_t> bytes = encode(image, ending);
  const std::array parts = {std::as_bytes(std::span(bytes))};
  write_whole(path, parts);
}

std::vector<std::uint8_t> encode_png(const Image& image) { return encode(image, ".png"); }

}  // namespace contcore
