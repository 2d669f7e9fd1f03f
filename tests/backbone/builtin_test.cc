#include "backbone/builtin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "contcore/backbone.h"

namespace contcore {
namespace {

constexpr std::size_t kFilters = 19;             // of one scale and sign: 8 bars and edges, 3 spots
constexpr std::size_t kMean = 4 * 2 * kFilters;  // where the mean colour begins in layer2

struct Layers {
  std::vector<float> layer2, layer3;
  std::size_t channels2 = 0, height2 = 0, width2 = 0;
  std::size_t channels3 = 0, height3 = 0, width3 = 0;

  float at2(std::size_t y, std::size_t x, std::size_t c) const {
    return layer2[(y * width2 + x) * channels2 + c];
  }
  float at3(std::size_t y, std::size_t x, std::size_t c) const {
    return layer3[(y * width3 + x) * channels3 + c];
  }
};

Layers run(const std::vector<float>& chw, std::size_t height, std::size_t width) {
  const Backbone backbone("builtin");
  Backbone::Runner runner = backbone.runner();
  Compute one(1);
  const std::vector<FeatureMap> maps = runner.run(chw, height, width, one);
  EXPECT_EQ(maps.size(), 2u);
  const auto values = [](const FeatureMap& map) {
    return std::vector<float>(map.data, map.data + map.channels * map.height * map.width);
  };
  return {values(maps[0]), values(maps[1]),  maps[0].channels, maps[0].height,
          maps[0].width,   maps[1].channels, maps[1].height,   maps[1].width};
}

// A grey wave across the image, `turn` of a half turn from upright, with a period of 9 pixels: what
// the second scale is made for.
std::vector<float> grating(std::size_t side, double turn, float contrast) {
  std::vector<float> chw(3 * side * side);
  const double c = std::cos(M_PI * turn), s = std::sin(M_PI * turn);
  for (std::size_t i = 0; i < side * side; ++i) {
    const double along = c * static_cast<double>(i % side) + s * static_cast<double>(i / side);
    for (std::size_t p = 0; p < 3; ++p) {
      chw[p * side * side + i] = contrast * static_cast<float>(std::sin(2 * M_PI * along / 9));
    }
  }
  return chw;
}

std::vector<float> random_image(std::size_t height, std::size_t width, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> chw(3 * height * width);
  for (float& value : chw) value = random.gaussian();
  return chw;
}

TEST(Builtin, IsAGraph) {
  const Graph graph = builtin_graph();
  std::set<std::string> known = {graph.input};
  for (const auto& [name, tensor] : graph.weights) {
    std::int64_t size = 1;
    for (const std::int64_t n : tensor.shape) size *= n;
    EXPECT_EQ(static_cast<std::size_t>(size), tensor.size()) << name;
    known.insert(name);
  }
  for (const Node& node : graph.nodes) {
    for (const std::string& input : node.inputs) EXPECT_TRUE(known.contains(input)) << input;
    for (const std::string& output : node.outputs) EXPECT_TRUE(known.insert(output).second);
  }
  EXPECT_EQ(graph.outputs, (std::vector<std::string>{"layer2", "layer3"}));
  EXPECT_EQ(graph.input_shape, (Shape{-1, 3, -1, -1}));
}

// A memory belongs to its backbone. Whoever changes a number in this one makes every memory that
// was made with it useless; and the numbers are promised to be the same on every machine.
TEST(Builtin, HasTheSameNumbersEverywhere) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const auto& [name, tensor] : builtin_graph().weights) {
    for (const float value : *tensor.floats) {
      hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3u;
    }
  }
  EXPECT_EQ(hash, 0xc15656fee5f18128u);
}

TEST(Builtin, TakesAnySize) {
  for (const auto& [height, width] :
       {std::pair(224u, 224u), std::pair(231u, 157u), std::pair(33u, 64u), std::pair(8u, 9u)}) {
    const Layers layers = run(random_image(height, width, 1), height, width);
    EXPECT_EQ(layers.height2, (height + 7) / 8);
    EXPECT_EQ(layers.width2, (width + 7) / 8);
    EXPECT_EQ(layers.height3, (height + 15) / 16);
    EXPECT_EQ(layers.width3, (width + 15) / 16);
    EXPECT_EQ(layers.channels2, kMean + 6);
    for (const std::vector<float>* values : {&layers.layer2, &layers.layer3}) {
      EXPECT_TRUE(std::all_of(values->begin(), values->end(),
                              [](float v) { return std::isfinite(v) && v >= 0; }));
    }
  }
}

