#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "contcore/error.h"
#include "contcore/image.h"
#include "contcore/score.h"
#include "coreset/naive.h"

namespace contcore {
namespace {

constexpr std::array<float, 3> kMean = {0.485f, 0.456f, 0.406f};
constexpr std::array<float, 3> kDeviation = {0.229f, 0.224f, 0.225f};

Image noise(std::size_t width, std::size_t height, std::uint64_t seed) {
  Random random(seed);
  Image image{width, height, std::vector<std::uint8_t>(width * height * 3)};
  for (std::uint8_t& v : image.rgb) v = static_cast<std::uint8_t>(random.below(256));
  return image;
}

// Back from the backbone's numbers to 0 … 255.
float byte_of(const NetworkInput& input, std::size_t c, std::size_t y, std::size_t x) {
  const float value = input.chw[(c * input.height + y) * input.width + x];
  return (value * kDeviation[c] + kMean[c]) * 255.0f;
}

std::string refusal(Error::Kind kind, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "taken";
}

// ---- Words
// ---------------------------------------------------------------------------------------

TEST(Geometry, ReadsAndWritesItsWords) {
  const Geometry square = Geometry::parse("256", "224");
  EXPECT_EQ(square, (Geometry{Geometry::Resize::kSquare, 256, 224}));
  const Geometry shorter = Geometry::parse("short:320", "none");
  EXPECT_EQ(shorter, (Geometry{Geometry::Resize::kShort, 320, 0}));
  for (const Geometry& g : {square, shorter}) {
    EXPECT_EQ(Geometry::parse(g.resize_text(), g.crop_text()), g);
  }
  EXPECT_EQ(Geometry::parse("32", "32").crop, 32u);
  EXPECT_EQ(Geometry::parse("4096", "none").resize, 4096u);
}

TEST(Geometry, RefusesOtherWords) {
  for (const char* resize : {"", "0", "31", "4097", "256x256", "-256", " 256", "2e2", "short",
                             "long:256", "short:", "short:-1", "99999999999999999999999", "256 "}) {
    const std::string said = refusal(Error::Kind::kUsage, [&] { Geometry::parse(resize, "none"); });
    EXPECT_NE(said.find("short:256"), std::string::npos) << resize << ": " << said;
  }
  for (const char* crop : {"", "0", "short:224", "None", "224px", "5000"}) {
    const std::string said = refusal(Error::Kind::kUsage, [&] { Geometry::parse("4096", crop); });
    EXPECT_NE(said.find("224 or none"), std::string::npos) << crop << ": " << said;
  }
  const std::string said = refusal(Error::Kind::kUsage, [] { Geometry::parse("224", "256"); });
  EXPECT_NE(said.find("at most 224"), std::string::npos) << said;
}

// ---- To the backbone
// -----------------------------------------------------------------------------

// Nothing to resize: every number is known, and so is where the crop starts.
TEST(Prepare, NormalisesAndCrops) {
  const Image image = noise(256, 256, 1);
  const NetworkInput input = prepare(image, Geometry::parse("256", "224"));
  ASSERT_EQ(input.width, 224u);
  ASSERT_EQ(input.height, 224u);
  ASSERT_EQ(input.chw.size(), 3u * 224 * 224);
  EXPECT_EQ(input.left, 16);
  EXPECT_EQ(input.top, 16);
  EXPECT_EQ(input.right, 240);
  EXPECT_EQ(input.bottom, 240);
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t y = 0; y < 224; y += 7) {
      for (std::size_t x = 0; x < 224; ++x) {
        const float byte = static_cast<float>(image.rgb[((y + 16) * 256 + x + 16) * 3 + c]);
        ASSERT_EQ(input.chw[(c * 224 + y) * 224 + x], (byte / 255.0f - kMean[c]) / kDeviation[c]);
      }
    }
  }
}

TEST(Prepare, CropsInTheMiddleRoundedDown) {
  const NetworkInput input = prepare(noise(97, 97, 2), {Geometry::Resize::kSquare, 97, 32});
  EXPECT_EQ(input.left, 32);  // ⌊65/2⌋
  EXPECT_EQ(input.right, 64);
}

