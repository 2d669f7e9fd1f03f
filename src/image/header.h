// What an image file says of itself, read before anything is decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace contcore {

/// The formats that are read, for messages.
inline constexpr const char* kImageFormats = "PNG, JPEG, BMP, TIFF, WebP, PGM and PPM";

struct ImageHeader {
  std::string format;
  std::size_t width = 0;
  std::size_t height = 0;
  /// What decoding it takes beyond that; the largest number there is where it has no bounds.
  std::size_t scanned = 0;   ///< pixels gone over by a JPEG's scans, all together
  std::size_t unpacked = 0;  ///< bytes that compressed pixels become before they are converted
};

/// Recognises the format by its first bytes, whatever the file's name, and finds the size; both are
/// not 0. Also walks through the file as far as its structure goes (chunks and their checksums,
/// markers, strips, lengths), so that a file that is cut short is told from a whole one: decoders
/// fill up with gray and say nothing. Throws Error (kInput) naming `name`, the reason and the
/// remedy.
ImageHeader read_image_header(std::span<const std::uint8_t> bytes, const std::string& name);

/// The part of the file that holds the picture, for a file that read_image_header has taken: a PNG
/// without its comments, colour profiles and the like, which decoders only stumble over; a JPEG
/// without what stands after its end. Other formats are as they are.
std::vector<std::uint8_t> picture_of(std::span<const std::uint8_t> bytes);

}  // namespace contcore
