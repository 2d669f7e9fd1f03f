#include "image/lettering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace contcore {
namespace {

constexpr double kSmallest = 0.45;  // that captions are set in

std::string printable() {
  std::string out;
  for (char c = ' '; c <= '~'; ++c) out += c;
  return out;
}

Image black(std::size_t width, std::size_t height) {
  return {width, height, std::vector<std::uint8_t>(width * height * 3)};
}

std::vector<std::uint8_t> drawn(const std::string& text, double scale) {
  Image image = black(300, 200);
  Lettering(scale).draw(text, 20, 120, image);
  return image.rgb;
}

// Also at the smallest size, where strokes may run into each other.
TEST(Lettering, EveryCharacterIsLikeNoOther) {
  for (const double scale : {kSmallest, 1.0, 4.0}) {
    std::set<std::vector<std::uint8_t>> seen;
    for (const char c : printable()) {
      EXPECT_TRUE(seen.insert(drawn(std::string(1, c), scale)).second) << c << " at " << scale;
    }
    EXPECT_TRUE(seen.contains(drawn("", scale)));  // the space, and nothing else
  }
}

// A bright core: what is written in gray cannot be read.
TEST(Lettering, EveryCharacterHasAWhitePixelOrTwo) {
  for (const char c : printable()) {
    const std::vector<std::uint8_t> pixels = drawn(std::string(1, c), kSmallest);
    EXPECT_TRUE(c == ' ' || *std::max_element(pixels.begin(), pixels.end()) > 200) << c;
  }
}

TEST(Lettering, StaysWhereItSays) {
  for (const double scale : {kSmallest, 0.55, 1.0, 2.3, 4.0}) {
    const Lettering letters(scale);
    for (const char c : printable()) {
      const std::string text(3, c);
      const int margin = letters.height();
      Image image = black(static_cast<std::size_t>(letters.width(text) + 2 * margin),
                          static_cast<std::size_t>(4 * margin));
      letters.draw(text, margin, 2 * margin, image);
      for (std::size_t i = 0; i < image.rgb.size(); i += 3) {
        if (image.rgb[i] == 0) continue;
        const int x = static_cast<int>(i / 3 % image.width) - margin;
        const int y = static_cast<int>(i / 3 / image.width) - 2 * margin;
        ASSERT_TRUE(x >= -1 && x <= letters.width(text)) << c << " " << scale << " " << x;
        // Captions in lines 9/5 of a capital apart do not touch.
        ASSERT_TRUE(y >= -margin * 5 / 4 && y < margin / 2) << c << " " << scale << " " << y;
      }
    }
  }
}

TEST(Lettering, CapitalsFillTheirHeight) {
  for (const double scale : {kSmallest, 0.7, 1.0, 4.0}) {
    const Lettering letters(scale);
    Image image = black(200, 200);
    letters.draw("HE", 10, 150, image);
    std::size_t top = 200, bottom = 0;
    for (std::size_t i = 0; i < image.rgb.size(); i += 3) {
      if (image.rgb[i] < 128) continue;
      top = std::min(top, i / 3 / 200);
      bottom = std::max(bottom, i / 3 / 200);
    }
    EXPECT_EQ(top, 150u - static_cast<std::size_t>(letters.height())) << scale;
    EXPECT_EQ(bottom, 149u) << scale;
  }
}

// Numbers below each other line up.
TEST(Lettering, FiguresAreOfOneWidth) {
  for (const char c : std::string("0123456789")) {
    EXPECT_EQ(Lettering(1.0).width(std::string(7, c)), Lettering(1.0).width("0000000")) << c;
  }
}

TEST(Lettering, LeavesOutWhatIsOutside) {
  for (const int x : {-500, -20, 0, 39, 500}) {
    for (const int y : {-500, 0, 7, 45, 500}) {
      Image image = black(40, 30);
      Lettering(1.0).draw("Wg{|", x, y, image);
      EXPECT_EQ(image.rgb.size(), 40u * 30 * 3);
    }
  }
}

}  // namespace
}  // namespace contcore
