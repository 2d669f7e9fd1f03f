#include "serve/rate_limit.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "contcore/error.h"

namespace contcore {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const RateLimit::Clock::time_point kStart = RateLimit::Clock::time_point() + seconds(1000);

TEST(RateLimitTest, AllowsABurstThenTheRate) {
  RateLimit limit(2, 3);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(limit.refuse("a", kStart)) << i;
  EXPECT_EQ(limit.refuse("a", kStart), 1);
  EXPECT_EQ(limit.refuse("a", kStart + milliseconds(499)), 1);
  EXPECT_FALSE(limit.refuse("a", kStart + milliseconds(501)));
  EXPECT_TRUE(limit.refuse("a", kStart + milliseconds(502)));
  // However long it stays away, it does not save up more than a burst.
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(limit.refuse("a", kStart + seconds(9999))) << i;
  EXPECT_TRUE(limit.refuse("a", kStart + seconds(9999)));
}

TEST(RateLimitTest, SaysHowLongToWait) {
  RateLimit limit(0.1, 1);
  EXPECT_FALSE(limit.refuse("a", kStart));
  EXPECT_EQ(limit.refuse("a", kStart), 10);
  EXPECT_EQ(limit.refuse("a", kStart + milliseconds(6500)), 4);
  EXPECT_FALSE(limit.refuse("a", kStart + milliseconds(10001)));
  RateLimit slow(1e-9, 1);
  EXPECT_FALSE(slow.refuse("a", kStart));
  EXPECT_EQ(slow.refuse("a", kStart), 3600);
}

TEST(RateLimitTest, ClientsDoNotPayForEachOther) {
  RateLimit limit(1, 1);
  EXPECT_FALSE(limit.refuse("192.0.2.1", kStart));
  EXPECT_FALSE(limit.refuse("192.0.2.2", kStart));
  EXPECT_TRUE(limit.refuse("192.0.2.1", kStart));
  EXPECT_FALSE(limit.refuse("2001:db8::1", kStart));
  EXPECT_TRUE(limit.refuse("2001:db8::ffff:1", kStart)) << "the same network";
  EXPECT_FALSE(limit.refuse("2001:db8:0:1::1", kStart));
}

TEST(RateLimitTest, AClockThatStepsBackGivesNothing) {
  RateLimit limit(1, 1);
  EXPECT_FALSE(limit.refuse("a", kStart));
  EXPECT_TRUE(limit.refuse("a", kStart - seconds(100)));
  EXPECT_TRUE(limit.refuse("a", kStart));
}

TEST(RateLimitTest, ForgetsTheStalest) {
  RateLimit limit(1, 1, 2);
  EXPECT_FALSE(limit.refuse("a", kStart));
  EXPECT_FALSE(limit.refuse("b", kStart));
  EXPECT_TRUE(limit.refuse("a", kStart));
  EXPECT_FALSE(limit.refuse("c", kStart)) << "b leaves";
  EXPECT_TRUE(limit.refuse("a", kStart));
  EXPECT_FALSE(limit.refuse("b", kStart));
  for (int i = 0; i < 1000; ++i) limit.refuse(std::to_string(i), kStart);
  EXPECT_EQ(limit.clients(), 2u);
}

TEST(RateLimitTest, RefusesNonsense) {
  EXPECT_THROW(RateLimit(0, 1), Error);
  EXPECT_THROW(RateLimit(-1, 1), Error);
  EXPECT_THROW(RateLimit(1, 0.5), Error);
  EXPECT_THROW(RateLimit(std::numeric_limits<double>::infinity(), 1), Error);
  EXPECT_THROW(RateLimit(1, 1, 0), Error);
}

}  // namespace
}  // namespace contcore
