// BMP without compression.
#pragma once

#include "contcore/image.h"
#include "image/source.h"

namespace contcore {

Image decode_bmp(const ImageBytes& file);

}  // namespace contcore
