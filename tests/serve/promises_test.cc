#include "serve/promises.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "serve/store.h"

namespace contcore {
namespace {

constexpr char kTime[] = "2024-05-31T23:59:59.999Z";

// As if calibrated with 100 images.
Threshold promised(double rate = 0.05, std::size_t images = 100) {
  Threshold threshold;
  threshold.score = 10;
  threshold.false_alarms = rate;
  threshold.images = images;
  return threshold;
}

class PromisesTest : public testing::Test {
 protected:
  std::int64_t add(const std::string& verdict, float score = 5, const std::string& feedback = "") {
    StoredInspection row;
    row.time = kTime;
    row.task = "bottle";
    row.score = score;
    row.threshold = 10.0f;
    row.verdict = verdict;
    row.feedback = feedback;
    if (!feedback.empty()) row.feedback_time = kTime;
    const std::int64_t id = store_.add(row, "", "", {}, 0, 0);
    promises_.changed("bottle");
    return id;
  }
  void add(std::size_t good, std::size_t defect) {
    for (std::size_t i = 0; i < good; ++i) add("good");
    for (std::size_t i = 0; i < defect; ++i) add("defect", 11);
  }
  TaskPromise now(const std::optional<Threshold>& threshold = promised()) {
    return promises_.of("bottle", threshold);
  }

