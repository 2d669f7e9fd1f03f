// The sketch in whole steps of one size: a byte a number, compared by products of bytes.
//
// Any linear map P with ‖Pz‖ ≤ ‖z‖ leaves a rest r(z) = √(‖z‖² − ‖Pz‖²) that obeys the triangle
// inequality, so φ(z) = (Pz', r(z')) with z' = z − µ satisfies ‖φ(a) − φ(b)‖ ≤ ‖a − b‖, as in
// coreset/sketch.h. Cut to ±127 steps and rounded to whole ones, k, it is off by at most E, which
// is known; cutting only brings vectors closer. All that follows is whole numbers. For vectors of
// bytes P is a matrix of bytes too, and its products are exact. docs/method.md derives this.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/progress.h"
#include "contcore/vectors.h"
#include "coreset/sketch.h"

namespace contcore {

class StepSketch {
 public:
  StepSketch() = default;

  /// As Sketch: directions fitted to a sample. `width` is a multiple of 16, one of them for r; 0
  /// makes a sketch with a centre and nothing else, as do vectors that are all equal.
  StepSketch(VectorView vectors, VectorView more, std::size_t width, Compute& compute);

  std::size_t width() const { return width_; }
  /// What all is relative to.
  const float* centre() const { return centre_.data(); }

  /// A sketched vector is a row of bytes: k + 128 of each number, and behind them
  struct Tail {
    std::int32_t norm = 0;       ///< Σ k², or kUnknown
    float squared_distance = 0;  ///< to the centre, canonical
    std::int32_t clipped = 0;    ///< whether numbers were cut
    std::int32_t unused = 0;
  };
  static std::size_t row_bytes(std::size_t width) { return width + sizeof(Tail); }
  Tail tail(const std::uint8_t* row) const {
    Tail tail;
    std::memcpy(&tail, row + width_, sizeof(tail));
    return tail;
  }
  /// Of a vector whose rounding errors are so large that its steps say nothing.
  static constexpr std::int32_t kUnknown = std::numeric_limits<std::int32_t>::max();

  /// Sketches all vectors in one pass, as Sketch::embed does: rows of bytes. To be called for all
  /// vectors before any are compared.
  Vectors embed(VectorView vectors, const std::string& name, Compute& compute,
                std::vector<float>* mean = nullptr, const Progress& progress = {});

  /// The distance of its centre from zero.
  double centre_length() const;

  /// The largest E so far: gates that were computed before it grew claim too much.
  double error() const { return error_; }

  /// The two halves of the test: k_a·k_b + half_norm(b) < gate(a, reach(best)) certifies that the
  /// canonical squared distance of a and b is at least `best`.
  static constexpr std::int32_t kOpen = -(1 << 30);  ///< a gate that keeps all
  static constexpr std::int32_t kShut = 1 << 30;     ///< and one that keeps none
  std::int32_t half_norm(const std::uint8_t* b) const {
    const std::int32_t norm = tail(b).norm;
    return norm == kUnknown ? kShut / 2 : -(norm / 2);
  }
  double reach(float best) const {
    return std::sqrt((static_cast<double>(best) + underflow_) * reach_scale_);
  }
  // ‖k_a − k_b‖² > (reach + 2E)²  ⇔  k_a·k_b − ½‖k_b‖² < ½‖k_a‖² − ½(reach + 2E)²
  std::int32_t gate(const std::uint8_t* a, double reach) const {
    const std::int32_t norm = tail(a).norm;
    const double sum = reach + 2 * error_;
    const double gate = 0.5 * (norm - sum * sum * kSlack) - 1;
    if (norm == kUnknown || !(gate > kOpen)) return kOpen;
    return static_cast<std::int32_t>(gate);  // rounds by less than the one given away
  }

  /// An upper bound of the canonical squared distance of a and b, from dot = k_a·k_b.
  float upper(const std::uint8_t* a, const std::uint8_t* b, std::int32_t dot) const;

 private:
  struct Rest {
    double r = 0;      // in steps
    double error = 0;  // of it and of the projections, in steps
  };
  void choose_step(const Directions& fitted, const Vectors& basis, Compute& compute);
  void round_directions(const Vectors& basis);
  void project_bytes(VectorView vectors, Compute& compute, std::vector<float>* mean,
                     const Progress& progress, const Sketch::UseProjected& use) const;
  Rest rest_of(float norm, double squared) const;
  double write_row(const float* y, float norm, std::uint8_t* row) const;

  std::size_t d_ = 0;
  Scalar scalar_ = Scalar::kFloat32;
  std::size_t width_ = 0;
  std::vector<float> centre_;
  double step_ = 1;    // the size of a step
  double middle_ = 0;  // the r that is step 0, in steps
  double error_ = 0;   // the largest E so far
  double underflow_ = 0;
  double reach_scale_ = 1;

  Sketch floats_;  // the projections of floats, with their errors

  std::vector<std::uint8_t> byte_centre_;
  std::vector<std::int8_t> panels_;   // P of bytes, packed for kernels::project_bytes
  std::vector<std::int32_t> offset_;  // Pµ
  double unit_ = 1;                   // P / unit_ shortens, or keeps, every vector
};

}  // namespace contcore
