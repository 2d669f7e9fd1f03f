// The contractive sketch: short vectors whose distances never exceed the true ones.
//
// For orthonormal directions V and a centre µ let z' = z − µ, y = Vᵀz' and r = √(‖z'‖² − ‖y‖²).
// Then φ(z) = (y, r) satisfies ‖φ(a) − φ(b)‖ ≤ ‖a − b‖: outside span V the two residuals differ by
// at least the difference of their lengths. Nested prefixes of V give a cascade of levels, each
// with its own residual. docs/method.md derives the margins that make the bound safe in float32.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/progress.h"
#include "contcore/vectors.h"

namespace contcore {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline constexpr double kUnit = 0x1p-24;        // unit roundoff of float32
inline constexpr double kUnderflow = 0x1p-148;  // what one operation can lose below the normals
inline constexpr double kSplit = 0x1p-10;       // η of (x + y)² ≤ (1 + η) x² + (1 + 1/η) y²
inline constexpr double kSlack = 1.0 + 0x1p-30;  // covers the float64 arithmetic of the margins

/// At least x: a step of 2^-23 of the value is never less than half a unit in the last place, which
/// is what the conversion may have taken away. Anything huge becomes infinite.
inline float round_up(double x) {
  if (!(x < 0x1p127)) return std::numeric_limits<float>::infinity();
  if (x < -0x1p127) return -0x1p126f;
  const float value = static_cast<float>(x);
  return value + std::abs(value) * 0x1p-23f + std::numeric_limits<float>::denorm_min();
}

/// At most x; anything hugely negative becomes minus infinity, which as a gate lets all through.
inline float round_down(double x) { return -round_up(-x); }

/// Squared distances to the sketch's centre beyond this are refused: four times it must not
/// overflow.
inline constexpr float kLargestSquaredNorm = 0x1p124f;

struct Directions;

class Sketch {
 public:
  Sketch() = default;

  /// Directions fitted to a sample of the vectors and of `more`, if any, that they will be compared
  /// with (the leading principal ones, nearly: any orthonormal directions are valid). `widths` are
  /// the levels' numbers of directions, increasing multiples of 16; no widths make a sketch with a
  /// centre and no levels.
  Sketch(VectorView vectors, VectorView more, std::vector<std::size_t> widths, Compute& compute);
  Sketch(const Directions& directions, std::vector<std::size_t> widths, Compute& compute);

  std::size_t levels() const { return widths_.size(); }
  std::size_t width(std::size_t level) const { return widths_[level]; }
  std::size_t total_width() const { return widths_.empty() ? 0 : widths_.back(); }
  const float* centre() const { return centre_.data(); }

  /// A sketched vector is a row of numbers: the projections y; then of each level the residual r
  /// and the bound e on the error of (y, r); then the canonical squared distance to the centre.
  static std::size_t row_floats(const std::vector<std::size_t>& widths) {
    return widths.empty() ? 1 : widths.back() + 16;
  }
  std::size_t row_floats() const { return row_floats(widths_); }
  float r(const float* row, std::size_t level) const { return row[total_width() + level]; }
  float e(const float* row, std::size_t level) const {
    return row[total_width() + levels() + level];
  }
  float norm(const float* row) const { return row[total_width() + 2 * levels()]; }

  /// Sketches all vectors in one pass over them, threads sharing the rows. Where `mean` is given it
  /// gets the mean: float64 sums over blocks of kMeanBlock rows, blocks added in order, divided
  /// and rounded to float32. Throws Error (kInput), naming `name` and the row, on a value that is
  /// not finite or too large.
  static constexpr std::size_t kMeanBlock = 1024;
  Vectors embed(VectorView vectors, const std::string& name, Compute& compute,
                std::vector<float>* mean = nullptr, const Progress& progress = {}) const;

  /// The same, handing over the projections of a few rows at a time, from several threads: `norms`
  /// are canonical squared distances to the centre.
  struct Projected {
    std::size_t first, n;
    const float* y;
    std::size_t stride;
    const float* norms;
  };
  using UseProjected = std::function<void(const Projected& rows, std::size_t worker)>;
  void project(VectorView vectors, const std::string& name, Compute& compute,
               std::vector<float>* mean, const Progress& progress, const UseProjected& use) const;

  /// r, and the bound e on the error of (y, r), from the squared lengths of z' and of y.
  struct Rest {
    float r, e;
  };
  Rest rest_of(std::size_t level, float norm, double squared) const;

  /// The two halves of the test. With acc = y_a·y_b + r_a r_b + half_norm(b), however summed,
  /// acc < gate(a, reach(best)) certifies that the canonical squared distance of a and b is greater
  /// than `best`.
  float half_norm(std::size_t level, const float* b) const;
  double reach(float best) const {
    return std::sqrt((static_cast<double>(best) + underflow_) * reach_scale_);
  }
  float gate(std::size_t level, const float* a, double reach) const {
    const double n = static_cast<double>(norm(a));
    const double sum = reach + static_cast<double>(e(a, level));
    const double near = 0.5 * n * (1 - 8 * kUnit - 1.001 * dot_error_[level]);
    return round_down(near - 0.5 * (1 + kSplit) * kSlack * sum * sum - 1e-37);
  }

  /// Relative, of a canonical squared distance.
  double canonical_error() const { return canonical_error_; }

 private:
  void finish_row(const float* y, float norm, float* row) const;
  double error(std::size_t level, double norm, double r) const;

  std::size_t d_ = 0;
  std::vector<std::size_t> widths_;
  std::vector<float> centre_;
  Vectors panels_;                     // the directions, packed for kernels::project
  std::vector<double> orthogonality_;  // ‖VᵀV − I‖ of each level's directions
  double canonical_error_ = 0;         // relative, of a canonical squared distance
  std::vector<double> dot_error_;      // relative, of each level's dot products
  double underflow_ = 0;
  double reach_scale_ = 1;
};

/// Runs items on all threads; throws Error (kCancelled) if progress says stop.
void run_with_progress(std::size_t items, Compute& compute, const Progress& progress,
                       const std::function<void(std::size_t, std::size_t)>& work);

/// The mean of all vectors as `embed` computes it, in a pass of its own.
std::vector<float> mean_of(VectorView vectors, Compute& compute);

/// Throws Error (kInput) naming the first row with a value that is not finite or too large.
[[noreturn]] void throw_bad_row(VectorView vectors, const std::string& name);
[[noreturn]] void throw_not_finite(const std::string& name, std::size_t row, std::size_t column,
                                   float value);

/// Starts fetching row i. Of a long one every eighth line: enough to set the hardware's own
/// prefetching going.
inline void prefetch_row(const VectorView& vectors, std::size_t i) {
  const VectorView row = vectors.part(i, 1);
  const auto* bytes = static_cast<const char*>(row.data);
  const std::size_t step = row.bytes() > 1024 ? 512 : 64;
  for (std::size_t at = 0; at < row.bytes(); at += step) __builtin_prefetch(bytes + at, 0, 1);
}

}  // namespace contcore
