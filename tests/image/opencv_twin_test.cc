// Pictures of every kind, decoded by OpenCV as well: the pixels must be the same.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>
#include <string>
#include <vector>

// After <cstdio>, which it needs.
#include <jpeglib.h>
#include <png.h>
#include <tiffio.h>
#include <webp/encode.h>

#include "base/random.h"
#include "contcore/error.h"
#include "contcore/image.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

// Odd sizes, so that every row ends in the middle of something.
constexpr std::uint32_t kWidth = 37, kHeight = 29;

// ---- Both ------------------------------------------------------------------------------------

// Empty where OpenCV refuses.
Image by_opencv(const Bytes& bytes) {
  cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  cv::Mat bgr;
  try {
    bgr = cv::imdecode(bytes, cv::IMREAD_COLOR);
  } catch (const cv::Exception&) {
  }
  Image image{static_cast<std::size_t>(bgr.cols), static_cast<std::size_t>(bgr.rows), {}};
  for (int y = 0; y < bgr.rows; ++y) {
    for (int x = 0; x < bgr.cols; ++x) {
      const auto& pixel = bgr.at<cv::Vec3b>(y, x);
      image.rgb.insert(image.rgb.end(), {pixel[2], pixel[1], pixel[0]});
    }
  }
  return image;
}

void expect_same(const Image& image, const Image& wanted) {
  ASSERT_FALSE(wanted.rgb.empty()) << "OpenCV refuses it";
  ASSERT_EQ(image.width, wanted.width);
  ASSERT_EQ(image.height, wanted.height);
  int most = 0;
  std::size_t differ = 0;
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    const int off = std::abs(image.rgb[i] - wanted.rgb[i]);
    most = std::max(most, off);
    differ += off > 0 ? 1 : 0;
  }
  EXPECT_EQ(most, 0) << differ << " of " << image.rgb.size() << " values differ";
}