// Halved, a pixel is the mean of four.
TEST(Prepare, ShrinksByAveraging) {
  const Image image = noise(64, 128, 3);
  const NetworkInput input = prepare(image, Geometry::parse("short:32", "none"));
  ASSERT_EQ(input.width, 32u);
  ASSERT_EQ(input.height, 64u);
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t y = 0; y < 64; ++y) {
      for (std::size_t x = 0; x < 32; ++x) {
        const auto at = [&](std::size_t dy, std::size_t dx) {
          return static_cast<float>(image.rgb[((2 * y + dy) * 64 + 2 * x + dx) * 3 + c]);
        };
        const float mean = (at(0, 0) + at(0, 1) + at(1, 0) + at(1, 1)) / 4;
        ASSERT_NEAR(byte_of(input, c, y, x), mean, 0.51f);
      }
    }
  }
}

// Thin lines that bilinear sampling would step over leave their share of every pixel.
TEST(Prepare, ShrinksBySixteen) {
  Image image{512, 64, std::vector<std::uint8_t>(512 * 64 * 3)};
  for (std::size_t i = 0; i < 512 * 64; i += 16) image.rgb[i * 3 + 1] = 255;
  const NetworkInput input = prepare(image, Geometry::parse("32", "none"));
  for (std::size_t x = 0; x < 32; ++x) EXPECT_NEAR(byte_of(input, 1, 16, x), 255.0f / 16, 0.6f);
}

TEST(Prepare, EnlargesBilinearly) {
  const Image image = noise(32, 32, 4);
  const NetworkInput input = prepare(image, Geometry::parse("64", "none"));
  for (std::size_t y = 0; y < 64; ++y) {
    for (std::size_t x = 0; x < 64; ++x) {
      const auto weights = [](std::size_t i) {
        const float at = std::clamp((static_cast<float>(i) + 0.5f) / 2 - 0.5f, 0.0f, 31.0f);
        return std::pair(static_cast<std::size_t>(at), at - std::floor(at));
      };
      const auto [y0, fy] = weights(y);
      const auto [x0, fx] = weights(x);
      const auto at = [&](std::size_t r, std::size_t c) {
        return static_cast<float>(
            image.rgb[(std::min<std::size_t>(r, 31) * 32 + std::min<std::size_t>(c, 31)) * 3]);
      };
      const float wanted = (1 - fy) * ((1 - fx) * at(y0, x0) + fx * at(y0, x0 + 1)) +
                           fy * ((1 - fx) * at(y0 + 1, x0) + fx * at(y0 + 1, x0 + 1));
      ASSERT_NEAR(byte_of(input, 0, y, x), wanted, 1.01f) << y << " " << x;
    }
  }
}

TEST(Prepare, KeepsTheShapeAndRoundsTheLongSide) {
  const Geometry geometry = Geometry::parse("short:64", "none");
  const auto size = [&](std::size_t width, std::size_t height) {
    const NetworkInput input = prepare(noise(width, height, 5), geometry);
    EXPECT_EQ(input.left, 0);
    EXPECT_EQ(input.top, 0);
    EXPECT_DOUBLE_EQ(input.right, static_cast<double>(width));
    EXPECT_DOUBLE_EQ(input.bottom, static_cast<double>(height));
    return std::pair(input.width, input.height);
  };
  EXPECT_EQ(size(100, 100), std::pair(std::size_t{64}, std::size_t{64}));
  EXPECT_EQ(size(100, 150), std::pair(std::size_t{64}, std::size_t{96}));
  EXPECT_EQ(size(150, 100), std::pair(std::size_t{96}, std::size_t{64}));
  EXPECT_EQ(size(3, 5), std::pair(std::size_t{64}, std::size_t{107}));     // 106.67
  EXPECT_EQ(size(128, 129), std::pair(std::size_t{64}, std::size_t{65}));  // 64.5
  EXPECT_EQ(size(129, 130), std::pair(std::size_t{64}, std::size_t{64}));  // 64.496
}

