#include "contcore/embedding.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "contcore/error.h"

namespace contcore {
namespace {

// ---- The definition, word for word, in double precision
// ------------------------------------------

using Row = std::vector<double>;

struct Grid {
  std::size_t height, width;
  std::vector<Row> places;
};

Row adaptive_mean(const Row& in, std::size_t size) {
  Row out(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t begin = i * in.size() / size;
    const std::size_t end = ((i + 1) * in.size() + size - 1) / size;
    for (std::size_t j = begin; j < end; ++j) out[i] += in[j];
    out[i] /= static_cast<double>(end - begin);
  }
  return out;
}

Row neighbourhood(const FeatureMap& map, std::size_t y, std::size_t x, std::size_t side) {
  const auto reach = static_cast<std::ptrdiff_t>(side / 2);
  Row out;
  for (std::size_t c = 0; c < map.channels; ++c) {
    for (std::ptrdiff_t dy = -reach; dy <= reach; ++dy) {
      for (std::ptrdiff_t dx = -reach; dx <= reach; ++dx) {
        const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(y) + dy;
        const std::ptrdiff_t col = static_cast<std::ptrdiff_t>(x) + dx;
        const bool inside = row >= 0 && col >= 0 && row < static_cast<std::ptrdiff_t>(map.height) &&
                            col < static_cast<std::ptrdiff_t>(map.width);
        const std::ptrdiff_t place = row * static_cast<std::ptrdiff_t>(map.width) + col;
        out.push_back(inside ? static_cast<double>(
                                   map.data[static_cast<std::size_t>(place) * map.channels + c])
                             : 0.0);
      }
    }
  }
  return out;
}

Row bilinear(const Grid& grid, double y, double x) {
  y = std::max(y, 0.0);
  x = std::max(x, 0.0);
  const auto y0 = std::min(static_cast<std::size_t>(y), grid.height - 1);
  const auto x0 = std::min(static_cast<std::size_t>(x), grid.width - 1);
  const std::size_t y1 = std::min(y0 + 1, grid.height - 1);
  const std::size_t x1 = std::min(x0 + 1, grid.width - 1);
  const double fy = y - static_cast<double>(y0);
  const double fx = x - static_cast<double>(x0);
  const auto at = [&](std::size_t r, std::size_t c) { return grid.places[r * grid.width + c]; };
  Row out = at(y0, x0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = (1 - fy) * ((1 - fx) * at(y0, x0)[i] + fx * at(y0, x1)[i]) +
             fy * ((1 - fx) * at(y1, x0)[i] + fx * at(y1, x1)[i]);
  }
  return out;
}

std::vector<Row> embed_by_definition(const std::vector<FeatureMap>& maps,
                                     const PatchEmbedding& how) {
  std::vector<Grid> pooled;
  for (const FeatureMap& map : maps) {
    Grid grid{map.height, map.width, {}};
    for (std::size_t y = 0; y < map.height; ++y) {
      for (std::size_t x = 0; x < map.width; ++x) {
        grid.places.push_back(
            adaptive_mean(neighbourhood(map, y, x, how.neighbourhood), how.dimension));
      }
    }
    pooled.push_back(grid);
  }
  const auto centre = [](std::size_t i, std::size_t size, std::size_t target) {
    return (static_cast<double>(i) + 0.5) * static_cast<double>(size) /
               static_cast<double>(target) -
           0.5;
  };
  std::vector<Row> out;
  for (std::size_t y = 0; y < maps[0].height; ++y) {
    for (std::size_t x = 0; x < maps[0].width; ++x) {
      Row all;
      for (const Grid& grid : pooled) {
        const Row part = bilinear(grid, centre(y, grid.height, maps[0].height),
                                  centre(x, grid.width, maps[0].width));
        all.insert(all.end(), part.begin(), part.end());
      }
      out.push_back(adaptive_mean(all, how.dimension));
    }
  }
  return out;
}

// ---- Comparing
// -----------------------------------------------------------------------------------

struct Shape {
  std::size_t channels, height, width;
};

struct Layers {
  explicit Layers(const std::vector<Shape>& shapes, std::uint64_t seed) {
    Random random(seed);
    for (const Shape& s : shapes) {
      values.emplace_back(s.channels * s.height * s.width);
      for (float& v : values.back()) v = random.gaussian();
    }
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      maps.push_back({shapes[i].channels, shapes[i].height, shapes[i].width, values[i].data()});
    }
  }
  std::vector<std::vector<float>> values;
  std::vector<FeatureMap> maps;
};

std::vector<float> embedded(const Layers& layers, const PatchEmbedding& how, std::size_t crew) {
  Compute compute(crew);
  // What was there before must not matter.
  std::vector<float> out(layers.maps[0].height * layers.maps[0].width * how.dimension, 1e9f);
  embed(layers.maps, how, out.data(), compute);
  return out;
}

void expect_as_defined(const std::vector<Shape>& shapes, const PatchEmbedding& how) {
  std::string said =
      fmt::format("dimension {}, neighbourhood {}, layers", how.dimension, how.neighbourhood);
  for (const Shape& s : shapes) said += fmt::format(" {}x{}x{}", s.channels, s.height, s.width);
  SCOPED_TRACE(said);
  const Layers layers(shapes, shapes[0].channels * 31 + how.dimension);
  const std::vector<float> out = embedded(layers, how, 1);
  const std::vector<Row> expected = embed_by_definition(layers.maps, how);
  double largest = 0;
  double worst = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double wanted = expected[i / how.dimension][i % how.dimension];
    largest = std::max(largest, std::abs(wanted));
    worst = std::max(worst, std::abs(static_cast<double>(out[i]) - wanted));
  }
  EXPECT_LE(worst, 1e-6 * largest);
  EXPECT_EQ(embedded(layers, how, 3), out);
}

