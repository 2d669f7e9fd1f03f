// TIFF and BigTIFF, by libtiff.
#pragma once

#include "contcore/image.h"
#include "image/source.h"

namespace contcore {

/// The first page. Compressed by LZW, deflate, PackBits, JPEG or not at all.
Image decode_tiff(const ImageBytes& file);

}  // namespace contcore
