#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "contcore/error.h"
#include "contcore/image.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

// ---- Files made by hand ----------------------------------------------------------------------
// So that what is read does not depend on what writes.

void append(Bytes& to, std::string_view text) { to.insert(to.end(), text.begin(), text.end()); }

void append_big(Bytes& to, std::uint32_t value, int bytes = 4) {
  for (int i = bytes - 1; i >= 0; --i) to.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

void append_little(Bytes& to, std::uint32_t value, int bytes = 4) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

std::uint32_t crc(const std::uint8_t* data, std::size_t size) {
  std::uint32_t c = 0xffffffffu;
  for (std::size_t i = 0; i < size; ++i) {
    c ^= data[i];
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? 0xedb88320u ^ (c >> 1) : c >> 1;
  }
  return ~c;
}

void append_chunk(Bytes& png, std::string_view type, const Bytes& data) {
  append_big(png, static_cast<std::uint32_t>(data.size()));
  const std::size_t start = png.size();
  append(png, type);
  png.insert(png.end(), data.begin(), data.end());
  append_big(png, crc(png.data() + start, png.size() - start));
}

// zlib without compression.
Bytes stored(const Bytes& raw) {
  Bytes out = {0x78, 0x01, 0x01};
  append_little(out, static_cast<std::uint32_t>(raw.size()), 2);
  append_little(out, ~static_cast<std::uint32_t>(raw.size()), 2);
  out.insert(out.end(), raw.begin(), raw.end());
  std::uint32_t a = 1, b = 0;
  for (const std::uint8_t v : raw) {
    a = (a + v) % 65521;
    b = (b + a) % 65521;
  }
  append_big(out, b << 16 | a);
  return out;
}

struct Png {
  std::uint32_t width, height;
  std::uint8_t depth, colour;  // 0 gray, 2 RGB, 3 palette, 4 gray and alpha, 6 RGB and alpha
  Bytes rows;                  // without filter bytes
  Bytes palette = {};
  bool profile = false;
};

Bytes encoded(const Png& png) {
  Bytes out;
  append(out, "\x89PNG\r\n\x1a\n");
  Bytes header;
  append_big(header, png.width);
  append_big(header, png.height);
  header.insert(header.end(), {png.depth, png.colour, 0, 0, 0});
  append_chunk(out, "IHDR", header);
  if (png.profile) append_chunk(out, "iCCP", {'x', 0, 0, 1, 2, 3});
  if (!png.palette.empty()) append_chunk(out, "PLTE", png.palette);
  Bytes raw;
  const std::size_t row = png.height == 0 ? 0 : png.rows.size() / png.height;
  for (std::size_t y = 0; y < png.height && row > 0; ++y) {
    raw.push_back(0);
    const auto from = png.rows.begin() + static_cast<std::ptrdiff_t>(y * row);
    raw.insert(raw.end(), from, from + static_cast<std::ptrdiff_t>(row));
  }
  append_chunk(out, "IDAT", stored(raw));
  append_chunk(out, "IEND", {});
  return out;
}

Bytes bmp(std::int32_t width, std::int32_t height, const Bytes& rows) {
  Bytes out;
  append(out, "BM");
  append_little(out, static_cast<std::uint32_t>(54 + rows.size()));
  append_little(out, 0);
  append_little(out, 54);
  append_little(out, 40);
  append_little(out, static_cast<std::uint32_t>(width));
  append_little(out, static_cast<std::uint32_t>(height));
  append_little(out, 1, 2);
  append_little(out, 24, 2);
  for (int i = 0; i < 6; ++i) append_little(out, 0);
  out.insert(out.end(), rows.begin(), rows.end());
  return out;
}

// Runs of 32767 empty blocks: "1110" and fourteen ones each, filled up by ones; after FF comes 00.
Bytes empty_runs(std::size_t count) {
  Bytes out;
  for (std::size_t bit = 0, byte = 0; bit < (count * 18 + 7) / 8 * 8; ++bit) {
    byte = byte << 1 | (bit < count * 18 && bit % 18 == 3 ? 0 : 1);
    if (bit % 8 != 7) continue;
    out.push_back(static_cast<std::uint8_t>(byte));
    if (out.back() == 0xff) out.push_back(0);
  }
  return out;
}

// A progressive gray JPEG of one colour, a first scan for the mean of each block and then others
// that bring nothing, each a few bytes: runs of up to 32767 empty blocks. Without tables no decoder
// takes it.
Bytes scans(std::uint32_t width, std::uint32_t height, std::size_t count, bool tables = true) {
  const auto segment = [](std::uint8_t marker, const Bytes& data) {
    Bytes out = {0xff, marker};
    append_big(out, static_cast<std::uint32_t>(data.size() + 2), 2);
    out.insert(out.end(), data.begin(), data.end());
    return out;
  };
  Bytes out = {0xff, 0xd8};
  const auto add = [&](const Bytes& bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); };
  Bytes quantised(65, 1);
  quantised[0] = 0;
  add(segment(0xdb, quantised));
  Bytes frame = {8};
  append_big(frame, height, 2);
  append_big(frame, width, 2);
  frame.insert(frame.end(), {1, 1, 0x11, 0});
  add(segment(0xc2, frame));
  if (tables) {
    Bytes means(18, 0);  // "0" stands for no change
    means[1] = 1;
    add(segment(0xc4, means));
    Bytes runs(32, 0);  // "0000" to "1110" stand for runs of 2^0 to 2^14 and as many bits more
    runs[0] = 0x10;
    runs[4] = 15;
    for (std::size_t i = 0; i < 15; ++i) runs[17 + i] = static_cast<std::uint8_t>(i << 4);
    add(segment(0xc4, runs));
  }
  const std::size_t blocks = std::size_t{(width + 7) / 8} * ((height + 7) / 8);
  add(segment(0xda, {1, 1, 0, 0, 0, 1}));
  add(Bytes((blocks + 7) / 8, 0));
  for (std::size_t i = 1; i < count; ++i) {
    add(segment(0xda, {1, 1, 0, 1, 63, static_cast<std::uint8_t>(i == 1 ? 0x01 : 0x10)}));
    add(empty_runs((blocks + 32766) / 32767));
  }
  add({0xff, 0xd9});
  return out;
}

