#include "image/jpeg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

// After <cstdio>, which they need.
#include <jpeglib.h>

#include <jerror.h>

#include "contcore/error.h"
#include "image/orientation.h"

namespace contcore {
namespace {

constexpr int kJpegQuality = 92;
constexpr std::size_t kMostScans = 256;

// libjpeg must not return from an error. It jumps back into one of the functions here that call
// setjmp, which therefore have no local variables that need to be taken down.
struct JpegError {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  int code = 0;
  char said[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void jpeg_failed(j_common_ptr info) {
  auto& error = *static_cast<JpegError*>(info->client_data);
  error.code = info->err->msg_code;
  info->err->format_message(info, error.said);
  std::longjmp(error.back, 1);
}

// Warnings of pixels that are missing or wrong: libjpeg would make some up. Others, such as of
// bytes nobody needs, do no harm.
void jpeg_noted(j_common_ptr info, int level) {
  if (level >= 0) return;  // no warning
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
      code == JWRN_MUST_RESYNC) {
    jpeg_failed(info);
  }
}

void jpeg_silent(j_common_ptr) {}

void catch_errors(JpegError& error, j_common_ptr info) {
  info->err = jpeg_std_error(&error.manager);
  info->client_data = &error;
  error.manager.error_exit = jpeg_failed;
  error.manager.emit_message = jpeg_noted;
  error.manager.output_message = jpeg_silent;
}

// ---- Reading ---------------------------------------------------------------------------------

// Scans, as the markers tell: a file of too many is refused before it costs anything. Between a
// scan's header and the next marker, FF is followed by 00 or a restart marker. The decoder counts
// them again as it goes (below), for whatever it may see where this stops.
std::size_t count_scans(std::span<const std::uint8_t> bytes) {
  constexpr std::uint8_t kEnd = 0xd9;
  constexpr std::uint8_t kScan = 0xda;
  std::size_t scans = 0;
  for (std::size_t at = 2; at < bytes.size();) {
    const void* const found = std::memchr(bytes.data() + at, 0xff, bytes.size() - at);
    if (found == nullptr) break;
    at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - bytes.data()) + 1;
    if (bytes.size() - at < 3) break;
    const std::uint8_t marker = bytes[at];
    if (marker == 0xff) continue;  // padding
    ++at;
    if (marker == 0 || (marker >= 0xd0 && marker < kEnd)) continue;
    if (marker == kEnd) break;
    if (marker == kScan) ++scans;
    at += static_cast<std::size_t>(bytes[at]) << 8 | bytes[at + 1];
  }
  return scans;
}

struct ScanCounter {
  jpeg_progress_mgr manager;  // first, since libjpeg knows only this
  int most = 0;
  bool passed = false;
};

void count_scan(j_common_ptr info) {
  auto& counter = *reinterpret_cast<ScanCounter*>(info->progress);
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= counter.most) return;
  counter.passed = true;
  std::longjmp(static_cast<JpegError*>(info->client_data)->back, 1);
}

struct JpegReader {
  JpegError error;
  ScanCounter scans;
  jpeg_decompress_struct info{};

  JpegReader() { catch_errors(error, reinterpret_cast<j_common_ptr>(&info)); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&info); }

  bool read_header(const std::uint8_t* data, std::size_t size) {
    if (setjmp(error.back) != 0) return false;
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, data, static_cast<unsigned long>(size));
    jpeg_save_markers(&info, JPEG_APP0 + 1, 0xffff);  // EXIF
    return jpeg_read_header(&info, TRUE) == JPEG_HEADER_OK;
  }

  // Rows of three bytes a pixel, or four (CMYK).
  bool start(int most_scans) {
    if (setjmp(error.back) != 0) return false;
    info.out_color_space = info.num_components == 4 ? JCS_CMYK : JCS_RGB;
    scans.most = most_scans;
    scans.manager.progress_monitor = count_scan;
    info.progress = &scans.manager;
    return jpeg_start_decompress(&info) != 0;
  }

  bool read_row(std::uint8_t* row) {
    if (setjmp(error.back) != 0) return false;
    return jpeg_read_scanlines(&info, &row, 1) == 1;
  }

  // Reads on to the end marker.
  bool finish() {
    if (setjmp(error.back) != 0) return false;
    return jpeg_finish_decompress(&info) != 0;
  }
};

[[noreturn]] void refuse_jpeg(const ImageBytes& file, const JpegReader& reader) {
  const auto& info = reader.info;
  if (reader.scans.passed) {
    const auto most = static_cast<std::size_t>(reader.scans.most);
    if (most == kMostScans) file.damaged(fmt::format("it has over {} scans", kMostScans));
    file.too_many_scans(info.image_width, info.image_height, most + 1);
  }
  switch (reader.error.code) {
    case JWRN_JPEG_EOF:
    case JERR_INPUT_EOF:
      file.cut_short();
    case JERR_EMPTY_IMAGE:
      file.damaged(fmt::format("its size is {} × {}", info.image_width, info.image_height));
    case JERR_SOF_UNSUPPORTED:
      file.unread("a JPEG that is lossless, hierarchical or arithmetically coded");
    case JERR_BAD_PRECISION:
      file.unread(fmt::format("a JPEG of {} bits", info.data_precision));
    default:
      file.undecodable(reader.error.said);
  }
}

