// What the pixels of an image tell before it is learned.
#pragma once

#include "contcore/image.h"
#include "contcore/region_of_interest.h"

namespace contcore {

struct ImageLook {
  bool gray = false;   ///< all of them
  bool blank = false;  ///< nearly all of them are of one gray or of two: a mask, or an empty frame
};
/// Of the pixels inside a region that the image has the shape of; none: of all.
ImageLook look_at(const Image& image, const SharedRegion& region = {});

}  // namespace contcore
