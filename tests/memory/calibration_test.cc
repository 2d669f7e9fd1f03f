// Verdicts without defects: images held out, thresholds, drift, and the task an image is of.
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
  /// Vectors that calibration keeps: means and patches.
  std::size_t kept(const Memory& memory) const {
    memory.save(path("kept"));
    const Safetensors file(path("kept"), "a memory");
    Safetensors::Shape means;
    Safetensors::Shape patches;
    file.floats("calibration.means", 2, means);
    file.floats("calibration.patches", 2, patches);
    EXPECT_GE(patches.rows, means.rows);
    return means.rows + patches.rows;
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
std::vector<float> hold_out_single(Memory& memory, const std::string& task, std::size_t product,
                                   std::size_t images, Dice& dice, Set* all = nullptr) {
  std::vector<float> scores;
  for (std::size_t i = 0; i < images; ++i) {
    const Set patch = image(product, 1, dice);
    scores.push_back(memory.distances(patch.view(), naive::crew(0))[0]);
    naive::hold_out(memory, patch, task);
    if (all) *all = naive::joined(*all, patch);
  }
  std::sort(scores.begin(), scores.end());
  return scores;
}

TEST_F(MemoryCalibration, ThresholdIsTheConformalQuantile) {
  for (const std::size_t n : {1u, 2u, 9u, 19u, 20u, 39u, 60u, 64u}) {
    Dice dice(n);
    Memory memory(kD, 50);
    learn(memory, "a", 0, 300, dice);
    EXPECT_FALSE(memory.threshold(0, 0.05));
    const std::vector<float> scores = hold_out_single(memory, "a", 0, n, dice);
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
  std::vector<float> scores = hold_out_single(memory, "a", 0, 19, dice);
  EXPECT_EQ(memory.threshold(0, 0.05)->score, scores[18]);
  EXPECT_EQ(memory.threshold(0, 0.05)->false_alarms, 0.05);
}

TEST_F(MemoryCalibration, ThresholdsAreOfTheirTask) {
  Dice dice(3);
  Memory memory(kD, 80);
  learn(memory, "a", 0, 300, dice);
  learn(memory, "b", 1, 300, dice);
  learn(memory, "none", 2, 300, dice);
  const std::vector<float> a = hold_out_single(memory, "a", 0, 15, dice);
  const std::vector<float> b = hold_out_single(memory, "b", 1, 11, dice);
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
  Memory memory(kD, 30);
  learn(memory, "a", 0, 300, dice);
  Set patches(0, kD);
  const std::vector<float> first = hold_out_single(memory, "a", 0, 21, dice, &patches);
  std::vector<TaskState> states = memory.states();
  ASSERT_EQ(states.size(), 1u);
  EXPECT_EQ(states[0].vectors, memory.size());
  EXPECT_EQ(states[0].held_out, 21u);
  EXPECT_EQ(states[0].first_score, first[10]);
  EXPECT_EQ(states[0].score, first[10]);

  for (std::size_t t = 1; t < 4; ++t) learn(memory, "t" + std::to_string(t), t, 300, dice);
  memory.recalibrate(naive::crew(1));
  std::vector<float> now = memory.distances(patches.view(), naive::crew(0));
  std::sort(now.begin(), now.end());
  states = memory.states();
  ASSERT_EQ(states.size(), 4u);
  EXPECT_EQ(states[0].first_score, first[10]);
  EXPECT_EQ(states[0].score, now[10]);
  EXPECT_GT(states[0].score, states[0].first_score);
  EXPECT_EQ(memory.threshold(0, 0.001)->score, now.back());
  EXPECT_EQ(states[1].held_out, 0u);
  EXPECT_EQ(states[1].score, 0.0f);
  std::size_t vectors = 0;
  for (std::size_t t = 0; t < 4; ++t) {
    const std::vector<std::int32_t> origins = memory.origins();
    EXPECT_EQ(states[t].vectors,
              static_cast<std::size_t>(
                  std::count(origins.begin(), origins.end(), static_cast<std::int32_t>(t))));
    vectors += states[t].vectors;
  }
  EXPECT_EQ(vectors, memory.size());

  // Smaller memories are calibrated as they are.
  const Memory smaller = memory.shrink(10, naive::crew(0));
  now = smaller.distances(patches.view(), naive::crew(0));
  EXPECT_EQ(smaller.threshold(0, 0.001)->score, *std::max_element(now.begin(), now.end()));
}

TEST_F(MemoryCalibration, KeepsWithinItsBudget) {
  for (const std::size_t capacity : {3u, 4000u, 9000u}) {
    if (naive::slow() && capacity == 4000) continue;
    const std::size_t budget = std::max<std::size_t>(1000, capacity / 10);
    Dice dice(capacity);
    Memory memory(kD, capacity);
    std::size_t tasks = 0;
    for (const std::size_t more : {1u, 1u, 1u, 3u, 10u}) {
      for (std::size_t t = 0; t < more; ++t) {
        learn(memory, "task " + std::to_string(tasks), tasks, 4, dice, 1.0);
        ++tasks;
      }
      for (std::size_t t = 0; t < tasks; ++t) {
        for (std::size_t i = 0; i < 70; ++i) {
          naive::hold_out(memory, image(t, 20, dice), "task " + std::to_string(t));
        }
        ASSERT_LE(kept(memory), budget) << tasks << " tasks";
      }
      std::size_t least = 1000;
      std::size_t most = 0;
      for (const TaskState& state : memory.states()) {
        least = std::min(least, state.held_out);
        most = std::max(most, state.held_out);
      }
      EXPECT_LE(most, 64u);
      EXPECT_LE(most, least + 1) << tasks << " tasks";
      EXPECT_GE(least, std::min<std::size_t>(64, budget / tasks / 8)) << tasks;
    }
  }
}

TEST_F(MemoryCalibration, KeepsWithinItsBudgetWithMoreTasksThanVectors) {
  Dice dice(5);
  Memory memory(kD, 5);
  for (std::size_t t = 0; t < 1020; ++t) {
    const std::string task = std::to_string(t);
    if (naive::slow() && t % 10 != 0) continue;
    memory.learn_online(image(t, 1, dice).view(), how_to(task, 1), naive::crew(0));
    naive::hold_out(memory, image(t, 3, dice), task);
    if (t % 20 == 0) {
      ASSERT_LE(kept(memory), 1000u) << t;
    }
  }
  ASSERT_LE(kept(memory), 1000u);
  memory.recalibrate(naive::crew(0));
  memory.states();
  memory.recognise(image(1, 3, dice).view());
}

TEST_F(MemoryCalibration, TheSameMemoryScoresTheSameAgain) {
  // So many tasks that a single patch is left of an image: it must be the one that tells.
  Dice dice(8);
  Memory memory(kD, 60);
  for (std::size_t t = 0; t < 12; ++t) {
    learn(memory, "task " + std::to_string(t), t, 20, dice, 1.0);
  }
  for (std::size_t t = 0; t < 12; ++t) {
    for (std::size_t i = 0; i < 20; ++i) {
      naive::hold_out(memory, image(t, 15, dice), "task " + std::to_string(t));
    }
  }
  const std::string before = bytes_of(memory);
  memory.recalibrate(naive::crew(0));
  EXPECT_EQ(bytes_of(memory) == before, true);
}

TEST_F(MemoryCalibration, ImagesMayComeTogether) {
  Dice dice(9);
  Memory together(kD, 60);
  learn(together, "a", 0, 200, dice);
  Memory one_by_one = reopened(together);
  Set all(0, kD);
  std::vector<std::size_t> ends;
  for (const std::size_t patches : {7u, 1u, 30u, 12u}) {
    const Set one = image(0, patches, dice);
    naive::hold_out(one_by_one, one, "a");
    all = naive::joined(all, one);
    ends.push_back(all.n);
  }
  together.hold_out(all.view(), ends, "a", naive::crew(1));
  EXPECT_EQ(bytes_of(together) == bytes_of(one_by_one), true);
}

TEST_F(MemoryCalibration, RecognisesTheTask) {
  Dice dice(6);
  Memory memory(kD, 100);
  EXPECT_FALSE(memory.recognise(image(0, 10, dice).view()));
  for (std::size_t t = 0; t < 5; ++t) learn(memory, "task " + std::to_string(t), t, 100, dice);
  EXPECT_FALSE(memory.recognise(image(0, 10, dice).view()));
  for (std::size_t t = 5; t-- > 0;) {
    for (int i = 0; i < 5; ++i) {
      naive::hold_out(memory, image(t, 30, dice), "task " + std::to_string(t));
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
    for (int i = 0; i < 60; ++i) naive::hold_out(memory, image(0, 16, dice), "a");
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
    memory.recalibrate(naive::crew(0));
    after += alarms();
  }
  const double most = naive::slow() ? 0.25 : 0.08;
  const double least = naive::slow() ? 0.0 : 0.025;
  EXPECT_LE(before, most);
  EXPECT_GE(before, least);
  // Only a few patches of an image are kept: their largest score may fall short of the image's.
  EXPECT_LE(after, most + 0.04);
  EXPECT_GE(after, least);
}

TEST_F(MemoryCalibration, CallsThatMakeNoSense) {
  Dice dice(7);
  Memory memory(kD, 20);
  const Set good = image(0, 5, dice);
  expect_error(Error::Kind::kUsage, [&] { naive::hold_out(memory, good, "a"); });
  learn(memory, "a", 0, 100, dice);
  expect_error(Error::Kind::kUsage, [&] { naive::hold_out(memory, good, "b"); });
  naive::hold_out(memory, good, "a");
  const std::string before = bytes_of(memory);

  const Set wider = naive::make(Family::kGaussian, 5, kD + 300, 1, 1);
  const Set narrower = naive::make(Family::kGaussian, 5, kD - 1, 1, 1);
  Set spoilt = good;
  spoilt.row(2)[3] = std::numeric_limits<float>::quiet_NaN();
  Set far = good;  // could be searched with, but not in every memory that this one may become
  for (std::size_t i = 0; i < far.n; ++i) far.row(i)[0] = 3e18f;
  const auto bad = {wider.view(), narrower.view(), spoilt.view(), far.view()};
  for (const VectorView& patches : bad) {
    expect_error(Error::Kind::kInput, [&] {
      const std::size_t ends[] = {patches.rows};
      memory.hold_out(patches, ends, "a", naive::crew(0));
    });
  }
  using Ends = std::vector<std::size_t>;
  const Ends second = {2, 5};  // the first image is fine
  expect_error(Error::Kind::kInput,
               [&] { memory.hold_out(spoilt.view(), second, "a", naive::crew(0)); });
  for (const Ends& ends :
       {Ends{0}, Ends{6}, Ends{3, 3}, Ends{4, 2}, Ends{5, 6}, Ends{0, 5}, Ends{~std::size_t{0}}}) {
    expect_error(Error::Kind::kUsage,
                 [&] { memory.hold_out(good.view(), ends, "a", naive::crew(0)); });
  }
  for (const VectorView& patches : {wider.view(), narrower.view()}) {
    expect_error(Error::Kind::kInput, [&] { memory.recognise(patches); });
  }
  EXPECT_EQ(bytes_of(memory) == before, true);
  for (const double rate : {std::nan(""), -0.1, 1.5}) {
    expect_error(Error::Kind::kUsage, [&] { memory.threshold(0, rate); });
  }
}

}  // namespace
}  // namespace contcore