void expect_twins(const std::string& kind, const Bytes& bytes) {
  SCOPED_TRACE(kind);
  try {
    expect_same(decode_image(bytes, kind), by_opencv(bytes));
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

std::string refusal_of(const Bytes& bytes) {
  try {
    decode_image(bytes, "x");
    return "read";
  } catch (const Error& error) {
    return error.what();
  }
}

// Noise over a gradient: neighbours are alike, as in a photograph, but no two are the same.
Bytes noise(std::size_t count, std::uint64_t seed = 1) {
  Random random(seed);
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::uint8_t>(i * 256 / count + random.below(40));
  }
  return bytes;
}

// Writes a file by its path, and gives its bytes.
Bytes written(const std::function<void(const std::string&)>& write) {
  std::string path = (fs::temp_directory_path() / "contcore_twin_XXXXXX").string();
  const int file = ::mkstemp(path.data());
  EXPECT_GE(file, 0);
  ::close(file);
  write(path);
  std::ifstream in(path, std::ios::binary);
  const Bytes bytes{std::istreambuf_iterator<char>(in), {}};
  fs::remove(path);
  EXPECT_FALSE(bytes.empty());
  return bytes;
}

void append_little(Bytes& to, std::uint32_t value, int bytes = 4) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

Bytes exif(int orientation) {
  Bytes out = {'I', 'I', '*', 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3,
               0,   1,   0,   0, 0, 0, 0, 0, 0, 0, 0,    0, 0};
  out[18] = static_cast<std::uint8_t>(orientation);
  return out;
}

// ---- PNG -------------------------------------------------------------------------------------

struct PngKind {
  int colour, depth;
  bool interlaced = false, transparent = false, profile = false;
  int orientation = 0;
  bool orientation_behind = false;
};

Bytes png_of(const PngKind& kind) {
  return written([&](const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
    png_infop info = png_create_info_struct(png);
    png_init_io(png, file);
    png_set_IHDR(png, info, kWidth, kHeight, kind.depth, kind.colour,
                 kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, 0, 0);
    std::vector<png_color> palette(std::size_t{1} << std::min(kind.depth, 8));
    for (std::size_t i = 0; i < palette.size(); ++i) {
      palette[i] = {static_cast<png_byte>(i * 37), static_cast<png_byte>(i * 91 + 5),
                    static_cast<png_byte>(255 - i)};
    }
    const bool indexed = kind.colour == PNG_COLOR_TYPE_PALETTE;
    if (indexed) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
    Bytes opacity(palette.size(), 100);
    png_color_16 clear{0, 10, 20, 30, 1};
    if (kind.transparent) {
      png_set_tRNS(png, info, opacity.data(), indexed ? static_cast<int>(opacity.size()) : 0,
                   &clear);
    }
    if (kind.profile) png_set_gAMA(png, info, 1.0);
    Bytes turned = exif(kind.orientation);
    const auto orient = [&] {
      png_set_eXIf_1(png, info, static_cast<png_uint_32>(turned.size()), turned.data());
    };
    if (kind.orientation != 0 && !kind.orientation_behind) orient();
    png_write_info(png, info);
    const std::size_t row = png_get_rowbytes(png, info);
    Bytes pixels = noise(row * kHeight);
    std::vector<png_bytep> rows;
    for (std::size_t y = 0; y < kHeight; ++y) rows.push_back(pixels.data() + y * row);
    png_write_image(png, rows.data());
    if (kind.orientation_behind) orient();
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    std::fclose(file);
  });
}

TEST(OpencvTwin, Png) {
  const std::vector<std::pair<int, std::vector<int>>> kinds = {
      {PNG_COLOR_TYPE_GRAY, {1, 2, 4, 8, 16}},
      {PNG_COLOR_TYPE_RGB, {8, 16}},
      {PNG_COLOR_TYPE_PALETTE, {1, 2, 4, 8}},
      {PNG_COLOR_TYPE_GRAY_ALPHA, {8, 16}},
      {PNG_COLOR_TYPE_RGB_ALPHA, {8, 16}}};
  for (const auto& [colour, depths] : kinds) {
    for (const int depth : depths) {
      for (const bool interlaced : {false, true}) {
        const std::string kind = "colour " + std::to_string(colour) + ", depth " +
                                 std::to_string(depth) + (interlaced ? ", interlaced" : "");
        expect_twins(kind, png_of({colour, depth, interlaced}));
        expect_twins(kind + ", gamma", png_of({colour, depth, interlaced, false, true}));
        if ((colour & PNG_COLOR_MASK_ALPHA) == 0) {
          expect_twins(kind + ", tRNS", png_of({colour, depth, interlaced, true}));
        }
      }
    }
  }
  for (int orientation = 0; orientation <= 9; ++orientation) {
    PngKind kind{PNG_COLOR_TYPE_RGB, 8};
    kind.orientation = orientation;
    expect_twins("turned " + std::to_string(orientation), png_of(kind));
    kind.orientation_behind = true;
    expect_twins("turned, said behind " + std::to_string(orientation), png_of(kind));
  }
}

// ---- TIFF ------------------------------------------------------------------------------------

struct TiffKind {
  int photometric, bits, samples;
  int compression = COMPRESSION_NONE;
  const char* mode = "w";  // b, l: big or little endian; 8: BigTIFF
  int planar = PLANARCONFIG_CONTIG;
  int tile = 0;
  int orientation = 0;
  int alpha = -1;
  int predictor = 0;
  std::uint32_t rows = 8;
  int pages = 1;
};

void set_tiff(TIFF* tiff, const TiffKind& kind) {
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, kWidth);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, kHeight);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, kind.bits);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, kind.samples);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, kind.photometric);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, kind.compression);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, kind.planar);
  if (kind.tile != 0) {
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, kind.tile);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, kind.tile);
  } else {
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, kind.rows);
  }
  if (kind.orientation != 0) TIFFSetField(tiff, TIFFTAG_ORIENTATION, kind.orientation);
  if (kind.predictor != 0) TIFFSetField(tiff, TIFFTAG_PREDICTOR, kind.predictor);
  const auto alpha = static_cast<std::uint16_t>(kind.alpha);
  if (kind.alpha >= 0) TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, &alpha);
  if (kind.photometric == PHOTOMETRIC_PALETTE) {
    const std::size_t colours = std::size_t{1} << kind.bits;
    std::vector<std::uint16_t> red(colours), green(colours), blue(colours);
    for (std::size_t i = 0; i < colours; ++i) {
      red[i] = static_cast<std::uint16_t>(i * 7919);
      green[i] = static_cast<std::uint16_t>(65535 - i * 257);
      blue[i] = static_cast<std::uint16_t>(i * 3001 + 77);
    }
    TIFFSetField(tiff, TIFFTAG_COLORMAP, red.data(), green.data(), blue.data());
  }
  if (kind.photometric == PHOTOMETRIC_YCBCR && kind.compression != COMPRESSION_JPEG) {
    TIFFSetField(tiff, TIFFTAG_YCBCRSUBSAMPLING, 2, 2);
  }
  if (kind.photometric == PHOTOMETRIC_YCBCR && kind.compression == COMPRESSION_JPEG) {
    TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
  }
}

