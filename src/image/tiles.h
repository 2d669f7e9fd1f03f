// Images larger than the network's view, cut into tiles whose patches make one grid.
#pragma once

#include <cstddef>
#include <vector>

#include "contcore/image.h"

namespace contcore {

/// Where tiles may lie.
struct TileSteps {
  std::size_t side = 0;     ///< of a tile, in pixels
  std::size_t overlap = 0;  ///< of neighbouring tiles, in pixels
  std::size_t patch = 0;    ///< pixels from a patch to the next
  std::size_t shift = 0;  ///< tiles begin at multiples of this: a network that sees an image moved
                          ///< by so much sees the same, moved
};

/// One side of an image, cut. A tile begins at a pixel, which may lie before the image, and gives
/// the patches [first, end) of the whole side: those that lie deeper in it than in its neighbours,
/// of two alike the earlier's.
struct TileSpan {
  std::ptrdiff_t begin;
  std::size_t first, end;
};
struct TiledSide {
  std::size_t patches = 0;
  std::vector<TileSpan> tiles;
};

/// Tiles reach over both ends of the image by a margin of half an overlap, in whole shifts: a patch
/// there lies as deep in its tile as one between two tiles, whatever the image's size is. The last
/// tile is moved inwards by whole shifts until it ends less than a shift behind that; what is no
/// larger than a tile has one. Patches that see nothing of the image are left out. The side and the
/// overlap are multiples of `shift`, and that is one of `patch`.
TiledSide tiled_side(std::size_t pixels, const TileSteps& steps);

struct PixelSize {
  std::size_t width, height;
};

/// What an image of that size is resized to. Throws as prepare() does.
PixelSize resized_size(const PixelSize& image, const Geometry& geometry);

/// What prepare() sees of it, without its pixels. Throws as that does.
NetworkInput seen_of(const PixelSize& image, const Geometry& geometry);

/// An image of that size, cut. The input is without its pixels, which are those of the grid: they
/// end less than a patch behind the image. Throws as prepare() does.
struct TiledImage {
  TiledSide across, down;
  NetworkInput input;
};
TiledImage tiled_image(const PixelSize& image, const Geometry& geometry, const TileSteps& steps);

/// The image as it is cut: itself, or in `room` another size of it. Throws as prepare() does.
const Image& resized_for_tiles(const Image& image, const Geometry& geometry, Image& room);

/// The part of the image from (left, top) on that the input has room for, normalised. Beyond its
/// edges the image goes on mirrored (c b | a b c | b a).
void cut_tile(const Image& image, std::ptrdiff_t left, std::ptrdiff_t top, NetworkInput& input);

}  // namespace contcore