// One strip.
Bytes tiff(std::uint32_t width, std::uint32_t height, std::uint32_t bits, std::uint32_t samples,
           const Bytes& rows, std::uint32_t compression = 1, std::uint32_t colours = 0) {
  const std::vector<std::array<std::uint32_t, 3>> tags = {
      {256, 4, width},
      {257, 4, height},
      {258, 3, bits},
      {259, 3, compression},
      {262, 3,
       colours != 0   ? colours
       : samples == 1 ? 1u
                      : 2u},
      {273, 4, 8},
      {277, 3, samples},
      {278, 4, height},
      {279, 4, static_cast<std::uint32_t>(rows.size())}};
  Bytes out;
  append(out, std::string_view("II*\0", 4));
  append_little(out, static_cast<std::uint32_t>(8 + rows.size()));
  out.insert(out.end(), rows.begin(), rows.end());
  append_little(out, static_cast<std::uint32_t>(tags.size()), 2);
  const std::size_t end = out.size() + tags.size() * 12 + 4;
  for (const auto& [tag, type, value] : tags) {
    const bool each = tag == 258 && samples == 3;  // a number for each sample, elsewhere
    append_little(out, tag, 2);
    append_little(out, type, 2);
    append_little(out, each ? 3 : 1);
    append_little(out, each ? static_cast<std::uint32_t>(end) : value);
  }
  append_little(out, 0);
  if (samples == 3) {
    for (int i = 0; i < 3; ++i) append_little(out, bits, 2);
  }
  return out;
}

// Gray, deflated, all tiles with the same bytes.
Bytes tiled(std::uint32_t width, std::uint32_t height, std::uint32_t tile_width,
            std::uint32_t tile_height) {
  const std::uint32_t tiles =
      (width - 1) / tile_width * ((height - 1) / tile_height + 1) + (height - 1) / tile_height + 1;
  const std::vector<std::array<std::uint32_t, 4>> tags = {
      {256, 4, 1, width},      {257, 4, 1, height},
      {258, 3, 1, 8},          {259, 3, 1, 8},
      {262, 3, 1, 1},          {277, 3, 1, 1},
      {322, 4, 1, tile_width}, {323, 4, 1, tile_height},
      {324, 4, tiles, 8 + 4},  {325, 4, tiles, 8 + 4 + 4 * tiles}};
  Bytes out;
  append(out, std::string_view("II*\0", 4));
  append_little(out, 8 + 4 + 8 * tiles);
  append(out, "abcd");
  for (std::uint32_t i = 0; i < tiles; ++i) append_little(out, 8);
  for (std::uint32_t i = 0; i < tiles; ++i) append_little(out, 4);
  append_little(out, static_cast<std::uint32_t>(tags.size()), 2);
  for (const auto& [tag, type, count, value] : tags) {
    append_little(out, tag, 2);
    append_little(out, type, 2);
    append_little(out, count);
    append_little(out, value);
  }
  append_little(out, 0);
  return out;
}

