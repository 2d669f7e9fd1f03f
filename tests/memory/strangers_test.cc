// What is no image of a task, by its mean patch: limits, files, merging, and few means.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "contcore/error.h"
#include "contcore/memory.h"
#include "memory/calibration.h"
#include "memory/naive_memory.h"

namespace contcore {
namespace {

using naive::Dice;
using naive::expect_error;
using naive::how_to;
using naive::Set;

constexpr std::size_t kD = 6;
constexpr double kRate = 0.01;

class Strangers : public naive::MemoryTest {};

// An image of a product whose patches lie around `centre`.
Set image_around(float centre, Dice& dice) {
  Set set(4, kD);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < kD; ++j) {
      set.row(i)[j] = centre + static_cast<float>(dice.gaussian());
    }
  }
  return set;
}

std::vector<Set> images_around(float centre, std::size_t count, Dice& dice) {
  std::vector<Set> images;
  for (std::size_t i = 0; i < count; ++i) images.push_back(image_around(centre, dice));
  return images;
}

ImageScores scores_of(const Set& image) {
  return {1, {1}, hash_of(image.view()), nullptr, mean_of_patches(image.view())};
}

// Learns images as a batch; all of them calibrate, and some are kept to know the task by.
void learn_batch(Memory& memory, const std::string& task, const std::vector<Set>& images) {
  std::vector<ImageScores> scores;
  std::vector<VectorView> some;
  for (const Set& image : images) {
    memory.learn(image.view(), how_to(task, 0.5), naive::crew(0));
    scores.push_back(scores_of(image));
  }
  const std::size_t count = std::min<std::size_t>(images.size(), 32);
  for (std::size_t k = 0; k < count; ++k) some.push_back(images[k * images.size() / count].view());
  memory.calibrate(task, scores, some, Memory::Keep::kSpread);
}

bool is_stranger(const Memory& memory, std::size_t task, const Set& image) {
  const auto strangeness = memory.strangeness(task, image.view(), kRate);
  return strangeness && strangeness->distance > strangeness->limit;
}

double between(const Set& a, const Set& b) {
  const std::vector<float> x = mean_of_patches(a.view()), y = mean_of_patches(b.view());
  double sum = 0;
  for (std::size_t j = 0; j < kD; ++j) {
    sum += std::pow(static_cast<double>(x[j]) - static_cast<double>(y[j]), 2);
  }
  return std::sqrt(sum);
}

TEST_F(Strangers, TheLimitIsTheFarthestFromTheOthersAndMore) {
  for (const std::size_t n : {2u, 3u, 5u, 20u, 32u, 60u, 100u}) {
    Dice dice(n);
    const std::vector<Set> images = images_around(5, n, dice);
    Memory memory(kD, 100);
    learn_batch(memory, "a", images);
    const std::size_t kept = std::min<std::size_t>(n, 32);
    double farthest = 0;
    for (const Set& image : images) {
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < kept; ++k) {
        const double distance = between(image, images[k * n / kept]);
        if (distance > 0) least = std::min(least, distance);
      }
      farthest = std::max(farthest, least);
    }
    const Set far = image_around(9, dice);
    const auto got = memory.strangeness(0, far.view(), kRate);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->images, n);
    EXPECT_NEAR(got->limit, farthest * (1.25 + 4.0 / static_cast<double>(n)), 1e-4) << n;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < kept; ++k) {
      least = std::min(least, between(far, images[k * n / kept]));
    }
    EXPECT_NEAR(got->distance, least, 1e-4);
    EXPECT_DOUBLE_EQ(got->rate, n >= 99 ? kRate : 1.0 / static_cast<double>(n + 1));
    EXPECT_LE(memory.strangeness(0, far.view(), 0.5)->limit, got->limit);
  }
}

