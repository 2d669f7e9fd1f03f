#include "camera/frame.h"

#include <gtest/gtest.h>

#include <random>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::uint32_t kMono8 = 0x01080001;
constexpr std::uint32_t kBayerRG8 = 0x01080009;

Frame frame_of(std::uint32_t format, std::size_t width, std::size_t height,
               std::vector<std::uint8_t> bytes, std::size_t padding = 0) {
  return {width, height, padding, format, 7, std::move(bytes)};
}

std::vector<std::uint8_t> grays(const Frame& frame) {
  const Image image = image_of(frame);
  std::vector<std::uint8_t> values;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) {
    EXPECT_EQ(image.rgb[i], image.rgb[i + 1]);
    EXPECT_EQ(image.rgb[i], image.rgb[i + 2]);
    values.push_back(image.rgb[i]);
  }
  return values;
}

TEST(CameraFrame, APngOfGrayIsGrayAndSaysTheSame) {
  const Frame gray = frame_of(kMono8, 2, 2, {1, 2, 3, 250});
  const Image image = image_of(gray);
  const std::vector<std::uint8_t> png = png_of(gray, image);
  EXPECT_EQ(decode_image(png, "png").rgb, image.rgb);
  EXPECT_EQ(png[25], 0);  // its kind of colour
  const Frame colour = frame_of(kBayerRG8, 2, 2, {1, 2, 3, 250});
  EXPECT_EQ(decode_image(png_of(colour, image_of(colour)), "png").rgb, image_of(colour).rgb);
}

// A stream of bits, the lowest first, as the standard draws it.
std::vector<std::uint8_t> bits_of(const std::vector<unsigned>& samples, unsigned bits) {
  std::vector<std::uint8_t> bytes((samples.size() * bits + 7) / 8);
  std::size_t at = 0;
  for (const unsigned sample : samples) {
    for (unsigned bit = 0; bit < bits; ++bit, ++at) {
      bytes[at / 8] = static_cast<std::uint8_t>(bytes[at / 8] | ((sample >> bit & 1U) << (at % 8)));
    }
  }
  return bytes;
}

TEST(CameraFrame, GrayOfEveryWidthAndPackingIsItsUpperEightBits) {
  std::mt19937 random(1);
  for (const std::size_t width : {1U, 2U, 3U, 4U, 5U, 8U, 17U}) {
    const std::size_t height = 3;
    for (const unsigned bits : {8U, 10U, 12U, 14U, 16U}) {
      std::vector<unsigned> samples(width * height);
      std::vector<std::uint8_t> expected;
      std::vector<std::uint8_t> words;
      for (unsigned& sample : samples) {
        sample = static_cast<unsigned>(random()) & ((1U << bits) - 1);
        expected.push_back(static_cast<std::uint8_t>(sample >> (bits - 8)));
        words.push_back(static_cast<std::uint8_t>(sample & 255));
        words.push_back(static_cast<std::uint8_t>(sample >> 8));
      }
      const auto expect = [&](std::uint32_t format, const std::vector<std::uint8_t>& bytes) {
        EXPECT_EQ(grays(frame_of(format, width, height, bytes)), expected)
            << format_name(format) << " of width " << width;
        std::vector<std::uint8_t> short_of(bytes.begin(), bytes.end() - 1);
        EXPECT_THROW(image_of(frame_of(format, width, height, short_of)), Error);
      };
      if (bits == 8) expect(kMono8, expected);
      if (bits == 10) {
        expect(0x01100003, words);
        expect(0x010a0046, bits_of(samples, 10));
      }
      if (bits == 12) {
        expect(0x01100005, words);
        expect(0x010c0047, bits_of(samples, 12));
      }
      if (bits == 14) expect(0x01100025, words);
      if (bits == 16) expect(0x01100007, words);
    }
  }
}

