// WebP, by libwebp.
#pragma once

#include "contcore/image.h"
#include "image/source.h"

namespace contcore {

Image decode_webp(const ImageBytes& file);

}  // namespace contcore