TEST(Embedding, IsTheDefinition) {
  expect_as_defined({{512, 4, 5}, {1024, 2, 3}}, {1024, 3});  // WideResNet-50's channels
  expect_as_defined({{128, 6, 6}, {256, 3, 3}}, {1024, 3});   // fewer entries than numbers
  expect_as_defined({{24, 4, 4}, {56, 2, 2}, {112, 1, 1}}, {96, 3});
  expect_as_defined({{64, 3, 3}}, {64, 3});
  expect_as_defined({{64, 3, 3}}, {64, 1});
  expect_as_defined({{1, 1, 1}}, {1, 1});
  expect_as_defined({{1, 1, 1}}, {7, 5});              // a neighbourhood larger than the grid
  expect_as_defined({{5, 3, 4}, {7, 6, 9}}, {16, 3});  // the second layer finer than the first
  expect_as_defined({{5, 4, 6}, {7, 4, 6}}, {17, 3});  // an odd dimension shared by two layers
  expect_as_defined({{4, 2, 2}, {4, 2, 2}, {4, 2, 2}, {4, 2, 2}, {4, 2, 2}}, {2, 3});  // D < L
}

TEST(Embedding, IsTheDefinitionForAnyShapes) {
  Random random(5);
  for (int round = 0; round < 150; ++round) {
    const PatchEmbedding how{1 + random.below(60), 1 + 2 * random.below(3)};
    std::vector<Shape> shapes;
    for (std::size_t l = 1 + random.below(4); l > 0; --l) {
      shapes.push_back({1 + random.below(40), 1 + random.below(5), 1 + random.below(5)});
    }
    expect_as_defined(shapes, how);
  }
}

// Bytes are the float numbers divided and rounded. They are summed in another order, so that what
// lies next to a half may go either way.
void expect_bytes(const std::vector<Shape>& shapes, const PatchEmbedding& how,
                  const ByteScale& scale) {
  const Layers layers(shapes, shapes[0].channels * 17 + how.dimension);
  const std::vector<float> floats = embedded(layers, how, 1);
  std::vector<std::uint8_t> out(floats.size()), again(floats.size());
  Compute one(1), three(3);
  ASSERT_TRUE(embed(layers.maps, how, scale, out.data(), one));
  ASSERT_TRUE(embed(layers.maps, how, scale, again.data(), three));
  EXPECT_EQ(out, again);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double x = static_cast<double>(floats[i]) / static_cast<double>(scale.scale);
    const double wanted = std::clamp(std::nearbyint(x) + scale.zero, 0.0, 255.0);
    if (std::abs(x - std::floor(x) - 0.5) > 1e-3) {
      ASSERT_EQ(static_cast<double>(out[i]), wanted) << x;
    }
  }
}

