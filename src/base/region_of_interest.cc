// In: polygons or a mask, from anywhere. Out: which pixels of an image are inside. Fails for what
// is no region.
#include "contcore/region_of_interest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/refuse.h"
#include "base/region_json.h"
#include "contcore/error.h"

namespace contcore {
namespace {

using RegionJson = nlohmann::json;

constexpr std::size_t kLongestSide = 65535;
constexpr std::size_t kMostPixels = std::size_t{100} << 20;
constexpr double kMostCrossings = 1 << 22;  // of a row of pixels with a side of a polygon
constexpr double kFarthest = 1e7;           // of a point, beyond the image too

constexpr char kForm[] =
    "a region is {\"width\": 640, \"height\": 480, \"polygons\": [[[x, y], [x, y], [x, y], …], …]}";

std::size_t size_in(const RegionJson& json, const char* key) {
  return json.at(key).get_ref<const RegionJson::number_unsigned_t&>();
}

RegionOfInterest::Polygon polygon_in(const RegionJson& json) {
  RegionOfInterest::Polygon polygon;
  for (const RegionJson& point : json.get_ref<const RegionJson::array_t&>()) {
    if (point.get_ref<const RegionJson::array_t&>().size() != 2) refuse(kForm);
    if (!point[0].is_number() || !point[1].is_number()) refuse(kForm);
    polygon.push_back({point[0].get<double>(), point[1].get<double>()});
  }
  return polygon;
}

// How many rows of pixels the sides cross, about: so long it takes to tell what is inside.
double crossings_of(const RegionOfInterest& region) {
  const auto inside = [&](double y) {
    return std::clamp(y, 0.0, static_cast<double>(region.height));
  };
  double crossings = 0;
  for (const RegionOfInterest::Polygon& polygon : region.polygons) {
    for (std::size_t i = 0; i < polygon.size(); ++i) {
      const auto& b = polygon[i + 1 < polygon.size() ? i + 1 : 0];
      crossings += std::abs(inside(polygon[i].y) - inside(b.y));
    }
  }
  return crossings;
}

void check_polygons(const RegionOfInterest& region) {
  std::size_t points = 0;
  for (const RegionOfInterest::Polygon& polygon : region.polygons) {
    if (polygon.size() < 3) refuse("a polygon of a region has at least three points");
    points += polygon.size();
    for (const auto& [x, y] : polygon) {
      // Also what is no number.
      if (!(std::abs(x) <= kFarthest && std::abs(y) <= kFarthest)) {
        refuse(fmt::format("a region cannot have a point at ({}, {})", x, y));
      }
    }
  }
  if (points > RegionOfInterest::kMostPoints) {
    refuse(
        fmt::format("a region has at most {} points, this one {}; draw it with fewer, or give a "
                    "mask",
                    RegionOfInterest::kMostPoints, points));
  }
}

// In an image of that height.
void check_crossings(const RegionOfInterest& region, std::size_t height) {
  const double scale = static_cast<double>(height) / static_cast<double>(region.height);
  if (crossings_of(region) * scale > kMostCrossings) {
    refuse("the sides of the region go up and down too often; draw it simpler, or give a mask");
  }
}

void check_counts(const RegionOfInterest& region) {
  if (region.counts.size() > RegionOfInterest::kMostCounts) {
    refuse(
        fmt::format("the edge of the mask is too ragged ({} runs of pixels; at most {} are "
                    "kept); give a smoother or a smaller one, or draw polygons",
                    region.counts.size(), RegionOfInterest::kMostCounts));
  }
  std::uint64_t pixels = 0;
  for (const std::uint32_t count : region.counts) pixels += count;
  if (pixels != region.width * region.height) {
    refuse(fmt::format("a region's counts are of {} pixels; {} × {} are {}", pixels, region.width,
                       region.height, region.width * region.height));
  }
}

void check_form(const RegionOfInterest& region) {
  const std::size_t w = region.width, h = region.height;
  if (w == 0 || h == 0 || w > kLongestSide || h > kLongestSide || w > kMostPixels / h) {
    refuse(
        fmt::format("a region of an image of {} × {} pixels cannot be; it says the size of the "
                    "images it was drawn on",
                    w, h));
  }
  if (region.polygons.empty() == region.counts.empty()) refuse(kForm);
  check_polygons(region);
  if (!region.counts.empty()) check_counts(region);
}

// Where the sides of the polygons cross the height y, sorted.
void crossings_at(const RegionOfInterest& region, double y, std::vector<double>& found) {
  found.clear();
  for (const RegionOfInterest::Polygon& polygon : region.polygons) {
    for (std::size_t i = 0; i < polygon.size(); ++i) {
      const auto& a = polygon[i];
      const auto& b = polygon[i + 1 < polygon.size() ? i + 1 : 0];
      if ((a.y > y) == (b.y > y)) continue;
      found.push_back(a.x + (y - a.y) * (b.x - a.x) / (b.y - a.y));
    }
  }
  std::sort(found.begin(), found.end());
}

// The first of `pixels` whose centre, in the region's pixels, is at `at` or beyond.
std::uint32_t first_from(double at, std::size_t side, std::size_t pixels) {
  const auto centre = [&](std::size_t i) {
    return (static_cast<double>(i) + 0.5) * static_cast<double>(side) / static_cast<double>(pixels);
  };
  const double guess = at * static_cast<double>(pixels) / static_cast<double>(side) - 0.5;
  auto i = static_cast<std::size_t>(std::clamp(guess, 0.0, static_cast<double>(pixels)));
  while (i > 0 && centre(i - 1) >= at) --i;
  while (i < pixels && centre(i) < at) ++i;
  return static_cast<std::uint32_t>(i);
}

void add_run(std::vector<PixelRun>& row, PixelRun run) {
  if (run.begin >= run.end) return;
  if (!row.empty() && row.back().end == run.begin) {
    row.back().end = run.end;
  } else {
    row.push_back(run);
  }
}

RegionRows rows_of_polygons(const RegionOfInterest& region, std::size_t width, std::size_t height) {
  RegionRows rows(height);
  std::vector<double> crossings;
  for (std::size_t y = 0; y < height; ++y) {
    crossings_at(region,
                 (static_cast<double>(y) + 0.5) * static_cast<double>(region.height) /
                     static_cast<double>(height),
                 crossings);
    for (std::size_t i = 0; i + 1 < crossings.size(); i += 2) {
      add_run(rows[y], {first_from(crossings[i], region.width, width),
                        first_from(crossings[i + 1], region.width, width)});
    }
  }
  return rows;
}

// The mask as it is.
RegionRows rows_of_counts(const RegionOfInterest& region) {
  RegionRows rows(region.height);
  std::size_t at = 0;
  bool inside = false;
  for (const std::uint32_t count : region.counts) {
    const std::size_t end = at + count;
    while (at < end) {
      const std::size_t y = at / region.width, x = at % region.width;
      const std::size_t more = std::min(end - at, region.width - x);
      if (inside) {
        add_run(rows[y], {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(x + more)});
      }
      at += more;
    }
    inside = !inside;
  }
  return rows;
}

RegionRows rows_of_mask(const RegionOfInterest& region, std::size_t width, std::size_t height) {
  RegionRows own = rows_of_counts(region);
  if (width == region.width && height == region.height) return own;
  RegionRows rows(height);
  for (std::size_t y = 0; y < height; ++y) {
    for (const PixelRun& run : own[(2 * y + 1) * region.height / (2 * height)]) {
      add_run(rows[y], {first_from(run.begin, region.width, width),
                        first_from(run.end, region.width, width)});
    }
  }
  return rows;
}

}  // namespace

bool same_region(const SharedRegion& a, const SharedRegion& b) {
  return a == b || (a && b && *a == *b);
}

void check_region(const RegionOfInterest& region) {
  check_form(region);
  const std::size_t w = region.width, h = region.height;
  std::size_t inside = 0;
  for (const auto& row : region_rows(region, w, h)) {
    for (const PixelRun& run : row) inside += run.end - run.begin;
  }
  if (inside == 0) {
    refuse(
        fmt::format("no pixel of an image of {} × {} is inside the region; draw it around what "
                    "is to be looked at",
                    w, h));
  }
  if (inside == w * h) refuse("the region is the whole image; leave it out");
}

RegionOfInterest parse_region(const std::string& text) {
  return region_in(RegionJson::parse(text, nullptr, false));
}

RegionOfInterest region_in(const RegionJson& json) {
  RegionOfInterest region;
  try {
    region.width = size_in(json, "width");
    region.height = size_in(json, "height");
    if (json.contains("polygons")) {
      std::size_t points = 0;
      for (const RegionJson& polygon : json.at("polygons").get_ref<const RegionJson::array_t&>()) {
        region.polygons.push_back(polygon_in(polygon));
        points += polygon.size();
        if (points > RegionOfInterest::kMostPoints) break;  // which is refused below
      }
    }
    if (json.contains("counts")) {
      for (const RegionJson& count : json.at("counts").get_ref<const RegionJson::array_t&>()) {
        const std::uint64_t n = count.get_ref<const RegionJson::number_unsigned_t&>();
        if (n > kMostPixels) refuse(kForm);
        region.counts.push_back(static_cast<std::uint32_t>(n));
      }
    }
  } catch (const RegionJson::exception&) {
    refuse(kForm);
  }
  check_form(region);
  return region;
}

std::string region_text(const RegionOfInterest& region) {
  RegionJson json = {{"width", region.width}, {"height", region.height}};
  if (!region.counts.empty()) {
    json["counts"] = region.counts;
    return json.dump();
  }
  json["polygons"] = RegionJson::array();
  for (const RegionOfInterest::Polygon& polygon : region.polygons) {
    RegionJson points = RegionJson::array();
    for (const auto& [x, y] : polygon) points.push_back({x, y});
    json["polygons"].push_back(std::move(points));
  }
  return json.dump();
}

RegionRows region_rows(const RegionOfInterest& region, std::size_t width, std::size_t height) {
  check_form(region);
  check_crossings(region, height);
  return region.counts.empty() ? rows_of_polygons(region, width, height)
                               : rows_of_mask(region, width, height);
}

bool fits_region(const RegionOfInterest& region, std::size_t width, std::size_t height) {
  if (width > kLongestSide || height > kLongestSide) return false;
  const std::size_t a = width * region.height, b = height * region.width;
  return std::max(a, b) - std::min(a, b) <= std::max({width, height, region.width, region.height});
}

}  // namespace contcore
