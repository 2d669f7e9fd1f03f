// Which of many scores stand out, also when a third of them do.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace contcore {

/// What most of some scores are like: the middle and the width of the narrowest interval that holds
/// more than half of their logarithms (the shorth). Up to a half of others, all on one side, move
/// neither far.
struct UsualScores {
  double middle = 0;  ///< a logarithm
  double spread = 0;  ///< comparable to a standard deviation
};
UsualScores usual_scores(std::span<const float> scores);

/// How many spreads a score lies above the middle; negative below it.
double strangeness(const UsualScores& usual, float score);

/// Above the first there are strangers among the images; where there are, all above the second are
/// taken for such: defects widen the spread, and would hide each other.
inline constexpr double kStrange = 3.5;
inline constexpr double kPerhapsStrange = 2.5;
/// Of fewer scores nothing is said.
inline constexpr std::size_t kFewestToCompare = 10;

}  // namespace contcore
