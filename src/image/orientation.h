// Which way is up in a picture, as cameras note it.
#pragma once

#include <cstdint>
#include <span>

#include "contcore/image.h"

namespace contcore {

/// From an EXIF block, which begins with its byte order ("II" or "MM"); 1 (upright) where it does
/// not say, or says something strange.
int exif_orientation(std::span<const std::uint8_t> exif);

/// The picture turned and mirrored as an orientation of 1 to 8 asks (EXIF's and TIFF's numbers);
/// any other leaves it as it is.
Image upright(Image image, int orientation);

}  // namespace contcore
