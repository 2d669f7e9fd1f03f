// The vectors that points are compared with: a base and a coreset while it grows.
//
// Holds of each the sketch in tiles for kernels::scan_steps, and where to find the
// sketch and the full vector, which are not copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/vectors.h"
#include "coreset/kernels.h"
#include "coreset/step_sketch.h"

namespace contcore {

class Centres {
 public:
  /// Tiles come in chunks, contiguous and never moved.
  static constexpr std::size_t kChunkTiles = 8;
  static constexpr std::size_t kChunk = kChunkTiles * kernels::kTile;

  explicit Centres(const StepSketch& sketch) : sketch_(&sketch) {}  // may be filled in later

  std::size_t size() const { return entries_.size(); }

  /// Adds vector i of `vectors` with its sketch; both must stay where they are.
  void add(const VectorView& vectors, std::size_t i, const std::uint8_t* sketch);

  /// A view of one row.
  const VectorView& vector(std::size_t c) const { return entries_[c].vector; }
  const std::uint8_t* sketch_of(std::size_t c) const { return entries_[c].sketch; }
  std::int32_t half_norm(std::size_t c) const { return entries_[c].half_norm; }
  /// The tiles of centres [chunk · kChunk, (chunk + 1) · kChunk).
  const std::uint8_t* tiles(std::size_t chunk) const { return tiles_[chunk].byte_data(); }

  /// About the memory that each centre takes.
  static std::size_t bytes_each(std::size_t width);

 private:
  struct Entry {
    VectorView vector;
    const std::uint8_t* sketch;
    std::int32_t half_norm;
  };
  const StepSketch* sketch_;
  std::vector<Entry> entries_;
  std::vector<Vectors> tiles_;
};

/// Writes the `width` steps of a sketched vector into a tile, and returns their sum.
std::int32_t put_in_tile(const std::uint8_t* sketch, std::size_t width, std::size_t lane,
                         std::uint8_t* tile);

}  // namespace contcore
