#include "image/tiff.h"

#include <fmt/format.h>
#include <tiffio.h>

#include <algorithm>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>

#include "image/orientation.h"

namespace contcore {
namespace {

// A part is a strip or a tile.
constexpr std::size_t kMostParts = std::size_t{1} << 18;
constexpr std::size_t kAnyTile = std::size_t{1} << 22;  // pixels, however small the picture
constexpr std::size_t kLeastJpeg = std::size_t{1}
                                   << 14;  // pixels that a part's JPEG costs at least

// ---- libtiff over bytes in memory ------------------------------------------------------------
// Mapped, so that nothing is copied; what libtiff reads rather than maps comes through here, too.

struct TiffBytes {
  const ImageBytes& file;
  std::size_t at = 0;
  char said[200] = "";  // the first error
};

tmsize_t read_tiff(thandle_t handle, void* to, tmsize_t size) {
  auto& bytes = *static_cast<TiffBytes*>(handle);
  const std::size_t left = bytes.file.size() - std::min(bytes.at, bytes.file.size());
  const std::size_t taken = std::min(left, static_cast<std::size_t>(std::max<tmsize_t>(size, 0)));
  if (taken > 0) std::memcpy(to, bytes.file.data() + bytes.at, taken);
  bytes.at += taken;
  return static_cast<tmsize_t>(taken);
}

tmsize_t write_tiff(thandle_t, void*, tmsize_t) { return 0; }

toff_t seek_tiff(thandle_t handle, toff_t offset, int from) {
  auto& bytes = *static_cast<TiffBytes*>(handle);
  bytes.at = offset + (from == SEEK_CUR ? bytes.at : from == SEEK_END ? bytes.file.size() : 0);
  return bytes.at;
}

int close_tiff(thandle_t) { return 0; }

toff_t size_of_tiff(thandle_t handle) { return static_cast<TiffBytes*>(handle)->file.size(); }

int map_tiff(thandle_t handle, void** base, toff_t* size) {
  const ImageBytes& file = static_cast<TiffBytes*>(handle)->file;
  *base = const_cast<std::uint8_t*>(file.data());  // opened for reading
  *size = file.size();
  return 1;
}

void unmap_tiff(thandle_t, void*, toff_t) {}

int tiff_failed(TIFF*, void* user, const char*, const char* format, va_list values) {
  auto& bytes = *static_cast<TiffBytes*>(user);
  if (bytes.said[0] == '\0') std::vsnprintf(bytes.said, sizeof bytes.said, format, values);
  return 1;  // nobody else need hear it
}

// libjpeg warns of pixels that are missing, and makes some up. Only its first warning is heard, so
// that none may be let pass.
int tiff_warned(TIFF* tiff, void* user, const char* module, const char* format, va_list values) {
  if (module != nullptr && std::strcmp(module, "JPEGLib") == 0) {
    tiff_failed(tiff, user, module, format, values);
  }
  return 1;
}

using TiffHandle = std::unique_ptr<TIFF, void (*)(TIFF*)>;

TiffHandle open_tiff(TiffBytes& bytes) {
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), static_cast<tmsize_t>(kMostUnpacked) + 65536);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), tiff_failed, &bytes);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), tiff_warned, &bytes);
  // c: strips as they are in the file.
  return {TIFFClientOpenExt("TIFF", "rc", &bytes, read_tiff, write_tiff, seek_tiff, close_tiff,
                            size_of_tiff, map_tiff, unmap_tiff, options.get()),
          TIFFClose};
}

// ---- What it says of itself ------------------------------------------------------------------

// Most writers put the directory behind the pixels: of a file that was cut short it is not there,
// for which libtiff has words of its own.
void check_directory(const ImageBytes& file) {
  constexpr std::size_t kMostEntries = 4096;
  const bool little = file.byte(0) == 'I';
  const auto number = [&](std::size_t at, std::size_t bytes) {
    const auto from = file.part(at, bytes);
    std::size_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      value = value << 8 | from[little ? bytes - 1 - i : i];
    }
    return value;
  };
  const bool big = number(2, 2) == 43;
  const std::size_t directory = big ? number(8, 8) : number(4, 4);
  const std::size_t count = big ? 8 : 2;
  const std::size_t entries = number(directory, count);
  if (entries <= kMostEntries) file.need(directory + count, entries * (big ? 20 : 12));
}

