// From the pixels of an image to what the backbone sees, and back.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "contcore/error.h"
#include "contcore/image.h"
#include "image/pixels.h"
#include "image/resize.h"
#include "image/tiles.h"

namespace contcore {
namespace {

constexpr std::size_t kSmallest = 32;
constexpr std::size_t kLargest = 4096;
constexpr std::size_t kMostResized = std::size_t{16} << 20;
constexpr std::size_t kLeastPercent = 5;
constexpr std::size_t kMostPercent = 400;

// Of ImageNet, in the order RGB.
constexpr std::array<float, 3> kMean = {0.485f, 0.456f, 0.406f};
constexpr std::array<float, 3> kDeviation = {0.229f, 0.224f, 0.225f};

std::size_t parse_side(const std::string& text, const std::string& whole, const char* what,
                       const char* examples) {
  std::size_t side = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, side);
  if (error != std::errc() || stopped != end || side < kSmallest || side > kLargest) {
    throw Error(Error::Kind::kUsage, fmt::format("{} '{}' is not a size from {} to {}; give {}",
                                                 what, whole, kSmallest, kLargest, examples));
  }
  return side;
}

std::size_t parse_percent(const std::string& text) {
  std::size_t percent = 0;
  const char* const end = text.data() + text.size() - 1;  // without its sign
  const auto [stopped, error] = std::from_chars(text.data(), end, percent);
  if (error != std::errc() || stopped != end || percent < kLeastPercent || percent > kMostPercent) {
    throw Error(Error::Kind::kUsage, fmt::format("resize '{}' is not from {}% to {}%; give such as "
                                                 "50%",
                                                 text, kLeastPercent, kMostPercent));
  }
  return percent;
}

// At most half of it, in the steps that networks take.
std::size_t usual_overlap(std::size_t tile) {
  std::size_t step = 32;
  const std::size_t half = std::min(kTileOverlap, tile / 2);
  while (step > half) step /= 2;
  return half / step * step;
}

std::size_t parse_overlap(const std::string& text) {
  std::size_t overlap = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, overlap);
  if (error == std::errc() && stopped == end && overlap <= kLargest) return overlap;
  throw Error(
      Error::Kind::kUsage,
      fmt::format("overlap '{}' is not a number of pixels; give such as {}", text, kTileOverlap));
}

void check_tiles(const Geometry& geometry) {
  if (geometry.mode != Geometry::Resize::kPercent || geometry.resize < kLeastPercent ||
      geometry.resize > kMostPercent) {
    throw Error(Error::Kind::kUsage,
                fmt::format("tiles are cut from images that keep their shape and scale, and a "
                            "resize to {} does not; give a resize such as 50%, or none",
                            geometry.resize_text()));
  }
  if (geometry.crop != 0) {
    throw Error(Error::Kind::kUsage,
                fmt::format("a crop to {} leaves no tiles; leave out the crop or the tiles",
                            geometry.crop));
  }
  if (geometry.tile < kSmallest || geometry.tile > kLargest) {
    throw Error(Error::Kind::kUsage, fmt::format("a tile of {}; give from {} to {}, such as 384",
                                                 geometry.tile, kSmallest, kLargest));
  }
  if (geometry.overlap > geometry.tile / 2) {
    throw Error(Error::Kind::kUsage,
                fmt::format("tiles of {} that overlap by {}, which is more than half of them; give "
                            "an overlap of at most {}, or larger tiles",
                            geometry.tile, geometry.overlap, geometry.tile / 2));
  }
}

void check(const Geometry& geometry) {
  if (geometry.tile != 0) return check_tiles(geometry);
  if (geometry.mode == Geometry::Resize::kPercent) {
    throw Error(Error::Kind::kUsage,
                fmt::format("a resize to {} is for images that are cut into tiles; give a tile "
                            "such as 384, or a size such as 256",
                            geometry.resize_text()));
  }
  if (geometry.resize < kSmallest || geometry.resize > kLargest) {
    throw Error(Error::Kind::kUsage, fmt::format("a resize to {}; give from {} to {}, such as 256",
                                                 geometry.resize, kSmallest, kLargest));
  }
  if (geometry.crop > geometry.resize) {
    throw Error(
        Error::Kind::kUsage,
        fmt::format("a crop of {} does not fit into an image resized to {}; give a crop of at "
                    "most {} or 'none'",
                    geometry.crop, geometry.resize, geometry.resize));
  }
}

PixelSize part_of(const PixelSize& image, std::size_t percent) {
  const auto side = [&](std::size_t pixels) {
    return std::max<std::size_t>(1, (pixels * percent + 50) / 100);
  };
  const PixelSize size{side(image.width), side(image.height)};
  const std::size_t most = ImageLimits().pixels;
  if (size.width <= most / size.height) return size;
  throw Error(Error::Kind::kInput,
              fmt::format("an image of {} × {} pixels, resized to {}%, has over {} pixels; give a "
                          "smaller resize",
                          image.width, image.height, percent, most));
}

