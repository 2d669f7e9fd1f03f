#include "camera/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "contcore/error.h"
#include "image/png.h"

namespace contcore {
namespace {

enum class Samples : std::uint8_t { kMono, kBayer, kRgb, kBgr, kUyvy, kYuyv };
enum class Packing : std::uint8_t {
  kBytes,   // each sample a byte
  kWords,   // the lower bits of two bytes, the lower byte first
  kBits,    // one behind the other, the lowest bit first
  kTriples  // GigE Vision's: the upper eight of the first, the lower bits of both, then the
            // second's
};

struct PixelFormat {
  const char* name;
  std::uint32_t number;
  Samples samples;
  Packing packing = Packing::kBytes;
  std::uint8_t bits = 8;      // of a sample
  std::uint8_t channels = 1;  // samples of a pixel
  std::uint8_t red = 0;       // Bayer: the column and row of red, column + 2 row
};

using enum Samples;
using enum Packing;
constexpr PixelFormat kFormats[] = {
    {"Mono8", 0x01080001, kMono},
    {"Mono10", 0x01100003, kMono, kWords, 10},
    {"Mono10Packed", 0x010c0004, kMono, kTriples, 10},
    {"Mono10p", 0x010a0046, kMono, kBits, 10},
    {"Mono12", 0x01100005, kMono, kWords, 12},
    {"Mono12Packed", 0x010c0006, kMono, kTriples, 12},
    {"Mono12p", 0x010c0047, kMono, kBits, 12},
    {"Mono14", 0x01100025, kMono, kWords, 14},
    {"Mono16", 0x01100007, kMono, kWords, 16},
    {"BayerGR8", 0x01080008, kBayer, kBytes, 8, 1, 1},
    {"BayerRG8", 0x01080009, kBayer, kBytes, 8, 1, 0},
    {"BayerGB8", 0x0108000a, kBayer, kBytes, 8, 1, 2},
    {"BayerBG8", 0x0108000b, kBayer, kBytes, 8, 1, 3},
    {"BayerGR10", 0x0110000c, kBayer, kWords, 10, 1, 1},
    {"BayerRG10", 0x0110000d, kBayer, kWords, 10, 1, 0},
    {"BayerGB10", 0x0110000e, kBayer, kWords, 10, 1, 2},
    {"BayerBG10", 0x0110000f, kBayer, kWords, 10, 1, 3},
    {"BayerGR12", 0x01100010, kBayer, kWords, 12, 1, 1},
    {"BayerRG12", 0x01100011, kBayer, kWords, 12, 1, 0},
    {"BayerGB12", 0x01100012, kBayer, kWords, 12, 1, 2},
    {"BayerBG12", 0x01100013, kBayer, kWords, 12, 1, 3},
    {"BayerGR16", 0x0110002e, kBayer, kWords, 16, 1, 1},
    {"BayerRG16", 0x0110002f, kBayer, kWords, 16, 1, 0},
    {"BayerGB16", 0x01100030, kBayer, kWords, 16, 1, 2},
    {"BayerBG16", 0x01100031, kBayer, kWords, 16, 1, 3},
    {"BayerGR10p", 0x010a0056, kBayer, kBits, 10, 1, 1},
    {"BayerRG10p", 0x010a0058, kBayer, kBits, 10, 1, 0},
    {"BayerGB10p", 0x010a0054, kBayer, kBits, 10, 1, 2},
    {"BayerBG10p", 0x010a0052, kBayer, kBits, 10, 1, 3},
    {"BayerGR12p", 0x010c0057, kBayer, kBits, 12, 1, 1},
    {"BayerRG12p", 0x010c0059, kBayer, kBits, 12, 1, 0},
    {"BayerGB12p", 0x010c0055, kBayer, kBits, 12, 1, 2},
    {"BayerBG12p", 0x010c0053, kBayer, kBits, 12, 1, 3},
    {"BayerGR10Packed", 0x010c0026, kBayer, kTriples, 10, 1, 1},
    {"BayerRG10Packed", 0x010c0027, kBayer, kTriples, 10, 1, 0},
    {"BayerGB10Packed", 0x010c0028, kBayer, kTriples, 10, 1, 2},
    {"BayerBG10Packed", 0x010c0029, kBayer, kTriples, 10, 1, 3},
    {"BayerGR12Packed", 0x010c002a, kBayer, kTriples, 12, 1, 1},
    {"BayerRG12Packed", 0x010c002b, kBayer, kTriples, 12, 1, 0},
    {"BayerGB12Packed", 0x010c002c, kBayer, kTriples, 12, 1, 2},
    {"BayerBG12Packed", 0x010c002d, kBayer, kTriples, 12, 1, 3},
    {"RGB8", 0x02180014, kRgb, kBytes, 8, 3},
    {"BGR8", 0x02180015, kBgr, kBytes, 8, 3},
    {"RGBa8", 0x02200016, kRgb, kBytes, 8, 4},
    {"BGRa8", 0x02200017, kBgr, kBytes, 8, 4},
    {"YUV422_8_UYVY", 0x0210001f, kUyvy, kBytes, 8, 2},
    {"YUV422_8", 0x02100032, kYuyv, kBytes, 8, 2},
};

const PixelFormat* find_format(std::uint32_t number) {
  const auto* found = std::ranges::find(kFormats, number, &PixelFormat::number);
  return found == std::end(kFormats) ? nullptr : found;
}

[[noreturn]] void refuse_frame(const Frame& frame, const std::string& why) {
  throw Error(Error::Kind::kInput,
              fmt::format("frame {} of {} × {} pixels in {}: {}", frame.id, frame.width,
                          frame.height, format_name(frame.format), why));
}

// Bits of a row, without its padding. Those of kBits and kTriples begin where the row before ends.
std::size_t row_bits(const PixelFormat& format, std::size_t width) {
  const std::size_t bits = format.packing == kWords     ? 16
                           : format.packing == kTriples ? 12
                                                        : format.bits;
  return width * format.channels * bits;
}

void check_frame(const Frame& frame, const PixelFormat* format) {
  if (format == nullptr) {
    refuse_frame(frame,
                 "cannot be read in this format; have the camera send Mono8, BayerRG8 or "
                 "RGB8 (PixelFormat=Mono8)");
  }
  const std::size_t most = ImageLimits().pixels;
  if (frame.width == 0 || frame.height == 0) refuse_frame(frame, "it has no pixels");
  if (frame.width > most / frame.height) refuse_frame(frame, "it is too large");
  if ((format->samples == kUyvy || format->samples == kYuyv) && frame.width % 2 != 0) {
    refuse_frame(frame, "two pixels share a colour, so its width must be even");
  }
  if (frame.padding > frame.bytes.size()) refuse_frame(frame, "it is cut short");
  const std::size_t bits = row_bits(*format, frame.width);
  const bool whole = bits % 8 == 0;
  if (!whole && frame.padding != 0) refuse_frame(frame, "its rows do not end with a byte");
  const std::size_t needed = whole ? (bits / 8 + frame.padding) * frame.height - frame.padding
                                   : (bits * frame.height + 7) / 8;
  if (needed > frame.bytes.size()) {
    refuse_frame(frame,
                 fmt::format("it is cut short: it has {} bytes of {}", frame.bytes.size(), needed));
  }
}

std::uint8_t upper_eight(unsigned value, unsigned bits) {
  return static_cast<std::uint8_t>(std::min(value >> (bits - 8U), 255U));
}

// Samples of row y, a byte each.
void unpack_row(const Frame& frame, const PixelFormat& format, std::size_t y,
                std::span<std::uint8_t> row) {
  const std::size_t bits = row_bits(format, frame.width);
  const std::uint8_t* bytes = frame.bytes.data();
  if (bits % 8 == 0) bytes += y * (bits / 8 + frame.padding);
  const std::size_t first = bits % 8 == 0 ? 0 : y * row.size();  // sample
  switch (format.packing) {
    case kBytes:
      std::copy_n(bytes, row.size(), row.begin());
      break;
    case kWords:
      for (std::size_t x = 0; x < row.size(); ++x) {
        row[x] =
            upper_eight(bytes[2 * x] | static_cast<unsigned>(bytes[2 * x + 1]) << 8, format.bits);
      }
      break;
    case kBits:
      for (std::size_t x = 0; x < row.size(); ++x) {
        const std::size_t at = (first + x) * format.bits + format.bits - 8;
        const unsigned low = bytes[at / 8];
        const unsigned high = at % 8 == 0 ? 0 : bytes[at / 8 + 1];
        row[x] = static_cast<std::uint8_t>((low | high << 8) >> (at % 8));
      }
      break;
    case kTriples:
      for (std::size_t x = 0; x < row.size(); ++x) {
        const std::size_t k = first + x;
        row[x] = bytes[k / 2 * 3 + k % 2 * 2];
      }
      break;
  }
}

// The row above the first is the second, the one below the last is the last but one: so the
// pattern goes on.
std::size_t mirrored(std::size_t at, std::size_t end) {
  if (at == static_cast<std::size_t>(-1)) return std::min<std::size_t>(1, end - 1);
  return at < end ? at : end >= 2 ? end - 2 : 0;
}

std::uint8_t mean(int sum, int count) {
  return static_cast<std::uint8_t>((sum + count / 2) / count);
}

void colour_row(std::span<const std::uint8_t> samples, std::size_t width, std::size_t height,
                std::size_t y, std::size_t red, std::uint8_t* rgb) {
  const std::uint8_t* here = samples.data() + y * width;
  const std::uint8_t* above = samples.data() + mirrored(y - 1, height) * width;
  const std::uint8_t* below = samples.data() + mirrored(y + 1, height) * width;
  const bool red_row = y % 2 == red / 2;
  for (std::size_t x = 0; x < width; ++x, rgb += 3) {
    const std::size_t left = mirrored(x - 1, width);
    const std::size_t right = mirrored(x + 1, width);
    const std::uint8_t beside = mean(here[left] + here[right], 2);
    const std::uint8_t upright = mean(above[x] + below[x], 2);
    const bool red_column = x % 2 == red % 2;
    if (red_row != red_column) {  // green
      rgb[0] = red_row ? beside : upright;
      rgb[1] = here[x];
      rgb[2] = red_row ? upright : beside;
      continue;
    }
    const std::uint8_t cross = mean(here[left] + here[right] + above[x] + below[x], 4);
    const std::uint8_t corners = mean(above[left] + above[right] + below[left] + below[right], 4);
    rgb[0] = red_row ? here[x] : corners;
    rgb[1] = cross;
    rgb[2] = red_row ? corners : here[x];
  }
}

std::uint8_t clamped(int value) { return static_cast<std::uint8_t>(std::clamp(value, 0, 255)); }

// BT.601 over the whole range, in 65536ths.
void yuv_pixel(int y, int u, int v, std::uint8_t* rgb) {
  u -= 128;
  v -= 128;
  constexpr int kHalf = 1 << 15;
  rgb[0] = clamped(y + ((91881 * v + kHalf) >> 16));
  rgb[1] = clamped(y - ((22554 * u + 46802 * v + kHalf) >> 16));
  rgb[2] = clamped(y + ((116130 * u + kHalf) >> 16));
}

void yuv_row(std::span<const std::uint8_t> row, bool luma_first, std::uint8_t* rgb) {
  const std::size_t luma = luma_first ? 0 : 1;
  for (std::size_t at = 0; at < row.size(); at += 4, rgb += 6) {  // two pixels
    const std::uint8_t u = row[at + 1 - luma];
    const std::uint8_t v = row[at + 3 - luma];
    yuv_pixel(row[at + luma], u, v, rgb);
    yuv_pixel(row[at + 2 + luma], u, v, rgb + 3);
  }
}

void pixel_row(const PixelFormat& format, std::span<const std::uint8_t> row, std::uint8_t* rgb) {
  if (format.samples == kUyvy || format.samples == kYuyv) {
    return yuv_row(row, format.samples == kYuyv, rgb);
  }
  const std::size_t first = format.samples == kBgr ? 2 : 0;
  for (std::size_t at = 0; at < row.size(); at += format.channels, rgb += 3) {
    const std::uint8_t* pixel = row.data() + at;
    if (format.samples == kMono) {
      rgb[0] = rgb[1] = rgb[2] = pixel[0];
    } else {
      rgb[0] = pixel[first];
      rgb[1] = pixel[1];
      rgb[2] = pixel[2 - first];
    }
  }
}

}  // namespace

bool is_known_format(std::uint32_t format) { return find_format(format) != nullptr; }

std::string format_name(std::uint32_t format) {
  const PixelFormat* found = find_format(format);
  return found != nullptr ? found->name : fmt::format("format {:#010x}", format);
}

std::vector<std::uint8_t> png_of(const Frame& frame, const Image& image) {
  const PixelFormat* format = find_format(frame.format);
  if (format == nullptr || format->samples != kMono) return encode_png(image);
  std::vector<std::uint8_t> gray(image.width * image.height);
  for (std::size_t i = 0; i < gray.size(); ++i) gray[i] = image.rgb[3 * i];
  return encode_png_gray(image.width, image.height, gray);
}

Image image_of(const Frame& frame) {
  const PixelFormat* format = find_format(frame.format);
  check_frame(frame, format);
  Image image{frame.width, frame.height, std::vector<std::uint8_t>(frame.width * frame.height * 3)};
  const std::size_t row = frame.width * format->channels;
  if (format->samples != kBayer) {
    std::vector<std::uint8_t> samples(row);
    for (std::size_t y = 0; y < frame.height; ++y) {
      unpack_row(frame, *format, y, samples);
      pixel_row(*format, samples, image.rgb.data() + y * frame.width * 3);
    }
    return image;
  }
  std::vector<std::uint8_t> samples(row * frame.height);
  for (std::size_t y = 0; y < frame.height; ++y) {
    unpack_row(frame, *format, y, std::span(samples).subspan(y * row, row));
  }
  for (std::size_t y = 0; y < frame.height; ++y) {
    colour_row(samples, frame.width, frame.height, y, format->red,
               image.rgb.data() + y * frame.width * 3);
  }
  return image;
}

}  // namespace contcore
