// In: counts and probabilities. Out: a probability. Never fails; what is impossible has 0.
#include "serve/chance.h"

#include <algorithm>
#include <cmath>

namespace contcore {
namespace {

// The sum of probabilities from k to n, given the logarithm of that of 0 and of the ratio of that
// of i + 1 to that of i: none of them is too small for it.
template <typename LogRatio>
double sum_from(std::size_t k, std::size_t n, double log_first, const LogRatio& log_ratio) {
  if (k == 0) return 1;
  double sum = 0;
  double log_probability = log_first;
  for (std::size_t i = 0; i <= n; ++i) {
    if (i >= k) sum += std::exp(log_probability);
    if (i < n) log_probability += log_ratio(i);
  }
  return std::min(sum, 1.0);
}

}  // namespace

double at_least_by_chance(std::size_t k, std::size_t n, double p) {
  if (k > n || p <= 0) return k == 0 ? 1 : 0;
  if (p >= 1) return 1;
  const double odds = std::log(p) - std::log1p(-p);
  return sum_from(k, n, static_cast<double>(n) * std::log1p(-p), [&](std::size_t i) {
    return std::log(static_cast<double>(n - i) / static_cast<double>(i + 1)) + odds;
  });
}

double at_least_above(std::size_t k, std::size_t n, std::size_t above, std::size_t below) {
  if (k > n) return 0;
  const auto a = static_cast<double>(above + 1);
  const auto b = static_cast<double>(below + 1);
  double log_first = 0;  // none of the new ones is above
  for (std::size_t i = 0; i < n; ++i) {
    const auto before = static_cast<double>(i);
    log_first += std::log((b + before) / (a + b + before));
  }
  return sum_from(k, n, log_first, [&](std::size_t i) {
    const auto rejected = static_cast<double>(i);
    const auto left = static_cast<double>(n - i);
    return std::log(left / (rejected + 1) * (rejected + a) / (left - 1 + b));
  });
}

}  // namespace contcore