Bytes tiff_of(const TiffKind& kind) {
  return written([&](const std::string& path) {
    TIFFSetWarningHandler(nullptr);
    TIFF* tiff = TIFFOpen(path.c_str(), kind.mode);
    for (int page = 0; page < kind.pages; ++page) {
      set_tiff(tiff, kind);
      const std::uint32_t parts =
          kind.tile != 0 ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
      const tmsize_t size = kind.tile != 0 ? TIFFTileSize(tiff) : TIFFStripSize(tiff);
      for (std::uint32_t part = 0; part < parts; ++part) {
        tmsize_t here = size;
        if (kind.tile == 0) {
          const std::uint32_t strips = (kHeight + kind.rows - 1) / kind.rows;
          const std::uint32_t top = part % strips * kind.rows;
          here = TIFFVStripSize(tiff, std::min(kind.rows, kHeight - top));
        }
        Bytes pixels =
            noise(static_cast<std::size_t>(here), part + 1 + 1000 * static_cast<unsigned>(page));
        const tmsize_t done = kind.tile != 0
                                  ? TIFFWriteEncodedTile(tiff, part, pixels.data(), here)
                                  : TIFFWriteEncodedStrip(tiff, part, pixels.data(), here);
        EXPECT_GE(done, 0);
      }
      TIFFWriteDirectory(tiff);
    }
    TIFFClose(tiff);
  });
}

TEST(OpencvTwin, TiffOfEveryColour) {
  struct Colours {
    const char* name;
    int photometric, samples;
    std::vector<int> bits;
  };
  const std::vector<Colours> kinds = {{"gray", PHOTOMETRIC_MINISBLACK, 1, {1, 8, 16}},
                                      {"white is 0", PHOTOMETRIC_MINISWHITE, 1, {1, 8, 16}},
                                      {"RGB", PHOTOMETRIC_RGB, 3, {8, 16}},
                                      {"palette", PHOTOMETRIC_PALETTE, 1, {1, 8}},
                                      {"CMYK", PHOTOMETRIC_SEPARATED, 4, {8}},
                                      {"YCbCr", PHOTOMETRIC_YCBCR, 3, {8}},
                                      {"Lab", PHOTOMETRIC_CIELAB, 3, {8}}};
  for (const Colours& colours : kinds) {
    for (const int bits : colours.bits) {
      for (const int compression : {COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE,
                                    COMPRESSION_DEFLATE, COMPRESSION_PACKBITS}) {
        for (const char* mode : {"wl", "wb"}) {
          expect_twins(std::string(colours.name) + ", " + std::to_string(bits) +
                           " bits, compression " + std::to_string(compression) + ", " + mode,
                       tiff_of({colours.photometric, bits, colours.samples, compression, mode}));
        }
      }
    }
  }
}

