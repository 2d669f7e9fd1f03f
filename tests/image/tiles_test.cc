#include "image/tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "contcore/error.h"
#include "contcore/image.h"
#include "contcore/score.h"

namespace contcore {
namespace {

std::string tile_refusal(Error::Kind kind, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "taken";
}

Geometry in_tiles(const std::string& tile, const std::string& overlap = "",
                  const std::string& resize = "") {
  return Geometry::parse({resize, "", tile, overlap}, Geometry{});
}

// ---- words -------------------------------------------------------------------------------------

TEST(TileWords, AreReadAndWritten) {
  const Geometry usual = in_tiles("384");
  EXPECT_EQ(usual, (Geometry{Geometry::Resize::kPercent, 100, 0, 384, kTileOverlap}));
  const Geometry half = in_tiles("256", "0", "50%");
  EXPECT_EQ(half, (Geometry{Geometry::Resize::kPercent, 50, 0, 256, 0}));
  for (const Geometry& g : {usual, half, Geometry::parse("short:320", "none")}) {
    EXPECT_EQ(Geometry::parse({g.resize_text(), g.crop_text(), g.tile_text(), g.overlap_text()},
                              Geometry{}),
              g);
    EXPECT_EQ(Geometry::parse(GeometryText{}, g), g);  // nothing is given: as usual
  }
  EXPECT_EQ(Geometry::parse({"", "", "none", ""}, usual), Geometry{});
  // A crop that is usual is not one that is asked for.
  EXPECT_EQ(Geometry::parse({"", "", "384", ""}, Geometry::parse("256", "224")), usual);
}

TEST(TileWords, SayWhatIsWrongWithOthers) {
  const auto said = [](const GeometryText& given) {
    return tile_refusal(Error::Kind::kUsage, [&] { Geometry::parse(given, Geometry{}); });
  };
  const auto says = [&](const GeometryText& given, const std::string& word) {
    EXPECT_NE(said(given).find(word), std::string::npos) << said(given);
  };
  for (const char* tile : {"0", "31", "4097", "-384", "384px", "99999999999999999999"}) {
    says({"", "", tile, ""}, "such as 384");
  }
  for (const char* overlap : {"-1", "none", "1e9", "18446744073709551616", "4097"}) {
    says({"", "", "384", overlap}, "overlap");
  }
  says({"", "", "384", "193"}, "at most 192");
  says({"", "", "384", "384"}, "at most 192");
  says({"", "", "", "48"}, "give a tile");
  says({"384", "", "384", ""}, "such as 50%");
  says({"short:384", "", "384", ""}, "such as 50%");
  says({"", "224", "384", ""}, "leave out the crop");
  says({"50%", "", "", ""}, "such as 384");
  for (const char* percent : {"%", "0%", "4%", "401%", "-5%", "5.5%", "999999999999999999999%"}) {
    says({percent, "", "384", ""}, "such as 50%");
  }
}

// ---- the rule ----------------------------------------------------------------------------------

// How far patch i lies inside of a tile of n patches that begins at `from`; less than 0: outside.
long inside(long i, long from, long n) { return std::min(i - from, from + n - 1 - i); }

// By the rule's words: of all tiles, the one in which it lies farthest from the border, of several
// the first.
std::size_t naive_owner(std::size_t patch, const TiledSide& side, const TileSteps& steps) {
  const auto depth = [&](const TileSpan& tile) {
    const auto step = static_cast<long>(steps.patch);
    return inside(static_cast<long>(patch), tile.begin / step,
                  static_cast<long>(steps.side) / step);
  };
  std::size_t owner = 0;
  for (std::size_t i = 1; i < side.tiles.size(); ++i) {
    if (depth(side.tiles[i]) > depth(side.tiles[owner])) owner = i;
  }
  EXPECT_GE(depth(side.tiles[owner]), 0);
  return owner;
}

TEST(TiledSide, GivesEachPatchToTheTileItLiesDeepestIn) {
  Random random(7);
  for (int round = 0; round < 3000; ++round) {
    TileSteps steps;
    steps.patch = 1 + random.below(14);
    steps.shift = steps.patch * (1 + random.below(4));
    steps.side = steps.shift * (2 + random.below(12));
    steps.overlap = random.below(steps.side / 2 / steps.shift + 1) * steps.shift;
    const std::size_t pixels = 1 + random.below(6 * steps.side);
    const TiledSide side = tiled_side(pixels, steps);
    ASSERT_EQ(side.patches, (pixels + steps.patch - 1) / steps.patch);
    std::size_t next = 0;
    for (std::size_t i = 0; i < side.tiles.size(); ++i) {
      const TileSpan& tile = side.tiles[i];
      ASSERT_EQ(tile.begin % static_cast<long>(steps.shift), 0);
      ASSERT_EQ(tile.first, next);
      next = tile.end;
      const auto margin = static_cast<long>(steps.overlap / 2);
      for (std::size_t p = tile.first; p < tile.end; ++p) {
        ASSERT_EQ(naive_owner(p, side, steps), i) << pixels << " pixels, patch " << p;
        const auto left = static_cast<long>(p * steps.patch) - tile.begin;
        ASSERT_GE(left, margin - static_cast<long>(steps.patch) + 1);
        // The last patch may reach out of the image.
        const long right = static_cast<long>(std::min((p + 1) * steps.patch, pixels)) - tile.begin;
        ASSERT_GE(static_cast<long>(steps.side) - right,
                  margin - static_cast<long>(steps.patch) + 1);
      }
      if (i == 0) continue;
      ASSERT_GT(tile.begin, side.tiles[i - 1].begin);
      ASSERT_LE(tile.begin - side.tiles[i - 1].begin,
                static_cast<long>(steps.side - steps.overlap));
    }
    ASSERT_EQ(next, side.patches);
    const auto all = static_cast<long>(
        std::max(pixels + 2 * (steps.overlap / 2 + steps.shift), steps.side) + steps.shift);
    ASSERT_LT(side.tiles.back().begin + static_cast<long>(steps.side), all);
  }
}

// In the other case what is at the edge of an image would hang on its size.
TEST(TiledSide, ReachesOverBothEndsOfTheImage) {
  for (std::size_t pixels = 64; pixels < 400; ++pixels) {
    const TiledSide side = tiled_side(pixels, {96, 32, 8, 16});
    ASSERT_EQ(side.tiles.front().begin, -16);
    ASSERT_GE(side.tiles.back().begin + 96, static_cast<long>(pixels) + 16);
  }
  EXPECT_EQ(tiled_side(64, {96, 32, 8, 16}).tiles.size(), 1u);
  EXPECT_EQ(tiled_side(65, {96, 32, 8, 16}).tiles.size(), 2u);
  EXPECT_EQ(tiled_side(300, {96, 0, 8, 16}).tiles.front().begin, 0);
}

// Where an image and its grid end, in the image's own pixels.
TEST(TiledImage, LiesOverTheWholeImage) {
  const TileSteps steps{64, 16, 8, 16};
  const TiledImage cut = tiled_image({203, 90}, in_tiles("64", "16"), steps);
  EXPECT_EQ(cut.across.patches, 26u);
  EXPECT_EQ(cut.down.patches, 12u);
  EXPECT_EQ(cut.input.width, 208u);
  EXPECT_EQ(cut.input.height, 96u);
  EXPECT_EQ(cut.input.tile, 64u);
  EXPECT_DOUBLE_EQ(cut.input.right, 208);
  EXPECT_DOUBLE_EQ(cut.input.bottom, 96);
  const TiledImage half = tiled_image({400, 200}, in_tiles("64", "16", "50%"), steps);
  EXPECT_EQ(half.across.patches, 25u);
  EXPECT_DOUBLE_EQ(half.input.right, 400);
  EXPECT_DOUBLE_EQ(half.input.bottom, 208);
  EXPECT_EQ(tiled_image({1, 1}, in_tiles("64", "16", "5%"), steps).across.patches, 1u);
}

TEST(TiledImage, BoundsWhatAnImageIsEnlargedTo) {
  const TileSteps steps{64, 16, 8, 16};
  const std::string said = tile_refusal(Error::Kind::kInput, [&] {
    tiled_image({10000, 9000}, in_tiles("64", "16", "400%"), steps);
  });
  EXPECT_NE(said.find("smaller resize"), std::string::npos) << said;
}

// ---- the pixels --------------------------------------------------------------------------------

Image tile_noise(std::size_t width, std::size_t height, std::uint64_t seed) {
  Random random(seed);
  Image image{width, height, std::vector<std::uint8_t>(width * height * 3)};
  for (std::uint8_t& v : image.rgb) v = static_cast<std::uint8_t>(random.below(256));
  return image;
}

// One step at a time, turning round at both ends; before the image as behind it.
std::size_t naive_reflected(long i, std::size_t n) {
  if (n == 1) return 0;
  if (i < 0) i = -i;
  std::size_t at = 0;
  bool forth = true;
  for (; i > 0; --i) {
    if (at + 1 == n && forth) forth = false;
    if (at == 0 && !forth) forth = true;
    at = forth ? at + 1 : at - 1;
  }
  return at;
}

TEST(CutTile, GoesOnMirroredBeyondTheImage) {
  Random random(3);
  for (int round = 0; round < 60; ++round) {
    const Image image = tile_noise(1 + random.below(50), 1 + random.below(50), random.below(1000));
    NetworkInput tile;
    tile.width = 32 + random.below(40);
    tile.height = 32 + random.below(40);
    const long left = static_cast<long>(random.below(2 * image.width)) - 50;
    const long top = static_cast<long>(random.below(2 * image.height)) - 50;
    cut_tile(image, left, top, tile);
    const Image seen = picture(tile);
    for (std::size_t y = 0; y < tile.height; ++y) {
      for (std::size_t x = 0; x < tile.width; ++x) {
        const std::size_t row = naive_reflected(top + static_cast<long>(y), image.height);
        const std::size_t from =
            3 * (row * image.width + naive_reflected(left + static_cast<long>(x), image.width));
        for (std::size_t c = 0; c < 3; ++c) {
          ASSERT_EQ(seen.rgb[3 * (y * tile.width + x) + c], image.rgb[from + c]);
        }
      }
    }
  }
}

TEST(CutTile, IsWhatPrepareMakesOfThatPart) {
  const Image image = tile_noise(64, 64, 5);
  NetworkInput tile;
  tile.width = tile.height = 64;
  cut_tile(image, 0, 0, tile);
  EXPECT_EQ(tile.chw, prepare(image, Geometry::parse("64", "none")).chw);
}

TEST(CutTile, ResizesFirst) {
  const Image image = tile_noise(80, 61, 6);
  Image room;
  EXPECT_EQ(&resized_for_tiles(image, in_tiles("64", "16"), room), &image);
  const Image& half = resized_for_tiles(image, in_tiles("64", "16", "50%"), room);
  EXPECT_EQ(half.width, 40u);
  EXPECT_EQ(half.height, 31u);
}

// ---- the map -----------------------------------------------------------------------------------

// A spot is smoothed as in an image that is seen at once, however large the picture of tiles is.
TEST(TiledMap, IsSmoothedAsOneTileIs) {
  const PatchGrid one{12, 12, 96, 96};
  const PatchGrid many{40, 30, 320, 240, 96};
  std::vector<float> spot(12 * 12), far(40 * 30);
  spot[6 * 12 + 6] = 1;
  far[16 * 40 + 21] = 1;
  const Map small = anomaly_map(spot, one);
  const Map large = anomaly_map(far, many);
  for (std::size_t y = 32; y < 72; ++y) {
    for (std::size_t x = 32; x < 72; ++x) {
      ASSERT_NEAR(small.values[y * 96 + x], large.values[(y + 80) * 320 + x + 120], 1e-6f);
    }
  }
  EXPECT_EQ(image_score(far, many, Score::kMap),
            *std::max_element(large.values.begin(), large.values.end()));
}

}  // namespace
}  // namespace contcore
