#include "image/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/refuse.h"

namespace contcore {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Some hostile files only want to keep a decoder busy.
constexpr std::size_t kMostScans = 256;
constexpr std::size_t kMostTags = 4096;
constexpr std::size_t kMostStrips = std::size_t{1} << 20;

// Products of numbers from a file: where one has no bounds it stays the largest number there is.
std::size_t times(std::size_t a, std::size_t b) {
  std::size_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

std::size_t bytes_of(std::size_t pixels, std::size_t bits) {
  return pixels > SIZE_MAX / 64 ? SIZE_MAX : (pixels * bits + 7) / 8;
}

// A walk through hostile bytes: every read is within them or ends in words.
class Reader {
 public:
  Reader(Bytes bytes, const std::string& name, const char* format)
      : bytes_(bytes), name_(name), format_(format) {}

  std::size_t size() const { return bytes_.size(); }

  std::size_t byte(std::size_t at) const {
    need(at, 1);
    return bytes_[at];
  }
  std::size_t big16(std::size_t at) const { return byte(at) << 8 | byte(at + 1); }
  std::size_t big32(std::size_t at) const { return big16(at) << 16 | big16(at + 2); }
  std::size_t little16(std::size_t at) const { return byte(at) | byte(at + 1) << 8; }
  std::size_t little24(std::size_t at) const { return little16(at) | byte(at + 2) << 16; }
  std::size_t little32(std::size_t at) const { return little16(at) | little16(at + 2) << 16; }

  bool has(std::size_t at, std::string_view text) const {
    return at <= size() && size() - at >= text.size() &&
           std::memcmp(bytes_.data() + at, text.data(), text.size()) == 0;
  }
  Bytes part(std::size_t at, std::size_t count) const {
    need(at, count);
    return bytes_.subspan(at, count);
  }
  void need(std::size_t at, std::size_t count) const {
    if (at > size() || size() - at < count) cut_short();
  }

  [[noreturn]] void cut_short() const {
    refuse(name_,
           fmt::format("the {} is cut short at byte {}; copy or save it again", format_, size()));
  }
  [[noreturn]] void damaged(const std::string& what) const {
    refuse(name_, fmt::format("the {} is damaged ({}); copy or save it again", format_, what));
  }
  [[noreturn]] void unread(const std::string& what) const {
    refuse(name_, fmt::format("{} is not read; save it as PNG with 8 bits for each colour", what));
  }

  ImageHeader header(std::size_t width, std::size_t height) const {
    if (width == 0 || height == 0) damaged(fmt::format("its size is {} × {}", width, height));
    return {format_, width, height};
  }

 private:
  Bytes bytes_;
  const std::string& name_;
  const char* format_;
};

// ---- PNG -------------------------------------------------------------------------------------
// Signature, then chunks: length (big endian), type, data, CRC-32 of type and data.

constexpr std::string_view kPng("\x89PNG\r\n\x1a\n", 8);
constexpr std::size_t kPngChunk = 12;  // bytes of a chunk beside its data

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? 0xedb88320u ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  return table;
}

std::uint32_t crc(Bytes bytes) {
  static constexpr auto kTable = crc_table();
  std::uint32_t c = 0xffffffffu;
  for (const std::uint8_t b : bytes) c = kTable[(c ^ b) & 0xff] ^ (c >> 8);
  return ~c;
}

void check_png_kind(const Reader& file) {
  const std::size_t depth = file.byte(24);
  const std::size_t colour = file.byte(25);
  const bool gray = colour == 0 && (depth == 1 || depth == 2 || depth == 4);
  const bool palette = colour == 3 && (depth == 1 || depth == 2 || depth == 4 || depth == 8);
  const bool whole =
      (depth == 8 || depth == 16) && (colour == 0 || colour == 2 || colour == 4 || colour == 6);
  if ((!gray && !palette && !whole) || file.byte(26) != 0 || file.byte(27) != 0 ||
      file.byte(28) > 1) {
    file.damaged(fmt::format("no PNG has colours of kind {} with {} bits", colour, depth));
  }
}

ImageHeader png_header(Bytes bytes, const std::string& name) {
  const Reader file(bytes, name, "PNG");
  if (file.big32(8) != 13 || !file.has(12, "IHDR")) file.damaged("it does not start with IHDR");
  bool pixels = false;
  bool palette = false;
  for (std::size_t at = kPng.size();;) {
    const std::size_t length = file.big32(at);
    file.need(at, kPngChunk + length);
    if (crc(file.part(at + 4, length + 4)) != file.big32(at + 8 + length)) {
      file.damaged(fmt::format("the checksum of the part at byte {} is wrong", at));
    }
    if (file.has(at + 4, "IEND")) break;
    pixels = pixels || file.has(at + 4, "IDAT");
    palette = palette || file.has(at + 4, "PLTE");
    at += kPngChunk + length;
  }
  check_png_kind(file);
  if (!pixels) file.damaged("it has no pixels");
  if (file.byte(25) == 3 && !palette) file.damaged("it has no palette");
  ImageHeader header = file.header(file.big32(16), file.big32(20));
  constexpr std::array<std::size_t, 7> kSamples = {1, 0, 3, 1, 2, 0, 4};
  const std::size_t bits = kSamples[file.byte(25)] * file.byte(24);
  header.unpacked = bytes_of(times(header.width, header.height), bits);
  return header;
}

std::vector<std::uint8_t> png_picture(Bytes bytes) {
  static const std::string none;
  const Reader file(bytes, none, "PNG");
  std::vector<std::uint8_t> out(bytes.begin(), bytes.begin() + kPng.size());
  for (std::size_t at = kPng.size(); at < bytes.size();) {
    const std::size_t whole = kPngChunk + file.big32(at);
    const Bytes chunk = file.part(at, whole);
    // eXIf says which way is up.
    for (const std::string_view kept : {"IHDR", "PLTE", "IDAT", "IEND", "eXIf"}) {
      if (file.has(at + 4, kept)) out.insert(out.end(), chunk.begin(), chunk.end());
    }
    if (file.has(at + 4, "IEND")) break;
    at += whole;
  }
  return out;
}

// ---- JPEG ------------------------------------------------------------------------------------
// Markers FF xx; most have a length (big endian, itself included) and that many bytes. After a
// start of scan come coded bytes, in which FF is followed by 00 or by a restart marker.

struct Jpeg {
  ImageHeader header;
  std::size_t end;  // after the end marker
};

bool is_frame(std::size_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

ImageHeader jpeg_frame(const Reader& file, std::size_t at, std::size_t marker) {
  if (marker > 0xc2) file.unread("a JPEG that is lossless, hierarchical or arithmetically coded");
  if (file.byte(at + 4) != 8) file.unread(fmt::format("a JPEG of {} bits", file.byte(at + 4)));
  const std::size_t colours = file.byte(at + 9);
  if (colours != 1 && colours != 3 && colours != 4) {
    file.unread(fmt::format("a JPEG of {} colours", colours));
  }
  return file.header(file.big16(at + 7), file.big16(at + 5));
}

// The next marker that is no part of coded bytes.
std::size_t after_scan(const Reader& file, Bytes bytes, std::size_t at) {
  for (;;) {
    file.need(at, 1);
    const void* found = std::memchr(bytes.data() + at, 0xff, bytes.size() - at);
    if (found == nullptr) file.cut_short();
    at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - bytes.data());
    const std::size_t next = file.byte(at + 1);
    const bool restart = next >= 0xd0 && next <= 0xd7;
    if (next != 0 && next != 0xff && !restart) return at;
    at += next == 0xff ? 1 : 2;
  }
}

Jpeg read_jpeg(Bytes bytes, const std::string& name) {
  const Reader file(bytes, name, "JPEG");
  std::optional<ImageHeader> header;
  std::size_t scans = 0;
  for (std::size_t at = 2;;) {
    if (file.byte(at) != 0xff) file.damaged(fmt::format("there is no marker at byte {}", at));
    const std::size_t marker = file.byte(at + 1);
    if (marker == 0xff) {  // padding
      ++at;
      continue;
    }
    if (marker == 0xd9) {
      if (!header || scans == 0) file.damaged("it has no pixels");
      header->scanned = times(scans, times(header->width, header->height));
      return {*header, at + 2};
    }
    if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) {  // these have no length
      at += 2;
      continue;
    }
    const std::size_t length = file.big16(at + 2);
    if (length < 2) file.damaged(fmt::format("the part at byte {} has no length", at));
    file.need(at, 2 + length);
    if (is_frame(marker)) {
      if (header) file.damaged("it has two sizes");
      header = jpeg_frame(file, at, marker);
    }
    at += 2 + length;
    if (marker == 0xda) {
      if (!header) file.damaged("its pixels come before its size");
      if (++scans > kMostScans) file.damaged(fmt::format("it has over {} scans", kMostScans));
      at = after_scan(file, bytes, at);
    }
  }
}