TEST(OpencvTwin, TiffOfEveryLayout) {
  for (const int bits : {8, 16}) {
    for (const int compression : {COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE}) {
      for (const int planar : {PLANARCONFIG_CONTIG, PLANARCONFIG_SEPARATE}) {
        for (const int tile : {0, 16, 64}) {
          for (const int predictor : {0, 2}) {
            // OpenCV refuses small tiles that are not compressed.
            if ((predictor != 0 || tile == 16) && compression == COMPRESSION_NONE) continue;
            TiffKind kind{PHOTOMETRIC_RGB, bits, 3, compression, "w", planar, tile};
            kind.predictor = predictor;
            expect_twins("bits " + std::to_string(bits) + ", compression " +
                             std::to_string(compression) + ", planar " + std::to_string(planar) +
                             ", tile " + std::to_string(tile) + ", predictor " +
                             std::to_string(predictor),
                         tiff_of(kind));
          }
        }
      }
      for (const int alpha :
           {EXTRASAMPLE_UNSPECIFIED, EXTRASAMPLE_ASSOCALPHA, EXTRASAMPLE_UNASSALPHA}) {
        TiffKind kind{PHOTOMETRIC_RGB, bits, 4, compression};
        kind.alpha = alpha;
        expect_twins("bits " + std::to_string(bits) + ", alpha " + std::to_string(alpha),
                     tiff_of(kind));
        kind.photometric = PHOTOMETRIC_MINISBLACK;
        kind.samples = 2;
        expect_twins("gray, bits " + std::to_string(bits) + ", alpha " + std::to_string(alpha),
                     tiff_of(kind));
      }
    }
  }
  for (const int photometric : {PHOTOMETRIC_MINISBLACK, PHOTOMETRIC_RGB, PHOTOMETRIC_YCBCR}) {
    for (const int tile : {0, 16}) {
      TiffKind kind{photometric,
                    8,
                    photometric == PHOTOMETRIC_MINISBLACK ? 1 : 3,
                    COMPRESSION_JPEG,
                    "w",
                    PLANARCONFIG_CONTIG,
                    tile};
      kind.rows = 16;
      expect_twins("JPEG " + std::to_string(photometric) + ", tile " + std::to_string(tile),
                   tiff_of(kind));
    }
  }
  for (const std::uint32_t rows : {1u, 5u, kHeight, 100u}) {
    TiffKind kind{PHOTOMETRIC_RGB, 8, 3};
    kind.rows = rows;
    expect_twins("rows " + std::to_string(rows), tiff_of(kind));
  }
  TiffKind pages{PHOTOMETRIC_RGB, 8, 3};
  pages.pages = 3;
  expect_twins("the first of three pages", tiff_of(pages));
}

TEST(OpencvTwin, TiffTurned) {
  for (const int bits : {8, 16}) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      for (const std::uint32_t rows : {8u, kHeight}) {
        TiffKind kind{PHOTOMETRIC_RGB, bits, 3};
        kind.orientation = orientation;
        kind.rows = rows;
        expect_twins("bits " + std::to_string(bits) + ", rows " + std::to_string(rows) +
                         ", turned " + std::to_string(orientation),
                     tiff_of(kind));
      }
    }
  }
}

// OpenCV mirrors each tile by itself where left and right are to be exchanged.
TEST(OpencvTwin, TiffTurnedInTiles) {
  TiffKind kind{PHOTOMETRIC_RGB, 8, 3, COMPRESSION_LZW, "w", PLANARCONFIG_CONTIG, 16};
  for (const int orientation : {1, 4, 5, 8}) {
    kind.orientation = orientation;
    expect_twins("turned " + std::to_string(orientation), tiff_of(kind));
  }
  kind.orientation = ORIENTATION_TOPLEFT;
  const Image plain = decode_image(tiff_of(kind), "x");
  kind.orientation = ORIENTATION_TOPRIGHT;
  const Image mirrored = decode_image(tiff_of(kind), "x");
  for (std::size_t y = 0; y < kHeight; ++y) {
    for (std::size_t x = 0; x < kWidth; ++x) {
      ASSERT_EQ(mirrored.rgb[(y * kWidth + x) * 3], plain.rgb[(y * kWidth + kWidth - 1 - x) * 3]);
    }
  }
}

