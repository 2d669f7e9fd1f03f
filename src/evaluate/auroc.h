// Area under the ROC curve.
#pragma once

#include <span>
#include <vector>

namespace contcore {

/// The probability that a positive scores above a negative, ties counting half: exact. Not a number
/// when one of the two is missing.
double auroc(std::span<const float> scores, const std::vector<bool>& positive);

}  // namespace contcore