TEST(Prepare, BoundsExtremeShapes) {
  const std::string said = refusal(Error::Kind::kInput, [] {
    prepare(noise(1, 10000, 6), Geometry::parse("short:256", "none"));
  });
  EXPECT_NE(said.find("1 × 10000"), std::string::npos) << said;
  EXPECT_EQ(prepare(noise(1, 10000, 6), Geometry::parse("64", "none")).height, 64u);
  EXPECT_EQ(prepare(noise(10000, 1, 6), Geometry::parse("short:32", "32")).width, 32u);
}

TEST(Prepare, RefusesWhatParseWouldNotGive) {
  const Image image = noise(64, 64, 7);
  EXPECT_NE(refusal(Error::Kind::kUsage,
                    [&] {
                      prepare(image, {Geometry::Resize::kSquare, 64, 65});
                    })
                .find("crop of 65"),
            std::string::npos);
  EXPECT_NE(refusal(Error::Kind::kUsage,
                    [&] {
                      prepare(image, {Geometry::Resize::kSquare, 0, 0});
                    }),
            "taken");
  EXPECT_NE(refusal(Error::Kind::kInternal, [&] { prepare({}, {}); }), "taken");
  EXPECT_NE(refusal(Error::Kind::kInternal, [&] { prepare({8, 8, {1, 2, 3}}, {}); }), "taken");
}

// ---- The anomaly map
// -----------------------------------------------------------------------------

using Plane = std::vector<double>;

Plane bilinear(const std::vector<float>& grid, std::size_t gw, std::size_t gh, std::size_t width,
               std::size_t height) {
  Plane out;
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      const auto place = [](std::size_t i, std::size_t from, std::size_t to) {
        const double scale = static_cast<double>(from) / static_cast<double>(to);
        return std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0,
                          static_cast<double>(from - 1));
      };
      const double at_y = place(y, gh, height);
      const double at_x = place(x, gw, width);
      const auto y0 = static_cast<std::size_t>(at_y);
      const auto x0 = static_cast<std::size_t>(at_x);
      const double fy = at_y - static_cast<double>(y0);
      const double fx = at_x - static_cast<double>(x0);
      const auto at = [&](std::size_t r, std::size_t c) {
        return static_cast<double>(grid[std::min(r, gh - 1) * gw + std::min(c, gw - 1)]);
      };
      out.push_back((1 - fy) * ((1 - fx) * at(y0, x0) + fx * at(y0, x0 + 1)) +
                    fy * ((1 - fx) * at(y0 + 1, x0) + fx * at(y0 + 1, x0 + 1)));
    }
  }
  return out;
}

// … c b a | a b c … c | c b a …
std::size_t mirrored(std::ptrdiff_t i, std::size_t size) {
  const auto n = static_cast<std::ptrdiff_t>(size);
  i = (i % (2 * n) + 2 * n) % (2 * n);
  return static_cast<std::size_t>(i < n ? i : 2 * n - 1 - i);
}

Plane blurred(const Plane& in, std::size_t width, std::size_t height, double sigma) {
  const auto radius = static_cast<std::ptrdiff_t>(4 * sigma + 0.5);
  std::vector<double> kernel;
  for (std::ptrdiff_t i = -radius; i <= radius; ++i) {
    kernel.push_back(std::exp(-static_cast<double>(i * i) / (2 * sigma * sigma)));
  }
  const double sum = std::accumulate(kernel.begin(), kernel.end(), 0.0);
  Plane rows(in.size()), out(in.size());
  for (const bool across : {true, false}) {
    const Plane& from = across ? in : rows;
    Plane& to = across ? rows : out;
    for (std::size_t y = 0; y < height; ++y) {
      for (std::size_t x = 0; x < width; ++x) {
        double value = 0;
        for (std::ptrdiff_t i = -radius; i <= radius; ++i) {
          const auto sx = static_cast<std::ptrdiff_t>(x) + i;
          const auto sy = static_cast<std::ptrdiff_t>(y) + i;
          value += kernel[static_cast<std::size_t>(i + radius)] *
                   (across ? from[y * width + mirrored(sx, width)]
                           : from[mirrored(sy, height) * width + x]);
        }
        to[y * width + x] = value / sum;
      }
    }
  }
  return out;
}

