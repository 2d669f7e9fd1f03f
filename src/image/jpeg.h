// JPEG, by libjpeg-turbo.
#pragma once

#include <cstdint>
#include <vector>

#include "contcore/image.h"
#include "image/source.h"

namespace contcore {

Image decode_jpeg(const ImageBytes& file);

/// Of a quality that leaves little to be seen (92 of 100).
std::vector<std::uint8_t> encode_jpeg(const Image& image);

}  // namespace contcore