TEST(Builtin, IsCheap) {
  const BackboneInfo info = Backbone("builtin").info(224, 224);
  EXPECT_GT(info.gflops, 0.05);
  EXPECT_LT(info.gflops, 1);
  EXPECT_LT(info.parameters, 100000u);
}

// Away from the border, a plain surface has a colour and nothing else.
TEST(Builtin, SeesOnlyColourInAPlainImage) {
  constexpr std::size_t kSide = 224;
  std::vector<float> chw(3 * kSide * kSide);
  for (std::size_t i = 0; i < chw.size(); ++i) {
    chw[i] = i < kSide * kSide ? 1.0f : i < 2 * kSide * kSide ? 0.25f : -0.5f;
  }
  const Layers layers = run(chw, kSide, kSide);
  const float nothing = layers.at2(14, 14, 0);
  for (std::size_t c = 0; c < kMean; ++c) EXPECT_NEAR(layers.at2(14, 14, c), nothing, 1e-4) << c;
  for (std::size_t c = kMean + 6; c < layers.channels3; ++c) {
    EXPECT_NEAR(layers.at3(7, 7, c), 0, 1e-4) << c;
  }
  // Luminance 0.389 and red − green 0.375 and blue below yellow, all positive.
  EXPECT_NEAR(layers.at2(14, 14, kMean + 1) / layers.at2(14, 14, kMean), 0.375 / 0.38875, 1e-3);
  EXPECT_GT(layers.at2(14, 14, kMean + 2), 0);
  for (std::size_t c = kMean + 3; c < kMean + 6; ++c) EXPECT_EQ(layers.at2(14, 14, c), 0);
}

// What the filters of each orientation say together at one place and scale.
std::vector<float> orientation_energies(const Layers& layers, std::size_t scale) {
  std::vector<float> energies(8, 0.0f);
  for (std::size_t sign = 0; sign < 2; ++sign) {
    for (std::size_t i = 0; i < 16; ++i) {
      energies[i / 2] += layers.at2(10, 10, (2 * scale + sign) * kFilters + i);
    }
  }
  return energies;
}

TEST(Builtin, KnowsOrientations) {
  for (std::size_t orientation = 0; orientation < 8; ++orientation) {
    const Layers layers = run(grating(160, static_cast<double>(orientation) / 8, 1), 160, 160);
    const std::vector<float> energies = orientation_energies(layers, 1);
    EXPECT_EQ(std::max_element(energies.begin(), energies.end()) - energies.begin(),
              static_cast<std::ptrdiff_t>(orientation));
    EXPECT_GT(energies[orientation], 1.5f * energies[(orientation + 4) % 8]);
  }
}

// The light on a line varies; what is seen should not vary as much.
TEST(Builtin, CountsContrastInRelation) {
  const std::vector<float> strong = orientation_energies(run(grating(160, 0, 2), 160, 160), 1);
  const std::vector<float> weak = orientation_energies(run(grating(160, 0, 0.5f), 160, 160), 1);
  EXPECT_LT(strong[0], 1.5f * weak[0]);
  EXPECT_GT(strong[0], weak[0]);
}

// The negative of an image answers in the filters of the other sign.
TEST(Builtin, HasBothSigns) {
  std::vector<float> chw = random_image(96, 96, 5);
  const Layers positive = run(chw, 96, 96);
  for (float& value : chw) value = -value;
  const Layers negative = run(chw, 96, 96);
  for (std::size_t scale = 0; scale < 4; ++scale) {
    for (std::size_t i = 0; i < kFilters; ++i) {
      const std::size_t c = 2 * scale * kFilters + i;
      EXPECT_NEAR(positive.at2(5, 6, c), negative.at2(5, 6, c + kFilters), 1e-4) << c;
    }
  }
}

// An image moved by 16 pixels has its features moved by two places, and one.
TEST(Builtin, MovesWithTheImage) {
  constexpr std::size_t kSide = 192;
  const std::vector<float> wide = random_image(kSide, kSide + 16, 9);
  std::vector<float> left, right;
  for (std::size_t row = 0; row < 3 * kSide; ++row) {
    const float* from = wide.data() + row * (kSide + 16);
    left.insert(left.end(), from, from + kSide);
    right.insert(right.end(), from + 16, from + 16 + kSide);
  }
  const Layers a = run(left, kSide, kSide), b = run(right, kSide, kSide);
  for (std::size_t c = 0; c < a.channels2; ++c) {
    EXPECT_NEAR(a.at2(12, 13, c), b.at2(12, 11, c), 1e-4) << c;
  }
  for (std::size_t c = 0; c < a.channels3; ++c) {
    EXPECT_NEAR(a.at3(6, 7, c), b.at3(6, 6, c), 1e-4) << c;
  }
}

}  // namespace
}  // namespace contcore