TEST(AnomalyMap, IsItsPlainTwin) {
  struct Case {
    std::size_t gw, gh, width, height;
  };
  Random random(8);
  for (const auto& [gw, gh, width, height] :
       {Case{28, 28, 224, 224}, Case{7, 5, 61, 40}, Case{1, 1, 50, 40}, Case{3, 8, 33, 200},
        Case{40, 40, 32, 32}, Case{2, 2, 1, 1}, Case{2, 1, 5, 1}, Case{28, 4, 224, 3}}) {
    std::vector<float> patches(gw * gh);
    for (float& v : patches) v = static_cast<float>(random.uniform());
    const Map map = anomaly_map(patches, {gw, gh, width, height});
    ASSERT_EQ(map.width, width);
    ASSERT_EQ(map.height, height);
    const double sigma = 4.0 * static_cast<double>(std::min(width, height)) / 224;
    const Plane wanted = blurred(bilinear(patches, gw, gh, width, height), width, height, sigma);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(map.values[i]), wanted[i], 3e-6)
          << gw << "x" << gh << " to " << width << "x" << height << " at " << i;
    }
  }
}

// An image's score is what people see of it, whatever the processor.
TEST(ImageScore, IsTheMapsMaximumToTheBit) {
  Random random(9);
  for (const PatchGrid& grid : {PatchGrid{48, 48, 384, 384}, PatchGrid{13, 7, 101, 61},
                                PatchGrid{1, 1, 50, 40}, PatchGrid{40, 40, 32, 32}}) {
    std::vector<float> patches(grid.columns * grid.rows);
    for (float& v : patches) v = static_cast<float>(random.uniform());
    const Map first = anomaly_map(patches, grid);
    for (const std::string& target : kernels::targets()) {
      const naive::ForcedTarget forced(target);
      const Map map = anomaly_map(patches, grid);
      EXPECT_EQ(map.values, first.values) << target;
      EXPECT_EQ(image_score(patches, grid, Score::kMap),
                *std::max_element(map.values.begin(), map.values.end()))
          << target;
    }
    EXPECT_EQ(image_score(patches, grid, Score::kPatch),
              *std::max_element(patches.begin(), patches.end()));
  }
}

TEST(ImageScore, HasNames) {
  for (const Score score : {Score::kMap, Score::kPatch}) {
    EXPECT_EQ(parse_score(score_name(score)), score);
  }
  EXPECT_THROW(parse_score("mean"), Error);
  EXPECT_EQ(score_of({}), Score::kPatch);  // memories of before there was another
  EXPECT_EQ(score_of({{"score", "map"}}), Score::kMap);
  EXPECT_EQ(score_of({{"score", "patch"}}), Score::kPatch);
  try {
    score_of({{"score", "mean"}});
    ADD_FAILURE() << "a score that nobody knows";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput);  // a file's, not the user's
  }
}

TEST(ImageScore, IsOfAsManyDistancesAsTheGridHas) {
  const std::vector<float> distances(6, 1.0f);
  for (const Score score : {Score::kMap, Score::kPatch}) {
    EXPECT_EQ(image_score(distances, {3, 2, 8, 8}, score) > 0, true);
    for (const std::size_t some : {0U, 5U}) {
      try {
        image_score(std::span(distances).first(some), {3, 2, 8, 8}, score);
        ADD_FAILURE() << some;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), Error::Kind::kInternal);
      }
    }
  }
}

TEST(AnomalyMap, RefusesSizesThatDoNotFit) {
  const std::vector<float> patches(6, 1.0f);
  for (const auto& [gw, gh, w, h] : std::vector<std::array<std::size_t, 4>>{
           {3, 3, 8, 8}, {0, 0, 8, 8}, {3, 2, 0, 8}, {3, 2, 8, 0}}) {
    EXPECT_THROW(anomaly_map(patches, {gw, gh, w, h}), Error);
  }
}

// ---- There and back
// ------------------------------------------------------------------------------

struct Point {
  double x, y;
};

template <typename Value>
Point centre_of_mass(std::size_t width, std::size_t height, const Value& value) {
  double sum = 0, x_sum = 0, y_sum = 0;
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      const double v = value(x, y);
      sum += v;
      x_sum += v * (static_cast<double>(x) + 0.5);
      y_sum += v * (static_cast<double>(y) + 0.5);
    }
  }
  return {x_sum / sum, y_sum / sum};
}