// Each value of a byte in each channel, normalised.
using Table = std::array<std::array<float, 256>, 3>;

Table normalisation() {
  Table table{};
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t v = 0; v < 256; ++v) {
      table[c][v] = (static_cast<float>(v) / 255.0f - kMean[c]) / kDeviation[c];
    }
  }
  return table;
}

// Which pixel of a side of n stands at i, where it goes on mirrored: … c b | a b c | b a b c …
std::size_t reflected(std::ptrdiff_t i, std::size_t n) {
  if (n == 1) return 0;
  const std::size_t at = static_cast<std::size_t>(i < 0 ? -i : i) % (2 * n - 2);
  return at < n ? at : 2 * n - 2 - at;
}

// The part of the image from (left, top) on that the input has room for.
void normalise(const Image& image, std::size_t left, std::size_t top, NetworkInput& input) {
  static const Table table = normalisation();
  input.chw.resize(3 * input.width * input.height);
  for (std::size_t y = 0; y < input.height; ++y) {
    const std::uint8_t* const row = image.rgb.data() + 3 * ((top + y) * image.width + left);
    for (std::size_t c = 0; c < 3; ++c) {
      float* const out = input.chw.data() + (c * input.height + y) * input.width;
      for (std::size_t x = 0; x < input.width; ++x) out[x] = table[c][row[3 * x + c]];
    }
  }
}

// ---- Back
// ----------------------------------------------------------------------------------------

// Where the original's pixels lie in the map, along one side; pixels outside have `seen` false.
struct Place {
  bool seen;
  std::size_t low, high;
  float part;  // of `high`
};

std::vector<Place> places(std::size_t pixels, double from, double to, std::size_t size) {
  std::vector<Place> out(pixels);
  const double scale = static_cast<double>(size) / (to - from);
  for (std::size_t i = 0; i < pixels; ++i) {
    const double centre = static_cast<double>(i) + 0.5;
    const double at = std::clamp((centre - from) * scale - 0.5, 0.0, static_cast<double>(size - 1));
    const auto low = static_cast<std::size_t>(at);
    out[i] = {centre >= from && centre < to, low, std::min(low + 1, size - 1),
              static_cast<float>(at - static_cast<double>(low))};
  }
  return out;
}

}  // namespace

Geometry Geometry::parse(const std::string& resize, const std::string& crop) {
  constexpr std::string_view kShortPrefix = "short:";
  Geometry geometry;
  const bool shorter = resize.starts_with(kShortPrefix);
  geometry.mode = shorter ? Resize::kShort : Resize::kSquare;
  geometry.resize = parse_side(shorter ? resize.substr(kShortPrefix.size()) : resize, resize,
                               "resize", "such as 256 or short:256");
  geometry.crop = crop == "none" ? 0 : parse_side(crop, crop, "crop", "such as 224 or none");
  check(geometry);
  return geometry;
}

Geometry Geometry::parse(const GeometryText& given, const Geometry& usual) {
  const auto text = [](const std::string& one, const std::string& other) {
    return one.empty() ? other : one;
  };
  const std::string tile = text(given.tile, usual.tile_text());
  if (tile == "none") {
    if (!given.overlap.empty() && given.overlap != "none") {
      throw Error(Error::Kind::kUsage,
                  "an overlap is one of tiles; give a tile such as 384, or leave the overlap out");
    }
    const Geometry whole = usual.tile == 0 ? usual : Geometry{};
    const std::string resize = text(given.resize, whole.resize_text());
    if (resize.ends_with('%')) {
      check({Resize::kPercent, parse_percent(resize), 0, 0, 0});  // which is refused
    }
    return parse(resize, text(given.crop, whole.crop_text()));
  }
  const bool tiled = usual.tile != 0;
  Geometry geometry;
  const std::string resize = text(given.resize, tiled ? usual.resize_text() : "100%");
  if (resize.ends_with('%')) {
    geometry.mode = Resize::kPercent;
    geometry.resize = parse_percent(resize);
  } else {
    geometry = parse(resize, "none");
  }
  const std::string crop = text(given.crop, "none");
  geometry.crop = crop == "none" ? 0 : parse_side(crop, crop, "crop", "such as 224 or none");
  geometry.tile = parse_side(tile, tile, "tile", "such as 384 or none");
  const std::size_t usually = tiled ? usual.overlap : usual_overlap(geometry.tile);
  geometry.overlap = given.overlap.empty() ? usually : parse_overlap(given.overlap);
  check(geometry);
  return geometry;
}

std::string Geometry::resize_text() const {
  if (mode == Resize::kPercent) return fmt::format("{}%", resize);
  return fmt::format("{}{}", mode == Resize::kShort ? "short:" : "", resize);
}

std::string Geometry::crop_text() const { return crop == 0 ? "none" : fmt::format("{}", crop); }

std::string Geometry::tile_text() const { return tile == 0 ? "none" : fmt::format("{}", tile); }