Bytes pnm(const std::string& header, const Bytes& rows) {
  Bytes out(header.begin(), header.end());
  out.insert(out.end(), rows.begin(), rows.end());
  return out;
}

Bytes from_hex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Bytes out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    out.push_back(static_cast<std::uint8_t>(digit(text[i]) * 16 + digit(text[i + 1])));
  }
  return out;
}

// ---- Samples ---------------------------------------------------------------------------------

Image gradient(std::size_t width, std::size_t height) {
  Image image{width, height, {}};
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      for (const std::size_t v : {x * 255 / width, y * 255 / height, (x + y) % 256}) {
        image.rgb.push_back(static_cast<std::uint8_t>(v));
      }
    }
  }
  return image;
}

class ImageFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "contcore_image_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::string write_bytes(const std::string& name, const Bytes& bytes) const {
    std::ofstream(path(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }

  Bytes jpeg(const Image& image) const {
    write_image(path("sample.jpg"), image);
    std::ifstream in(path("sample.jpg"), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // A small file of each format.
  std::map<std::string, Bytes> samples() const {
    const Image image = gradient(20, 12);
    return {{"png", encode_png(image)},
            {"jpeg", jpeg(image)},
            {"bmp", bmp(4, 2, Bytes(24, 7))},
            {"tiff", tiff(4, 2, 8, 3, Bytes(24, 7))},
            {"webp", from_hex(kWebp)},
            {"pgm", pnm("P5\n# made by hand\n4 2\n255\n", Bytes(8, 7))},
            {"ppm", pnm("P6 4 2 255\n", Bytes(24, 7))}};
  }

  // 4 × 2 pixels of (200, 100, 50), lossless.
  static constexpr std::string_view kWebp =
      "524946461e000000574542505650384c110000002f034000000750b22257a6ff8188e87f0000";

  fs::path folder_;
};

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput) << error.what();
    return error.what();
  }
  return "";
}

std::string refusal(const Bytes& bytes, const ImageLimits& limits = {}) {
  const std::string said = refusal([&] { decode_image(bytes, "cam7.xyz", limits); });
  EXPECT_TRUE(said.empty() || said.starts_with("cam7.xyz: ")) << said;
  return said;
}

#define EXPECT_SAYS(said, words) \
  EXPECT_PRED_FORMAT2(testing::IsSubstring, std::string(words), std::string(said))

void expect_pixels(const Bytes& bytes, std::size_t width, std::size_t height, const Bytes& rgb) {
  const Image image = decode_image(bytes, "x");
  EXPECT_EQ(image.width, width);
  EXPECT_EQ(image.height, height);
  EXPECT_EQ(image.rgb, rgb);
}

// What is printed meanwhile.
std::string heard(const std::function<void()>& work) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  work();
  return testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
}

// ---- Kinds of pixels -------------------------------------------------------------------------

TEST_F(ImageFiles, PngOfEveryKind) {
  const Bytes gray = {10, 10, 10, 200, 200, 200};
  expect_pixels(encoded({2, 1, 8, 0, {10, 200}}), 2, 1, gray);
  expect_pixels(encoded({2, 1, 16, 0, {10, 3, 200, 4}}), 2, 1, gray);
  expect_pixels(encoded({2, 1, 8, 4, {10, 0, 200, 255}}), 2, 1, gray);
  expect_pixels(encoded({2, 1, 1, 0, {0x40}}), 2, 1, {0, 0, 0, 255, 255, 255});
  const Bytes colour = {1, 2, 3, 250, 128, 7};
  expect_pixels(encoded({2, 1, 8, 2, colour}), 2, 1, colour);
  expect_pixels(encoded({2, 1, 16, 2, {1, 9, 2, 9, 3, 9, 250, 9, 128, 9, 7, 9}}), 2, 1, colour);
  // What is transparent has its colour all the same.
  expect_pixels(encoded({2, 1, 8, 6, {1, 2, 3, 0, 250, 128, 7, 255}}), 2, 1, colour);
  expect_pixels(encoded({1, 2, 8, 3, {1, 0}, {250, 128, 7, 1, 2, 3}}), 1, 2, colour);
}