// A bright spot in the image, seen by a backbone that answers with brightness, is found again where
// it was.
void expect_spot_returns(std::size_t width, std::size_t height, const std::string& resize,
                         const std::string& crop, Point spot, double reach) {
  SCOPED_TRACE(std::to_string(width) + "x" + std::to_string(height) + " " + resize + " " + crop);
  Image image{width, height, std::vector<std::uint8_t>(width * height * 3)};
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      const double dx = (static_cast<double>(x) + 0.5 - spot.x) / reach;
      const double dy = (static_cast<double>(y) + 0.5 - spot.y) / reach;
      const double v = 255 * std::exp(-0.5 * (dx * dx + dy * dy));
      std::fill_n(image.rgb.begin() + static_cast<std::ptrdiff_t>((y * width + x) * 3), 3,
                  static_cast<std::uint8_t>(v + 0.5));
    }
  }
  const NetworkInput input = prepare(image, Geometry::parse(resize, crop));
  const std::size_t gw = input.width / 2;
  const std::size_t gh = input.height / 2;
  std::vector<float> patches(gw * gh);
  for (std::size_t y = 0; y < gh * 2; ++y) {
    for (std::size_t x = 0; x < gw * 2; ++x) {
      patches[y / 2 * gw + x / 2] += byte_of(input, 1, y, x);
    }
  }
  const Map map = to_original(anomaly_map(patches, {gw, gh, input.width, input.height}), input,
                              image.width, image.height);
  ASSERT_EQ(map.width, width);
  ASSERT_EQ(map.height, height);
  const float peak = *std::max_element(map.values.begin(), map.values.end());
  const Point found = centre_of_mass(width, height, [&](std::size_t x, std::size_t y) {
    return static_cast<double>(std::max(0.0f, map.values[y * width + x] - 0.2f * peak));
  });
  const double pixel = std::max(1.0, static_cast<double>(std::max(width, height)) / 256);
  EXPECT_NEAR(found.x, spot.x, 0.35 * pixel);
  EXPECT_NEAR(found.y, spot.y, 0.35 * pixel);
}

TEST(ThereAndBack, ASpotComesBackWhereItWas) {
  expect_spot_returns(320, 320, "256", "none", {100, 210}, 9);
  expect_spot_returns(320, 320, "256", "224", {100, 210}, 9);
  expect_spot_returns(640, 400, "256", "none", {470, 130}, 16);
  expect_spot_returns(640, 400, "256", "224", {470, 130}, 16);
  expect_spot_returns(640, 400, "short:256", "none", {470, 130}, 16);
  expect_spot_returns(400, 640, "short:256", "224", {210, 300}, 16);
  expect_spot_returns(101, 99, "256", "225", {30.5, 60.5}, 5);
}

TEST(ToOriginal, IsExactWithoutResizing) {
  const Image image = noise(64, 64, 9);
  const NetworkInput input = prepare(image, {Geometry::Resize::kSquare, 64, 40});
  Map map{40, 40, std::vector<float>(1600)};
  std::iota(map.values.begin(), map.values.end(), 1.0f);
  const Map out = to_original(map, input, image.width, image.height);
  for (std::size_t y = 0; y < 64; ++y) {
    for (std::size_t x = 0; x < 64; ++x) {
      const bool seen = x >= 12 && x < 52 && y >= 12 && y < 52;
      EXPECT_EQ(out.values[y * 64 + x], seen ? map.values[(y - 12) * 40 + x - 12] : 0.0f);
    }
  }
}

TEST(ToOriginal, ReachesTheBorders) {
  const Image image = noise(300, 77, 10);
  const NetworkInput input = prepare(image, Geometry::parse("64", "none"));
  const Map out =
      to_original({64, 64, std::vector<float>(64 * 64, 2.5f)}, input, image.width, image.height);
  EXPECT_EQ(out.values, std::vector<float>(300 * 77, 2.5f));
}

}  // namespace
}  // namespace contcore
