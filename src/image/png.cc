#include "image/png.h"

#include <fmt/format.h>
#include <png.h>
#include <zlib.h>

#include <csetjmp>
#include <cstdio>

#include "contcore/error.h"

namespace contcore {
namespace {

// libpng must not return from an error. It jumps back into one of the functions here that call
// setjmp, which therefore have no local variables that need to be taken down.
struct PngError {
  std::jmp_buf back;
  char said[120] = "";
};

[[noreturn]] void png_failed(png_structp png, png_const_charp said) {
  auto& error = *static_cast<PngError*>(png_get_error_ptr(png));
  std::snprintf(error.said, sizeof error.said, "%s", said);
  std::longjmp(error.back, 1);
}

void png_warned(png_structp, png_const_charp) {}

// ---- Writing ---------------------------------------------------------------------------------

void append_png(png_structp png, png_bytep data, std::size_t size) {
  auto& out = *static_cast<std::vector<std::uint8_t>*>(png_get_io_ptr(png));
  bool room = true;
  try {
    out.insert(out.end(), data, data + size);
  } catch (...) {  // nothing may be thrown through C
    room = false;
  }
  if (!room) png_error(png, "out of memory");
}

void flush_png(png_structp) {}

struct PngWriter {
  PngError error;
  png_structp png = nullptr;
  png_infop info = nullptr;

  PngWriter() = default;
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;
  ~PngWriter() { png_destroy_write_struct(&png, &info); }

  bool write(std::vector<std::uint8_t>& out, png_uint_32 width, png_uint_32 height,
             std::size_t samples, const std::uint8_t* pixels) {
    if (setjmp(error.back) != 0) return false;
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &error, png_failed, png_warned);
    if (png == nullptr) return false;
    info = png_create_info_struct(png);
    if (info == nullptr) return false;
    png_set_write_fn(png, &out, append_png, flush_png);
    png_set_IHDR(png, info, width, height, 8,
                 samples == 4 ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    // Differences to the left, and runs of the same: several times as quick as the default.
    png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_SUB);
    png_set_compression_level(png, Z_BEST_SPEED);
    png_set_compression_strategy(png, Z_RLE);
    png_write_info(png, info);
    for (png_uint_32 y = 0; y < height; ++y) png_write_row(png, pixels + y * width * samples);
    png_write_end(png, info);
    return true;
  }
};

std::vector<std::uint8_t> encode_png_of(std::size_t width, std::size_t height, std::size_t samples,
                                        std::span<const std::uint8_t> pixels) {
  constexpr std::size_t kLongest = PNG_USER_WIDTH_MAX;
  std::vector<std::uint8_t> out;
  PngWriter writer;
  if (width == 0 || height == 0 || width > kLongest || height > kLongest ||
      pixels.size() != width * height * samples ||
      !writer.write(out, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), samples,
                    pixels.data())) {
    throw Error(Error::Kind::kInternal,
                fmt::format("an image of {} × {} pixels with {} bytes cannot be encoded {}", width,
                            height, pixels.size(), writer.error.said));
  }
  return out;
}

}  // namespace

std::vector<std::uint8_t> encode_png_rgb(std::size_t width, std::size_t height,
                                         std::span<const std::uint8_t> rgb) {
  return encode_png_of(width, height, 3, rgb);
}

std::vector<std::uint8_t> encode_png_rgba(std::size_t width, std::size_t height,
                                          std::span<const std::uint8_t> rgba) {
  return encode_png_of(width, height, 4, rgba);
}

}  // namespace contcore