TEST_F(ImageFiles, OtherFormats) {
  // Blue first, the lowest row first, rows filled up to four bytes.
  const Bytes rows = {3, 2, 1, 6, 5, 4, 0, 0, 9, 8, 7, 12, 11, 10, 0, 0};
  expect_pixels(bmp(2, 2, rows), 2, 2, {7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6});
  expect_pixels(bmp(2, -2, rows), 2, 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  expect_pixels(tiff(2, 1, 8, 3, {1, 2, 3, 4, 5, 6}), 2, 1, {1, 2, 3, 4, 5, 6});
  expect_pixels(tiff(2, 1, 8, 1, {9, 8}), 2, 1, {9, 9, 9, 8, 8, 8});
  expect_pixels(pnm("P6 2 1 255\n", {1, 2, 3, 4, 5, 6}), 2, 1, {1, 2, 3, 4, 5, 6});
  expect_pixels(pnm("P5\n# a comment\n 2\t1\r255 ", {9, 8}), 2, 1, {9, 9, 9, 8, 8, 8});
  Bytes orange;
  for (int i = 0; i < 8; ++i) orange.insert(orange.end(), {200, 100, 50});
  expect_pixels(from_hex(kWebp), 4, 2, orange);
}

TEST_F(ImageFiles, SixteenBitTiff) {
  const Image image = decode_image(tiff(2, 1, 16, 1, {0, 128, 255, 255}), "x");
  EXPECT_NEAR(image.rgb[0], 128, 1);
  EXPECT_EQ(image.rgb[3], 255);
}

TEST_F(ImageFiles, JpegOfColourAndGray) {
  const Image image = gradient(64, 48);
  const Image back = decode_image(jpeg(image), "x");
  ASSERT_EQ(back.rgb.size(), image.rgb.size());
  double off = 0;
  for (std::size_t i = 0; i < image.rgb.size(); ++i) off += std::abs(image.rgb[i] - back.rgb[i]);
  EXPECT_LT(off / static_cast<double>(image.rgb.size()), 5);
}

// A camera held upright says so in the file.
TEST_F(ImageFiles, TurnsByExif) {
  const Bytes plain = jpeg(gradient(40, 16));
  Bytes exif = {0xff, 0xd8, 0xff, 0xe1, 0, 34};
  append(exif, std::string_view("Exif\0\0II*\0\x08\0\0\0\x01\0", 16));
  append_little(exif, 0x112, 2);
  append_little(exif, 3, 2);
  append_little(exif, 1);
  append_little(exif, 6);
  append_little(exif, 0);
  exif.insert(exif.end(), plain.begin() + 2, plain.end());
  const Image upright = decode_image(plain, "x");
  const Image turned = decode_image(exif, "x");
  ASSERT_EQ(turned.width, 16u);
  ASSERT_EQ(turned.height, 40u);
  for (std::size_t y = 0; y < 40; ++y) {
    for (std::size_t x = 0; x < 16; ++x) {
      ASSERT_EQ(turned.rgb[(y * 16 + x) * 3], upright.rgb[((15 - x) * 40 + y) * 3]);
    }
  }
}

TEST_F(ImageFiles, StumblesOverNothingBesideThePixels) {
  Png with_profile{2, 1, 8, 0, {10, 200}};
  with_profile.profile = true;  // and a broken one
  EXPECT_EQ(heard([&] {
              expect_pixels(encoded(with_profile), 2, 1, {10, 10, 10, 200, 200, 200});
            }),
            "");
  Bytes longer = jpeg(gradient(20, 12));
  const Image image = decode_image(longer, "x");
  longer.insert(longer.end(), 1000, std::uint8_t{0});
  EXPECT_EQ(decode_image(longer, "x").rgb, image.rgb);
}

// ---- Limits ----------------------------------------------------------------------------------

TEST_F(ImageFiles, LimitsComeBeforeDecoding) {
  const Bytes huge = encoded({100000, 100000, 8, 2, {}});
  EXPECT_SAYS(refusal(huge), "100000 × 100000");
  EXPECT_SAYS(refusal(encoded({50000, 50000, 8, 2, {}})), "more than the limit");
  EXPECT_SAYS(refusal(encoded({0xffffffff, 0xffffffff, 8, 2, {}})), "4294967295");
  const Bytes small = encode_png(gradient(20, 10));
  EXPECT_SAYS(refusal(small, {small.size(), 199}), "20 × 10");
  EXPECT_SAYS(refusal(small, {small.size() - 1, 200}), "bytes, more than the limit");
  EXPECT_EQ(refusal(small, {small.size(), 200}), "");
  EXPECT_SAYS(refusal(bmp(0x7fffffff, 0x7fffffff, Bytes(100, 0))), "cut short");
  EXPECT_SAYS(refusal(bmp(5, INT32_MIN, Bytes(100, 0))), "no bounds");
  EXPECT_SAYS(refusal(bmp(-5, 5, Bytes(100, 0))), "negative");
  EXPECT_SAYS(refusal(tiff(0x7fffffff, 0x7fffffff, 8, 1, Bytes(16, 0))), "2147483647");
  EXPECT_SAYS(refusal(pnm("P5 99999999999999999999 1 255\n", {})), "too large");
  EXPECT_SAYS(refusal(pnm("P5 2000000000 2000000000 255\n", {})), "cut short");
}

// A file of few bytes and pixels that are allowed may still keep a decoder busy for a minute.
TEST_F(ImageFiles, ScansAreBounded) {
  EXPECT_SAYS(refusal(scans(10240, 10240, 17)), "17 scans or more, too many to decode; save it");
  EXPECT_SAYS(refusal(scans(10240, 10240, 16, false)), "cannot be decoded")
      << "the bound lies here";
  EXPECT_SAYS(refusal(scans(64, 64, 257)), "over 256 scans");
  const Image plain = decode_image(scans(300, 200, 200), "x");
  EXPECT_EQ(plain.rgb, Bytes(300 * 200 * 3, 128)) << "many scans of a small picture are no harm";
}

// A TIFF's parts may be JPEGs.
TEST_F(ImageFiles, ScansOfATiffAreBounded) {
  const auto of = [](const Bytes& part, std::uint32_t side) {
    return tiff(side, side, 8, 1, part, 7);
  };
  EXPECT_SAYS(refusal(of(scans(10240, 10240, 90), 10240)), "90 scans");
  EXPECT_SAYS(refusal(of(scans(10240, 10240, 16, false), 10240)), "cannot be decoded");
  expect_pixels(of(scans(16, 16, 2), 16), 16, 16, Bytes(16 * 16 * 3, 128));
  EXPECT_SAYS(refusal(tiff(16, 16, 8, 1, scans(16, 16, 2), 6)), "the old kind");
}

TEST_F(ImageFiles, WhatPixelsUnpackToIsBounded) {
  EXPECT_SAYS(refusal(encoded({10240, 10240, 16, 6, {}})), "unpacks to 838860800 bytes");
  EXPECT_SAYS(refusal(encoded({10240, 10240, 8, 6, {}})), "is damaged") << "just allowed";
  EXPECT_SAYS(refusal(tiff(10240, 10240, 16, 3, Bytes(16, 0), 8)), "unpacks to 629145600 bytes");
  // Of 16 × 65520 pixels, but in tiles of 65536 × 16.
  EXPECT_SAYS(refusal(tiled(16, 65520, 65536, 16)), "unpacks to");
}

TEST_F(ImageFiles, SizesOfZero) {
  EXPECT_SAYS(refusal(encoded({0, 1, 8, 2, {}})), "0 × 1");
  EXPECT_SAYS(refusal(bmp(0, 5, Bytes(100, 0))), "0 × 5");
  EXPECT_SAYS(refusal(tiff(3, 0, 8, 1, Bytes(16, 0))), "cannot be decoded");
  EXPECT_SAYS(refusal(pnm("P5 0 0 255\n", {})), "0 × 0");
  Bytes flat = jpeg(gradient(20, 12));
  for (std::size_t i = 0; i + 9 < flat.size(); ++i) {
    if (flat[i] == 0xff && flat[i + 1] == 0xc0) flat[i + 5] = flat[i + 6] = 0;
  }
  EXPECT_SAYS(refusal(flat), "20 × 0");
}

TEST_F(ImageFiles, NamesWhatIsReadInstead) {
  EXPECT_SAYS(refusal(Bytes(100, 'x')), "PNG, JPEG, BMP, TIFF, WebP");
  EXPECT_SAYS(refusal(Bytes{'G', 'I', 'F', '8', '9', 'a', 1, 0, 1, 0}), "a GIF is not read");
  EXPECT_SAYS(refusal(Bytes{}), "empty");
  EXPECT_SAYS(refusal(tiff(4, 2, 32, 1, Bytes(32, 0))), "32 bits");
  Bytes run_length = bmp(4, 2, Bytes(24, 7));
  run_length[28] = 8;
  run_length[30] = 1;
  EXPECT_SAYS(refusal(run_length), "compression 1");
}

// ---- Any bytes at all ------------------------------------------------------------------------

TEST_F(ImageFiles, CutShortAnywhere) {
  for (const auto& [format, bytes] : samples()) {
    ASSERT_EQ(refusal(bytes), "") << format;
    for (std::size_t size = 0; size < bytes.size(); size += size < 100 ? 1 : 7) {
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_NE(refusal(cut), "") << format << " cut to " << size << " of " << bytes.size();
    }
    const Bytes cut(bytes.begin(), bytes.end() - 1);
    EXPECT_NE(refusal(cut), "") << format << " without its last byte";
  }
}

// A decoder would fill up with gray, and with an end marker put where the rest should be it does
// not even look cut.
TEST_F(ImageFiles, ALargeJpegCutShort) {
  const Bytes bytes = jpeg(gradient(300, 300));
  EXPECT_EQ(refusal(tiff(300, 300, 8, 3, bytes, 7, 6)), "");
  for (const double part : {0.3, 0.6, 0.9, 0.99}) {
    const auto size = static_cast<std::ptrdiff_t>(part * static_cast<double>(bytes.size()));
    Bytes cut(bytes.begin(), bytes.begin() + size);
    EXPECT_SAYS(refusal(cut), "cut short");
    EXPECT_SAYS(refusal(tiff(300, 300, 8, 3, cut, 7, 6)), "cannot be decoded");
    cut.insert(cut.end(), {0xff, 0xd9});
    EXPECT_SAYS(refusal(cut), "cannot be decoded");
    EXPECT_SAYS(refusal(tiff(300, 300, 8, 3, cut, 7, 6)), "cannot be decoded");
  }
}

// What a length says is believed only as far as the file goes.
TEST_F(ImageFiles, PartsLongerThanTheFile) {
  Bytes png = encode_png(gradient(6, 5));
  const Bytes exif = {0x7e, 0, 0, 0, 'e', 'X', 'I', 'f', 'I', 'I', '*', 0};
  png.insert(png.begin() + 33, exif.begin(), exif.end());
  EXPECT_SAYS(refusal(png), "cut short");
}

// Sizes are believed where the pixels are, not where a header usually stands.
TEST_F(ImageFiles, SaysWhatIsWrongAndWhatToDo) {
  // As most writers lay it out: pixels, then the directory, which is gone here.
  Bytes tiff = {'I', 'I', 42, 0, 0, 4, 0, 0};
  tiff.resize(500);
  EXPECT_SAYS(refusal(tiff), "cut short at byte 500; copy or save it again");
  Bytes png = encode_png(gradient(6, 5));
  png[png.size() - 20] ^= 1;
  EXPECT_SAYS(refusal(png), "the PNG is damaged (");
  EXPECT_SAYS(refusal(png), "copy or save it again");
}

TEST_F(ImageFiles, APngThatBeginsWithSomethingElse) {
  Bytes png = encode_png(gradient(60, 50));
  Bytes before;
  append_chunk(before, "tEXt", {0, 0, 0, 1, 0, 0, 0, 1, 'x'});  // as if it were 1 × 1
  png.insert(png.begin() + 8, before.begin(), before.end());
  EXPECT_SAYS(refusal(png), "does not begin with its header");
}

TEST_F(ImageFiles, AnyBitOfAPngIsGuarded) {
  const Bytes bytes = encode_png(gradient(6, 5));
  for (std::size_t i = 0; i < bytes.size() * 8; ++i) {
    Bytes changed = bytes;
    changed[i / 8] = static_cast<std::uint8_t>(changed[i / 8] ^ 1u << (i % 8));
    EXPECT_NE(refusal(changed), "") << "bit " << i;
  }
}

// Taken or refused in words, and within the limits.
void take_or_refuse(const Bytes& bytes) {
  const ImageLimits limits{1 << 20, 100000};
  try {
    const Image image = decode_image(bytes, "x", limits);
    EXPECT_EQ(image.rgb.size(), image.width * image.height * 3);
    EXPECT_LE(image.width * image.height, limits.pixels);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput) << error.what();
  }
}

