#include "image/region_mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/refuse.h"
#include "contcore/error.h"
#include "image/pixels.h"

namespace contcore {
namespace {

constexpr std::uint8_t kMeanColour[] = {124, 116, 104};  // 255 × (0.485, 0.456, 0.406), ImageNet's
constexpr std::size_t kMostFileBytes = std::size_t{256} << 20;

// Calls use(first, end) for the runs of a row that are outside.
template <typename Use>
void each_run_outside(const std::vector<PixelRun>& inside, std::size_t width, const Use& use) {
  std::size_t at = 0;
  for (const PixelRun& run : inside) {
    if (run.begin > at) use(at, std::size_t{run.begin});
    at = run.end;
  }
  if (at < width) use(at, width);
}

// The cells [first, end) of n, between the pixels `from` and `to` of the image, that the pixels
// [begin, end) touch.
std::pair<std::size_t, std::size_t> cells_of(std::size_t begin, std::size_t end, double from,
                                             double to, std::size_t n) {
  const auto cells = static_cast<double>(n);
  const auto at = [&](std::size_t pixel) {
    return (static_cast<double>(pixel) - from) / (to - from) * cells;
  };
  const double first = std::clamp(std::floor(at(begin)), 0.0, cells);
  const double last = std::clamp(std::ceil(at(end)), 0.0, cells);
  return {static_cast<std::size_t>(first), static_cast<std::size_t>(last)};
}

bool is_text(const std::vector<std::uint8_t>& bytes) {
  const auto first = std::find_if(bytes.begin(), bytes.end(), [](std::uint8_t byte) {
    return byte != ' ' && byte != '\t' && byte != '\r' && byte != '\n';
  });
  return first != bytes.end() && *first == '{';
}

// PNG's header says it; of 16 bits an image would have the upper eight.
bool has_16_bits(const std::vector<std::uint8_t>& bytes) {
  constexpr std::uint8_t kPng[] = {0x89, 'P', 'N', 'G'};
  constexpr std::size_t kDepth = 24;
  return bytes.size() > kDepth && std::equal(std::begin(kPng), std::end(kPng), bytes.begin()) &&
         bytes[kDepth] == 16;
}

bool is_jpeg(const std::vector<std::uint8_t>& bytes) {
  return bytes.size() > 1 && bytes[0] == 0xff && bytes[1] == 0xd8;
}

RegionOfInterest parse_mask(const std::vector<std::uint8_t>& bytes, const std::string& path) {
  if (is_jpeg(bytes)) {
    refuse(
        "a mask is an image without loss, and a JPEG is not quite black where it should be; "
        "draw it anew as a PNG");
  }
  if (has_16_bits(bytes)) refuse("a mask has 8 bits a pixel, this one 16; save it with 8");
  return region_of_mask(decode_image(bytes, path));
}

}  // namespace

RegionOfInterest region_of_mask(const Image& mask) {
  check_image(mask);
  RegionOfInterest region;
  region.width = mask.width;
  region.height = mask.height;
  bool inside = false;
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < mask.width * mask.height; ++i) {
    const std::uint8_t* rgb = mask.rgb.data() + 3 * i;
    const bool is_inside = rgb[0] != 0 || rgb[1] != 0 || rgb[2] != 0;
    if (is_inside != inside) {
      region.counts.push_back(std::exchange(count, 0));
      inside = is_inside;
    }
    ++count;
  }
  region.counts.push_back(count);
  return region;
}

SharedRegion read_region(const std::string& path) {
  const std::vector<std::uint8_t> bytes = read_whole(path, "a region", kMostFileBytes);
  try {
    RegionOfInterest region =
        is_text(bytes) ? parse_region({bytes.begin(), bytes.end()}) : parse_mask(bytes, path);
    check_region(region);
    return std::make_shared<const RegionOfInterest>(std::move(region));
  } catch (const Error& error) {
    const std::string what = error.what();
    if (error.kind() != Error::Kind::kInput || what.starts_with(path)) throw;
    refuse(path, what);
  }
}

Image painted_outside(const Image& image, const RegionRows& inside) {
  Image painted = image;
  for (std::size_t y = 0; y < image.height; ++y) {
    each_run_outside(inside[y], image.width, [&](std::size_t first, std::size_t end) {
      for (std::size_t i = y * image.width + first; i < y * image.width + end; ++i) {
        std::copy(std::begin(kMeanColour), std::end(kMeanColour),
                  painted.rgb.begin() + static_cast<std::ptrdiff_t>(3 * i));
      }
    });
  }
  return painted;
}

void clear_outside(Map& map, const RegionRows& inside) {
  for (std::size_t y = 0; y < map.height; ++y) {
    each_run_outside(inside[y], map.width, [&](std::size_t first, std::size_t end) {
      const auto row = map.values.begin() + static_cast<std::ptrdiff_t>(y * map.width);
      std::fill(row + static_cast<std::ptrdiff_t>(first), row + static_cast<std::ptrdiff_t>(end),
                0.0F);
    });
  }
}

Region clipped(const Region& region, const RegionRows& inside) {
  const std::size_t end = region.x + region.width;
  std::size_t left = end;
  std::size_t right = region.x;
  std::size_t top = 0;
  std::size_t bottom = 0;
  std::size_t pixels = 0;
  for (std::size_t y = region.y; y < std::min(region.y + region.height, inside.size()); ++y) {
    for (const PixelRun& run : inside[y]) {
      const std::size_t from = std::max<std::size_t>(run.begin, region.x);
      const std::size_t to = std::min<std::size_t>(run.end, end);
      if (from >= to) continue;
      if (pixels == 0) top = y;
      bottom = y + 1;
      pixels += to - from;
      left = std::min(left, from);
      right = std::max(right, to);
    }
  }
  Region result = region;
  result.area = std::min(region.area, pixels);
  if (pixels == 0) return result;
  result.x = left;
  result.y = top;
  result.width = right - left;
  result.height = bottom - top;
  return result;
}

std::vector<std::uint32_t> places_touched(const RegionRows& inside, const NetworkInput& input,
                                          std::size_t columns, std::size_t rows) {
  std::vector<bool> touched(columns * rows);
  for (std::size_t y = 0; y < inside.size(); ++y) {
    const auto [top, bottom] = cells_of(y, y + 1, input.top, input.bottom, rows);
    for (const PixelRun& run : inside[y]) {
      const auto [left, right] = cells_of(run.begin, run.end, input.left, input.right, columns);
      for (std::size_t r = top; r < bottom; ++r) {
        for (std::size_t c = left; c < right; ++c) touched[r * columns + c] = true;
      }
    }
  }
  std::vector<std::uint32_t> places;
  for (std::size_t i = 0; i < touched.size(); ++i) {
    if (touched[i]) places.push_back(static_cast<std::uint32_t>(i));
  }
  return places;
}

}  // namespace contcore