// Three bytes hold two samples: the upper eight bits of each outside, the lower between them.
TEST(CameraFrame, GrayInTriplesOfGigEVision) {
  EXPECT_EQ(grays(frame_of(0x010c0006, 3, 1, {0xab, 0xfc, 0x12, 0x77, 0x0f})),
            (std::vector<std::uint8_t>{0xab, 0x12, 0x77}));
  EXPECT_EQ(grays(frame_of(0x010c0004, 1, 3, {0xab, 0x33, 0x12, 0x77, 0x03})),
            (std::vector<std::uint8_t>{0xab, 0x12, 0x77}));
}

TEST(CameraFrame, WhatStandsBehindARowIsPassedOver) {
  EXPECT_EQ(grays(frame_of(kMono8, 2, 2, {1, 2, 99, 3, 4}, 1)),
            (std::vector<std::uint8_t>{1, 2, 3, 4}));
  EXPECT_THROW(image_of(frame_of(kMono8, 2, 2, {1, 2, 99, 3}, 1)), Error);
  EXPECT_THROW(image_of(frame_of(kMono8, 2, 2, {1, 2, 99, 3}, SIZE_MAX)), Error);
}

TEST(CameraFrame, ColoursStandInTheirOrder) {
  const std::vector<std::uint8_t> rgb = {1, 2, 3, 4, 5, 6};
  const std::vector<std::uint8_t> swapped = {3, 2, 1, 6, 5, 4};
  EXPECT_EQ(image_of(frame_of(0x02180014, 2, 1, rgb)).rgb, rgb);
  EXPECT_EQ(image_of(frame_of(0x02180015, 2, 1, rgb)).rgb, swapped);
  EXPECT_EQ(image_of(frame_of(0x02200016, 2, 1, {1, 2, 3, 9, 4, 5, 6, 9})).rgb, rgb);
  EXPECT_EQ(image_of(frame_of(0x02200017, 2, 1, {1, 2, 3, 9, 4, 5, 6, 9})).rgb, swapped);
}

TEST(CameraFrame, BrightnessAndColourDifferences) {
  // Gray, and the red of ITU-R BT.601: Y 76, U 85, V 255.
  const std::vector<std::uint8_t> gray = {100, 128, 200, 128};
  const std::vector<std::uint8_t> expected = {100, 100, 100, 200, 200, 200};
  EXPECT_EQ(image_of(frame_of(0x02100032, 2, 1, gray)).rgb, expected);
  EXPECT_EQ(image_of(frame_of(0x0210001f, 2, 1, {128, 100, 128, 200})).rgb, expected);
  const Image red = image_of(frame_of(0x02100032, 2, 1, {76, 85, 76, 255}));
  EXPECT_NEAR(red.rgb[0], 254, 1);
  EXPECT_NEAR(red.rgb[1], 0, 1);
  EXPECT_NEAR(red.rgb[2], 0, 1);
  EXPECT_THROW(image_of(frame_of(0x02100032, 1, 1, {100, 128})), Error);
}

// The definition: a colour that a pixel lacks is the mean of its neighbours that have it among the
// eight, the pattern being mirrored at the borders.
std::vector<std::uint8_t> slow_colours(const Frame& frame, std::size_t red_x, std::size_t red_y) {
  const auto width = static_cast<long>(frame.width);
  const auto height = static_cast<long>(frame.height);
  const auto colour_at = [&](long x, long y) {
    const bool red_row = static_cast<std::size_t>(y & 1) == red_y;
    const bool red_column = static_cast<std::size_t>(x & 1) == red_x;
    return red_row != red_column ? 1 : red_row ? 0 : 2;
  };
  const auto inside = [](long at, long end) {
    return at < 0 ? -at : at >= end ? 2 * end - 2 - at : at;
  };
  std::vector<std::uint8_t> rgb;
  for (long y = 0; y < height; ++y) {
    for (long x = 0; x < width; ++x) {
      for (int colour = 0; colour < 3; ++colour) {
        // Green lies beside; where red and blue lie depends on the pixel.
        int sum = 0;
        int count = 0;
        for (long dy = -1; dy <= 1; ++dy) {
          for (long dx = -1; dx <= 1; ++dx) {
            const bool own = dx == 0 && dy == 0;
            if (colour_at(x + dx + 2, y + dy + 2) != colour) continue;
            if (own != (colour_at(x, y) == colour)) continue;
            if (colour_at(x, y) != 1 && colour == 1 && dx != 0 && dy != 0) continue;
            const long at = inside(y + dy, height) * width + inside(x + dx, width);
            sum += frame.bytes[static_cast<std::size_t>(at)];
            ++count;
          }
        }
        rgb.push_back(static_cast<std::uint8_t>((sum + count / 2) / count));
      }
    }
  }
  return rgb;
}

