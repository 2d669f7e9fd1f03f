// The score of an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "contcore/region_of_interest.h"

namespace contcore {

enum class Score {
  kMap,    ///< the largest value of its anomaly map
  kPatch,  ///< the largest distance of a patch (the paper's)
};

/// "map" or "patch"; and back. Throws Error (kUsage) for another name.
const char* score_name(Score score);
Score parse_score(const std::string& name);
/// What a memory's source says; one that says nothing is of patches. Throws Error (kInput) for one
/// that this version does not know.
Score score_of(const std::map<std::string, std::string>& source);

/// What of a grid lies in a region of interest: the places, row after row, that the region touches.
struct GridRegion {
  SharedRegion region;
  std::vector<std::uint32_t> places;  ///< rising
};

/// Where the patches of an image lie: their grid, and the pixels that the backbone saw, at once or
/// tile by tile.
struct PatchGrid {
  std::size_t columns = 0;
  std::size_t rows = 0;
  std::size_t width = 0;
  std::size_t height = 0;
  std::size_t tile = 0;  ///< side of the tiles the backbone saw them in; 0: it saw all at once
  /// Of an image that is seen through a region the patches are those inside; none: there is one for
  /// each place.
  std::shared_ptr<const GridRegion> inside = {};

  std::size_t patches() const { return inside ? inside->places.size() : columns * rows; }
  /// Of a patch, row * columns + column.
  std::size_t place(std::size_t patch) const { return inside ? inside->places[patch] : patch; }
  SharedRegion region() const { return inside ? inside->region : nullptr; }

  bool operator==(const PatchGrid&) const = default;
};

/// A value for each place of the grid, given those of the patches: 0 outside of the region.
std::vector<float> on_grid(std::span<const float> patches, const PatchGrid& grid);

/// The score of an image, given the distances of its patches (row after row) to the memory.
/// Whatever scores an image calls this: inspecting, calibrating, evaluating. By kMap it is the
/// maximum of anomaly_map(), to the bit. Throws Error (kInternal) when the distances are not the
/// grid's.
float image_score(std::span<const float> distances, const PatchGrid& grid, Score score);

}  // namespace contcore