TEST_F(ImageFiles, ManyBytesChanged) {
  Random random(3);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random.below(n)); };
  const std::string said = heard([&] {
    for (const auto& [format, bytes] : samples()) {
      SCOPED_TRACE(format);
      for (int round = 0; round < 400; ++round) {
        Bytes changed = bytes;
        // Mostly in the first bytes, where the sizes are.
        const std::size_t span =
            round % 2 == 0 ? bytes.size() : std::min(bytes.size(), below(60) + 1);
        for (std::size_t flips = 1 + below(4); flips > 0; --flips) {
          changed[below(span)] = static_cast<std::uint8_t>(below(256));
        }
        take_or_refuse(changed);
      }
    }
  });
  EXPECT_EQ(said, "");
}

// ---- On disk ---------------------------------------------------------------------------------

TEST_F(ImageFiles, RefusesWhatIsNoFile) {
  const auto refused = [&](const std::string& file, const ImageLimits& limits = {}) {
    const std::string said = refusal([&] { read_image(file, limits); });
    EXPECT_EQ(said.find(file), 0u) << said;
    return said;
  };
  EXPECT_SAYS(refused(path("missing.png")), "No such file");
  EXPECT_SAYS(refused(folder_.string()), "folder");
  ASSERT_EQ(::mkfifo(path("pipe.png").c_str(), 0600), 0);
  EXPECT_SAYS(refused(path("pipe.png")), "regular file");
  EXPECT_SAYS(refused("/dev/zero"), "regular file");
  EXPECT_SAYS(refused(write_bytes("empty.png", {})), "empty");
  EXPECT_SAYS(refused(write_bytes("big.png", Bytes(2000, 0)), {1000, 1000}), "2000 bytes");
}

