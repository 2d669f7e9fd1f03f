#include "serve/chance.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace contcore {
namespace {

TEST(ChanceTest, IsTheBinomialDistribution) {
  // By hand: of 3 parts with p = 1/4, 27/64 have none, 27/64 one, 9/64 two, 1/64 three.
  EXPECT_DOUBLE_EQ(at_least_by_chance(0, 3, 0.25), 1);
  EXPECT_NEAR(at_least_by_chance(1, 3, 0.25), 37.0 / 64, 1e-12);
  EXPECT_NEAR(at_least_by_chance(2, 3, 0.25), 10.0 / 64, 1e-12);
  EXPECT_NEAR(at_least_by_chance(3, 3, 0.25), 1.0 / 64, 1e-12);
  EXPECT_EQ(at_least_by_chance(4, 3, 0.25), 0);
  // scipy.stats.binom.sf(40, 500, 0.05)
  EXPECT_NEAR(at_least_by_chance(41, 500, 0.05), 0.00154555, 1e-7);
}

TEST(ChanceTest, NothingUnderflows) {
  EXPECT_NEAR(at_least_by_chance(500, 500, 0.999), 0.6063789, 1e-6);
  EXPECT_EQ(at_least_by_chance(1, 10, 0), 0);
  EXPECT_EQ(at_least_by_chance(10, 10, 1), 1);
}

TEST(ChanceTest, CountsTheOrdersOfOldAndNew) {
  // Two old scores, the larger being the limit, and one new: it takes each of three places equally
  // likely, one of them above.
  EXPECT_NEAR(at_least_above(1, 1, 0, 1), 1.0 / 3, 1e-12);
  // One old and two new ones: 0, 1 or 2 of them above, each with a third.
  EXPECT_NEAR(at_least_above(1, 2, 0, 0), 2.0 / 3, 1e-12);
  EXPECT_NEAR(at_least_above(2, 2, 0, 0), 1.0 / 3, 1e-12);
  EXPECT_EQ(at_least_above(3, 2, 0, 0), 0);
  EXPECT_EQ(at_least_above(0, 2, 0, 0), 1);
}

// With ever more old scores the limit is known ever better, and what is left is the binomial.
TEST(ChanceTest, ManyOldScoresLeaveTheBinomial) {
  EXPECT_NEAR(at_least_above(15, 200, 49'999, 950'000), at_least_by_chance(15, 200, 0.05), 1e-4);
  EXPECT_GT(at_least_above(20, 200, 4, 95), 10 * at_least_by_chance(20, 200, 0.05));
}

}  // namespace
}  // namespace contcore