struct TiffLayout {
  std::uint32_t width = 0, height = 0;
  std::uint16_t bits = 0, samples = 0, compression = 0, format = 0;
  bool tiled = false;
  std::uint32_t part_width = 0, part_height = 0;
  std::size_t parts = 0;
};

TiffLayout tiff_layout(TIFF* tiff) {
  TiffLayout layout;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &layout.width);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &layout.height);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &layout.bits);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &layout.samples);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &layout.compression);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLEFORMAT, &layout.format);
  layout.tiled = TIFFIsTiled(tiff) != 0;
  if (layout.tiled) {
    TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &layout.part_width);
    TIFFGetField(tiff, TIFFTAG_TILELENGTH, &layout.part_height);
    layout.parts = TIFFNumberOfTiles(tiff);
  } else {
    TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &layout.part_height);
    layout.part_width = layout.width;
    layout.part_height = std::min(layout.part_height, layout.height);
    layout.parts = TIFFNumberOfStrips(tiff);
  }
  return layout;
}

void check_tiff_kind(const ImageBytes& file, const TiffLayout& layout) {
  switch (layout.compression) {
    case COMPRESSION_NONE:
    case COMPRESSION_LZW:
    case COMPRESSION_PACKBITS:
    case COMPRESSION_ADOBE_DEFLATE:
    case COMPRESSION_DEFLATE:
    case COMPRESSION_JPEG:
      break;
    case COMPRESSION_OJPEG:
      file.unread("a TIFF with a JPEG of the old kind");
    default: {
      const TIFFCodec* codec = TIFFFindCODEC(layout.compression);
      file.unread(fmt::format("a TIFF compressed by {}",
                              codec != nullptr ? std::string(codec->name)
                                               : fmt::format("method {}", layout.compression)));
    }
  }
  if (layout.bits > 16 || !std::has_single_bit(layout.bits)) {
    file.unread(fmt::format("a TIFF of {} bits for each colour", layout.bits));
  }
  if (layout.format != SAMPLEFORMAT_UINT) file.unread("a TIFF of other than whole numbers");
  if (layout.samples == 0 || layout.samples > 4) {
    file.unread(fmt::format("a TIFF of {} colours", layout.samples));
  }
}

void check_tiff_parts(const ImageBytes& file, const TiffLayout& layout) {
  const std::size_t across = layout.part_width, down = layout.part_height;
  std::size_t pixels = std::size_t{layout.width} * layout.height;
  // Tiles are filled up beyond the picture, but not beyond reason.
  const std::size_t largest = std::max(4 * pixels, kAnyTile);
  if (across == 0 || down == 0 || across > largest / down || layout.parts > kMostParts) {
    file.damaged(fmt::format("its pixels are in {} parts of {} × {}", layout.parts, across, down));
  }
  if (layout.tiled) {
    pixels = ((layout.width - 1) / across + 1) * across * ((layout.height - 1) / down + 1) * down;
  }
  file.check_unpacked(layout.width, layout.height, (pixels * layout.samples * layout.bits + 7) / 8);
}

// At least as many scans as a decoder will find: each begins with this marker.
std::size_t scan_markers(std::span<const std::uint8_t> jpeg) {
  std::size_t count = 0;
  const std::uint8_t* at = jpeg.data();
  const std::uint8_t* const last = at + jpeg.size();
  while (at < last) {
    at = static_cast<const std::uint8_t*>(
        std::memchr(at, 0xff, static_cast<std::size_t>(last - at)));
    if (at == nullptr || ++at == last) break;
    if (*at == 0xda) ++count;
  }
  return count;
}

