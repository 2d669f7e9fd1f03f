#include "evaluate/auroc.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace contcore {
namespace {

// Every pair of a positive and a negative, as the definition says.
double by_pairs(const std::vector<float>& scores, const std::vector<bool>& positive) {
  double wins = 0;
  double pairs = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (!positive[i] || positive[j]) continue;
      wins += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      ++pairs;
    }
  }
  return wins / pairs;
}

TEST(Auroc, IsThePartOfPairsInOrder) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const std::size_t n = 2 + random.below(40);
    std::vector<float> scores(n);
    std::vector<bool> positive(n);
    for (std::size_t i = 0; i < n; ++i) {
      scores[i] = static_cast<float>(random.below(round % 2 == 0 ? 5 : 1000));
      positive[i] = random.below(2) == 1;
    }
    positive[0] = true;
    positive[1] = false;
    EXPECT_NEAR(auroc(scores, positive), by_pairs(scores, positive), 1e-12);
  }
}

TEST(Auroc, IsUndefinedWithOneKindOnly) {
  EXPECT_TRUE(std::isnan(auroc(std::vector<float>{1, 2}, {true, true})));
  EXPECT_TRUE(std::isnan(auroc(std::vector<float>{1, 2}, {false, false})));
  EXPECT_TRUE(std::isnan(auroc({}, {})));
}

}  // namespace
}  // namespace contcore