// Ink to light, where 255 is no ink: Adobe's way round.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::size_t pixels, bool adobe, std::uint8_t* rgb) {
  const int turn = adobe ? 0 : 255;
  for (std::size_t i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    const int black = cmyk[3] ^ turn;
    for (int c = 0; c < 3; ++c) {
      rgb[c] = static_cast<std::uint8_t>(black - ((255 - (cmyk[c] ^ turn)) * black >> 8));
    }
  }
}

int jpeg_orientation(const jpeg_decompress_struct& info) {
  constexpr std::size_t kLead = 6;
  for (const jpeg_marker_struct* marker = info.marker_list; marker != nullptr;
       marker = marker->next) {
    if (marker->data_length > kLead && std::memcmp(marker->data, "Exif\0\0", kLead) == 0) {
      return exif_orientation({marker->data + kLead, marker->data_length - kLead});
    }
  }
  return 1;
}

void check_jpeg_kind(const ImageBytes& file, const jpeg_decompress_struct& info) {
  if (info.arith_code) {
    file.unread("a JPEG that is lossless, hierarchical or arithmetically coded");
  }
  const int colours = info.num_components;
  if (colours != 1 && colours != 3 && colours != 4) {
    file.unread(fmt::format("a JPEG of {} colours", colours));
  }
}

}  // namespace

Image decode_jpeg(const ImageBytes& file) {
  JpegReader reader;
  const auto& info = reader.info;
  if (!reader.read_header(file.data(), file.size())) refuse_jpeg(file, reader);
  const std::size_t width = info.image_width;
  const std::size_t height = info.image_height;
  check_jpeg_kind(file, info);
  file.check_size(width, height);
  const std::size_t scans = count_scans({file.data(), file.size()});
  const std::size_t most = kMostScanned / (width * height);
  if (scans > kMostScans) file.damaged(fmt::format("it has over {} scans", kMostScans));
  if (scans > most) file.too_many_scans(width, height, scans);
  if (!reader.start(static_cast<int>(std::min(kMostScans, most)))) {
    refuse_jpeg(file, reader);
  }
  Image image{width, height, std::vector<std::uint8_t>(width * height * 3)};
  std::vector<std::uint8_t> cmyk(info.num_components == 4 ? width * 4 : 0);
  for (std::size_t y = 0; y < height; ++y) {
    std::uint8_t* const row = image.rgb.data() + y * width * 3;
    if (!reader.read_row(cmyk.empty() ? row : cmyk.data())) refuse_jpeg(file, reader);
    if (!cmyk.empty()) cmyk_to_rgb(cmyk.data(), width, info.saw_Adobe_marker != 0, row);
  }
  const int orientation = jpeg_orientation(info);  // forgotten at the end
  if (!reader.finish()) refuse_jpeg(file, reader);
  return upright(std::move(image), orientation);
}

// ---- Writing ---------------------------------------------------------------------------------

namespace {

// Into a vector: libjpeg's own way to write to memory leaves a pointer to what it has freed where
// memory runs out.
struct JpegOutput {
  jpeg_destination_mgr manager{};  // first, since libjpeg knows only this
  std::array<JOCTET, 16384> buffer;
  std::vector<std::uint8_t> bytes;
};

void begin_buffer(j_compress_ptr info) {
  auto& out = *reinterpret_cast<JpegOutput*>(info->dest);
  out.manager.next_output_byte = out.buffer.data();
  out.manager.free_in_buffer = out.buffer.size();
}

void keep_bytes(j_compress_ptr info, std::size_t count) {
  auto& out = *reinterpret_cast<JpegOutput*>(info->dest);
  bool room = true;
  try {
    out.bytes.insert(out.bytes.end(), out.buffer.begin(),
                     out.buffer.begin() + static_cast<std::ptrdiff_t>(count));
  } catch (...) {  // nothing may be thrown through C
    room = false;
  }
  if (!room) ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
  begin_buffer(info);
}

boolean keep_buffer(j_compress_ptr info) {
  keep_bytes(info, reinterpret_cast<JpegOutput*>(info->dest)->buffer.size());
  return TRUE;
}

void keep_rest(j_compress_ptr info) {
  const auto& out = *reinterpret_cast<JpegOutput*>(info->dest);
  keep_bytes(info, out.buffer.size() - out.manager.free_in_buffer);
}

struct JpegWriter {
  JpegError error;
  jpeg_compress_struct info{};
  JpegOutput out;

  JpegWriter() { catch_errors(error, reinterpret_cast<j_common_ptr>(&info)); }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;
  ~JpegWriter() { jpeg_destroy_compress(&info); }

  bool write(const Image& image) {
    if (setjmp(error.back) != 0) return false;
    jpeg_create_compress(&info);
    out.manager.init_destination = begin_buffer;
    out.manager.empty_output_buffer = keep_buffer;
    out.manager.term_destination = keep_rest;
    info.dest = &out.manager;
    info.image_width = static_cast<JDIMENSION>(image.width);
    info.image_height = static_cast<JDIMENSION>(image.height);
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, kJpegQuality, TRUE);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
      // Only read, though libjpeg does not say so.
      auto* row =
          const_cast<std::uint8_t*>(image.rgb.data()) + info.next_scanline * image.width * 3;
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    return true;
  }
};

}  // namespace

std::vector<std::uint8_t> encode_jpeg(const Image& image) {
  JpegWriter writer;
  if (!writer.write(image)) {
    throw Error(Error::Kind::kInput,
                fmt::format("an image of {} × {} pixels cannot be written as JPEG ({}); write PNG",
                            image.width, image.height, writer.error.said));
  }
  return std::move(writer.out.bytes);
}

}  // namespace contcore
