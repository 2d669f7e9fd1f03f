// The part of a task's images that is looked at: what lies outside is neither learned nor judged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace contcore {

/// Polygons that a person has drawn, or a mask. A point is inside where a ray from it crosses the
/// polygons' sides an odd number of times (even-odd: where two overlap, or one crosses itself, it
/// is outside); a pixel is where its centre is. An image of another size and the same shape has it
/// scaled.
struct RegionOfInterest {
  struct Point {
    double x = 0;
    double y = 0;
    bool operator==(const Point&) const = default;
  };
  using Polygon = std::vector<Point>;

  static constexpr std::size_t kMostPoints = 1000;
  static constexpr std::size_t kMostCounts = 32768;

  std::size_t width = 0;  ///< in pixels, of the images it was drawn on
  std::size_t height = 0;
  std::vector<Polygon> polygons;  ///< in those pixels; what reaches beyond is cut off
  /// Of a mask, row after row: how many pixels are outside, then inside, then outside, … Empty
  /// where there are polygons.
  std::vector<std::uint32_t> counts;

  bool operator==(const RegionOfInterest&) const = default;
};

/// It is shared by all that is seen through it; none: the whole image.
using SharedRegion = std::shared_ptr<const RegionOfInterest>;

bool same_region(const SharedRegion& a, const SharedRegion& b);

/// {"width": 640, "height": 480, "polygons": [[[10, 10], [630, 10], [320, 470]]]}, or "counts" in
/// the place of "polygons". Throws Error (kInput) for anything else: also a size that no image has,
/// polygons with fewer than three points, with more than kMostPoints together, or with numbers that
/// are none. And back.
RegionOfInterest parse_region(const std::string& text);
std::string region_text(const RegionOfInterest& region);

/// Throws the same for one that was made otherwise; and for one with no pixel inside, or with all.
void check_region(const RegionOfInterest& region);

/// From a file: that text, or a mask, an image in which what is not black is inside. Throws Error
/// (kInput), naming the file.
SharedRegion read_region(const std::string& path);

/// Where the region is in an image: of each row the pixels [begin, end) that are inside, from left
/// to right. Throws Error (kInput) for a region that parse_region() would refuse.
struct PixelRun {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  bool operator==(const PixelRun&) const = default;
};
using RegionRows = std::vector<std::vector<PixelRun>>;
RegionRows region_rows(const RegionOfInterest& region, std::size_t width, std::size_t height);

/// Whether an image of that size has the same shape, but for the rounding of a side.
bool fits_region(const RegionOfInterest& region, std::size_t width, std::size_t height);

}  // namespace contcore
