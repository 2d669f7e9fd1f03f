#include "image/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "coreset/naive.h"

namespace contcore {
namespace {

Image speckled(std::size_t width, std::size_t height, std::uint64_t seed) {
  Random random(seed);
  Image image{width, height, std::vector<std::uint8_t>(width * height * 3)};
  for (std::uint8_t& v : image.rgb) v = static_cast<std::uint8_t>(random.below(256));
  return image;
}

Map speckled_map(std::size_t width, std::size_t height, std::uint64_t seed) {
  Random random(seed);
  Map map{width, height, std::vector<float>(width * height)};
  for (float& v : map.values) v = static_cast<float>(random.below(1 << 20)) / 65536;
  return map;
}

// ---- Against the definition
// ----------------------------------------------------------------------

// How much of pixel i of the source lies in pixel p of the target, in pixels of the source.
double shared(std::size_t i, std::size_t p, double scale) {
  const auto from = static_cast<double>(i);
  const auto to = static_cast<double>(p) * scale;
  return std::max(0.0, std::min(from + 1, to + scale) - std::max(from, to));
}

double mean_of_area(const Image& image, std::size_t x, std::size_t y, std::size_t c, double across,
                    double down) {
  double sum = 0;
  for (std::size_t sy = 0; sy < image.height; ++sy) {
    const double share_y = shared(sy, y, down);
    if (share_y == 0) continue;
    for (std::size_t sx = 0; sx < image.width; ++sx) {
      sum += share_y * shared(sx, x, across) *
             static_cast<double>(image.rgb[3 * (sy * image.width + sx) + c]);
    }
  }
  return sum / (across * down);
}

TEST(Resize, ShrinksToTheMeanOfEachArea) {
  struct Case {
    std::size_t width, height, to_width, to_height;
  };
  for (const auto& [width, height, to_width, to_height] :
       {Case{70, 70, 26, 26}, Case{64, 48, 16, 16}, Case{33, 20, 32, 20}, Case{40, 40, 20, 20},
        Case{51, 7, 1, 1}, Case{98, 49, 2, 1}, Case{3, 3, 2, 2}, Case{1, 90, 1, 32},
        Case{31, 2, 31, 1}}) {
    const Image image = speckled(width, height, width);
    const Image out = resize_image(image, to_width, to_height);
    ASSERT_EQ(out.rgb.size(), 3 * to_width * to_height);
    const double across = static_cast<double>(width) / static_cast<double>(to_width);
    const double down = static_cast<double>(height) / static_cast<double>(to_height);
    for (std::size_t i = 0; i < out.rgb.size(); ++i) {
      const double wanted =
          mean_of_area(image, i / 3 % to_width, i / 3 / to_width, i % 3, across, down);
      ASSERT_NEAR(static_cast<double>(out.rgb[i]), wanted, 0.51)
          << width << "x" << height << " to " << to_width << "x" << to_height << " at " << i;
    }
  }
}

// Whatever is done to it, a picture of one colour stays of that colour.
TEST(Resize, KeepsAFlatColour) {
  for (const std::size_t from : {1u, 2u, 7u, 49u, 64u}) {
    const Image image{from, 9, std::vector<std::uint8_t>(from * 9 * 3, 201)};
    for (const std::size_t to : {1u, 3u, 7u, 32u, 100u}) {
      for (const std::size_t height : {3u, 9u, 20u}) {
        const Image out = resize_image(image, to, height);
        ASSERT_EQ(out.rgb, std::vector<std::uint8_t>(to * height * 3, 201)) << from << " " << to;
      }
    }
  }
}

// ---- To the bit
// ----------------------------------------------------------------------------------

std::uint64_t hash_of(const void* data, std::size_t size) {
  std::uint64_t hash = 14695981039346656037u;
  for (std::size_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<const std::uint8_t*>(data)[i]) * 1099511628211u;
  }
  return hash;
}

struct Pinned {
  std::size_t width, height, to_width, to_height;
  std::uint64_t hash;
};

// Features of images that were learned once are compared with those of images that are inspected
// years later, on another machine: no bit may ever change. These were OpenCV 4.6's.
TEST(Resize, ItsBitsAreTheSameForEver) {
  for (const std::string& target : kernels::targets()) {
    const naive::ForcedTarget forced(target);
    for (const auto& [width, height, to_width, to_height, hash] :
         {Pinned{512, 512, 128, 128, 0x08fa6c6bc8926d4f},
          Pinned{512, 384, 256, 192, 0x53d8e5ac44602723}, Pinned{98, 98, 2, 2, 0x0ba7c073b353e5b7},
          Pinned{64, 1200, 32, 2, 0xdab16b25fbf4fa05}, Pinned{96, 33, 32, 33, 0xdc2bdf89e9db1bac},
          Pinned{700, 700, 256, 256, 0xfac4cf1fd7a399ef},
          Pinned{300, 260, 256, 256, 0x35d7f85edefdb3a3},
          Pinned{33, 33, 32, 32, 0x807c8ddcd869d365}, Pinned{1000, 1, 32, 1, 0x87632dcb7bc5febe},
          Pinned{101, 99, 256, 256, 0x61e653057ae6baa4}, Pinned{32, 32, 64, 64, 0xda124c26554cba80},
          Pinned{1, 1, 32, 32, 0x146891a5c5f50725}, Pinned{500, 40, 64, 64, 0x221d7eab1e9500f3},
          Pinned{40, 500, 64, 64, 0x99ba359774fe11d0}, Pinned{1, 77, 32, 32, 0x6ab589c9ebf50e05}}) {
      const Image out = resize_image(speckled(width, height, 7), to_width, to_height);
      EXPECT_EQ(hash_of(out.rgb.data(), out.rgb.size()), hash)
          << target << ": " << width << "x" << height << " to " << to_width << "x" << to_height;
    }
    for (const auto& [width, height, to_width, to_height, hash] :
         {Pinned{28, 28, 224, 224, 0xfda8501b8e901142}, Pinned{7, 5, 61, 40, 0xd7c877b285e73a21},
          Pinned{40, 40, 32, 32, 0x436252a5f42d6fbc}, Pinned{1, 1, 5, 5, 0xf607e0f02912ed00},
          Pinned{32, 20, 96, 60, 0x361e63d91cf06fe0}}) {
      const Map out = resize_map(speckled_map(width, height, 8), to_width, to_height);
      EXPECT_EQ(hash_of(out.values.data(), 4 * out.values.size()), hash)
          << target << ": " << width << "x" << height << " to " << to_width << "x" << to_height;
    }
  }
}

// ---- Blur
// ----------------------------------------------------------------------------------------

}  // namespace
}  // namespace contcore
