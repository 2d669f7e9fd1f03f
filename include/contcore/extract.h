// The patch vectors of many images, in one .npy file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/extractor.h"
#include "contcore/image_source.h"
#include "contcore/progress.h"

namespace contcore {

/// Where an image's patches are: the one at (y, x) of its grid is row first + y * grid_width + x.
struct ExtractedImage {
  std::string file;
  std::size_t first = 0;
  std::size_t rows = 0;
  std::size_t grid_width = 0;
  std::size_t grid_height = 0;
  /// The part of the image that the grid lies over, in its pixels.
  double left = 0, top = 0, right = 0, bottom = 0;
  std::size_t image_width = 0;
  std::size_t image_height = 0;
};

struct ExtractReport {
  std::size_t rows = 0;
  std::vector<ExtractedImage> images;
  std::vector<SkippedImage> skipped;
  double seconds = 0;
};

/// Writes the patch vectors of image files to the .npy file `out`, in the order of the files: uint8
/// in 8 bits, float32 otherwise, as Extractor::extract gives them. They are written as they come,
/// and the file appears whole or not at all. An image that cannot be used is left out, or (strict)
/// stops it all. Throws Error: kInput for such an image, when none can be used and when the file
/// cannot be written; kCancelled.
ExtractReport extract_to_npy(const Extractor& extractor, const std::vector<std::string>& files,
                             const std::string& out, bool strict, Compute& compute,
                             const Progress& progress);

}  // namespace contcore
