// A region of interest over pixels: painted out, cleared, and which patches it touches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/image.h"
#include "contcore/region_of_interest.h"

namespace contcore {

/// A mask: what is not black is inside.
RegionOfInterest region_of_mask(const Image& mask);

/// The image, with the mean colour of what networks are trained on outside: once that is taken out,
/// as prepare() does, there is nothing.
Image painted_outside(const Image& image, const RegionRows& inside);

/// 0 outside.
void clear_outside(Map& map, const RegionRows& inside);

/// The box of its pixels that are inside, and no more of its area than they are; an area of 0: none
/// is.
Region clipped(const Region& region, const RegionRows& inside);

/// The places of a grid of columns × rows over the input that a pixel inside touches, rising.
std::vector<std::uint32_t> places_touched(const RegionRows& inside, const NetworkInput& input,
                                          std::size_t columns, std::size_t rows);

}  // namespace contcore
