// How likely a count is by chance alone. Exact: sums of probabilities, no approximation by a curve.
#pragma once

#include <cstddef>

namespace contcore {

/// That at least k of n parts are rejected when each is with probability p, independently.
double at_least_by_chance(std::size_t k, std::size_t n, double p);

/// That at least k of n new scores lie above a score that `above` of earlier ones lie above and
/// `below` of them below, itself not counted, when all of them, old and new, come in any order
/// equally likely. It is the beta-binomial distribution with above + 1 and below + 1, so that it
/// counts as chance what the earlier ones happened to be.
double at_least_above(std::size_t k, std::size_t n, std::size_t above, std::size_t below);

}  // namespace contcore
