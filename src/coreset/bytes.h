// The sketch's first level in bytes: a quarter of the traffic and several times the speed of
// floats.
//
// The projections y of a vector are turned by a Hadamard matrix H, which spreads them evenly over
// the coordinates, and rounded to k_j whole steps of size s: Hy ≈ s·k. H changes no distance, so
// with E_z ≥ ‖(Hy, r) − (s·k, r)‖ + e(z) for each vector,
//   ‖(s_a k_a, r_a) − (s_b k_b, r_b)‖ ≤ ‖φ(a) − φ(b)‖ + E_a + E_b.
// Products of steps are whole numbers: k_a·k_b is exact, in whatever order it is summed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/vectors.h"
#include "coreset/kernels.h"
#include "coreset/sketch.h"

namespace contcore {

/// Level 0 of a sketched vector in bytes.
struct ByteSketch {
  std::vector<std::int8_t> steps;  ///< k
  float scale = 0;                 ///< s
  float r = 0;
  double norm = 0;   ///< s²‖k‖² + r²
  double error = 0;  ///< E
};

/// Rounds to steps in [−most, most].
void to_bytes(const Sketch& sketch, const float* row, int most, ByteSketch* out);

/// A tile of kernels::kTile vectors for kernels::scan_bytes; a lane without a vector is never near.
class ByteTile {
 public:
  explicit ByteTile(std::size_t width);
  void put(std::size_t lane, const ByteSketch& sketch);
  void clear(std::size_t lane);
  const float* data() const { return numbers_.data(); }
  /// No vector of the tile has a larger error.
  double error() const { return error_; }

 private:
  std::size_t width_;
  Vectors numbers_;
  double error_ = 0;
};

/// What is looked for in the tiles.
struct ByteQuery {
  ByteQuery(const Sketch& sketch, const float* row);

  /// A vector b of a tile with this error is farther than `reach` (Sketch::reach) if its value by
  /// kernels::scan_bytes is below the gate.
  float gate(double reach, double tile_error) const;

  kernels::BytePoint point;

 private:
  ByteSketch sketch_;
};

}  // namespace contcore