// ---- BMP -------------------------------------------------------------------------------------

ImageHeader bmp_header(Bytes bytes, const std::string& name) {
  const Reader file(bytes, name, "BMP");
  const std::size_t pixels = file.little32(10);
  const std::size_t size = file.little32(14);
  std::size_t width = 0, height = 0, bits = 0, compression = 0;
  if (size == 12) {
    width = file.little16(18);
    height = file.little16(20);
    bits = file.little16(24);
  } else if (size >= 40) {
    const auto signed_height = static_cast<std::int32_t>(file.little32(22));
    if (signed_height == INT32_MIN) file.damaged("its height has no bounds");
    width = file.little32(18);
    height = static_cast<std::size_t>(signed_height < 0 ? -signed_height : signed_height);
    bits = file.little16(28);
    compression = file.little32(30);
  } else {
    file.damaged(fmt::format("its header has {} bytes", size));
  }
  if (width > INT32_MAX) file.damaged("its width is negative");
  const bool plain = compression == 0 && (bits == 1 || bits == 4 || bits == 8 || bits == 24);
  const bool masked = (compression == 0 || compression == 3) && (bits == 16 || bits == 32);
  if (!plain && !masked) {
    file.unread(fmt::format("a BMP of {} bits with compression {}", bits, compression));
  }
  file.header(width, height);
  const std::size_t row = (width * bits + 31) / 32 * 4;
  if (pixels > file.size() || (file.size() - pixels) / row < height) file.cut_short();
  return file.header(width, height);
}

