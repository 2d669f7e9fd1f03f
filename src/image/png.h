// PNG, by libpng.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "contcore/image.h"
#include "image/source.h"

namespace contcore {

Image decode_png(const ImageBytes& file);

/// Three, one or four bytes a pixel, row after row; throws Error (kInternal) if there are not as
/// many as the size says. Made quickly rather than small.
std::vector<std::uint8_t> encode_png_rgb(std::size_t width, std::size_t height,
                                         std::span<const std::uint8_t> rgb);
std::vector<std::uint8_t> encode_png_gray(std::size_t width, std::size_t height,
                                          std::span<const std::uint8_t> gray);
std::vector<std::uint8_t> encode_png_rgba(std::size_t width, std::size_t height,
                                          std::span<const std::uint8_t> rgba);

}  // namespace contcore
