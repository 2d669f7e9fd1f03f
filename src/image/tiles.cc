// In: an image's size and what tiles may be. Out: the tiles, and which patches are whose. Nothing
// fails.
//
// The rule is made for each side alone: a patch lies deeper in a tile than in the next up to the
// middle of what both see. So each tile has a run of patches, and the runs follow one another.
#include "image/tiles.h"

#include <algorithm>

namespace contcore {
namespace {

std::size_t rounded_up(std::size_t number, std::size_t to) { return (number + to - 1) / to * to; }

}  // namespace

TiledSide tiled_side(std::size_t pixels, const TileSteps& steps) {
  const std::size_t margin = rounded_up(steps.overlap / 2, steps.shift);
  const std::size_t all = std::max(pixels + 2 * margin, steps.side);
  const std::size_t last = rounded_up(all, steps.shift) - steps.side;
  const std::size_t stride = steps.side - steps.overlap;
  std::vector<std::size_t> begins;  // from where the margin begins
  for (std::size_t begin = 0; begin < last; begin += stride) begins.push_back(begin);
  begins.push_back(last);
  TiledSide side;
  side.patches = (pixels + steps.patch - 1) / steps.patch;
  std::size_t first = 0;
  for (std::size_t i = 0; i < begins.size() && first < side.patches; ++i) {
    std::size_t end = side.patches;
    if (i + 1 < begins.size()) {
      // The middle of what both see, in half patches.
      const std::size_t twice = (begins[i] + steps.side + begins[i + 1]) / steps.patch;
      end = std::min((twice + 1) / 2 - margin / steps.patch, side.patches);
    }
    const auto begin = static_cast<std::ptrdiff_t>(begins[i]) - static_cast<std::ptrdiff_t>(margin);
    side.tiles.push_back({begin, first, end});
    first = end;
  }
  return side;
}

TiledImage tiled_image(const PixelSize& image, const Geometry& geometry, const TileSteps& steps) {
  const PixelSize size = resized_size(image, geometry);
  TiledImage cut{tiled_side(size.width, steps), tiled_side(size.height, steps), {}};
  NetworkInput& input = cut.input;
  input.width = cut.across.patches * steps.patch;
  input.height = cut.down.patches * steps.patch;
  const auto part = [](std::size_t some, std::size_t of) {
    return static_cast<double>(some) / static_cast<double>(of);
  };
  input.right = static_cast<double>(image.width) * part(input.width, size.width);
  input.bottom = static_cast<double>(image.height) * part(input.height, size.height);
  input.tile = steps.side;
  return cut;
}

}  // namespace contcore