TEST_F(ImageFiles, WritesByTheEnding) {
  const Image image = gradient(30, 20);
  write_image(path("a.PNG"), image);
  EXPECT_EQ(read_image(path("a.PNG")).rgb, image.rgb);
  EXPECT_EQ(decode_image(encode_png(image), "x").rgb, image.rgb);
  write_image(path("a.jpeg"), image);
  EXPECT_EQ(read_image(path("a.jpeg")).width, 30u);
  for (const char* name : {"a", "a.gif", "b.png/", ".png.txt", "png"}) {
    EXPECT_SAYS(refusal([&] { write_image(path(name), image); }), ".png, .jpg or .jpeg");
  }
  EXPECT_SAYS(refusal([&] { write_image(path("no/such.png"), image); }), "No such file");
  EXPECT_THROW(write_image(path("b.png"), {}), Error);
  EXPECT_THROW(encode_png({3, 3, {0}}), Error);
  EXPECT_FALSE(fs::exists(path("b.png")));
}

TEST_F(ImageFiles, FromManyThreadsAtOnce) {
  const Bytes png = encode_png(gradient(200, 100));
  const Image wanted = decode_image(png, "x");
  std::vector<std::thread> crew;
  std::array<int, 4> same{};
  for (int& count : same) {
    crew.emplace_back([&] {
      for (int i = 0; i < 20; ++i) count += decode_image(png, "x").rgb == wanted.rgb ? 1 : 0;
    });
  }
  for (std::thread& thread : crew) thread.join();
  EXPECT_EQ(same, (std::array<int, 4>{20, 20, 20, 20}));
}

}  // namespace
}  // namespace contcore
