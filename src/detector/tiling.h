// Images seen in tiles: where tiles may lie for a network, and the patches of all tiles as one
// grid.
#pragma once

#include <cstddef>
#include <functional>

#include "contcore/backbone.h"
#include "contcore/compute.h"
#include "contcore/extractor.h"
#include "contcore/image.h"
#include "image/tiles.h"

namespace contcore {

/// Throws Error (kUsage) where the network's patches of neighbouring tiles would not coincide,
/// Error (kInput) where it does not take tiles of that size.
TileSteps tile_steps(const Backbone& backbone, const Geometry& geometry);

/// What a tile gives: its patches, row after row of its grid. Called from several threads at once,
/// each with a Compute of its own.
using SeeTile = std::function<Vectors(const NetworkInput& tile, Compute& alone)>;

/// Throws Error (kInput) for an image with too many patches.
Patches patches_in_tiles(const Image& image, const Geometry& geometry, const TileSteps& steps,
                         std::size_t dimension, Scalar scalar, const SeeTile& see,
                         Compute& compute);

}  // namespace contcore
