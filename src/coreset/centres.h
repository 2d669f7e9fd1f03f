// The vectors that points are compared with: a base and a coreset while it grows.
//
// Holds of each the sketch, once more with its first level in tiles for kernels::scan, and where to
// find the full vector, which is not copied.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/vectors.h"
#include "coreset/kernels.h"
#include "coreset/sketch.h"

namespace contcore {

inline constexpr std::size_t kMaxLevels = 4;

class Centres {
 public:
  /// Tiles come in chunks, contiguous and never moved.
  static constexpr std::size_t kChunkTiles = 8;
  static constexpr std::size_t kChunk = kChunkTiles * kernels::kTile;

  explicit Centres(const Sketch& sketch) : sketch_(&sketch) {}  // may be filled in later

  std::size_t size() const { return entries_.size(); }
  const Sketch& sketch() const { return *sketch_; }

  /// Adds vector i of `vectors`, which must stay where it is, with its sketch.
  void add(const VectorView& vectors, std::size_t i, const float* sketch);

  const float* row(std::size_t c, float* scratch) const { return entries_[c].row(0, scratch); }
  const float* sketch_of(std::size_t c) const { return sketches_[c / kChunk].row(c % kChunk); }
  /// What a level's test needs of centre c beside its projections.
  struct LevelTerms {
    float r;
    float half_norm;
  };
  const LevelTerms& terms(std::size_t c, std::size_t level) const { return terms_[level][c]; }
  /// The tiles of centres [chunk · kChunk, (chunk + 1) · kChunk).
  const float* tiles(std::size_t chunk) const { return tiles_[chunk].data(); }

  /// About the memory that each centre takes.
  static std::size_t bytes_each(std::size_t first_width, std::size_t levels,
                                std::size_t row_floats);

 private:
  const Sketch* sketch_;
  std::vector<VectorView> entries_;
  std::vector<std::vector<LevelTerms>> terms_;  // by level
  std::vector<Vectors> tiles_;
  std::vector<Vectors> sketches_;
};

}  // namespace contcore
