// What the pixels of an image tell before it is learned.
#pragma once

#include "contcore/image.h"

namespace contcore {

struct ImageLook {
  bool gray = false;   ///< all of them
  bool blank = false;  ///< nearly all of them are of one gray or of two: a mask, or an empty frame
};
ImageLook look_at(const Image& image);

}  // namespace contcore