std::string Geometry::overlap_text() const {
  return tile == 0 ? "none" : fmt::format("{}", overlap);
}

// The long side in proportion, rounded to the nearest.
PixelSize resized_size(const PixelSize& image, const Geometry& geometry) {
  check(geometry);
  const std::size_t side = geometry.resize;
  if (geometry.mode == Geometry::Resize::kPercent) return part_of(image, side);
  if (geometry.mode == Geometry::Resize::kSquare) return {side, side};
  const std::size_t shorter = std::min(image.width, image.height);
  const std::size_t longer = std::max(image.width, image.height);
  const std::size_t other = (2 * longer * side + shorter) / (2 * shorter);
  if (other > kMostResized / side) {
    throw Error(Error::Kind::kInput,
                fmt::format("an image of {} × {} pixels, its short side resized to {}, has over {} "
                            "pixels; resize to a square or cut the image into parts",
                            image.width, image.height, side, kMostResized));
  }
  return image.width <= image.height ? PixelSize{side, other} : PixelSize{other, side};
}

const Image& resized_for_tiles(const Image& image, const Geometry& geometry, Image& room) {
  check_image(image);
  const PixelSize size = resized_size({image.width, image.height}, geometry);
  if (size.width == image.width && size.height == image.height) return image;
  room = resize_image(image, size.width, size.height);
  return room;
}

void cut_tile(const Image& image, std::ptrdiff_t left, std::ptrdiff_t top, NetworkInput& input) {
  static const Table table = normalisation();
  input.chw.resize(3 * input.width * input.height);
  std::vector<std::size_t> columns(input.width);
  for (std::size_t x = 0; x < input.width; ++x) {
    columns[x] = 3 * reflected(left + static_cast<std::ptrdiff_t>(x), image.width);
  }
  for (std::size_t y = 0; y < input.height; ++y) {
    const std::size_t from = reflected(top + static_cast<std::ptrdiff_t>(y), image.height);
    const std::uint8_t* const row = image.rgb.data() + 3 * image.width * from;
    for (std::size_t c = 0; c < 3; ++c) {
      float* const out = input.chw.data() + (c * input.height + y) * input.width;
      for (std::size_t x = 0; x < input.width; ++x) out[x] = table[c][row[columns[x] + c]];
    }
  }
}

NetworkInput seen_of(const PixelSize& image, const Geometry& geometry) {
  const PixelSize size = resized_size(image, geometry);
  const PixelSize seen = geometry.crop == 0 ? size : PixelSize{geometry.crop, geometry.crop};
  const std::size_t x = (size.width - seen.width) / 2;
  const std::size_t y = (size.height - seen.height) / 2;
  NetworkInput input;
  input.width = seen.width;
  input.height = seen.height;
  input.tile = geometry.tile;
  const double across = static_cast<double>(image.width) / static_cast<double>(size.width);
  const double down = static_cast<double>(image.height) / static_cast<double>(size.height);
  input.left = static_cast<double>(x) * across;
  input.right = static_cast<double>(x + seen.width) * across;
  input.top = static_cast<double>(y) * down;
  input.bottom = static_cast<double>(y + seen.height) * down;
  return input;
}

NetworkInput prepare(const Image& image, const Geometry& geometry) {
  check_image(image);
  NetworkInput input = seen_of({image.width, image.height}, geometry);
  const PixelSize size = resized_size({image.width, image.height}, geometry);
  normalise(resize_image(image, size.width, size.height), (size.width - input.width) / 2,
            (size.height - input.height) / 2, input);
  return input;
}

Map to_original(const Map& map, const NetworkInput& input, std::size_t width, std::size_t height) {
  check_map(map);
  Map out{width, height, std::vector<float>(width * height)};
  const std::vector<Place> rows = places(height, input.top, input.bottom, map.height);
  const std::vector<Place> cols = places(width, input.left, input.right, map.width);
  std::vector<float> blend(map.width);
  for (std::size_t y = 0; y < height; ++y) {
    if (!rows[y].seen) continue;
    const float* const low = map.values.data() + rows[y].low * map.width;
    const float* const high = map.values.data() + rows[y].high * map.width;
    const float part = rows[y].part;
    for (std::size_t x = 0; x < map.width; ++x) blend[x] = low[x] + part * (high[x] - low[x]);
    float* const to = out.values.data() + y * width;
    for (std::size_t x = 0; x < width; ++x) {
      const Place& place = cols[x];
      const float left = blend[place.low];
      if (place.seen) to[x] = left + place.part * (blend[place.high] - left);
    }
  }
  return out;
}

Image picture(const NetworkInput& input) {
  const std::size_t pixels = input.width * input.height;
  Image image{input.width, input.height, std::vector<std::uint8_t>(pixels * 3)};
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < pixels; ++i) {
      const float value = (input.chw[c * pixels + i] * kDeviation[c] + kMean[c]) * 255.0f;
      image.rgb[i * 3 + c] = static_cast<std::uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
    }
  }
  return image;
}

}  // namespace contcore
