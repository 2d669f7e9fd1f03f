// Which pixels are inside, against a twin that asks for each of them; and what is no region.
#include "contcore/region_of_interest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "contcore/error.h"

namespace contcore {
namespace {

using Polygon = RegionOfInterest::Polygon;

RegionOfInterest of_polygons(std::size_t width, std::size_t height, std::vector<Polygon> polygons) {
  RegionOfInterest region;
  region.width = width;
  region.height = height;
  region.polygons = std::move(polygons);
  return region;
}

RegionOfInterest of_counts(std::size_t width, std::size_t height,
                           std::vector<std::uint32_t> counts) {
  RegionOfInterest region;
  region.width = width;
  region.height = height;
  region.counts = std::move(counts);
  return region;
}

bool naive_inside(const RegionOfInterest& region, double x, double y) {
  if (!region.counts.empty()) {
    const auto at = static_cast<std::size_t>(y) * region.width + static_cast<std::size_t>(x);
    std::size_t end = 0;
    for (std::size_t i = 0; i < region.counts.size(); ++i) {
      end += region.counts[i];
      if (at < end) return i % 2 == 1;
    }
    return false;
  }
  bool inside = false;
  for (const Polygon& polygon : region.polygons) {
    for (std::size_t i = 0; i < polygon.size(); ++i) {
      const auto& a = polygon[i];
      const auto& b = polygon[(i + 1) % polygon.size()];
      if ((a.y > y) == (b.y > y)) continue;
      // To its right or through it.
      if (a.x + (y - a.y) * (b.x - a.x) / (b.y - a.y) <= x) inside = !inside;
    }
  }
  return inside;
}

std::vector<bool> pixels_of(const RegionRows& rows, std::size_t width) {
  std::vector<bool> pixels(width * rows.size());
  for (std::size_t y = 0; y < rows.size(); ++y) {
    std::uint32_t last = 0;
    for (const PixelRun& run : rows[y]) {
      EXPECT_LT(run.begin, run.end);
      EXPECT_TRUE(last == 0 || run.begin > last);
      EXPECT_LE(run.end, width);
      last = run.end;
      for (std::size_t x = run.begin; x < run.end; ++x) pixels[y * width + x] = true;
    }
  }
  return pixels;
}

void compare_with_twin(const RegionOfInterest& region, std::size_t width, std::size_t height) {
  const std::vector<bool> made = pixels_of(region_rows(region, width, height), width);
  ASSERT_EQ(made.size(), width * height);
  std::size_t differ = 0;
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      const double at_x = (static_cast<double>(x) + 0.5) * static_cast<double>(region.width) /
                          static_cast<double>(width);
      const double at_y = (static_cast<double>(y) + 0.5) * static_cast<double>(region.height) /
                          static_cast<double>(height);
      if (made[y * width + x] != naive_inside(region, at_x, at_y)) ++differ;
    }
  }
  EXPECT_EQ(differ, 0U) << region_text(region) << " at " << width << " × " << height;
}