// ---- JPEG ------------------------------------------------------------------------------------

struct JpegKind {
  J_COLOR_SPACE in = JCS_RGB, stored = JCS_YCbCr;
  int across = 2, down = 2;  // how the first colour is sampled
  bool progressive = false, optimised = false;
  int restart = 0;
  int quality = 80;
  int orientation = 0;
  bool arithmetic = false;
  bool adobe = true;
};

Bytes jpeg_of(const JpegKind& kind) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &out, &size);
  info.image_width = kWidth * 3;
  info.image_height = kHeight * 3;
  info.input_components = kind.in == JCS_GRAYSCALE ? 1 : kind.in == JCS_CMYK ? 4 : 3;
  info.in_color_space = kind.in;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, kind.stored);
  info.comp_info[0].h_samp_factor = kind.across;
  info.comp_info[0].v_samp_factor = kind.down;
  jpeg_set_quality(&info, kind.quality, TRUE);
  if (kind.progressive) jpeg_simple_progression(&info);
  info.optimize_coding = kind.optimised ? TRUE : FALSE;
  info.arith_code = kind.arithmetic ? TRUE : FALSE;
  info.restart_interval = static_cast<unsigned>(kind.restart);
  if (!kind.adobe) info.write_Adobe_marker = FALSE;
  jpeg_start_compress(&info, TRUE);
  if (kind.orientation != 0) {
    Bytes block = {'E', 'x', 'i', 'f', 0, 0};
    const Bytes turned = exif(kind.orientation);
    block.insert(block.end(), turned.begin(), turned.end());
    jpeg_write_marker(&info, JPEG_APP0 + 1, block.data(), static_cast<unsigned>(block.size()));
  }
  Bytes pixels = noise(std::size_t{info.image_width} * info.image_height *
                       static_cast<std::size_t>(info.input_components));
  while (info.next_scanline < info.image_height) {
    auto* row = pixels.data() + std::size_t{info.next_scanline} * info.image_width *
                                    static_cast<std::size_t>(info.input_components);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const Bytes bytes(out, out + size);
  std::free(out);
  return bytes;
}

// The same library is under both: not one value differs.
TEST(OpencvTwin, Jpeg) {
  for (const auto& [across, down] : {std::pair(1, 1), std::pair(2, 1), std::pair(2, 2),
                                     std::pair(1, 2), std::pair(4, 1), std::pair(4, 2)}) {
    for (const bool progressive : {false, true}) {
      for (const int quality : {30, 92, 100}) {
        JpegKind kind;
        kind.across = across;
        kind.down = down;
        kind.progressive = progressive;
        kind.quality = quality;
        kind.restart = quality == 30 ? 3 : 0;
        kind.optimised = quality == 100;
        expect_twins("sampled " + std::to_string(across) + " × " + std::to_string(down) +
                         ", quality " + std::to_string(quality) +
                         (progressive ? ", progressive" : ""),
                     jpeg_of(kind));
      }
    }
  }
  expect_twins("gray", jpeg_of({JCS_GRAYSCALE, JCS_GRAYSCALE, 1, 1}));
  expect_twins("RGB", jpeg_of({JCS_RGB, JCS_RGB, 1, 1}));
  expect_twins("CMYK", jpeg_of({JCS_CMYK, JCS_CMYK, 1, 1}));
  expect_twins("YCCK", jpeg_of({JCS_CMYK, JCS_YCCK, 2, 2}));
  for (int orientation = 0; orientation <= 9; ++orientation) {
    JpegKind kind;
    kind.orientation = orientation;
    expect_twins("turned " + std::to_string(orientation), jpeg_of(kind));
  }
}