  Store store_{":memory:"};
  Promises promises_{store_};
};

TEST_F(PromisesTest, NothingIsSaidOfNothing) {
  const TaskPromise promise = now();
  EXPECT_EQ(promise.parts, 0u);
  EXPECT_EQ(promise.rate, 0.05);
  EXPECT_FALSE(promise.alarm_rate().has_value());
  EXPECT_FALSE(promise.good.has_value());
  EXPECT_EQ(promise.warning + promise.good_warning, "");
}

TEST_F(PromisesTest, AlarmsAsPromisedAreNoNews) {
  add(190, 10);
  const TaskPromise promise = now();
  EXPECT_EQ(promise.parts, 200u);
  EXPECT_EQ(promise.alarms, 10u);
  EXPECT_EQ(promise.alarm_rate(), 0.05);
  EXPECT_EQ(promise.warning, "");
}

TEST_F(PromisesTest, AThirdRejectedIsNotChance) {
  add(134, 66);
  const std::string warning = now().warning;
  EXPECT_NE(warning.find("latest 200 parts"), warning.npos) << warning;
  EXPECT_NE(warning.find("66 were rejected (33 %), where 5 %"), warning.npos) << warning;
  EXPECT_NE(warning.find("look different"), warning.npos) << warning;
}

// The threshold rests on images that chance has drawn: a few of them leave much open.
TEST_F(PromisesTest, FewImagesLeaveMuchOpen) {
  add(166, 34);
  EXPECT_NE(now(promised(0.05, 100)).warning.find("look different"), std::string::npos);
  const std::string warning = now(promised(1.0 / 21, 20)).warning;
  EXPECT_NE(warning.find("20 images to calibrate with leave that open"), warning.npos) << warning;
}

TEST_F(PromisesTest, ThreeAlarmsAtOnceAreNoStatistics) {
  add(0, 3);
  EXPECT_EQ(now().warning, "");
  add(0, 27);
  EXPECT_NE(now().warning, "");
}

TEST_F(PromisesTest, WhatAPersonCalledDefectIsNoFalseAlarm) {
  add(95, 5);
  for (int i = 0; i < 50; ++i) add("defect", 20, "defect");
  for (int i = 0; i < 50; ++i) add("unknown");
  for (int i = 0; i < 50; ++i) add("uncalibrated");
  EXPECT_EQ(now().parts, 100u);
  EXPECT_EQ(now().alarms, 5u);
  EXPECT_EQ(now().warning, "");
}

TEST_F(PromisesTest, FeedbackCountsAtOnce) {
  add(60, 0);
  const std::int64_t id = add("defect", 20);
  EXPECT_EQ(now().alarms, 1u);
  store_.feedback(id, "defect", kTime);
  promises_.changed("bottle");
  EXPECT_EQ(now().alarms, 0u);
  EXPECT_EQ(now().parts, 60u);
}

TEST_F(PromisesTest, OnlyTheLatestPartsCount) {
  add(0, 100);
  add(Promises::kParts - 20, 20);
  EXPECT_EQ(now().parts, Promises::kParts);
  EXPECT_EQ(now().alarms, 20u);
}

TEST_F(PromisesTest, NoAlarmAmongManyIsNotChanceEither) {
  add(Promises::kParts, 0);
  EXPECT_NE(now().warning.find("fewer than by chance"), std::string::npos) << now().warning;
  EXPECT_EQ(now(promised(1.0 / 21, 20)).warning, "");  // too few images to tell
}

TEST_F(PromisesTest, AThresholdSetByHandPromisesNothing) {
  add(20, 80);
  Threshold by_hand = promised();
  by_hand.by_hand = true;
  for (const std::optional<Threshold>& threshold : {std::optional(by_hand), {}}) {
    EXPECT_FALSE(now(threshold).rate.has_value());
    EXPECT_EQ(now(threshold).alarms, 80u);
    EXPECT_EQ(now(threshold).warning, "");
  }
}

TEST_F(PromisesTest, ANewThresholdBeginsAnew) {
  add(20, 80);
  EXPECT_NE(now().warning, "");
  promises_.begin_anew("bottle");
  EXPECT_EQ(now().parts, 0u);
  EXPECT_EQ(now().warning, "");
  add(3, 1);
  EXPECT_EQ(now().parts, 4u);
  // Also for the service that is started next.
  EXPECT_EQ(Promises(store_).of("bottle", promised()).parts, 4u);
}

class GoodPartsTest : public PromisesTest {
 protected:
  // Parts called good whose scores lie around one.
  void add_around(float score, std::size_t parts) {
    for (std::size_t i = 0; i < parts; ++i) {
      add("good", score + 0.01f * static_cast<float>(i % 21) - 0.1f);
    }
  }
};

TEST_F(GoodPartsTest, TheMedianOfTheLatest) {
  add_around(5, 42);
  add("defect", 100);
  EXPECT_EQ(now().good_parts, 42u);
  EXPECT_NEAR(now().good.value(), 0.5, 1e-6);
  EXPECT_FALSE(now().good_at_first.has_value());
}

TEST_F(GoodPartsTest, WhatMovesIsTold) {
  add_around(5, 120);
  EXPECT_NEAR(now().good_at_first.value(), 0.5, 0.01);
  add_around(5, 200);
  EXPECT_EQ(now().good_warning, "");
  add_around(6.5f, 100);
  const TaskPromise promise = now();
  EXPECT_NEAR(promise.good.value(), 0.65, 0.01);
  EXPECT_NEAR(promise.good_at_first.value(), 0.5, 0.01);
  EXPECT_NE(promise.good_warning.find("30 % more"), std::string::npos) << promise.good_warning;
}

TEST_F(GoodPartsTest, FallingIsMovingToo) {
  add_around(5, 120);
  add_around(3.5f, 100);
  EXPECT_NE(now().good_warning.find("30 % less"), std::string::npos) << now().good_warning;
}

TEST_F(GoodPartsTest, ALittleIsNotMuch) {
  add_around(5, 120);
  add_around(5.5f, 100);  // far beyond chance
  EXPECT_EQ(now().good_warning, "");
}

// Scores that are all over the place move their median by chance.
TEST_F(GoodPartsTest, ChanceIsNotMoving) {
  for (int i = 0; i < 120; ++i) add("good", i % 2 == 0 ? 2.0f : 8.0f);
  for (int i = 0; i < 100; ++i) add("good", i % 5 < 2 ? 2.0f : 8.0f);
  EXPECT_GT(std::abs(now().good.value() / now().good_at_first.value() - 1), 0.15);
  EXPECT_EQ(now().good_warning, "");
}

TEST_F(GoodPartsTest, TheFirstAreRememberedWhenTheyAreGone) {
  add_around(5, 120);
  now();
  add_around(6.5f, 2 * Promises::kParts);
  EXPECT_NEAR(now().good_at_first.value(), 0.5, 0.01);
  Promises next(store_);  // of the service that is started next
  EXPECT_NE(next.of("bottle", promised()).good_warning, "");
  promises_.begin_anew("bottle");
  EXPECT_FALSE(now().good_at_first.has_value());
}

}  // namespace
}  // namespace contcore
