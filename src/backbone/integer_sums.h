// What is done to the sums of an integer convolution: the same on every engine, so that their bytes
// are the same.
//
// In: a step whose weights have codes, on a value with a grid. Out: the numbers of what follows.
// Nothing where the step cannot be computed on codes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "backbone/plan.h"

namespace contcore {

/// What is done to the sums of codes · codes of a convolution: (sum + bias) · factor, the step's
/// functions in units of the result, and `last`.
struct AfterSums {
  std::vector<float> factor, bias;
  float unit = 1;             ///< the result's scale from the start,
  std::optional<float> last;  ///< or at the end, where the functions want numbers
  std::optional<std::size_t> other;
  bool other_bytes = false;  ///< the other summand is added as bytes
  bool second = false;       ///< or as floats to a result of bytes
};

/// `other_has_bytes`: the other summand, if there is one, is there as codes of its grid.
std::optional<AfterSums> after_sums(const Plan& plan, const Step& step, bool other_has_bytes);

/// The other summand of a step.
inline std::optional<std::size_t> summand(const Step& step) {
  for (const PostOp& op : step.post_ops) {
    if (!op.unary) return op.other;
  }
  return std::nullopt;
}

}  // namespace contcore
