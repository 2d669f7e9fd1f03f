#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "contcore/error.h"
#include "contcore/image.h"

namespace contcore {
namespace {

struct Pixel {
  std::uint8_t r, g, b;
  bool operator==(const Pixel&) const = default;
};

Pixel at(const Image& image, std::size_t x, std::size_t y) {
  const std::uint8_t* p = image.rgb.data() + (y * image.width + x) * 3;
  return {p[0], p[1], p[2]};
}

Image gray(std::size_t width, std::size_t height, std::uint8_t level = 128) {
  return {width, height, std::vector<std::uint8_t>(width * height * 3, level)};
}

Map flat(const Image& image, float value) {
  return {image.width, image.height, std::vector<float>(image.width * image.height, value)};
}

// In the rows [from, to).
bool has_white(const Image& image, std::size_t from, std::size_t to) {
  for (std::size_t y = from; y < to; ++y) {
    for (std::size_t x = 0; x < image.width; ++x) {
      if (at(image, x, y) == Pixel{255, 255, 255}) return true;
    }
  }
  return false;
}

// The first row of the bar, whose colour reaches the left border.
std::size_t bar_of(const Image& image) {
  std::size_t y = image.height - 1;
  while (y > 0 && at(image, 0, y - 1) == at(image, 0, image.height - 1)) --y;
  return y;
}

bool is_outlined(const Image& image) { return has_white(image, 0, bar_of(image)); }

Overlay overlay(float low, float high, float level) {
  return {low, high, level, "DEFECT  score 3.21  threshold 2.10", true};
}

TEST(Overlay, AColdImageIsLeftAsItIs) {
  const Image image = gray(400, 300);
  const Image out = draw_overlay(image, flat(image, 0.5f), overlay(1, 2, 3));
  ASSERT_EQ(out.width, 400u);
  ASSERT_GT(out.height, 310u);
  EXPECT_TRUE(std::equal(image.rgb.begin(), image.rgb.end(), out.rgb.begin()));
}

TEST(Overlay, HeatIsSeenWhereItIs) {
  const Image image = gray(400, 300);
  Map map = flat(image, 0);
  for (std::size_t y = 0; y < 300; ++y) {
    for (std::size_t x = 0; x < 400; ++x) map.values[y * 400 + x] = static_cast<float>(x) / 400;
  }
  const Image out = draw_overlay(image, map, overlay(0.25f, 1, 2));
  EXPECT_EQ(at(out, 50, 100), (Pixel{128, 128, 128}));
  const Pixel warm = at(out, 250, 100);
  const Pixel hot = at(out, 399, 100);
  EXPECT_GT(warm.g, warm.b + 50);  // yellowish
  EXPECT_GT(hot.r, hot.g + 80);    // red
  // Hotter is never closer to the image.
  int last = 0;
  for (std::size_t x = 100; x < 400; ++x) {
    const Pixel p = at(out, x, 100);
    const int off = 128 - p.b;
    EXPECT_GE(off, last - 2) << x;
    last = off;
  }
}

// One pixel above the level is outlined, none is not, at any size that is enlarged or not.
TEST(Overlay, OutlinesExactlyWhatIsAboveTheLevel) {
  for (const std::size_t width : {1u, 3u, 35u, 36u, 64u, 107u, 160u, 161u, 319u, 320u, 500u}) {
    const std::size_t height = 40;
    const Image image = gray(width, height);
    const Map map = flat(image, 0.5f);
    const Overlay how = overlay(10, 20, 0.5f);
    EXPECT_FALSE(is_outlined(draw_overlay(image, map, how))) << width;
    for (const std::size_t place : {std::size_t{0}, width * height / 2, width * height - 1}) {
      Map spot = flat(image, 0);
      spot.values[place] = 0.51f;
      EXPECT_TRUE(is_outlined(draw_overlay(image, spot, how))) << width << " " << place;
    }
  }
}

// A picture is for a screen: no side is longer than that, shape and peaks stay.
TEST(Overlay, ALargeImageIsShrunkToTheScreen) {
  const Image image = gray(3000, 1501);
  Map spot = flat(image, 0);
  const Overlay how = overlay(10, 20, 0.5f);
  const Image cold = draw_overlay(image, spot, how);
  EXPECT_EQ(cold.width, 1280u);
  EXPECT_EQ(bar_of(cold), 640u);
  EXPECT_FALSE(is_outlined(cold));
  for (const std::size_t place : {std::size_t{0}, spot.values.size() / 3, spot.values.size() - 1}) {
    spot.values.assign(spot.values.size(), 0);
    spot.values[place] = 0.51f;  // of one pixel, which an average would lose
    EXPECT_TRUE(is_outlined(draw_overlay(image, spot, how))) << place;
  }
  EXPECT_EQ(draw_overlay(gray(1280, 20), flat(gray(1280, 20), 0), how).width, 1280u);
  EXPECT_EQ(bar_of(draw_overlay(gray(160, 600), flat(gray(160, 600), 0), how)), 600u)
      << "enlarged beyond the screen";
}

TEST(Overlay, TheOutlineGoesAroundTheRegion) {
  const Image image = gray(400, 400);
  Map map = flat(image, 0);
  for (std::size_t y = 100; y < 200; ++y) {
    for (std::size_t x = 150; x < 250; ++x) map.values[y * 400 + x] = 1;
  }
  const Image out = draw_overlay(image, map, overlay(10, 20, 0.5f));
  const auto near = [&](std::size_t cx, std::size_t cy) {
    for (std::size_t y = cy - 3; y <= cy + 3; ++y) {
      for (std::size_t x = cx - 3; x <= cx + 3; ++x) {
        if (at(out, x, y) == Pixel{255, 255, 255}) return true;
      }
    }
    return false;
  };
  EXPECT_TRUE(near(150, 150) && near(249, 150) && near(200, 100) && near(200, 199));
  EXPECT_EQ(at(out, 200, 150), (Pixel{128, 128, 128}));
  EXPECT_EQ(at(out, 100, 150), (Pixel{128, 128, 128}));
}

TEST(Overlay, TheBarSaysItInGreenOrRed) {
  const Image image = gray(640, 480);
  Overlay how = overlay(1, 2, 3);
  for (const bool rejected : {true, false}) {
    how.rejected = rejected;
    const Image out = draw_overlay(image, flat(image, 0), how);
    const Pixel bar = at(out, 1, out.height - 1);
    EXPECT_EQ(bar.r > bar.g + 80, rejected);
    EXPECT_EQ(bar.g > bar.r + 80, !rejected);
    // The caption is there, and ends before the border.
    EXPECT_EQ(bar_of(out), 480u);
    EXPECT_TRUE(has_white(out, 480, out.height));
    for (std::size_t y = 480; y < out.height; ++y) EXPECT_EQ(at(out, 638, y), bar);
  }
}

// Neither what is good nor what is a defect can be mistaken for what is unknown.
TEST(Overlay, TheBarOfTheUnknownIsAmber) {
  const Image image = gray(640, 480);
  Overlay how = overlay(1, 2, 3);
  how.unknown = true;
  for (const bool rejected : {true, false}) {
    how.rejected = rejected;
    const Image out = draw_overlay(image, flat(image, 0), how);
    const Pixel bar = at(out, 1, out.height - 1);
    EXPECT_TRUE(bar.r > bar.g + 40 && bar.g > bar.b + 40);
  }
}

TEST(Overlay, AnyShapeAndAnyCaption) {
  for (const auto& [width, height] : std::vector<std::pair<std::size_t, std::size_t>>{
           {1, 1}, {1, 2000}, {2000, 1}, {30, 50}, {224, 224}, {700, 20}}) {
    const Image image = gray(width, height);
    for (const std::string& caption :
         {std::string(), std::string("ü€\n\x01"), std::string(1000, 'W'), std::string(50, ' '),
          std::string(
              "a fairly long caption that has to be set in several lines on a small image")}) {
      Overlay how = overlay(1, 2, 3);
      how.caption = caption;
      const Image out = draw_overlay(image, flat(image, 5), how);
      EXPECT_GE(out.width, 320u);
      EXPECT_EQ(out.rgb.size(), out.width * out.height * 3);
      // No letter touches the sides.
      const Pixel bar = at(out, 0, out.height - 1);
      EXPECT_EQ(at(out, out.width - 1, out.height - 15), bar);
    }
  }
}

TEST(Overlay, OddNumbersDoNoHarm) {
  const Image image = gray(330, 30);
  Map map = flat(image, 0);
  map.values[0] = std::numeric_limits<float>::quiet_NaN();
  map.values[1] = std::numeric_limits<float>::infinity();
  map.values[2] = -std::numeric_limits<float>::infinity();
  draw_overlay(image, map, overlay(0, 0, 1));
  draw_overlay(image, map, overlay(1, 0, 1));
  draw_overlay(image, map, overlay(0, std::numeric_limits<float>::infinity(), 1));
  EXPECT_THROW(draw_overlay(image, {30, 330, map.values}, overlay(0, 1, 1)), Error);
  EXPECT_THROW(draw_overlay({}, {}, overlay(0, 1, 1)), Error);
}

}  // namespace
}  // namespace contcore
