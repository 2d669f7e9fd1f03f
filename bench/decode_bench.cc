// Decoding and encoding images, beside OpenCV: contcore_decode_bench
//
// A picture of 1024 × 1024 with noise over slopes, as a camera gives it. Times are the best of
// several; what matters are the ratios.
#include <fmt/format.h>
#include <tiffio.h>
#include <webp/encode.h>

#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/random.h"
#include "contcore/image.h"

namespace {

using namespace contcore;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kSide = 1024;
constexpr int kTimes = 30;

double ms_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

Image photograph() {
  Random random(1);
  Image image{kSide, kSide, {}};
  for (std::uint32_t y = 0; y < kSide; ++y) {
    for (std::uint32_t x = 0; x < kSide; ++x) {
      const std::uint32_t part = (x / 96 * 40 + y / 128 * 25) % 120;
      for (const std::uint32_t v : {part + x / 10, part + y / 10, part + (x + y) / 20}) {
        image.rgb.push_back(
            static_cast<std::uint8_t>(std::min<std::uint64_t>(v + random.below(8), 255)));
      }
    }
  }
  return image;
}

// ---- Files of every format -------------------------------------------------------------------

// Written under a name that ends so, and read back.
Bytes file_of(const std::string& ending, const std::function<void(const std::string&)>& write) {
  std::string path = "/tmp/contcore_decode_bench_XXXXXX" + ending;
  const int file = ::mkstemps(path.data(), static_cast<int>(ending.size()));
  if (file < 0) throw std::runtime_error("no file can be made in /tmp");
  ::close(file);
  write(path);
  std::ifstream in(path, std::ios::binary);
  const Bytes bytes{std::istreambuf_iterator<char>(in), {}};
  std::remove(path.c_str());
  return bytes;
}

Bytes jpeg_of(const Image& image) {
  return file_of(".jpg", [&](const std::string& path) { write_image(path, image); });
}

Bytes tiff_of(const Image& image, int compression) {
  return file_of(".tif", [&](const std::string& path) {
    TIFF* tiff = TIFFOpen(path.c_str(), "w");
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, kSide);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, kSide);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 3);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
    TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, compression);
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 32);
    for (std::uint32_t y = 0; y < kSide; ++y) {
      Bytes row(image.rgb.begin() + y * kSide * 3, image.rgb.begin() + (y + 1) * kSide * 3);
      TIFFWriteScanline(tiff, row.data(), y, 0);
    }
    TIFFClose(tiff);
  });
}

Bytes webp_of(const Image& image) {
  std::uint8_t* out = nullptr;
  const std::size_t size = WebPEncodeRGB(image.rgb.data(), kSide, kSide, kSide * 3, 90, &out);
  const Bytes bytes(out, out + size);
  WebPFree(out);
  return bytes;
}

Bytes bmp_of(const Image& image) {
  Bytes out = {'B', 'M'};
  const auto append = [&](std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  };
  for (const std::uint32_t v : {54 + kSide * kSide * 3, 0u, 54u, 40u, kSide, ~kSide + 1})
    append(v, 4);
  append(1, 2);
  append(24, 2);
  for (int i = 0; i < 6; ++i) append(0, 4);
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) {
    out.insert(out.end(), {image.rgb[i + 2], image.rgb[i + 1], image.rgb[i]});
  }
  return out;
}

Bytes ppm_of(const Image& image) {
  const std::string head = fmt::format("P6\n{} {}\n255\n", kSide, kSide);
  Bytes out(head.begin(), head.end());
  out.insert(out.end(), image.rgb.begin(), image.rgb.end());
  return out;
}

// ---- The table -------------------------------------------------------------------------------

// By turns, so that a busy machine is so for both. There may be no peer.
void compare(const std::string& name, std::size_t size, const std::function<void()>& peer,
             const std::function<void()>& ours) {
  double theirs = std::numeric_limits<double>::infinity();
  double best = theirs;
  for (int i = 0; i < kTimes; ++i) {
    if (peer) theirs = std::min(theirs, ms_of(peer));
    best = std::min(best, ms_of(ours));
  }
  fmt::print("{:<24} {:>9} {:>10} {:>10.2f} {:>8}\n", name, size,
             peer ? fmt::format("{:.2f}", theirs) : "", best,
             peer ? fmt::format("{:.2f}", theirs / best) : "");
}

void decoding(const std::string& name, const Bytes& bytes) {
  std::function<void()> peer;
  peer = [&] { cv::imdecode(bytes, cv::IMREAD_COLOR); };
  compare("decode " + name, bytes.size(), peer, [&] { decode_image(bytes, name); });
}

void encoding(const Image& image) {
  std::function<void()> peer;
  peer = [&] {
    const cv::Mat pixels(kSide, kSide, CV_8UC3, const_cast<std::uint8_t*>(image.rgb.data()));
    Bytes out;
    cv::imencode(".png", pixels, out);
  };
  compare("encode PNG", encode_png(image).size(), peer, [&] { encode_png(image); });
}

int run() {
  cv::setNumThreads(1);
  const Image image = photograph();
  fmt::print("{:<24} {:>9} {:>10} {:>10} {:>8}\n", "1024 × 1024", "bytes", "OpenCV ms", "ms",
             "ratio");
  decoding("JPEG", jpeg_of(image));
  decoding("PNG", encode_png(image));
  decoding("TIFF", tiff_of(image, COMPRESSION_NONE));
  decoding("TIFF, LZW", tiff_of(image, COMPRESSION_LZW));
  decoding("BMP", bmp_of(image));
  decoding("WebP", webp_of(image));
  decoding("PPM", ppm_of(image));
  encoding(image);
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "contcore_decode_bench: {}\n", error.what());
    return 1;
  }
}
