// Resizing and blurring beside OpenCV's, to the bit. Memories hold features of images that OpenCV
// resized.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wdouble-promotion"
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#pragma GCC diagnostic pop

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/random.h"
#include "coreset/naive.h"
#include "image/resize.h"

namespace contcore {
namespace {

cv::Size size_of(std::size_t width, std::size_t height) {
  return {static_cast<int>(width), static_cast<int>(height)};
}

// Noise, black and white, or a gradient with few values in between.
Image any_image(std::size_t width, std::size_t height, Random& random) {
  Image image{width, height, std::vector<std::uint8_t>(width * height * 3)};
  const auto kind = random.below(3);
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    const std::size_t value = kind == 0   ? random.below(256)
                              : kind == 1 ? 255 * random.below(2)
                                          : i / 3 % width * 255 / width + i / 3 / width + i % 3;
    image.rgb[i] = static_cast<std::uint8_t>(value);
  }
  return image;
}

void expect_twin(std::size_t width, std::size_t height, std::size_t to_width, std::size_t to_height,
                 Random& random) {
  Image image = any_image(width, height, random);
  const bool shrinks = to_width < width || to_height < height;
  cv::Mat theirs;
  cv::resize(cv::Mat(size_of(width, height), CV_8UC3, image.rgb.data()), theirs,
             size_of(to_width, to_height), 0, 0, shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
  const Image ours = resize_image(image, to_width, to_height);
  ASSERT_EQ(ours.rgb.size(), theirs.total() * 3);
  ASSERT_TRUE(std::equal(ours.rgb.begin(), ours.rgb.end(), theirs.data))
      << width << "x" << height << " to " << to_width << "x" << to_height;
}

TEST(OpenCvResize, SmallSizesToSmallSizes) {
  Random random(1);
  const std::vector<std::size_t> sides = {1,  2,  3,  4,  5,  7,  8,  9,  16,  17, 31,
                                          32, 33, 49, 50, 63, 64, 65, 98, 100, 127};
  for (const std::size_t width : sides) {
    for (const std::size_t to_width : sides) {
      for (const std::size_t height : {1u, 2u, 5u, 32u, 33u, 98u}) {
        for (const std::size_t to_height : {1u, 2u, 3u, 16u, 33u, 49u, 64u}) {
          expect_twin(width, height, to_width, to_height, random);
        }
      }
    }
  }
}

TEST(OpenCvResize, AnySizes) {
  Random random(2);
  const std::vector<std::string> targets = kernels::targets();
  for (int i = 0; i < 2000; ++i) {
    const naive::ForcedTarget forced(targets[random.below(targets.size())]);
    const auto side = [&] { return 1 + random.below(300); };
    const std::size_t width = side(), height = side(), to_width = side();
    expect_twin(width, height, to_width, side(), random);
  }
}

// Some of them, such as 49, OpenCV does not take for whole.
TEST(OpenCvResize, WholeFactors) {
  Random random(3);
  for (std::size_t factor = 1; factor <= 64; ++factor) {
    for (const std::size_t side : {32u, 33u}) {
      expect_twin(side * factor, side * (1 + random.below(50)), side, side, random);
      expect_twin(side * factor, side, side, side, random);
    }
  }
  expect_twin(64, 1200, 32, 2, random);
  expect_twin(8, 700, 8, 1, random);
}

TEST(OpenCvResize, UsualSizes) {
  Random random(4);
  for (const std::size_t from : {101u, 512u, 700u, 900u, 1000u, 1024u, 1080u, 1920u, 4096u}) {
    for (const std::size_t to : {224u, 256u, 320u, 512u, 1024u}) {
      expect_twin(from, from, to, to, random);
      expect_twin(from, from * 3 / 4, to, to, random);
      expect_twin(from, from * 9 / 16, to * 16 / 9, to, random);
    }
  }
}

// ---- Maps
// ----------------------------------------------------------------------------------------

Map any_map(std::size_t width, std::size_t height, Random& random) {
  Map map{width, height, std::vector<float>(width * height)};
  for (float& v : map.values) v = static_cast<float>(50 * random.uniform());
  return map;
}

cv::Mat values_of(Map& map) { return {size_of(map.width, map.height), CV_32F, map.values.data()}; }

// But for exact halves: no grid of patches is finer than the pixels.
TEST(OpenCvResize, Maps) {
  Random random(5);
  for (int i = 0; i < 600; ++i) {
    const auto side = [&](std::size_t most) { return 1 + random.below(most); };
    Map map = any_map(side(60), side(60), random);
    const std::size_t factor = 3 + 2 * random.below(4);
    const bool whole = random.below(3) == 0;  // as small pictures are enlarged
    const std::size_t width = whole ? factor * map.width : side(300);
    const std::size_t height = whole ? factor * map.height : side(300);
    if (2 * width == map.width && 2 * height == map.height) continue;
    cv::Mat theirs;
    cv::resize(values_of(map), theirs, size_of(width, height), 0, 0, cv::INTER_LINEAR);
    const Map ours = resize_map(map, width, height);
    ASSERT_TRUE(std::equal(ours.values.begin(), ours.values.end(), theirs.ptr<float>()))
        << map.width << "x" << map.height << " to " << width << "x" << height;
  }
}

}  // namespace
}  // namespace contcore
