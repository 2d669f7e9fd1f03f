// Masks of defects, as the backbone saw the image.
#pragma once

#include <string>

#include "contcore/metrics.h"
#include "evaluate/feature_cache.h"

namespace contcore {

/// The mask at `file` of an image at `place`: each pixel of the network's input takes the mask's
/// pixel at its centre. Throws Error (kInput) when it cannot be read or is of another size than
/// the image.
Mask read_mask(const std::string& file, const ImagePlace& place);

}  // namespace contcore