// ---- TIFF ------------------------------------------------------------------------------------
// Byte order, 42, the place of a directory: a count and entries of 12 bytes (tag, type, count,
// value or where the values are).

class Tiff {
 public:
  Tiff(const Reader& file) : file_(file), big_(file.has(0, "M")) {
    directory_ = u32(4);
    tags_ = u16(directory_);
    if (tags_ == 0 || tags_ > kMostTags) file_.damaged(fmt::format("it has {} tags", tags_));
    file_.need(directory_ + 2, tags_ * 12);
  }

  // All values of a tag; none if it is absent.
  std::vector<std::size_t> values(std::size_t tag) const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < tags_; ++i) {
      const std::size_t at = directory_ + 2 + i * 12;
      if (u16(at) != tag) continue;
      const std::size_t type = u16(at + 2);
      const std::size_t count = u32(at + 4);
      if (type != 3 && type != 4) file_.damaged(fmt::format("tag {} is no whole number", tag));
      if (count > kMostStrips) file_.damaged(fmt::format("tag {} has {} values", tag, count));
      const std::size_t width = type == 3 ? 2 : 4;
      const std::size_t from = count * width <= 4 ? at + 8 : u32(at + 8);
      file_.need(from, count * width);
      for (std::size_t j = 0; j < count; ++j) {
        out.push_back(width == 2 ? u16(from + 2 * j) : u32(from + 4 * j));
      }
      return out;
    }
    return out;
  }

  std::size_t value(std::size_t tag, std::size_t otherwise) const {
    const std::vector<std::size_t> all = values(tag);
    return all.empty() ? otherwise : all[0];
  }

 private:
  std::size_t u16(std::size_t at) const { return big_ ? file_.big16(at) : file_.little16(at); }
  std::size_t u32(std::size_t at) const { return big_ ? file_.big32(at) : file_.little32(at); }

  const Reader& file_;
  bool big_;
  std::size_t directory_ = 0;
  std::size_t tags_ = 0;
};

