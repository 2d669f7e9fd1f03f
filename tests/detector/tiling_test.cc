#include "detector/tiling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "contcore/error.h"
#include "contcore/extractor.h"

namespace contcore {
namespace {

constexpr long kStep = 8;    // of the built-in network's patches
constexpr long kShift = 16;  // of its coarser layer

Extractor tiled(const std::string& tile, const std::string& overlap, Precision precision,
                std::size_t dimension = 40, const std::string& resize = "") {
  ExtractorOptions options;
  options.backbone = "builtin";
  options.geometry = Geometry::parse({resize, "", tile, overlap}, Geometry{});
  options.dimension = dimension;
  options.precision = precision;
  return Extractor(options);
}

Extractor at_once(std::size_t side, Precision precision) {
  ExtractorOptions options;
  options.backbone = "builtin";
  options.geometry = Geometry::parse(std::to_string(side), "none");
  options.dimension = 40;
  options.precision = precision;
  return Extractor(options);
}

// Blots and grain: something that differs everywhere.
Image blots(std::size_t width, std::size_t height, std::uint64_t seed) {
  Random random(seed);
  Image image{width, height, std::vector<std::uint8_t>(width * height * 3)};
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      const double wave = std::sin(static_cast<double>(x) * 0.07 + static_cast<double>(seed)) +
                          std::cos(static_cast<double>(y) * 0.05);
      for (std::size_t c = 0; c < 3; ++c) {
        image.rgb[3 * (y * width + x) + c] =
            static_cast<std::uint8_t>(100 + 40 * wave + static_cast<double>(random.below(30)));
      }
    }
  }
  return image;
}

std::size_t mirrored_at(long i, std::size_t size) {
  const auto n = static_cast<long>(size);
  if (n == 1) return 0;
  while (i < 0 || i >= n) i = i < 0 ? -i : 2 * n - 2 - i;
  return static_cast<std::size_t>(i);
}

Image part_of_image(const Image& image, long left, long top, std::size_t side) {
  Image part{side, side, std::vector<std::uint8_t>(side * side * 3)};
  for (std::size_t y = 0; y < side; ++y) {
    for (std::size_t x = 0; x < side; ++x) {
      const std::size_t from = mirrored_at(top + static_cast<long>(y), image.height) * image.width +
                               mirrored_at(left + static_cast<long>(x), image.width);
      std::memcpy(&part.rgb[3 * (y * side + x)], &image.rgb[3 * from], 3);
    }
  }
  return part;
}

// Where tiles begin along a side, by the words of the documentation.
std::vector<long> naive_tiles(std::size_t pixels, std::size_t side, std::size_t overlap) {
  const auto length = static_cast<long>(side);
  const long margin = (static_cast<long>(overlap) / 2 + kShift - 1) / kShift * kShift;
  const long end = static_cast<long>(pixels) + margin;
  std::vector<long> begins = {-margin};
  while (begins.back() + length < end) {
    long next = begins.back() + length - static_cast<long>(overlap);
    while (next + length >= end + kShift) next -= kShift;
    begins.push_back(next);
  }
  return begins;
}

long deepest(std::size_t patch, const std::vector<long>& begins, std::size_t side) {
  const auto depth = [&](long begin) {
    const long from = begin / kStep, at = static_cast<long>(patch);
    return std::min(at - from, from + static_cast<long>(side) / kStep - 1 - at);
  };
  long best = begins[0];
  for (const long begin : begins) {
    if (depth(begin) > depth(best)) best = begin;
  }
  return best;
}

struct Case {
  std::size_t width, height, side, overlap;
};