// ---- WebP, BMP, PGM and PPM ------------------------------------------------------------------

TEST(OpencvTwin, Webp) {
  const Bytes rgb = noise(kWidth * kHeight * 3), rgba = noise(kWidth * kHeight * 4);
  const auto expect = [](const char* kind, std::uint8_t* out, std::size_t size) {
    expect_twins(kind, {out, out + size});
    WebPFree(out);
  };
  std::uint8_t* out = nullptr;
  std::size_t size = WebPEncodeRGB(rgb.data(), kWidth, kHeight, kWidth * 3, 60, &out);
  expect("lossy", out, size);
  size = WebPEncodeRGBA(rgba.data(), kWidth, kHeight, kWidth * 4, 60, &out);
  expect("lossy with alpha", out, size);
  size = WebPEncodeLosslessRGB(rgb.data(), kWidth, kHeight, kWidth * 3, &out);
  expect("lossless", out, size);
  size = WebPEncodeLosslessRGBA(rgba.data(), kWidth, kHeight, kWidth * 4, &out);
  expect("lossless with alpha", out, size);
}

// Neither takes notice of EXIF in a WebP.
TEST(OpencvTwin, WebpTurned) {
  const Bytes rgb = noise(kWidth * kHeight * 3);
  std::uint8_t* plain = nullptr;
  const std::size_t size = WebPEncodeLosslessRGB(rgb.data(), kWidth, kHeight, kWidth * 3, &plain);
  Bytes out(plain, plain + 12);
  const auto append = [&](std::string_view text) {
    out.insert(out.end(), text.begin(), text.end());
  };
  append("VP8X");
  append_little(out, 10);
  append_little(out, 8);  // has EXIF
  append_little(out, kWidth - 1, 3);
  append_little(out, kHeight - 1, 3);
  out.insert(out.end(), plain + 12, plain + size);
  const Bytes turned = exif(6);
  append("EXIF");
  append_little(out, static_cast<std::uint32_t>(turned.size()));
  out.insert(out.end(), turned.begin(), turned.end());
  for (std::size_t i = 0; i < 4; ++i)
    out[4 + i] = static_cast<std::uint8_t>((out.size() - 8) >> (8 * i));
  WebPFree(plain);
  expect_twins("turned", out);
  EXPECT_EQ(decode_image(out, "x").width, kWidth);
}

struct BmpKind {
  std::uint32_t bits;
  bool from_above = false;
  std::uint32_t info = 40;                // bytes of the header
  std::vector<std::uint32_t> masks = {};  // red, green, blue
  std::uint32_t colours = 0;
};

Bytes bmp_of(const BmpKind& kind) {
  const std::uint32_t colours = kind.bits > 8       ? 0
                                : kind.colours != 0 ? kind.colours
                                                    : 1u << kind.bits;
  const bool masks_behind = !kind.masks.empty() && kind.info == 40;
  const std::uint32_t start =
      14 + kind.info + colours * (kind.info == 12 ? 3 : 4) + (masks_behind ? 12 : 0);
  const Bytes pixels = noise((kWidth * kind.bits + 31) / 32 * 4 * kHeight);
  Bytes out = {'B', 'M'};
  append_little(out, start + static_cast<std::uint32_t>(pixels.size()));
  append_little(out, 0);
  append_little(out, start);
  append_little(out, kind.info);
  const int side = kind.info == 12 ? 2 : 4;
  append_little(out, kWidth, side);
  append_little(out, kind.from_above ? ~kHeight + 1 : kHeight, side);
  append_little(out, 1, 2);
  append_little(out, kind.bits, 2);
  if (kind.info >= 40) {
    append_little(out, kind.masks.empty() ? 0 : 3);
    for (int i = 0; i < 3; ++i) append_little(out, 0);
    append_little(out, kind.colours);
    append_little(out, 0);
  }
  for (const std::uint32_t mask : kind.masks) append_little(out, mask);
  out.resize(start - colours * (kind.info == 12 ? 3 : 4));
  for (std::uint32_t i = 0; i < colours; ++i) {
    append_little(out, i * 0x12345 + 0x30201, kind.info == 12 ? 3 : 4);
  }
  out.insert(out.end(), pixels.begin(), pixels.end());
  return out;
}

