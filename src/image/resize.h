// Images and maps in another size.
//
// Memories hold features of resized images, so these are defined to the bit, as OpenCV 4.6 has it:
// tests/image/opencv_imgproc_twin_test.cc compares them.
#pragma once

#include <cstddef>

#include "contcore/image.h"

namespace contcore {

/// An area average if a side shrinks (where the other one grows, each side is interpolated between
/// two pixels, sharply), bilinear interpolation with half-pixel centres otherwise. No side may be
/// 0.
Image resize_image(const Image& image, std::size_t width, std::size_t height);

/// Bilinear interpolation with half-pixel centres.
Map resize_map(const Map& map, std::size_t width, std::size_t height);

}  // namespace contcore