// Every tile cut and extracted as an image of its own, every patch taken by the rule.
void compare_with_hand(const Case& c, Precision precision, std::size_t threads) {
  const Image image = blots(c.width, c.height, c.width + c.side);
  Compute compute(threads), alone(1);
  const Patches made =
      tiled(std::to_string(c.side), std::to_string(c.overlap), precision).extract(image, compute);
  ASSERT_EQ(made.grid_width, (c.width + 7) / 8);
  ASSERT_EQ(made.grid_height, (c.height + 7) / 8);
  ASSERT_EQ(made.input.width, made.grid_width * 8);
  ASSERT_EQ(made.image_height, c.height);
  const Extractor one = at_once(c.side, precision);
  const std::vector<long> across = naive_tiles(c.width, c.side, c.overlap);
  const std::vector<long> down = naive_tiles(c.height, c.side, c.overlap);
  std::map<std::pair<long, long>, Patches> tiles;
  for (std::size_t y = 0; y < made.grid_height; ++y) {
    for (std::size_t x = 0; x < made.grid_width; ++x) {
      const long left = deepest(x, across, c.side);
      const long top = deepest(y, down, c.side);
      auto found = tiles.find({left, top});
      if (found == tiles.end()) {
        found = tiles
                    .emplace(std::pair(left, top),
                             one.extract(part_of_image(image, left, top, c.side), alone))
                    .first;
      }
      const long row = (static_cast<long>(y) - top / kStep) * (static_cast<long>(c.side) / kStep) +
                       static_cast<long>(x) - left / kStep;
      const VectorView wanted = found->second.vectors.view().part(static_cast<std::size_t>(row), 1);
      const VectorView got = made.vectors.view().part(y * made.grid_width + x, 1);
      ASSERT_EQ(std::memcmp(wanted.data, got.data, wanted.bytes()), 0)
          << "patch " << x << ", " << y << " of " << c.width << " × " << c.height;
    }
  }
}

TEST(Tiling, IsWhatTilesByHandGive) {
  Random random(11);
  std::vector<Case> cases = {{64, 64, 64, 32}, {65, 64, 64, 0}, {40, 200, 96, 48}, {9, 5, 64, 16}};
  for (int i = 0; i < 6; ++i) {
    const std::size_t side = 16 * (3 + random.below(5));
    cases.push_back(
        {20 + random.below(300), 20 + random.below(250), side, 16 * random.below(side / 32 + 1)});
  }
  std::size_t threads = 1;
  for (const Case& c : cases) {
    compare_with_hand(c, Precision::k8Bit, threads);
    threads = threads % 4 + 1;
  }
  compare_with_hand(cases.back(), Precision::kFloat, 3);
  compare_with_hand(cases.front(), Precision::kFloat, 2);
}

TEST(Tiling, GivesTheSameByAnyNumberOfThreads) {
  const Image image = blots(333, 250, 1);
  for (const Precision precision : {Precision::k8Bit, Precision::kFloat}) {
    const Extractor extractor = tiled("96", "32", precision);
    Compute one(1), four(4);
    const Patches a = extractor.extract(image, one);
    const Patches b = extractor.extract(image, four);
    ASSERT_EQ(a.vectors.rows(), b.vectors.rows());
    EXPECT_EQ(std::memcmp(a.vectors.view().data, b.vectors.view().data, a.vectors.view().bytes()),
              0);
  }
}

// How far from the edges of tiles the answer is the whole image's: what the network sees there is
// the same.
TEST(Tiling, IsTheWholeImageAwayFromTheTilesBorders) {
  constexpr std::size_t kSide = 512;
  const Image image = blots(kSide, kSide, 4);
  Compute compute(2);
  const Patches whole = at_once(kSide, Precision::kFloat).extract(image, compute);
  const auto farthest_off = [&](const char* overlap) {
    const Patches tiles = tiled("256", overlap, Precision::kFloat).extract(image, compute);
    EXPECT_EQ(tiles.grid(), (PatchGrid{64, 64, 512, 512, 256}));
    double most = 0, length = 0;
    for (std::size_t row = 0; row < whole.vectors.rows(); ++row) {
      const std::size_t x = row % 64, y = row / 64;
      // The tiles reach over the image's edges, which the network fills up with zeros itself.
      if (std::min({x, y, 63 - x, 63 - y}) < 12) continue;
      double off = 0;
      for (std::size_t d = 0; d < 40; ++d) {
        const double a = static_cast<double>(whole.vectors.data()[row * 40 + d]);
        const double b = static_cast<double>(tiles.vectors.data()[row * 40 + d]);
        off += (a - b) * (a - b);
        length += a * a / (40.0 * 40.0);
      }
      most = std::max(most, std::sqrt(off));
    }
    return most / std::sqrt(length);
  };
  EXPECT_GT(farthest_off("0"), 0.1);
  EXPECT_LT(farthest_off("128"), 0.01);
}

TEST(Tiling, IsKeptInTheSource) {
  const Extractor extractor = tiled("96", "32", Precision::kFloat, 40, "50%");
  const auto& source = extractor.source();
  EXPECT_EQ(source.at("tile"), "96");
  EXPECT_EQ(source.at("overlap"), "32");
  EXPECT_EQ(source.at("resize"), "50%");  // which versions without tiles refuse
  EXPECT_NE(backbone_text(source).find("in tiles of 96 that overlap by 32"), std::string::npos);
  const Extractor again = Extractor::of_source(source, 40, "m");
  EXPECT_EQ(again.geometry(), extractor.geometry());
  EXPECT_FALSE(at_once(96, Precision::kFloat).source().contains("tile"));
}

