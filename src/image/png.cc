#include "image/png.h"

#include <fmt/format.h>
#include <png.h>
#include <zlib.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "contcore/error.h"
#include "image/orientation.h"

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

// ---- Reading ---------------------------------------------------------------------------------

void take_png(png_structp png, png_bytep to, std::size_t size);

struct PngReader {
  PngError error;
  png_structp png = nullptr;
  png_infop info = nullptr;
  png_infop end = nullptr;
  const std::uint8_t* data;
  std::size_t left;
  bool cut = false;

  PngReader(const std::uint8_t* bytes, std::size_t size) : data(bytes), left(size) {}
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png, &info, &end); }

  bool read_header() {
    if (setjmp(error.back) != 0) return false;
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &error, png_failed, png_warned);
    if (png == nullptr) return false;
    info = png_create_info_struct(png);
    end = png_create_info_struct(png);
    if (info == nullptr || end == nullptr) return false;
    png_set_read_fn(png, this, take_png);
    png_set_chunk_malloc_max(png, left);  // nothing is allocated by a file's word
    // Comments, colour profiles and transparency are passed over, but their checksums must hold.
    // Only eXIf is kept, as it is: it says which way is up. (libpng's own reader of it allocates
    // whatever length it is given.)
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER,
                                reinterpret_cast<png_const_bytep>("tRNS"), 1);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_ALWAYS,
                                reinterpret_cast<png_const_bytep>("eXIf"), 1);
    png_read_info(png, info);
    return true;
  }

  std::size_t width() const { return png_get_image_width(png, info); }
  std::size_t height() const { return png_get_image_height(png, info); }

  // There must be room for width() × height() pixels.
  bool read_pixels(std::uint8_t* rgb) {
    if (setjmp(error.back) != 0) return false;
    const int colour = png_get_color_type(png, info);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if ((colour & PNG_COLOR_MASK_COLOR) == 0) {
      png_set_expand_gray_1_2_4_to_8(png);
      png_set_gray_to_rgb(png);
    }
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    const png_uint_32 height = png_get_image_height(png, info);
    const std::size_t row = std::size_t{3} * png_get_image_width(png, info);
    if (png_get_rowbytes(png, info) != row) png_error(png, "rows of another length");
    for (int pass = 0; pass < passes; ++pass) {
      for (png_uint_32 y = 0; y < height; ++y) png_read_row(png, rgb + y * row, nullptr);
    }
    png_read_end(png, end);
    return true;
  }

  int orientation() const {
    for (const png_infop place : {info, end}) {  // before the pixels, or behind them
      png_unknown_chunkp kept = nullptr;
      if (png_get_unknown_chunks(png, place, &kept) > 0) {
        return exif_orientation({kept->data, kept->size});
      }
    }
    return 1;
  }
};

void take_png(png_structp png, png_bytep to, std::size_t size) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (size > reader.left) {
    reader.cut = true;
    png_error(png, "cut short");
  }
  std::memcpy(to, reader.data, size);
  reader.data += size;
  reader.left -= size;
}

[[noreturn]] void refuse_png(const ImageBytes& file, const PngReader& reader) {
  if (reader.cut) file.cut_short();
  file.damaged(reader.error.said);
}

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
                 samples == 4   ? PNG_COLOR_TYPE_RGB_ALPHA
                 : samples == 3 ? PNG_COLOR_TYPE_RGB
                                : PNG_COLOR_TYPE_GRAY,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    // Differences to the left, and runs of the same: several times as quick as the default.
    png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_SUB);
    png_set_compression_level(png, Z_BEST_SPEED);
    png_set_compression_strategy(png, Z_RLE);
    png_write_info(png, info);
    const std::size_t row = width * samples;
    for (png_uint_32 y = 0; y < height; ++y) png_write_row(png, pixels + y * row);
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

Image decode_png(const ImageBytes& file) {
  // Its sizes are looked at before libpng does, whose own limits say less. It must be the first
  // part: libpng would take it later too.
  constexpr std::size_t kBytes = 13;
  const auto name = file.part(12, 4);
  if (file.big32(8) != kBytes || std::memcmp(name.data(), "IHDR", name.size()) != 0) {
    file.damaged("it does not begin with its header");
  }
  const std::size_t width = file.big32(16);
  const std::size_t height = file.big32(20);
  file.check_size(width, height);
  PngReader reader(file.data(), file.size());
  if (!reader.read_header()) refuse_png(file, reader);
  if (reader.width() != width || reader.height() != height) file.damaged("it has two sizes");
  file.check_unpacked(width, height, height * png_get_rowbytes(reader.png, reader.info));
  Image image{width, height, std::vector<std::uint8_t>(width * height * 3)};
  if (!reader.read_pixels(image.rgb.data())) refuse_png(file, reader);
  return upright(std::move(image), reader.orientation());
}

std::vector<std::uint8_t> encode_png_rgb(std::size_t width, std::size_t height,
                                         std::span<const std::uint8_t> rgb) {
  return encode_png_of(width, height, 3, rgb);
}

std::vector<std::uint8_t> encode_png_gray(std::size_t width, std::size_t height,
                                          std::span<const std::uint8_t> gray) {
  return encode_png_of(width, height, 1, gray);
}

std::vector<std::uint8_t> encode_png_rgba(std::size_t width, std::size_t height,
                                          std::span<const std::uint8_t> rgba) {
  return encode_png_of(width, height, 4, rgba);
}

}  // namespace contcore