// The parts are in the file, and decoding them is not beyond reason.
void check_tiff_bytes(const ImageBytes& file, TIFF* tiff, const TiffLayout& layout) {
  const std::size_t pixels = std::size_t{layout.part_width} * layout.part_height;
  std::size_t bytes = 0;
  std::size_t scans = 0;
  for (std::size_t i = 0; i < layout.parts; ++i) {
    const auto part = static_cast<std::uint32_t>(i);
    const auto here =
        file.part(TIFFGetStrileOffset(tiff, part), TIFFGetStrileByteCount(tiff, part));
    // Many parts with the same bytes would keep this walk itself busy.
    bytes += here.size();
    if (bytes > std::max(file.size(), kMostUnpacked))
      file.damaged("its parts have bytes in common");
    if (layout.compression == COMPRESSION_JPEG) scans += scan_markers(here);
  }
  if (scans > kMostScanned / std::max(pixels, kLeastJpeg)) {
    file.too_many_scans(layout.width, layout.height, scans);
  }
}

// ---- Its pixels ------------------------------------------------------------------------------

// libtiff's own conversion of whatever is in there to RGBA, part by part.
class TiffPixels {
 public:
  TiffPixels(const ImageBytes& file, TiffBytes& bytes, TIFF* tiff) : file_(file), bytes_(bytes) {
    char why[1024] = "";
    if (TIFFRGBAImageOK(tiff, why) == 0 || TIFFRGBAImageBegin(&image_, tiff, 1, why) == 0) {
      file.undecodable(why[0] != '\0' ? why : bytes.said);
    }
    orientation = image_.orientation;
    // As it lies in the file: it is turned when it is whole.
    image_.orientation = image_.req_orientation = ORIENTATION_TOPLEFT;
  }
  TiffPixels(const TiffPixels&) = delete;
  TiffPixels& operator=(const TiffPixels&) = delete;
  ~TiffPixels() { TIFFRGBAImageEnd(&image_); }

  void read(std::uint32_t left, std::uint32_t top, std::uint32_t width, std::uint32_t height,
            Image& to) {
    raster_.resize(std::size_t{width} * height);
    image_.col_offset = static_cast<int>(left);
    image_.row_offset = static_cast<int>(top);
    if (TIFFRGBAImageGet(&image_, raster_.data(), width, height) == 0 || bytes_.said[0] != '\0') {
      file_.undecodable(bytes_.said);
    }
    for (std::uint32_t y = 0; y < height; ++y) {
      const std::uint32_t* from = raster_.data() + std::size_t{y} * width;
      std::uint8_t* rgb = to.rgb.data() + (std::size_t{top + y} * to.width + left) * 3;
      for (std::uint32_t x = 0; x < width; ++x, ++from, rgb += 3) {
        rgb[0] = static_cast<std::uint8_t>(TIFFGetR(*from));
        rgb[1] = static_cast<std::uint8_t>(TIFFGetG(*from));
        rgb[2] = static_cast<std::uint8_t>(TIFFGetB(*from));
      }
    }
  }

  int orientation = 1;

 private:
  const ImageBytes& file_;
  TiffBytes& bytes_;
  TIFFRGBAImage image_{};
  std::vector<std::uint32_t> raster_;
};

}  // namespace

Image decode_tiff(const ImageBytes& file) {
  check_directory(file);
  TiffBytes bytes{file};
  const TiffHandle tiff = open_tiff(bytes);
  if (tiff == nullptr) file.undecodable(bytes.said);
  const TiffLayout layout = tiff_layout(tiff.get());
  const auto& [width, height, bits, samples, compression, format, tiled, across, down, parts] =
      layout;
  file.check_size(width, height);
  check_tiff_kind(file, layout);
  check_tiff_parts(file, layout);
  check_tiff_bytes(file, tiff.get(), layout);
  TiffPixels pixels(file, bytes, tiff.get());
  Image image{width, height, std::vector<std::uint8_t>(std::size_t{width} * height * 3)};
  for (std::uint32_t top = 0; top < height; top += down) {
    for (std::uint32_t left = 0; left < width; left += across) {
      pixels.read(left, top, std::min(across, width - left), std::min(down, height - top), image);
    }
  }
  return upright(std::move(image), pixels.orientation);
}

}  // namespace contcore