void expect_refusal(Error::Kind kind, const std::vector<std::string>& words,
                    const std::function<void()>& work) {
  try {
    work();
    FAIL() << "taken, and not: " << words[0];
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
}

TEST(Tiling, OverlapByHalfATileAtMost) {
  const auto overlap = [](const std::string& tile, const std::string& given) {
    return Geometry::parse({"", "", tile, given}, Geometry{}).overlap;
  };
  EXPECT_EQ(overlap("384", ""), 128U);
  EXPECT_EQ(overlap("256", ""), 128U);
  EXPECT_EQ(overlap("240", ""), 96U);
  EXPECT_EQ(overlap("96", ""), 32U);
  EXPECT_EQ(overlap("48", ""), 16U);
  EXPECT_EQ(overlap("96", "32"), 32U);
  EXPECT_THROW(overlap("96", "64"), Error);
}

TEST(Tiling, RefusesTilesOffTheNetworksSteps) {
  const auto making = [](const char* tile, const char* overlap) {
    return [=] { tiled(tile, overlap, Precision::kFloat); };
  };
  expect_refusal(Error::Kind::kUsage, {"step of 16", "give a tile of 384"}, making("380", "64"));
  expect_refusal(Error::Kind::kUsage, {"step of 16", "give a tile of 400"}, making("392", "64"));
  expect_refusal(Error::Kind::kUsage, {"step of 16", "overlap of 48"}, making("96", "47"));
  expect_refusal(Error::Kind::kUsage, {"step of 16", "overlap of 48"}, making("96", "40"));
}

TEST(Tiling, RefusesASourceThatCannotBe) {
  const std::map<std::string, std::string> good = tiled("96", "32", Precision::kFloat).source();
  const auto opening = [&](const std::string& key, const std::string& value) {
    return [=, source = good]() mutable {
      source[key] = value;
      Extractor::of_source(source, 40, "m");
    };
  };
  expect_refusal(Error::Kind::kUsage, {"tile"}, opening("tile", "0"));
  expect_refusal(Error::Kind::kUsage, {"tile"}, opening("tile", "99999999999999999999999"));
  expect_refusal(Error::Kind::kUsage, {"tile", "overlap"}, opening("tile", "none"));
  expect_refusal(Error::Kind::kUsage, {"overlap"}, opening("overlap", "96"));
  expect_refusal(Error::Kind::kUsage, {"resize"}, opening("resize", "1000%"));
  expect_refusal(Error::Kind::kUsage, {"resize"}, opening("resize", "96"));
  auto without = good;
  without.erase("overlap");
  expect_refusal(Error::Kind::kInput, {"overlap"}, [&] { Extractor::of_source(without, 40, "m"); });
}

// Told before anything is allocated: a patch vector of 64 Ki floats takes 256 KiB.
TEST(Tiling, RefusesAnImageWithTooManyPatches) {
  const Extractor extractor = tiled("64", "16", Precision::kFloat, 65536);
  const Image image = blots(729, 728, 1);
  Compute compute(1);
  expect_refusal(Error::Kind::kInput, {"729 × 728", "2 GiB", "resize"},
                 [&] { extractor.extract(image, compute); });
}

TEST(Tiling, SaysHowManyTilesThereAreAndWhatTheySee) {
  const Extractor extractor = tiled("96", "32", Precision::kFloat);
  EXPECT_EQ(extractor.tiles_of(64, 10), 1u);
  EXPECT_EQ(extractor.tiles_of(65, 64), 2u);
  EXPECT_EQ(extractor.tiles_of(192, 128), 6u);
  EXPECT_EQ(at_once(96, Precision::kFloat).tiles_of(5000, 5000), 1u);
  const Image image = blots(101, 50, 1);
  const Image view = extractor.view_of(image);
  EXPECT_EQ(view.width, 104u);
  EXPECT_EQ(view.height, 56u);
  EXPECT_EQ(view.rgb[0], image.rgb[0]);
  const NetworkInput input = extractor.input_of(101, 50);
  EXPECT_EQ(input.width, view.width);
  EXPECT_DOUBLE_EQ(input.right, 104);
}

}  // namespace
}  // namespace contcore
