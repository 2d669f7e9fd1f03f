// Frames as cameras send them: bytes in one of the pixel formats of GenICam (PFNC), and as images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "contcore/image.h"

namespace contcore {

struct Frame {
  std::size_t width = 0;
  std::size_t height = 0;
  std::size_t padding = 0;   ///< bytes behind each row
  std::uint32_t format = 0;  ///< by PFNC's number
  std::uint64_t id = 0;      ///< as the camera counts
  std::vector<std::uint8_t> bytes;
};

/// Whether frames of that format become images: Mono, Bayer, RGB, BGR (with or without alpha) and
/// YUV 4:2:2; of more than eight bits the upper eight.
bool is_known_format(std::uint32_t format);
/// Such as "BayerRG8"; of others the number.
std::string format_name(std::uint32_t format);

/// Colours between the pixels of a Bayer pattern are the means of their neighbours. Throws Error
/// (kInput) for a format that is not known, a size of nothing or of more than 100 million pixels,
/// and fewer bytes than the size needs.
Image image_of(const Frame& frame);

/// That image as a PNG file, gray if the frame is.
std::vector<std::uint8_t> png_of(const Frame& frame, const Image& image);

}  // namespace contcore