TEST(CameraFrame, ColoursOfABayerPatternAreMeansOfNeighbours) {
  std::mt19937 random(2);
  const std::uint32_t formats[] = {0x01080009, 0x01080008, 0x0108000a, 0x0108000b};
  for (const std::size_t width : {2U, 3U, 6U, 7U}) {
    for (const std::size_t height : {2U, 3U, 5U, 8U}) {
      for (std::size_t pattern = 0; pattern < 4; ++pattern) {
        std::vector<std::uint8_t> bytes(width * height);
        for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
        const Frame frame = frame_of(formats[pattern], width, height, bytes);
        EXPECT_EQ(image_of(frame).rgb, slow_colours(frame, pattern % 2, pattern / 2))
            << format_name(formats[pattern]) << " " << width << " × " << height;
      }
    }
  }
}

TEST(CameraFrame, ASinglePixelOfAPatternIsNoReasonToReadBeyond) {
  EXPECT_EQ(image_of(frame_of(kBayerRG8, 1, 1, {50})).rgb.size(), 3U);
  EXPECT_EQ(image_of(frame_of(kBayerRG8, 1, 4, {50, 50, 50, 50})).rgb,
            std::vector<std::uint8_t>(12, 50));
}

TEST(CameraFrame, WhatIsNoImageIsRefused) {
  const auto message = [](const Frame& frame) -> std::string {
    try {
      image_of(frame);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(frame_of(kMono8, 0, 4, {})),
            "frame 7 of 0 × 4 pixels in Mono8: it has no pixels");
  EXPECT_EQ(message(frame_of(kMono8, 4, 4, std::vector<std::uint8_t>(15))),
            "frame 7 of 4 × 4 pixels in Mono8: it is cut short: it has 15 bytes of 16");
  EXPECT_NE(
      message(frame_of(0x02300018, 1, 1, std::vector<std::uint8_t>(6))).find("PixelFormat=Mono8"),
      std::string::npos);
  for (const std::size_t side : {std::size_t{1} << 31, SIZE_MAX}) {
    EXPECT_NE(message(frame_of(kMono8, side, side, {1})).find("too large"), std::string::npos);
  }
}

// Whatever a camera says of its bytes, none beyond them is read: the sanitizers watch.
TEST(CameraFrame, AnyNumbersAtAll) {
  std::mt19937 random(3);
  const std::uint32_t formats[] = {kMono8,     0x01100003, 0x010c0004, 0x010a0046, 0x010c0047,
                                   0x01100007, 0x01080008, 0x010a0056, 0x010c002d, 0x02180015,
                                   0x02200017, 0x0210001f, 0x02100032, 0x12345678};
  int images = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::uint8_t> bytes(random() % 200);
    bytes.shrink_to_fit();
    const Frame frame = frame_of(formats[random() % std::size(formats)], random() % 20,
                                 random() % 20, bytes, random() % 3);
    try {
      EXPECT_EQ(image_of(frame).rgb.size(), frame.width * frame.height * 3);
      ++images;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(images, 1000);
}

}  // namespace
}  // namespace contcore