TEST(OpencvTwin, Bmp) {
  for (const std::uint32_t bits : {1u, 4u, 8u, 16u, 24u, 32u}) {
    for (const bool from_above : {false, true}) {
      for (const std::uint32_t info : {40u, 108u, 124u}) {
        expect_twins(std::to_string(bits) + " bits, header " + std::to_string(info),
                     bmp_of({bits, from_above, info}));
      }
    }
    if (bits != 16 && bits != 32) {
      expect_twins(std::to_string(bits) + " bits, old header", bmp_of({bits, false, 12}));
    }
  }
  expect_twins("565", bmp_of({16, false, 40, {0xf800, 0x7e0, 0x1f}}));
  expect_twins("555", bmp_of({16, false, 40, {0x7c00, 0x3e0, 0x1f}}));
  expect_twins("masks as usual", bmp_of({32, false, 40, {0xff0000, 0xff00, 0xff}}));
  expect_twins("masks as usual, in the header", bmp_of({32, false, 124, {0xff0000, 0xff00, 0xff}}));
  expect_twins("few colours", bmp_of({8, false, 40, {}, 10}));
}

TEST(OpencvTwin, PgmAndPpm) {
  for (const char* magic : {"P5", "P6"}) {
    for (const std::uint32_t largest : {255u, 65535u}) {
      const std::string head = std::string(magic) + "\n# made here\n" + std::to_string(kWidth) +
                               " " + std::to_string(kHeight) + "\n" + std::to_string(largest) +
                               "\n";
      Bytes bytes(head.begin(), head.end());
      const Bytes pixels =
          noise(kWidth * kHeight * (magic[1] == '6' ? 3 : 1) * (largest > 255 ? 2 : 1));
      bytes.insert(bytes.end(), pixels.begin(), pixels.end());
      expect_twins(head, bytes);
    }
  }
}

// ---- Writing ---------------------------------------------------------------------------------

TEST(OpencvTwin, Written) {
  const Image image{kWidth, kHeight, noise(kWidth * kHeight * 3)};
  cv::Mat bgr(kHeight, kWidth, CV_8UC3);
  for (std::size_t i = 0; i < image.rgb.size(); ++i) bgr.data[i / 3 * 3 + 2 - i % 3] = image.rgb[i];
  Bytes wanted;
  ASSERT_TRUE(cv::imencode(".jpg", bgr, wanted, {cv::IMWRITE_JPEG_QUALITY, 92}));
  const auto name = [](const std::string& path) { return path + ".jpg"; };
  const Bytes jpeg = written([&](const std::string& path) {
    write_image(name(path), image);
    fs::rename(name(path), path);
  });
  EXPECT_EQ(jpeg, wanted);
  ASSERT_TRUE(cv::imencode(".png", bgr, wanted));
  EXPECT_EQ(encode_png(image), wanted);
}

// ---- Where they differ -----------------------------------------------------------------------