struct Part {
  std::size_t offset, count;
};

std::vector<Part> tiff_parts(const Reader& file, const Tiff& tiff, std::size_t offsets_tag,
                             std::size_t counts_tag) {
  const std::vector<std::size_t> offsets = tiff.values(offsets_tag);
  const std::vector<std::size_t> counts = tiff.values(counts_tag);
  if (offsets.empty() || offsets.size() != counts.size()) {
    file.damaged("it does not say where its pixels are");
  }
  std::vector<Part> parts;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    file.need(offsets[i], counts[i]);
    parts.push_back({offsets[i], counts[i]});
  }
  return parts;
}

// A part may be a JPEG of its own, with scans of its own.
std::size_t tiff_scanned(const Reader& file, const std::vector<Part>& parts,
                         const std::string& name) {
  std::size_t scanned = 0;
  std::size_t walked = 0;
  for (const auto& [offset, count] : parts) {
    if (count == 0) continue;  // left out
    // Many parts with the same bytes would keep this walk itself busy.
    walked += count;
    if (walked > file.size()) file.damaged("its parts have bytes in common");
    const std::size_t more = read_jpeg(file.part(offset, count), name).header.scanned;
    scanned = more > SIZE_MAX - scanned ? SIZE_MAX : scanned + more;
  }
  return scanned;
}

ImageHeader tiff_header(Bytes bytes, const std::string& name) {
  constexpr std::size_t kWidth = 256, kHeight = 257, kBits = 258, kCompression = 259,
                        kSamples = 277, kTileWidth = 322, kTileHeight = 323, kFormat = 339;
  constexpr std::size_t kOldJpeg = 6, kJpeg = 7;
  const Reader file(bytes, name, "TIFF");
  const Tiff tiff(file);
  std::size_t most_bits = 1;
  for (const std::size_t bits : tiff.values(kBits)) {
    if (bits > 16) file.unread(fmt::format("a TIFF of {} bits for each colour", bits));
    most_bits = std::max(most_bits, bits);
  }
  for (const std::size_t format : tiff.values(kFormat)) {
    if (format != 1) file.unread("a TIFF of other than whole numbers");
  }
  const std::size_t samples = tiff.value(kSamples, 1);
  if (samples == 0 || samples > 4) file.unread(fmt::format("a TIFF of {} colours", samples));
  const std::size_t width = tiff.value(kWidth, 0);
  const std::size_t height = tiff.value(kHeight, 0);
  const std::size_t tile_width = tiff.value(kTileWidth, 0);
  const std::size_t tile_height = tiff.value(kTileHeight, 0);
  ImageHeader header = file.header(width, height);
  std::size_t pixels = times(width, height);
  if (tile_width != 0) {
    // Tiles are filled up beyond the picture, but not beyond reason.
    if (tile_height == 0 || tile_width / 4096 > width || tile_height / 4096 > height ||
        tile_width > 65536 || tile_height > 65536 || tile_width * tile_height > (1u << 26)) {
      file.damaged(fmt::format("its tiles are {} × {}", tile_width, tile_height));
    }
    const std::size_t tiles = times((width - 1) / tile_width + 1, (height - 1) / tile_height + 1);
    pixels = times(tiles, tile_width * tile_height);
  }
  const std::vector<Part> parts =
      tile_width == 0 ? tiff_parts(file, tiff, 273, 279) : tiff_parts(file, tiff, 324, 325);
  const std::size_t compression = tiff.value(kCompression, 1);
  if (compression == kOldJpeg) file.unread("a TIFF with a JPEG of the old kind");
  if (compression == kJpeg) header.scanned = tiff_scanned(file, parts, name);
  if (compression != 1) header.unpacked = bytes_of(pixels, samples * most_bits);
  return header;
}

