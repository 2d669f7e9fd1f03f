// A memory of vectors laid out for searching: places in tiles of 64 whose members lie close
// together, with the sketch's first level in bytes.
//
//   sketch, level 0      in bytes, one tile at a time    (kernels::scan_bytes)
//   sketch, last level   one vector at a time            (kernels::add_dots)
//   full distance        one vector at a time
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/compute.h"
#include "contcore/vectors.h"
#include "coreset/bytes.h"
#include "coreset/kernels.h"
#include "coreset/sketch.h"

namespace contcore {

/// Orders points so that each run of kernels::kTile lies close together.
std::vector<std::uint32_t> order_in_tiles(const Vectors& points);

class Tiles {
 public:
  static constexpr std::int64_t kFree = -1;

  explicit Tiles(const Sketch& sketch) : sketch_(&sketch) {}

  /// Lays out the first vectors, ids 0, 1, 2, …; `sketches` are theirs, moved in.
  void build(const VectorView& vectors, std::vector<Vectors> sketches, std::size_t sketch_chunk);

  /// A vector has moved.
  void relocate(std::uint32_t place, const VectorView& to) { slots_[place].vector = to; }

  /// Puts one more vector at a free place, or at a new one, and returns it.
  std::uint32_t put(const VectorView& vectors, std::size_t i, const float* sketch, std::int64_t id);
  void clear(std::uint32_t place);

  std::size_t places() const { return slots_.size(); }
  std::size_t size() const { return slots_.size() - free_.size(); }
  std::size_t tiles() const { return (slots_.size() + kernels::kTile - 1) / kernels::kTile; }

  std::int64_t id(std::size_t place) const { return slots_[place].id; }
  const float* sketch_of(std::size_t place) const { return slots_[place].sketch; }
  float half_norm(std::size_t place) const { return slots_[place].half_norm; }
  const VectorView& vector(std::size_t place) const { return slots_[place].vector; }
  const float* row(std::size_t place, float* scratch) const {
    return slots_[place].vector.row(0, scratch);
  }
  /// The bits of a tile's places that hold a vector.
  std::uint64_t held(std::size_t t) const { return held_[t]; }

  const ByteTile& tile(std::size_t t) const { return bytes_[t]; }
  /// No tile has a larger error.
  double error() const { return error_; }

 private:
  struct Slot {
    VectorView vector;
    float* sketch;
    float half_norm;  // of the last level
    std::int64_t id;
  };
  void add_tile();
  void write(std::size_t place);

  const Sketch* sketch_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint64_t> held_;
  std::vector<Vectors> storage_;  // the sketches' rows
  std::vector<ByteTile> bytes_;
  double error_ = 0;
};

}  // namespace contcore
