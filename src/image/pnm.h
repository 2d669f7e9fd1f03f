// PGM and PPM with binary pixels.
#pragma once

#include "contcore/image.h"
#include "image/source.h"

namespace contcore {

Image decode_pnm(const ImageBytes& file);

}  // namespace contcore