// ---- WebP ------------------------------------------------------------------------------------
// RIFF: "RIFF", bytes that follow, "WEBP", then chunks: name, length, data, padded to even.

ImageHeader webp_header(Bytes bytes, const std::string& name) {
  const Reader file(bytes, name, "WebP");
  file.need(8, file.little32(4));
  std::size_t at = 12;
  if (file.has(at, "VP8X")) {
    if ((file.byte(20) & 2) != 0) file.unread("an animated WebP");
    return file.header(file.little24(24) + 1, file.little24(27) + 1);
  }
  file.need(at, 8 + file.little32(at + 4));
  at += 8;
  if (file.has(12, "VP8 ")) {
    if (file.little24(at + 3) != 0x2a019d) file.damaged("it has no start code");
    return file.header(file.little16(at + 6) & 0x3fff, file.little16(at + 8) & 0x3fff);
  }
  if (file.has(12, "VP8L")) {
    if (file.byte(at) != 0x2f) file.damaged("it has no start code");
    const std::size_t sizes = file.little32(at + 1);
    return file.header((sizes & 0x3fff) + 1, (sizes >> 14 & 0x3fff) + 1);
  }
  file.damaged("it has no pixels");
}

// ---- PGM and PPM -----------------------------------------------------------------------------
// "P5" or "P6", then width, height and the largest value in decimal, with spaces and comments
// between them, one space, and the pixels.

ImageHeader pnm_header(Bytes bytes, const std::string& name) {
  const Reader file(bytes, name, "PNM");
  std::size_t at = 2;
  const auto is_space = [](std::size_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  const auto number = [&] {
    while (is_space(file.byte(at)) || file.byte(at) == '#') {
      if (file.byte(at++) != '#') continue;
      while (file.byte(at) != '\n' && file.byte(at) != '\r') ++at;
    }
    const std::size_t start = at;
    std::size_t value = 0;
    for (; file.byte(at) >= '0' && file.byte(at) <= '9'; ++at) {
      value = value * 10 + (file.byte(at) - '0');
      if (value > INT32_MAX) file.damaged("a number of its header is too large");
    }
    if (at == start) file.damaged(fmt::format("there is no number at byte {}", at));
    return value;
  };
  const std::size_t width = number();
  const std::size_t height = number();
  const std::size_t largest = number();
  if (largest == 0 || largest > 65535)
    file.damaged(fmt::format("its largest value is {}", largest));
  if (!is_space(file.byte(at))) file.damaged("its header has no end");
  const ImageHeader header = file.header(width, height);
  const std::size_t row = width * (file.has(0, "P6") ? 3 : 1) * (largest > 255 ? 2 : 1);
  if ((file.size() - at - 1) / row < height) file.cut_short();
  return header;
}

}  // namespace

ImageHeader read_image_header(Bytes bytes, const std::string& name) {
  const Reader file(bytes, name, "image");
  if (bytes.empty()) refuse(name, "is empty; give an image");
  if (file.has(0, kPng)) return png_header(bytes, name);
  if (file.has(0, "\xff\xd8\xff")) return read_jpeg(bytes, name).header;
  if (file.has(0, "BM")) return bmp_header(bytes, name);
  if (file.has(0, std::string_view("II*\0", 4)) || file.has(0, std::string_view("MM\0*", 4))) {
    return tiff_header(bytes, name);
  }
  if (file.has(0, "RIFF") && file.has(8, "WEBP")) return webp_header(bytes, name);
  if (file.has(0, "P5") || file.has(0, "P6")) return pnm_header(bytes, name);
  if (file.has(0, "GIF8")) file.unread("a GIF");
  refuse(name, fmt::format("is not an image that can be read; give {}", kImageFormats));
}

std::vector<std::uint8_t> picture_of(Bytes bytes) {
  static const std::string none;
  const Reader file(bytes, none, "image");
  if (file.has(0, kPng)) return png_picture(bytes);
  const std::size_t end = file.has(0, "\xff\xd8\xff") ? read_jpeg(bytes, none).end : bytes.size();
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace contcore
