// What every picture and map is checked for before it is worked on.
#pragma once

#include <cstddef>

#include "contcore/image.h"

namespace contcore {

/// An image of that size, black.
Image blank_image(std::size_t width, std::size_t height);

/// Throws Error (kInternal) if the image is empty, is larger than anything that is read, or does
/// not have its size's number of bytes.
void check_image(const Image& image);
void check_map(const Map& map);

}  // namespace contcore