void expect_refused(const std::string& text, const std::string& word) {
  try {
    check_region(parse_region(text));
    ADD_FAILURE() << text << " was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput);
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST(RegionOfInterest, HasThePixelsWhoseCentresAreInside) {
  const RegionOfInterest square = of_polygons(8, 6, {{{1.5, 1}, {5.5, 1}, {5.5, 4}, {1.5, 4}}});
  const RegionRows rows = region_rows(square, 8, 6);
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_TRUE(rows[0].empty());
  // A centre on the left side is inside, one on the right side is not: neighbours share no pixel.
  for (std::size_t y = 1; y < 4; ++y) EXPECT_EQ(rows[y], (std::vector<PixelRun>{{1, 5}}));
  EXPECT_TRUE(rows[4].empty());
}

TEST(RegionOfInterest, IsTheTwinsForAnyPolygonsAndSizes) {
  Random random(7);
  const auto any = [&](std::size_t below) {
    // Whole and half pixels too, where centres and corners lie.
    return static_cast<double>(random.below(4 * below)) / 2 - static_cast<double>(below) / 2 +
           (random.below(3) == 0 ? 0.123 : 0);
  };
  for (int round = 0; round < 150; ++round) {
    const std::size_t width = 1 + random.below(60), height = 1 + random.below(60);
    std::vector<Polygon> polygons(1 + random.below(3));
    for (Polygon& polygon : polygons) {
      const std::size_t points = 3 + random.below(6);  // most of them cross themselves
      for (std::size_t i = 0; i < points; ++i) polygon.push_back({any(width), any(height)});
    }
    const RegionOfInterest region = of_polygons(width, height, polygons);
    compare_with_twin(region, width, height);
    compare_with_twin(region, 1 + random.below(150), 1 + random.below(150));
  }
}

TEST(RegionOfInterest, IsTheTwinsForAnyMaskAndSizes) {
  Random random(8);
  for (int round = 0; round < 100; ++round) {
    const std::size_t width = 1 + random.below(40), height = 1 + random.below(40);
    std::vector<std::uint32_t> counts;
    std::size_t left = width * height;
    while (left > 0) {
      const std::size_t count = std::min(left, random.below(2 * width + 1));
      counts.push_back(static_cast<std::uint32_t>(count));
      left -= count;
    }
    const RegionOfInterest region = of_counts(width, height, counts);
    compare_with_twin(region, width, height);
    compare_with_twin(region, 2 * width, 2 * height);
    compare_with_twin(region, 1 + random.below(100), 1 + random.below(100));
  }
}

TEST(RegionOfInterest, ComesBackFromItsText) {
  const RegionOfInterest drawn =
      of_polygons(640, 480, {{{10, 10.25}, {630.1, 10}, {320, 470}}, {{0, 0}, {9, 0}, {0, 1e6}}});
  EXPECT_EQ(parse_region(region_text(drawn)), drawn);
  const RegionOfInterest mask = of_counts(4, 3, {0, 2, 5, 5});
  EXPECT_EQ(parse_region(region_text(mask)), mask);
  check_region(mask);
}

TEST(RegionOfInterest, RefusesWhatIsNone) {
  const std::string points = R"([[1,1],[30,1],[30,30]])";
  const auto of = [](const std::string& polygons) {
    return R"({"width":40,"height":40,"polygons":)" + polygons + "}";
  };
  check_region(parse_region(of("[" + points + "]")));
  for (const char* text : {"", "[]", "{}", "7", "{\"width\":40,\"height\":40}", "\xff\xfe",
                           R"({"width":-1,"height":40,"polygons":[]})",
                           R"({"width":40.5,"height":40,"polygons":[[[1,1],[30,1],[30,30]]]})",
                           R"({"width":"40","height":40,"polygons":[[[1,1],[30,1],[30,30]]]})"}) {
    expect_refused(text, "a region is");
  }
  expect_refused(of("[]"), "a region is");
  expect_refused(of("7"), "a region is");
  expect_refused(of("[[[1,2,3],[4,5],[6,7]]]"), "a region is");
  expect_refused(of("[[[1,null],[4,5],[6,7]]]"), "a region is");
  expect_refused(of("[[[1,1],[30,30]]]"), "three points");
  expect_refused(of("[[[1,1],[1e300,1],[30,30]]]"), "cannot have a point");
  expect_refused(of("[[[1,1],[1e999,1],[30,30]]]"), "a region is");  // no number in JSON
  expect_refused(of("[[[1,1],[30,1],[15,1]]]"), "no pixel");         // no area
  expect_refused(of("[[[50,50],[90,50],[90,90]]]"), "no pixel");     // outside of the image
  expect_refused(of("[[[10.6,10.6],[10.9,10.6],[10.9,10.9]]]"), "no pixel");  // between centres
  expect_refused(of("[[[0,0],[40,0],[40,40],[0,40]]]"), "whole image");
  expect_refused(R"({"width":0,"height":40,"polygons":[[[1,1],[30,1],[30,30]]]})", "cannot be");
  expect_refused(R"({"width":65536,"height":4,"polygons":[[[1,1],[30,1],[30,30]]]})", "cannot be");
  expect_refused(R"({"width":60000,"height":60000,"counts":[1,2]})", "cannot be");
  expect_refused(R"({"width":4,"height":4,"counts":[16]})", "no pixel");
  expect_refused(R"({"width":4,"height":4,"counts":[0,16]})", "whole image");
  expect_refused(R"({"width":4,"height":4,"counts":[1,2]})", "16");
  expect_refused(R"({"width":4,"height":4,"counts":[4294967295,17]})", "a region is");
  expect_refused(R"({"width":4,"height":4,"counts":[1,15],"polygons":[[[1,1],[3,1],[3,3]]]})",
                 "a region is");
  std::string many = "[[0,0]";
  for (int i = 0; i < 100000; ++i) many += ",[" + std::to_string(i % 40) + ",30]";
  expect_refused(of("[" + many + "]]"), "at most 1000 points");
  std::string zigzag = "[[0,0]";
  for (int i = 1; i < 999; ++i) zigzag += fmt::format(",[{},{}]", i, i % 2 * 65000);
  const std::string high = R"({"width":1600,"height":65000,"polygons":[)" + zigzag + "]]}";
  expect_refused(high, "up and down too often");
  std::string ragged = R"({"width":1000,"height":1000,"counts":[960000)";
  for (int i = 0; i < 40000; ++i) ragged += ",1";
  expect_refused(ragged + "]}", "too ragged");
  RegionOfInterest nan = of_polygons(9, 9, {{{1, 1}, {8, 1}, {std::nan(""), 8}}});
  EXPECT_THROW(check_region(nan), Error);
  nan.polygons[0][2].x = std::numeric_limits<double>::infinity();
  EXPECT_THROW(check_region(nan), Error);
}

TEST(RegionOfInterest, CutsOffWhatReachesBeyondTheImage) {
  const RegionOfInterest region =
      of_polygons(10, 10, {{{-1e6, 5}, {1e6, 5}, {1e6, 1e6}, {-1e6, 1e6}}});
  check_region(region);
  const RegionRows rows = region_rows(region, 10, 10);
  for (std::size_t y = 0; y < 10; ++y) {
    EXPECT_EQ(rows[y], y < 5 ? std::vector<PixelRun>() : (std::vector<PixelRun>{{0, 10}}));
  }
}

TEST(RegionOfInterest, FitsImagesOfTheSameShape) {
  const RegionOfInterest region = of_polygons(1500, 1000, {});
  EXPECT_TRUE(fits_region(region, 1500, 1000));
  EXPECT_TRUE(fits_region(region, 3000, 2000));
  EXPECT_TRUE(fits_region(region, 1000, 667));
  EXPECT_TRUE(fits_region(region, 1000, 666));
  EXPECT_TRUE(fits_region(region, 6001, 4000));
  EXPECT_FALSE(fits_region(region, 1000, 1500));
  EXPECT_FALSE(fits_region(region, 1500, 1500));
  EXPECT_FALSE(fits_region(region, 1500, 1010));
  EXPECT_FALSE(fits_region(region, 640, 480));
}

}  // namespace
}  // namespace contcore