TEST_F(Strangers, GoodImagesAreNoneAndOthersAre) {
  Dice dice(3);
  Memory memory(kD, 300);
  learn_batch(memory, "a", images_around(0, 50, dice));
  learn_batch(memory, "b", images_around(20, 50, dice));
  for (std::size_t i = 0; i < 200; ++i) {
    EXPECT_FALSE(is_stranger(memory, 0, image_around(0, dice)));
    EXPECT_TRUE(is_stranger(memory, 0, image_around(20, dice)));
    EXPECT_TRUE(is_stranger(memory, 1, image_around(0, dice)));
    EXPECT_TRUE(is_stranger(memory, 1, image_around(-9, dice)));
  }
}

TEST_F(Strangers, OfAStreamEachImageIsToldByThoseBefore) {
  Dice dice(4);
  const std::vector<Set> images = images_around(5, 40, dice);
  Memory memory(kD, 100);
  double farthest = 0;
  for (std::size_t i = 0; i < images.size(); ++i) {
    memory.learn_online(images[i].view(), how_to("a", 0.5), naive::crew(0));
    const ImageScores scores = scores_of(images[i]);
    const VectorView patches = images[i].view();
    memory.calibrate("a", std::span(&scores, 1), std::span(&patches, 1), Memory::Keep::kLatest);
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t j = i - std::min<std::size_t>(i, 32); j < i; ++j) {
      least = std::min(least, between(images[i], images[j]));
    }
    if (i > 0) farthest = std::max(farthest, least);
    const auto got = memory.strangeness(0, {}, kRate);
    ASSERT_EQ(got.has_value(), i > 0);  // of a first image alone nothing is known
    if (!got) continue;
    EXPECT_EQ(got->images, i);
    EXPECT_NEAR(got->limit, farthest * (1.25 + 4.0 / static_cast<double>(i)), 1e-4) << i;
  }
}

TEST_F(Strangers, TheSameImagesAgainChangeNothing) {
  Dice dice(5);
  const std::vector<Set> images = images_around(5, 20, dice);
  Memory memory(kD, 100);
  learn_batch(memory, "a", images);
  const float limit = memory.strangeness(0, {}, kRate)->limit;
  const Set other = image_around(5, dice);
  const float distance = memory.strangeness(0, other.view(), kRate)->distance;
  learn_batch(memory, "a", images);
  EXPECT_EQ(memory.strangeness(0, {}, kRate)->limit, limit);
  EXPECT_EQ(memory.strangeness(0, other.view(), kRate)->distance, distance);
}

TEST_F(Strangers, AreTheSameInAFile) {
  Dice dice(6);
  Memory memory(kD, 100);
  learn_batch(memory, "a", images_around(5, 40, dice));
  learn_batch(memory, "none", {image_around(3, dice)});
  const Set other = image_around(7, dice);
  const auto before = memory.strangeness(0, other.view(), kRate);
  const auto expect_same = [&](const Memory& same) {
    const auto after = same.strangeness(0, other.view(), kRate);
    ASSERT_TRUE(after);
    EXPECT_EQ(after->limit, before->limit);
    EXPECT_EQ(after->distance, before->distance);
    EXPECT_FALSE(same.strangeness(1, other.view(), kRate));
  };
  memory.save(path("a"));
  expect_same(Memory::open(path("a")));
  expect_same(memory.copy());
  expect_same(memory.shrink(20, naive::crew(0)));
  EXPECT_FALSE(memory.strangeness(2, other.view(), kRate));
}

// A file without these numbers opens, and nothing is a stranger until two more images are learned.
TEST_F(Strangers, CannotBeToldByAnEarlierFile) {
  Dice dice(11);
  Memory memory(kD, 100);
  std::vector<ImageScores> scores;
  const std::vector<Set> images = images_around(5, 6, dice);
  std::vector<VectorView> some;
  for (const Set& image : images) {
    memory.learn(image.view(), how_to("a", 0.5), naive::crew(0));
    scores.push_back({1, {1}, hash_of(image.view())});  // as an earlier version had them
    some.push_back(image.view());
  }
  memory.calibrate("a", scores, some, Memory::Keep::kSpread);
  memory.save(path("old"));
  Memory old = Memory::open(path("old"));
  EXPECT_FALSE(old.strangeness(0, images[0].view(), kRate));
  EXPECT_TRUE(old.threshold(0, 0.05));
  learn_batch(old, "a", images_around(5, 2, dice));
  EXPECT_EQ(old.strangeness(0, images[0].view(), kRate)->images, 2u);
}

