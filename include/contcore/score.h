// The score of an image.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

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

/// Where the patches of an image lie: their grid, and the pixels that the backbone saw, at once or
/// tile by tile.
struct PatchGrid {
  std::size_t columns = 0;
  std::size_t rows = 0;
  std::size_t width = 0;
  std::size_t height = 0;
  std::size_t tile = 0;  ///< side of the tiles the backbone saw them in; 0: it saw all at once

  bool operator==(const PatchGrid&) const = default;
};

/// The score of an image, given the distances of its patches (row after row) to the memory.
/// Whatever scores an image calls this: inspecting, calibrating, evaluating. By kMap it is the
/// maximum of anomaly_map(), to the bit. Throws Error (kInternal) when the distances are not the
/// grid's.
float image_score(std::span<const float> distances, const PatchGrid& grid, Score score);

}  // namespace contcore
