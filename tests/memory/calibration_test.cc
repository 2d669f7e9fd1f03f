// Verdicts without defects: scores of good images, thresholds, drift, and the task an image is of.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "contcore/error.h"
#include "contcore/memory.h"
#include "memory/naive_memory.h"

namespace contcore {
namespace {

using naive::Dice;
using naive::expect_error;
using naive::Family;
using naive::how_to;
using naive::Set;

constexpr std::size_t kD = 6;

class MemoryCalibration : public naive::MemoryTest {
 protected:
  /// Bytes that calibration takes in a file.
  std::size_t kept(const Memory& memory) const {
    memory.save(path("kept"));
    const Safetensors file(path("kept"), "a memory");
    Safetensors::Shape images, scores, means, learned;
    file.ints("calibration.task", images);
    file.floats("calibration.scores", 1, scores);
    file.floats("calibration.means", 2, means);
    file.ints("learned.hash", learned);
    return 32 * images.rows + 4 * scores.rows + 4 * kD * means.rows + 4 * learned.rows;
  }
};

/// An image of a product: patches around a centre that is the product's.
Set image(std::size_t product, std::size_t patches, Dice& dice) {
  Set set(patches, kD);
  for (std::size_t i = 0; i < patches; ++i) {
    for (std::size_t j = 0; j < kD; ++j) {
      set.row(i)[j] = static_cast<float>((j == product % kD ? 20.0 : 0.0) + dice.gaussian());
    }
  }
  return set;
}

void learn(Memory& memory, const std::string& task, std::size_t product, std::size_t rows,
           Dice& dice, double p = 0.2) {
  memory.learn(image(product, rows, dice).view(), how_to(task, p), naive::crew(0));
}

/// Images of one patch each, whose scores are therefore plain distances.
std::vector<float> calibrate_single(Memory& memory, const std::string& task, std::size_t product,
                                    std::size_t images, Dice& dice, Set* all = nullptr) {
  std::vector<float> scores;
  for (std::size_t i = 0; i < images; ++i) {
    const Set patch = image(product, 1, dice);
    scores.push_back(memory.distances(patch.view(), naive::crew(0))[0]);
    naive::calibrate(memory, patch, task);
    if (all) *all = naive::joined(*all, patch);
  }
  std::sort(scores.begin(), scores.end());
  return scores;
}

TEST_F(MemoryCalibration, ThresholdIsTheConformalQuantile) {
  for (const std::size_t n : {1u, 2u, 9u, 19u, 20u, 39u, 60u, 100u}) {
    Dice dice(n);
    Memory memory(kD, 50);
    learn(memory, "a", 0, 300, dice);
    EXPECT_FALSE(memory.threshold(0, 0.05));
    const std::vector<float> scores = calibrate_single(memory, "a", 0, n, dice);
    const auto expect = [&](double asked, std::size_t rank, double false_alarms) {
      const std::optional<Threshold> got = memory.threshold(0, asked);
      ASSERT_TRUE(got);
      EXPECT_EQ(got->score, scores[rank - 1]) << "n " << n << ", asked " << asked;
      EXPECT_EQ(got->false_alarms, false_alarms) << "n " << n << ", asked " << asked;
      EXPECT_EQ(got->images, n);
    };
    const double few = 1.0 / static_cast<double>(n + 1);
    expect(few / 2, n, few);
    expect(1e-9, n, few);
    // With exactly what is needed: j of n + 1 ranks lie above.
    for (std::size_t j = 1; j <= n; ++j) {
      const double asked = static_cast<double>(j) / static_cast<double>(n + 1);
      expect(asked, n + 1 - j, asked);
      const double more = (static_cast<double>(j) + 0.5) / static_cast<double>(n + 1);
      if (more < 1) expect(more, n + 1 - j, more);
    }
  }
  // As one would by hand: 19 images, the largest score; 60, the 58th.
  Dice dice(1);
  Memory memory(kD, 50);
  learn(memory, "a", 0, 300, dice);
  std::vector<float> scores = calibrate_single(memory, "a", 0, 19, dice);
  EXPECT_EQ(memory.threshold(0, 0.05)->score, scores[18]);
  EXPECT_EQ(memory.threshold(0, 0.05)->false_alarms, 0.05);
}

TEST_F(MemoryCalibration, ThresholdsAreOfTheirTask) {
  Dice dice(3);
  Memory memory(kD, 80);
  learn(memory, "a", 0, 300, dice);
  learn(memory, "b", 1, 300, dice);
  learn(memory, "none", 2, 300, dice);
  const std::vector<float> a = calibrate_single(memory, "a", 0, 15, dice);
  const std::vector<float> b = calibrate_single(memory, "b", 1, 11, dice);
  EXPECT_EQ(memory.threshold(0, 0.01)->score, a.back());
  EXPECT_EQ(memory.threshold(1, 0.01)->score, b.back());
  EXPECT_EQ(memory.threshold(1, 0.01)->images, 11u);
  EXPECT_FALSE(memory.threshold(2, 0.01));
  EXPECT_FALSE(memory.threshold(3, 0.01));
  EXPECT_FALSE(memory.threshold(std::size_t{1} << 32, 0.01));
  EXPECT_FALSE(memory.threshold(~std::size_t{0}, 0.01));
}

TEST_F(MemoryCalibration, StatesShowTheDrift) {
  Dice dice(4);
  Memory memory(kD, 128);
  learn(memory, "a", 0, 1000, dice);
  Set patches(0, kD);
  const std::vector<float> first = calibrate_single(memory, "a", 0, 21, dice, &patches);
  std::vector<TaskState> states = memory.states();
  ASSERT_EQ(states.size(), 1u);
  EXPECT_EQ(states[0].vectors, memory.size());
  EXPECT_EQ(states[0].calibrated, 21u);
  EXPECT_EQ(states[0].first_score, first[10]);
  EXPECT_EQ(states[0].score, first[10]);

  // A quarter of its vectors is a level: the scores are those of the memory that is left.
  for (std::size_t t = 1; t < 4; ++t) learn(memory, "t" + std::to_string(t), t, 1000, dice);
  std::vector<float> now = memory.distances(patches.view(), naive::crew(0));
  std::sort(now.begin(), now.end());
  states = memory.states();
  ASSERT_EQ(states.size(), 4u);
  EXPECT_EQ(states[0].vectors, 32u);
  EXPECT_EQ(states[0].first_score, first[10]);
  EXPECT_EQ(states[0].score, now[10]);
  EXPECT_GT(states[0].score, states[0].first_score);
  EXPECT_EQ(memory.threshold(0, 0.001)->score, now.back());
  EXPECT_EQ(states[1].calibrated, 0u);
  EXPECT_EQ(states[1].score, 0.0f);
}

// Between two levels scores are interpolated, beyond the last nothing is known.
TEST_F(MemoryCalibration, ScoresFollowTheShare) {
  Dice dice(11);
  Memory memory(kD, 64);
  learn(memory, "a", 0, 1000, dice);
  const ImageScores scores{64, {1, 2, 4}};
  memory.calibrate("a", std::span(&scores, 1), {}, Memory::Keep::kSpread);
  const auto with = [&](std::size_t vectors) {
    return memory.shrink(vectors, naive::crew(0)).calibration_scores(0)[0];
  };
  EXPECT_EQ(memory.calibration_scores(0)[0], 1);
  EXPECT_EQ(with(32), 4);
  EXPECT_EQ(with(32), 4);
  EXPECT_FALSE(memory.shrink(31, naive::crew(0)).threshold(0, 0.05));
  EXPECT_TRUE(memory.shrink(31, naive::crew(0)).calibration_scores(0).empty());
  EXPECT_EQ(memory.shrink(31, naive::crew(0)).states()[0].calibrated, 0u);
  EXPECT_NEAR(with(45), 2, 0.05);
  EXPECT_GT(with(60), 1);
  EXPECT_LT(with(60), with(50));
  EXPECT_LT(with(44), with(40));
}

// Down to one vector, and no threshold without any.
TEST_F(MemoryCalibration, ThresholdsFollowToTheLastVector) {
  Dice dice(14);
  Memory memory(kD, 64);
  learn(memory, "a", 0, 1000, dice);
  Set patches(0, kD);
  calibrate_single(memory, "a", 0, 30, dice, &patches);
  for (const std::size_t count : {8u, 4u, 2u, 1u}) {
    const Memory smaller = memory.shrink(count, naive::crew(0));
    std::vector<float> now = smaller.distances(patches.view(), naive::crew(0));
    EXPECT_EQ(smaller.threshold(0, 0.001)->score, *std::max_element(now.begin(), now.end()));
  }
  Memory full(kD, 2);
  for (std::size_t t = 0; t < 5; ++t) {
    learn(full, std::to_string(t), t, 50, dice);
    naive::calibrate(full, image(t, 3, dice), std::to_string(t));
  }
  for (std::size_t t = 0; t < 5; ++t) {
    EXPECT_EQ(full.threshold(t, 0.05).has_value(), full.states()[t].vectors > 0) << t;
  }
}

// An image that comes again keeps its score, also in a file.
TEST_F(MemoryCalibration, AnImageIsScoredOnce) {
  Dice dice(15);
  Memory memory(kD, 64);
  learn(memory, "a", 0, 1000, dice);
  const auto add = [&](std::uint64_t hash, float score) {
    const ImageScores scores{64, {score}, hash};
    memory.calibrate("a", std::span(&scores, 1), {}, Memory::Keep::kLatest);
  };
  const std::uint64_t high = 0x9000000000000007;
  add(7, 1);
  add(high, 2);
  add(7, 0.1F);
  add(0, 3);
  add(0, 4);
  memory = reopened(memory);
  add(high, 0.1F);
  EXPECT_EQ(memory.calibration_scores(0), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_FALSE(memory.is_new("a", 7));
  EXPECT_FALSE(memory.is_new("a", high));
  EXPECT_TRUE(memory.is_new("a", high + 1));
  // Merged with itself it knows no more than before, and promises no more.
  const Memory twice = Memory::merge(memory, memory, 64, naive::crew(0));
  EXPECT_EQ(twice.threshold(0, 0.05)->images, 6u);  // those without a hash may be others
  const Memory with_copy = Memory::merge(memory, memory.copy(), 64, naive::crew(0));
  EXPECT_EQ(with_copy.threshold(0, 0.3)->images, 6u);
}

std::uint64_t hash_of_number(std::uint64_t i) { return (i + 1) * 0x9E3779B97F4A7C15U; }

// However many images come, what was learned is never taken for new; and what is new is often
// enough taken for it.
TEST_F(MemoryCalibration, KnowsWhichImagesItHasLearned) {
  Dice dice(21);
  Memory memory(kD, 64);
  EXPECT_TRUE(memory.is_new("a", 1));
  learn(memory, "a", 0, 1000, dice);
  std::size_t taken = 0;
  constexpr std::size_t kImages = 6000;
  for (std::size_t i = 0; i < kImages; ++i) {
    const std::uint64_t hash = hash_of_number(i);
    taken += memory.is_new("a", hash) ? 1U : 0U;
    if (i < 1000) {
      EXPECT_TRUE(memory.is_new("a", hash)) << i;
    }
    memory.calibrate("a", {}, {}, Memory::Keep::kLatest, std::span(&hash, 1));
    EXPECT_FALSE(memory.is_new("a", hash));
    if (i == 3000) memory = reopened(memory);
  }
  // A thousand, and then of each image fewer: 1000 (1 + ln 6).
  EXPECT_NEAR(static_cast<double>(taken), 2792, 250);
  const Memory other = Memory::merge(memory, memory.copy(), 64, naive::crew(0));
  for (std::size_t i = 0; i < kImages; ++i) {
    ASSERT_FALSE(memory.is_new("a", hash_of_number(i))) << i;
    ASSERT_FALSE(other.is_new("a", hash_of_number(i))) << i;
  }
}

// Two hundred products in 8 MB: each is recognised, and keeps what its rate needs.
TEST_F(MemoryCalibration, EveryOneOfManyTasksIsRecognised) {
  constexpr std::size_t kWide = 512;
  constexpr std::size_t kRows = 90;
  const std::size_t tasks = naive::slow() ? 20 : 200;
  Memory memory(kWide, (std::size_t{8} << 20) / kWide, {}, Scalar::kUint8);
  std::vector<Vectors> products;
  for (std::size_t t = 0; t < tasks; ++t) {
    Dice dice(t * 1000003);
    Vectors& product = products.emplace_back(kRows, kWide, Scalar::kUint8);
    for (std::size_t i = 0; i < kRows * kWide; ++i) {
      product.byte_data()[i] =
          static_cast<std::uint8_t>((i % kWide * (t + 3)) % 200 + dice.below(50));
    }
    const std::string task = std::to_string(t);
    memory.learn(product.view(), how_to(task, 1), naive::crew(0));
    std::vector<ImageScores> scores;
    std::vector<std::uint64_t> hashes;
    for (std::size_t i = 0; i < 300; ++i) {
      hashes.push_back(hash_of_number(t * 1000 + i));
      if (i < 100) scores.push_back({kRows, std::vector<float>(16, 1), hashes.back()});
    }
    const std::vector<VectorView> images(32, product.view());
    memory.calibrate(task, scores, images, Memory::Keep::kSpread, hashes);
  }
  const Memory again = reopened(memory);
  for (std::size_t t = 0; t < tasks; ++t) {
    EXPECT_EQ(again.recognise(products[t].view()), t);
    EXPECT_GE(again.threshold(t, 0.05)->images, 20u) << t;
  }
}

// The latest of a stream, and of a batch a part that its order has nothing to do with; never more
// than a hundred.
TEST_F(MemoryCalibration, KeepsTheLatestOrAPartByChance) {
  Dice dice(12);
  Memory latest(kD, 64);
  learn(latest, "a", 0, 1000, dice);
  Memory spread = latest.copy();
  std::vector<ImageScores> scores;
  for (std::size_t i = 0; i < 250; ++i) {
    scores.push_back({64, {static_cast<float>(i)}});
    latest.calibrate("a", std::span(&scores.back(), 1), {}, Memory::Keep::kLatest);
  }
  spread.calibrate("a", scores, {}, Memory::Keep::kSpread);
  const std::vector<float> last = latest.calibration_scores(0);
  ASSERT_EQ(last.size(), 100u);
  EXPECT_EQ(last.front(), 150);
  EXPECT_EQ(last.back(), 249);
  std::vector<float> part = spread.calibration_scores(0);
  ASSERT_EQ(part.size(), 100u);
  EXPECT_TRUE(std::is_sorted(part.begin(), part.end()));
  EXPECT_NEAR(part[50], 125, 30);
  std::reverse(scores.begin(), scores.end());
  Memory other(kD, 64);
  learn(other, "a", 0, 1000, dice);
  other.calibrate("a", scores, {}, Memory::Keep::kSpread);
  std::reverse(part.begin(), part.end());
  EXPECT_EQ(other.calibration_scores(0), part);
}

// Scores from when a task had less than half of what it has say too much.
TEST_F(MemoryCalibration, EarlyScoresOfAGrowingTaskAreLeftOut) {
  Dice dice(13);
  Memory memory(kD, 64);
  learn(memory, "a", 0, 1000, dice);
  std::vector<ImageScores> scores;
  for (std::size_t i = 0; i < 60; ++i) scores.push_back({4 + i, {100 - static_cast<float>(i)}});
  memory.calibrate("a", scores, {}, Memory::Keep::kLatest);
  EXPECT_EQ(memory.calibration_scores(0).size(), 32u);
  EXPECT_EQ(memory.calibration_scores(0).front(), 72);
  // Twenty of them there are to be, and where none is newer all count.
  for (const std::size_t newer : {0u, 10u}) {
    Memory other(kD, 64);
    learn(other, "a", 0, 1000, dice);
    for (std::size_t i = 0; i < 60; ++i) scores[i].vectors = i < 60 - newer ? 5 : 60;
    other.calibrate("a", scores, {}, Memory::Keep::kLatest);
    EXPECT_EQ(other.calibration_scores(0).size(), newer == 0 ? 60u : 20u);
  }
}

// The budget does not grow with the tasks, and each of many still has what its rate needs.
TEST_F(MemoryCalibration, KeepsWithinItsBudget) {
  constexpr std::size_t kBudget = std::size_t{1} << 20;
  Memory memory(kD, 4000);
  const std::size_t tasks = naive::slow() ? 20 : 200;
  Dice dice(5);
  for (std::size_t t = 0; t < tasks; ++t) {
    const std::string task = std::to_string(t);
    learn(memory, task, t, 3000, dice, 0.5);
    std::vector<ImageScores> scores;
    for (std::size_t i = 0; i < 100; ++i) {
      scores.push_back({1500, {}});
      for (std::size_t level = 0; level < 14; ++level) {
        scores.back().scores.push_back(static_cast<float>(level) + static_cast<float>(i) / 100);
      }
    }
    const Set one = image(t, 5, dice);
    const std::vector<VectorView> images(100, one.view());
    memory.calibrate(task, scores, images, Memory::Keep::kSpread);
    if (t % 20 != 19) continue;
    ASSERT_LE(kept(memory), kBudget) << t;
    const std::size_t share = memory.states()[0].vectors;
    const double level = 2 * std::log2(1500.0 / static_cast<double>(share));
    for (const TaskState& state : memory.states()) EXPECT_GE(state.calibrated, 50u) << t;
    const auto limit = memory.threshold(0, 0.05);
    EXPECT_NEAR(static_cast<double>(limit->score), std::min(level, 13.0) + 0.95, 0.1) << t;
    EXPECT_NEAR(static_cast<double>(memory.states()[0].first_score), 0.5, 0.05);
  }
}

TEST_F(MemoryCalibration, KeepsWithinItsBudgetWithMoreTasksThanVectors) {
  Dice dice(5);
  Memory memory(kD, 5);
  for (std::size_t t = 0; t < 1020; ++t) {
    const std::string task = std::to_string(t);
    if (naive::slow() && t % 10 != 0) continue;
    memory.learn_online(image(t, 1, dice).view(), how_to(task, 1), naive::crew(0));
    const ImageScores scores{1, {1}};
    const Set one = image(t, 3, dice);
    const VectorView patches = one.view();
    memory.calibrate(task, std::span(&scores, 1), std::span(&patches, 1), Memory::Keep::kLatest);
  }
  ASSERT_LE(kept(memory), std::size_t{1} << 20);
  memory.states();
  std::size_t known = 0;
  for (std::size_t t = 0; t < memory.tasks().size(); ++t) {
    known += memory.threshold(t, 0.05) ? std::size_t{1} : 0;
  }
  EXPECT_EQ(known, memory.size());
  memory.recognise(image(1, 3, dice).view());
}

// A mean that is as large as a task's part of the budget goes, and no score with it.
TEST_F(MemoryCalibration, ScoresAreNotGivenUpForAMean) {
  for (const std::size_t wide : {250000u, 270000u}) {  // floats, of a budget of 1 MiB
    for (const bool scored : {true, false}) {
      Memory memory(wide, 2);
      const Set rows = naive::make(Family::kGaussian, 2, wide, 1, 1);
      memory.learn(rows.view(), how_to("a", 1), naive::crew(0));
      std::vector<ImageScores> scores;
      for (std::size_t i = 0; scored && i < 40; ++i) scores.push_back({2, {1, 2}});
      const VectorView patches = rows.view();
      const std::vector<VectorView> images(2, patches);
      memory.calibrate("a", scores, images, Memory::Keep::kLatest);
      EXPECT_EQ(memory.states()[0].calibrated, scores.size());
      EXPECT_EQ(memory.recognise(patches).has_value(), wide == 250000);
      const Memory smaller = memory.shrink(1, naive::crew(0));
      EXPECT_EQ(smaller.states()[0].calibrated, scores.size());
    }
  }
}

TEST_F(MemoryCalibration, RecognisesTheTask) {
  Dice dice(6);
  Memory memory(kD, 100);
  EXPECT_FALSE(memory.recognise(image(0, 10, dice).view()));
  for (std::size_t t = 0; t < 5; ++t) learn(memory, "task " + std::to_string(t), t, 100, dice);
  EXPECT_FALSE(memory.recognise(image(0, 10, dice).view()));
  for (std::size_t t = 5; t-- > 0;) {
    for (int i = 0; i < 5; ++i) {
      naive::calibrate(memory, image(t, 30, dice), "task " + std::to_string(t));
    }
  }
  for (std::size_t t = 0; t < 5; ++t) {
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(memory.recognise(image(t, 30, dice).view()), t);
      Set half = image(t, 30, dice);
      half.make_half();
      EXPECT_EQ(memory.recognise(half.view()), t);
    }
  }
}

TEST_F(MemoryCalibration, FalseAlarmsAreAsRareAsAsked) {
  // Of 60 scores the 58th: 1 - 58/61 = 4.9 % in the mean over many calibrations.
  const std::size_t rounds = naive::slow() ? 2 : 30;
  const std::size_t fresh = 100;
  double before = 0;
  double after = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    Dice dice(round * 1000003);  // far apart: seeds are places in one long sequence
    Memory memory(kD, 60);
    learn(memory, "a", 0, 600, dice, 0.1);
    for (int i = 0; i < 60; ++i) naive::calibrate(memory, image(0, 16, dice), "a");
    const auto alarms = [&] {
      const float limit = memory.threshold(0, 0.05)->score;
      double above = 0;
      for (std::size_t i = 0; i < fresh; ++i) {
        const std::vector<float> distances =
            memory.distances(image(0, 16, dice).view(), naive::crew(0));
        above += *std::max_element(distances.begin(), distances.end()) > limit ? 1 : 0;
      }
      return above / static_cast<double>(fresh * rounds);
    };
    before += alarms();
    learn(memory, "b", 1, 300, dice, 0.2);
    after += alarms();
  }
  const double most = naive::slow() ? 0.25 : 0.08;
  const double least = naive::slow() ? 0.0 : 0.025;
  EXPECT_LE(before, most);
  EXPECT_GE(before, least);
  EXPECT_LE(after, most);
  EXPECT_GE(after, least);
}

TEST_F(MemoryCalibration, CallsThatMakeNoSense) {
  Dice dice(7);
  Memory memory(kD, 20);
  const Set good = image(0, 5, dice);
  const VectorView patches = good.view();
  const ImageScores fine{20, {1, 2}};
  const auto calibrate = [&](const ImageScores& scores, const VectorView& of) {
    memory.calibrate("a", std::span(&scores, 1), std::span(&of, 1), Memory::Keep::kLatest);
  };
  expect_error(Error::Kind::kUsage, [&] { calibrate(fine, patches); });
  learn(memory, "a", 0, 100, dice);
  calibrate(fine, patches);
  const std::string before = bytes_of(memory);

  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const ImageScores& wrong :
       {ImageScores{20, {}}, ImageScores{0, {1}}, ImageScores{20, {-1}}, ImageScores{20, {nan}},
        ImageScores{20, {1, nan, 3}}, ImageScores{20, {1, infinity}}, ImageScores{20, {2, 1}},
        ImageScores{20, std::vector<float>(33, 1)}, ImageScores{std::size_t{1} << 40, {1}}}) {
    expect_error(Error::Kind::kUsage, [&] { calibrate(wrong, patches); });
  }
  const Set wider = naive::make(Family::kGaussian, 5, kD + 300, 1, 1);
  const Set narrower = naive::make(Family::kGaussian, 5, kD - 1, 1, 1);
  Set spoilt = good;
  spoilt.row(2)[3] = nan;
  Set far = good;
  for (std::size_t i = 0; i < far.n; ++i) far.row(i)[0] = 3e18f;
  for (const VectorView& bad :
       {wider.view(), narrower.view(), spoilt.view(), far.view(), patches.part(0, 0)}) {
    expect_error(Error::Kind::kInput, [&] { calibrate(fine, bad); });
  }
  for (const VectorView& bad : {wider.view(), narrower.view()}) {
    expect_error(Error::Kind::kInput, [&] { memory.recognise(bad); });
  }
  EXPECT_EQ(bytes_of(memory) == before, true);
  for (const double rate : {std::nan(""), -0.1, 1.5}) {
    expect_error(Error::Kind::kUsage, [&] { memory.threshold(0, rate); });
  }
}

}  // namespace
}  // namespace contcore