TEST_F(Strangers, FollowAMerge) {
  Dice dice(7);
  Memory a(kD, 200), b(kD, 200);
  learn_batch(a, "both", images_around(5, 40, dice));
  learn_batch(b, "other", images_around(50, 40, dice));
  learn_batch(b, "both", images_around(5, 40, dice));
  const Memory merged = Memory::merge(a, b, 400, naive::crew(0));
  const auto both = merged.strangeness(0, {}, kRate);
  EXPECT_EQ(both->images, 80u);
  EXPECT_GE(both->limit * 1.1F,
            std::max(a.strangeness(0, {}, kRate)->limit, b.strangeness(1, {}, kRate)->limit) *
                (1.25F + 4.0F / 80) / (1.25F + 4.0F / 40));
  EXPECT_EQ(merged.strangeness(1, {}, kRate)->limit, b.strangeness(0, {}, kRate)->limit);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_FALSE(is_stranger(merged, 0, image_around(5, dice)));
    EXPECT_TRUE(is_stranger(merged, 0, image_around(50, dice)));
  }
}

// With fewer means images are farther from the nearest: what is known of them follows.
TEST_F(Strangers, FewerMeansRaiseTheLimit) {
  TaskCalibration task;
  for (std::size_t i = 0; i < 8; ++i) {
    const auto at = static_cast<float>(i);
    task.means.push_back({at, 0});
    task.images.push_back({1, 0, 1, {1}, i + 1});
    task.images.back().strange = i == 0 ? 0.0F : 1.0F;
  }
  task.thin_means(8);
  EXPECT_EQ(task.means.size(), 8u);
  EXPECT_EQ(task.images[1].strange, 1);
  task.thin_means(1);
  ASSERT_EQ(task.means.size(), 1u);
  EXPECT_EQ(task.means[0][0], 7);
  EXPECT_EQ(task.images[1].strange, 7);  // the first that went is so far
  EXPECT_EQ(task.images[0].strange, 0);  // still not known
}

TEST_F(Strangers, WhatCannotBeIsRefused) {
  Dice dice(9);
  Memory memory(kD, 100);
  learn_batch(memory, "a", images_around(5, 5, dice));
  const Set image = image_around(5, dice);
  const float limit = memory.strangeness(0, {}, kRate)->limit;
  for (const double rate : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    expect_error(Error::Kind::kUsage, [&] { memory.strangeness(0, image.view(), rate); });
  }
  const Set narrow(3, kD - 1);
  expect_error(Error::Kind::kInput, [&] { memory.strangeness(0, narrow.view(), kRate); });
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& mean :
       {std::vector<float>(kD - 1), std::vector<float>(kD, nan),
        std::vector<float>(kD, std::numeric_limits<float>::infinity())}) {
    ImageScores scores = scores_of(image);
    scores.mean = mean;
    expect_error(Error::Kind::kUsage,
                 [&] { memory.calibrate("a", std::span(&scores, 1), {}, Memory::Keep::kSpread); });
  }
  EXPECT_EQ(memory.strangeness(0, {}, kRate)->limit, limit);
  EXPECT_EQ(memory.strangeness(0, {}, kRate)->images, 5u);
}

// An image whose mean is not known still calibrates its threshold.
TEST_F(Strangers, ScoresWithoutAMeanTellNothing) {
  Dice dice(10);
  Memory memory(kD, 100);
  const Set image = image_around(5, dice);
  memory.learn(image.view(), how_to("a", 0.5), naive::crew(0));
  const ImageScores scores{1, {1}, 7};
  const VectorView patches = image.view();
  memory.calibrate("a", std::span(&scores, 1), std::span(&patches, 1), Memory::Keep::kSpread);
  EXPECT_TRUE(memory.threshold(0, 0.05));
  EXPECT_FALSE(memory.strangeness(0, image.view(), kRate));
}

}  // namespace
}  // namespace contcore
