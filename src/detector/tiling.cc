// In: an image of any size. Out: its patches, seen tile by tile. Fails for tiles that do not suit
// the network, and for an image too large for its patches to be held.
#include "detector/tiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "contcore/error.h"
#include "device/one_each.h"

namespace contcore {
namespace {

constexpr std::size_t kMostPatchBytes = std::size_t{2} << 30;

// A multiple of the steps that networks have: a larger tile has so many more places.
constexpr std::size_t kManySteps = 64 * 21;

[[noreturn]] void refuse_network(const Backbone& backbone, std::size_t tile) {
  throw Error(Error::Kind::kInput,
              fmt::format("{}: its maps of a tile of {} do not divide it evenly, so patches of "
                          "neighbouring tiles would not lie on one grid; choose other layers, or "
                          "do without tiles",
                          backbone.file(), tile));
}

// How many places more a layer has in a larger tile; nothing where the network takes one size only,
// whether its file says so (as some transformers' do not) or not.
std::optional<std::size_t> more_places(const Backbone& backbone, std::size_t layer,
                                       std::size_t places, std::size_t tile) {
  if (backbone.input_size().height != 0 || backbone.input_size().width != 0) return std::nullopt;
  try {
    const std::size_t side = tile + kManySteps;
    const std::size_t larger = backbone.shapes(side, side)[layer].height;
    return larger - std::min(larger, places);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    return std::nullopt;
  }
}

// Pixels from a place of a layer to the next. The sides alone do not say: a network that rounds up
// gives a tile of 380 as many places as one of 384.
std::size_t step_of(const Backbone& backbone, std::size_t layer, std::size_t places,
                    std::size_t tile) {
  if (places == 0) refuse_network(backbone, tile);
  const std::optional<std::size_t> more = more_places(backbone, layer, places, tile);
  const std::size_t pixels = more ? kManySteps : tile;
  const std::size_t among = more.value_or(places);
  if (among == 0 || pixels % among != 0) refuse_network(backbone, tile);
  return pixels / among;
}

// The multiple of `step` that is nearest, not 0.
std::size_t nearest_multiple(std::size_t number, std::size_t step) {
  return std::max<std::size_t>(1, (number + step / 2) / step) * step;
}

void check_steps(const TileSteps& steps) {
  if (steps.side % steps.shift != 0) {
    throw Error(Error::Kind::kUsage,
                fmt::format("tiles of {0} are no multiple of the network's step of {1} pixels, so "
                            "patches of neighbouring tiles would not coincide; give a tile of {2}",
                            steps.side, steps.shift, nearest_multiple(steps.side, steps.shift)));
  }
  if (steps.overlap % steps.shift != 0) {
    throw Error(
        Error::Kind::kUsage,
        fmt::format("an overlap of {0} is no multiple of the network's step of {1} pixels, so "
                    "patches of neighbouring tiles would not coincide; give an overlap of {2}",
                    steps.overlap, steps.shift,
                    std::min(nearest_multiple(steps.overlap, steps.shift),
                             steps.side / 2 / steps.shift * steps.shift)));
  }
}

void check_room(const PixelSize& image, const TiledImage& cut, std::size_t row_bytes) {
  const std::size_t patches = cut.across.patches * cut.down.patches;
  if (patches <= kMostPatchBytes / row_bytes) return;
  throw Error(
      Error::Kind::kInput,
      fmt::format("an image of {} × {} pixels has {} patches of {} bytes in tiles, more than {} "
                  "GiB; resize it (such as 50%), or give 8 bits or a smaller dimension",
                  image.width, image.height, patches, row_bytes, kMostPatchBytes >> 30));
}

// What is the tile's own goes to its place among all patches; no two tiles have a place in common.
void take_own(const Vectors& tile, const TileSteps& steps, const TileSpan& across,
              const TileSpan& down, Patches& patches) {
  const std::size_t columns = steps.side / steps.patch;
  const auto place = [&](std::size_t patch, const TileSpan& span) {
    return static_cast<std::size_t>(static_cast<std::ptrdiff_t>(patch * steps.patch) - span.begin) /
           steps.patch;
  };
  for (std::size_t y = down.first; y < down.end; ++y) {
    const VectorView row = tile.view().part(place(y, down) * columns + place(across.first, across),
                                            across.end - across.first);
    patches.vectors.set_rows(y * patches.grid_width + across.first, row);
  }
}

}  // namespace

TileSteps tile_steps(const Backbone& backbone, const Geometry& geometry) {
  TileSteps steps{geometry.tile, geometry.overlap, 0, 1};
  const std::vector<LayerShape> shapes = backbone.shapes(steps.side, steps.side);
  for (std::size_t layer = 0; layer < shapes.size(); ++layer) {
    const std::size_t step = step_of(backbone, layer, shapes[layer].height, steps.side);
    if (layer == 0) steps.patch = step;
    steps.shift = std::lcm(steps.shift, step);
  }
  check_steps(steps);
  for (const std::size_t places : {shapes[0].height, shapes[0].width}) {
    if (places * steps.patch != steps.side) refuse_network(backbone, steps.side);
  }
  return steps;
}

Patches patches_in_tiles(const Image& image, const Geometry& geometry, const TileSteps& steps,
                         std::size_t dimension, Scalar scalar, const SeeTile& see,
                         Compute& compute) {
  TiledImage cut = tiled_image({image.width, image.height}, geometry, steps);
  check_room({image.width, image.height}, cut, dimension * bytes_of(scalar));
  Image room;
  const Image& whole = resized_for_tiles(image, geometry, room);
  Patches patches;
  patches.grid_width = cut.across.patches;
  patches.grid_height = cut.down.patches;
  patches.input = std::move(cut.input);
  patches.image_width = image.width;
  patches.image_height = image.height;
  patches.vectors = Vectors(patches.grid_width * patches.grid_height, dimension, scalar);
  const std::size_t columns = cut.across.tiles.size();
  OneEach alone(compute);
  std::vector<NetworkInput> views(compute.threads().count());
  compute.threads().run(columns * cut.down.tiles.size(), [&](std::size_t i, std::size_t worker) {
    const TileSpan& across = cut.across.tiles[i % columns];
    const TileSpan& down = cut.down.tiles[i / columns];
    NetworkInput& view = views[worker];
    view.width = view.height = steps.side;
    cut_tile(whole, across.begin, down.begin, view);
    take_own(see(view, alone[worker]), steps, across, down, patches);
  });
  return patches;
}

}  // namespace contcore