TEST(OpencvTwin, KindsThatOpencvRefuses) {
  const auto decoded = [](const TiffKind& kind) { return decode_image(tiff_of(kind), "x"); };
  TiffKind tiles{PHOTOMETRIC_RGB, 8, 3, COMPRESSION_LZW, "w", PLANARCONFIG_CONTIG, 16};
  const Image packed = decoded(tiles);
  tiles.compression = COMPRESSION_NONE;
  EXPECT_EQ(decoded(tiles).rgb, packed.rgb);
  TiffKind big{PHOTOMETRIC_RGB, 8, 3};
  const Image small = decoded(big);
  for (const char* mode : {"w8", "w8b"}) {
    big.mode = mode;
    EXPECT_EQ(decoded(big).rgb, small.rgb) << mode;
  }
  // Two and four bits of gray: the first row is that of the bytes written.
  for (const int bits : {2, 4}) {
    const Image gray = decoded({PHOTOMETRIC_MINISBLACK, bits, 1});
    const std::size_t row = (kWidth * static_cast<std::size_t>(bits) + 7) / 8;
    const Bytes bytes = noise(row * 8, 1);
    for (std::size_t x = 0; x < kWidth; ++x) {
      const std::size_t at = x * static_cast<std::size_t>(bits);
      const int value = bytes[at / 8] >> (8 - bits - static_cast<int>(at % 8)) & ((1 << bits) - 1);
      ASSERT_EQ(gray.rgb[x * 3], value * 255 / ((1 << bits) - 1)) << bits << " bits, " << x;
    }
  }
}

// OpenCV takes no notice of these, and the pixels come out too dark or in other colours.
TEST(OpencvTwin, KindsThatOpencvMistakes) {
  const auto rgb = [](const std::string& head, const Bytes& pixels) {
    Bytes bytes(head.begin(), head.end());
    bytes.insert(bytes.end(), pixels.begin(), pixels.end());
    return decode_image(bytes, head).rgb;
  };
  EXPECT_EQ(rgb("P5 3 1 4095 ", {0, 16, 15, 255, 255, 255}),
            (Bytes{1, 1, 1, 255, 255, 255, 255, 255, 255}));
  EXPECT_EQ(rgb("P6 1 1 100 ", {0, 50, 100}), (Bytes{0, 128, 255}));
  const Bytes usual = bmp_of({32, false, 40, {0xff0000, 0xff00, 0xff}});
  const Bytes other = bmp_of({32, false, 40, {0xff, 0xff00, 0xff0000}});
  const Image straight = decode_image(usual, "x"), swapped = decode_image(other, "x");
  for (std::size_t i = 0; i < straight.rgb.size(); i += 3) {
    ASSERT_EQ(straight.rgb[i], swapped.rgb[i + 2]);
    ASSERT_EQ(straight.rgb[i + 1], swapped.rgb[i + 1]);
  }
  // Without Adobe's mark, 255 is all of an ink and not none of it.
  JpegKind inks{JCS_CMYK, JCS_CMYK, 1, 1};
  inks.quality = 100;
  const Image adobe = decode_image(jpeg_of(inks), "x");
  inks.adobe = false;
  const Image plain = decode_image(jpeg_of(inks), "x");
  EXPECT_NE(adobe.rgb, plain.rgb);
}

// What OpenCV may read and we do not is refused by its name.
TEST(OpencvTwin, KindsThatAreRefused) {
  const auto expect = [](const Bytes& bytes, const char* words) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, words, refusal_of(bytes));
  };
  JpegKind arithmetic;
  arithmetic.arithmetic = true;
  expect(jpeg_of(arithmetic), "arithmetically coded");
  expect(tiff_of({PHOTOMETRIC_MINISWHITE, 1, 1, COMPRESSION_CCITTFAX4}), "by CCITT Group 4");
  expect(tiff_of({PHOTOMETRIC_RGB, 8, 3, COMPRESSION_LZMA}), "by LZMA");
  expect(tiff_of({PHOTOMETRIC_RGB, 8, 3, COMPRESSION_ZSTD}), "by ZSTD");
  expect(tiff_of({PHOTOMETRIC_RGB, 32, 3}), "32 bits");
  expect(tiff_of({PHOTOMETRIC_MINISBLACK, 12, 1}), "12 bits");
  expect(tiff_of({PHOTOMETRIC_RGB, 8, 5}), "5 colours");
}

}  // namespace
}  // namespace contcore