TEST(Embedding, InBytes) {
  expect_bytes({{512, 4, 5}, {1024, 2, 3}}, {512, 3}, {0.01f, 128});
  expect_bytes({{512, 4, 5}, {1024, 2, 3}}, {1024, 3}, {0.001f, 128});  // both ends saturate
  expect_bytes({{512, 4, 5}, {1024, 2, 3}}, {128, 3}, {0.003f, 0});     // below zero is cut off
  expect_bytes({{24, 4, 4}, {56, 2, 2}, {112, 1, 1}}, {96, 3}, {0.02f, 128});
  expect_bytes({{5, 4, 6}, {7, 4, 6}}, {17, 3}, {1e20f, 128});
  expect_bytes({{48, 3, 3}}, {8, 1}, {1e-30f, 0});
}

TEST(Embedding, RoundsHalvesToTheEvenByte) {
  const std::vector<float> values = {0.5f, 1.5f, 2.5f, -0.5f, 254.5f, 255.5f, 1e9f, -1e9f};
  const std::vector<FeatureMap> maps = {{values.size(), 1, 1, values.data()}};
  std::vector<std::uint8_t> out(values.size());
  Compute compute(1);
  ASSERT_TRUE(embed(maps, {values.size(), 1}, {1, 0}, out.data(), compute));
  EXPECT_EQ(out, (std::vector<std::uint8_t>{0, 2, 2, 0, 254, 255, 255, 0}));
  ASSERT_TRUE(embed(maps, {values.size(), 1}, {1, 128}, out.data(), compute));
  EXPECT_EQ(out, (std::vector<std::uint8_t>{128, 130, 130, 128, 255, 255, 255, 0}));
}

TEST(Embedding, SaysWhenBytesWereNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(9 * 4, 1.0f);
    values[17] = bad;
    const std::vector<FeatureMap> maps = {{4, 3, 3, values.data()}};
    std::vector<std::uint8_t> out(9 * 4);
    Compute compute(2);
    EXPECT_FALSE(embed(maps, {4, 3}, {1, 0}, out.data(), compute));
  }
}

// The closed form for the usual pair of layers, by hand.
TEST(Embedding, KnownWeights) {
  std::vector<float> fine(3 * 3 * 512);
  std::vector<float> coarse(1024, 0.0f);
  fine[4 * 512 + 7] = 10;  // the centre, channel 7
  coarse[20] = 18;         // the only place, channel 20
  const std::vector<FeatureMap> maps = {{512, 3, 3, fine.data()}, {1024, 1, 1, coarse.data()}};
  std::vector<float> out(9 * 1024);
  Compute compute(1);
  embed(maps, {}, out.data(), compute);
  for (std::size_t place = 0; place < 9; ++place) {
    for (std::size_t i = 0; i < 1024; ++i) {
      const float wanted = i == 7 ? (place == 4 ? 2.0f : 1.0f) : i == 512 + 10 ? 1.0f : 0.0f;
      EXPECT_NEAR(out[place * 1024 + i], wanted, 1e-6f) << place << " " << i;
    }
  }
}

TEST(Embedding, RefusesWhatMakesNoSense) {
  Compute compute(1);
  const Layers layers({{4, 2, 2}}, 1);
  std::vector<float> out(1000);
  const auto refusal = [&](const std::vector<FeatureMap>& maps, const PatchEmbedding& how) {
    try {
      embed(maps, how, out.data(), compute);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kUsage);
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_NE(refusal(layers.maps, {0, 3}).find("embedding of 0"), std::string::npos);
  EXPECT_NE(refusal(layers.maps, {1u << 20, 3}).find("1048576"), std::string::npos);
  EXPECT_NE(refusal(layers.maps, {8, 2}).find("odd"), std::string::npos);
  EXPECT_NE(refusal(layers.maps, {8, 0}).find("odd"), std::string::npos);
  EXPECT_NE(refusal(layers.maps, {8, 101}).find("up to 31"), std::string::npos);
  EXPECT_NE(refusal({}, {8, 3}).find("no layers"), std::string::npos);
  EXPECT_NE(refusal({{4, 0, 2, layers.maps[0].data}}, {8, 3}).find("4 × 0 × 2"), std::string::npos);
  EXPECT_NE(refusal({{4, 2, 2, nullptr}}, {8, 3}).find("nothing"), std::string::npos);
}

}  // namespace
}  // namespace contcore
