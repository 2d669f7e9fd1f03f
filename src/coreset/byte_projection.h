// The contractive sketch of byte vectors, in whole numbers.
//
// For a matrix W of signed bytes, λ at least the largest eigenvalue of WᵀW and a centre µ of bytes
// let z' = z − µ, y = Wᵀz' and r = √(λ‖z'‖² − ‖y‖²). Then φ(z) = (r, y) satisfies
// ‖φ(a) − φ(b)‖² ≤ λ‖a − b‖², whatever W is; it is nearly the leading principal directions. y and
// r² are whole numbers, exact. A Hadamard matrix spreads φ evenly over its coordinates, which are
// cut and rounded to whole steps k of −127 … 127. Cutting brings vectors closer; what rounding
// takes is known for each. docs/method.md has the rest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/compute.h"
#include "contcore/vectors.h"
#include "coreset/kernels.h"

namespace contcore {

/// Two sketches of a vector: a short one for all, and one for what it does not exclude.
inline constexpr std::size_t kByteLevels = 2;
inline constexpr std::array<std::size_t, kByteLevels> kByteWidths = {16, 64};

/// A vector projected at one level.
struct ByteSteps {
  alignas(64) std::array<std::uint8_t, 64> bytes;  ///< k + 128, as many as the level is wide
  std::int32_t norm;                               ///< Σ k²
  float error;                                     ///< in steps: what rounding took, or more
};

struct ProjectedBytes {
  std::array<ByteSteps, kByteLevels> levels;
  kernels::ByteNorm norm;  ///< of the vector itself
};

class ByteProjection {
 public:
  /// Fitted to a sample of the rows, of d numbers each.
  ByteProjection(const std::vector<const std::uint8_t*>& rows, std::size_t d, Compute& compute);

  /// Projects n ≤ kernels::kScanPoints vectors.
  void project(const std::uint8_t* const* rows, std::size_t n, ProjectedBytes* out) const;

  /// Of a projected vector b: k_a·k_b + start(b) < gate(a, best, error) certifies that the distance
  /// of a and b is greater than `best`, if b's error is at most `error`. The products are of k_a +
  /// 128, for which the start makes up.
  static std::int32_t start(const ByteSteps& b, std::size_t width);
  std::int32_t gate(std::size_t level, const ByteSteps& a, float best, float error) const;
  /// The first level's numbers (y, r) in steps, for ordering: kByteWidths[0] of them.
  static void coordinates(const ByteSteps& of, float* out);
  /// Below every gate.
  static constexpr std::int32_t kNever = -(1 << 30);

 private:
  struct Level {
    std::int32_t middle = 0;  // the r that is step 0
    std::int32_t step = 1;
  };
  using Spread = std::array<std::int32_t, 64>;
  void fit(const Vectors& basis);
  void choose_steps(const std::vector<const std::uint8_t*>& sample);
  void products(const std::uint8_t* const* rows, std::size_t n, std::int32_t* y,
                std::int64_t* lengths, ProjectedBytes* out) const;
  std::int32_t residual(std::size_t level, const std::int32_t* y, std::int64_t length) const;
  Spread spread(std::size_t level, const std::int32_t* y, std::int32_t r) const;
  void round(std::size_t level, const Spread& spread, ByteSteps* out) const;

  std::size_t d_;
  std::vector<std::uint8_t> centre_;      // µ
  std::int32_t centre_squares_ = 0;       // ‖µ‖²
  std::vector<kernels::TileRow> matrix_;  // W as a tile, which starts at −Wᵀµ
  std::int64_t lambda_ = 1;
  std::array<Level, kByteLevels> levels_;
};

}  // namespace contcore
