// Learning, in batches and online, against the plain method, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/scarce.h"
#include "contcore/distance.h"
#include "contcore/error.h"
#include "contcore/memory.h"
#include "memory/naive_memory.h"

namespace contcore {
namespace {

using naive::bits;
using naive::Dice;
using naive::expect_error;
using naive::Family;
using naive::how_to;
using naive::Set;
using naive::Step;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class MemoryLearn : public naive::MemoryTest {};

/// Where two memories differ; empty if nowhere.
std::string difference(const Memory& a, const Memory& b) {
  if (a.size() != b.size()) return "sizes differ";
  const Vectors x = a.vectors();
  const Vectors y = b.vectors();
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a.dimension(); ++j) {
      if (bits(x.row(i)[j]) != bits(y.row(i)[j])) {
        return "vector " + std::to_string(i) + " of " + std::to_string(a.size());
      }
    }
  }
  if (a.origins() != b.origins()) return "origins";
  if (a.radii() != b.radii()) return "radii";
  if (a.certificate() != b.certificate()) return "certificates";
  return "";
}

// ---------------------------------------------------------------- against the twin

TEST_F(MemoryLearn, IsThePlainMethodHoweverItIsDone) {
  for (std::size_t seed = 0; seed < naive::cases(160) && !HasFailure(); ++seed) {
    Dice dice(seed * 7919 + 8000000);
    const Family family = static_cast<Family>(seed % naive::kFamilies);
    const std::size_t d = dice.pick<std::size_t>({1, 2, 3, 8, 17, 33, 64, 70});
    const std::size_t m = dice.pick<std::size_t>({1, 2, 3, 5, 8, 16, 30, 50});
    const double q = dice.pick({0.0, 0.5, 0.5, 0.75, 0.75, 0.9, 1.0});
    naive::Twin twin(d, m, q);
    Memory batch(d, m, Consolidate::paper(q));
    Memory online(d, m, Consolidate::paper(q));
    Memory mixed(d, m, Consolidate::paper(q));
    std::size_t s = 0;
    for (const Step& step : naive::story(dice, family, d, dice.between(4, 24), 40)) {
      const std::string what = "seed " + std::to_string(seed) + ", " + naive::name(family) +
                               ", d " + std::to_string(d) + ", m " + std::to_string(m) + ", q " +
                               std::to_string(q) + ", step " + std::to_string(s++);
      twin.learn(step.features, step.how);
      batch.learn(step.features.view(), step.how, naive::crew(0));
      online.learn_online(step.features.view(), step.how, naive::any_crew(dice));
      if (dice.one_in(5)) mixed = reopened(mixed);
      if (dice.one_in(3)) {
        mixed.learn(step.features.view(), step.how, naive::any_crew(dice));
      } else {
        mixed.learn_online(step.features.view(), step.how, naive::any_crew(dice));
      }
      ASSERT_EQ(naive::difference(batch, twin), "") << what << ", batch";
      ASSERT_EQ(naive::difference(online, twin), "") << what << ", online";
      ASSERT_EQ(naive::difference(mixed, twin), "") << what << ", mixed";
      ASSERT_LE(batch.size(), m) << what;
    }
  }
}

// A mistake in what is carried from one update to the next may take a while to show.
TEST_F(MemoryLearn, StaysThePlainMethodForLong) {
  const std::vector<Family> families = {Family::kClusters, Family::kLowRank,
                                        Family::kGrid,     Family::kNearDuplicates,
                                        Family::kSimplex,  Family::kFarCluster};
  for (std::size_t seed = 0; seed < naive::cases(families.size()); ++seed) {
    Dice dice(seed * 7919 + 8100000);
    const std::size_t d = dice.between(6, 12);
    const double q = dice.pick({0.5, 0.75, 0.9, 1.0});
    const Family family = families[seed % families.size()];
    naive::Twin twin(d, 100, q);
    Memory online(d, 100, Consolidate::paper(q));
    for (std::size_t s = 0; s < 90; ++s) {
      LearnHow how = how_to("task " + std::to_string(s / 25), 0.1);
      const Set image = naive::make(family, dice.between(20, 40), d, seed + s / 25, 1000 + s);
      if (s == 3) how.p = 1.0;
      twin.learn(image, how);
      online.learn_online(image.view(), how, naive::any_crew(dice));
      ASSERT_EQ(naive::difference(online, twin), "")
          << naive::name(family) << ", q " << q << ", d " << d << ", step " << s;
    }
  }
}

// Vectors that are dropped may have several nearest ones among those that stay.
TEST_F(MemoryLearn, LeavesTheSameCertificateHoweverItIsDone) {
  for (std::size_t seed = 0; seed < naive::cases(60) && !HasFailure(); ++seed) {
    Dice dice(seed * 7919 + 8150000);
    const Family family = dice.pick(
        {Family::kGrid, Family::kSimplex, Family::kSigns, Family::kCollinear, Family::kClusters});
    const std::size_t d = dice.between(2, 20);
    const std::size_t m = dice.between(2, 30);
    const double q = dice.pick({0.0, 0.5, 0.75, 0.9, 1.0});
    Memory batch(d, m, Consolidate::paper(q));
    Memory online(d, m, Consolidate::paper(q));
    for (const Step& step : naive::story(dice, family, d, 10, 30)) {
      batch.learn(step.features.view(), step.how, naive::crew(0));
      online.learn_online(step.features.view(), step.how, naive::crew(0));
      ASSERT_EQ(difference(batch, online), "") << "seed " << seed << ", " << naive::name(family)
                                               << ", d " << d << ", m " << m << ", q " << q;
    }
    EXPECT_EQ(bytes_of(batch) == bytes_of(online), true) << "seed " << seed << ", q " << q;
  }
}

// Merged memories may hold a vector twice; consolidation then leaves less than it may.
TEST_F(MemoryLearn, IsThePlainMethodOnVectorsThatAreThereTwice) {
  for (std::size_t seed = 0; seed < naive::cases(40) && !HasFailure(); ++seed) {
    Dice dice(seed * 7919 + 8160000);
    const std::size_t d = dice.between(2, 12);
    const std::size_t m = dice.between(4, 24);
    const double q = dice.pick({0.0, 0.5, 0.75, 0.9, 1.0});
    const Family family = dice.pick({Family::kGaussian, Family::kGrid, Family::kClusters});
    const Set first = naive::make(family, m, d, seed, 1);
    Memory half(d, m / 2, Consolidate::paper(q));
    half.learn(first.view(), how_to("first", 1), naive::crew(0));
    naive::Twin twin(d, m / 2, q);
    twin.learn(first, how_to("first", 1));
    twin.merge(naive::Twin(twin), m);
    Memory batch = Memory::merge(half, half, m, naive::crew(0));
    Memory online = Memory::merge(half, half, m, naive::crew(2));
    ASSERT_EQ(naive::difference(batch, twin), "") << "seed " << seed << ", merged";
    for (const Step& step : naive::story(dice, family, d, 14, 10)) {
      twin.learn(step.features, step.how);
      batch.learn(step.features.view(), step.how, naive::crew(0));
      online.learn_online(step.features.view(), step.how, naive::crew(0));
      ASSERT_EQ(naive::difference(batch, twin), "") << "seed " << seed << ", q " << q;
      ASSERT_EQ(naive::difference(online, twin), "")
          << "seed " << seed << ", q " << q << ", online";
    }
  }
}

TEST_F(MemoryLearn, IsTheSameOnlineInALargerMemory) {
  const std::size_t steps = naive::slow() ? 5 : 20;
  for (const double q : {0.5, 0.75, 0.9}) {
    Dice dice(static_cast<std::uint64_t>(q * 100) + 8200000);
    const std::size_t d = 40;
    Memory batch(d, 400, Consolidate::paper(q));
    Memory online(d, 400, Consolidate::paper(q));
    const Set first = naive::make(Family::kLowRank, 500, d, 77, 1);
    batch.learn(first.view(), how_to("first", 0.8), naive::crew(0));
    online.learn_online(first.view(), how_to("first", 0.8), naive::crew(2));
    for (std::size_t s = 0; s < steps; ++s) {
      const LearnHow how = how_to("task " + std::to_string(s / 10), 0.1);
      const Set image = naive::make(s % 3 ? Family::kLowRank : Family::kClusters,
                                    dice.between(1, 150), d, 77 + s / 10, 10 + s);
      batch.learn(image.view(), how, naive::crew(0));
      online.learn_online(image.view(), how, naive::any_crew(dice));
      ASSERT_EQ(difference(batch, online), "") << "q " << q << ", step " << s;
    }
    EXPECT_EQ(online.size(), 400u);
    EXPECT_EQ(bytes_of(batch), bytes_of(online));
  }
}

TEST_F(MemoryLearn, AMemoryLimitChangesNothing) {
  const Set features = naive::make(Family::kLowRank, 600, 48, 5, 6);
  Memory plain(48, 40);
  plain.learn(features.view(), how_to("a", 0.2), naive::crew(0));
  for (const std::size_t limit : {std::size_t{1}, std::size_t{100000}, std::size_t{100000000}}) {
    Memory limited(48, 40);
    LearnHow how = how_to("a", 0.2);
    how.memory_limit = limit;
    try {
      limited.learn(features.view(), how, naive::crew(0));
      EXPECT_EQ(difference(plain, limited), "") << limit;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput) << error.what();
      EXPECT_LT(limit, 100000000u) << error.what();
      EXPECT_EQ(limited.size(), 0u);
      EXPECT_TRUE(limited.tasks().empty());
    }
  }
}

// ---------------------------------------------------------------- distances

TEST_F(MemoryLearn, DistancesAreBruteForcesAfterEveryChange) {
  for (std::size_t seed = 0; seed < naive::cases(25); ++seed) {
    Dice dice(seed * 7919 + 8300000);
    const std::size_t d = dice.pick<std::size_t>({1, 5, 16, 40});
    const Family family = static_cast<Family>(seed % naive::kFamilies);
    Memory memory(d, dice.between(1, 40));
    for (const Step& step : naive::story(dice, family, d, 6, 50)) {
      if (dice.one_in(2)) {
        memory.learn(step.features.view(), step.how, naive::crew(0));
      } else {
        memory.learn_online(step.features.view(), step.how, naive::crew(0));
      }
      const Set queries = naive::make(family, 20, d, seed, dice.below(1000));
      const std::vector<float> got = memory.distances(queries.view(), naive::any_crew(dice));
      ASSERT_EQ(got.size(), queries.n);
      const Vectors vectors = memory.vectors();
      for (std::size_t i = 0; i < queries.n; ++i) {
        float nearest = kInfinity;
        for (std::size_t j = 0; j < vectors.rows(); ++j) {
          nearest = std::min(nearest, naive::canonical(queries.row(i), vectors.row(j), d));
        }
        ASSERT_EQ(bits(got[i]), bits(std::sqrt(nearest))) << "seed " << seed;
      }
    }
  }
}

TEST_F(MemoryLearn, SeveralThreadsMayAskAtOnce) {
  Memory memory(16, 60);
  const Set features = naive::make(Family::kLowRank, 300, 16, 1, 2);
  const Set queries = naive::make(Family::kLowRank, 50, 16, 1, 3);
  for (int round = 0; round < 4; ++round) {
    memory.learn_online(features.view().part(static_cast<std::size_t>(round) * 75, 75),
                        how_to("a", 0.5), naive::crew(0));
    std::vector<std::vector<float>> answers(4);  // the first to ask builds the index
    std::vector<std::thread> askers;
    for (std::vector<float>& answer : answers) {
      askers.emplace_back([&] {
        Compute crew(2);
        answer = memory.distances(queries.view(), crew);
      });
    }
    for (std::thread& asker : askers) asker.join();
    for (const std::vector<float>& answer : answers) EXPECT_EQ(answer, answers[0]);
  }
}

// ---------------------------------------------------------------- what goes wrong changes nothing

struct Learner {
  Memory memory;
  bool online;

  void learn(const Set& features, const LearnHow& how) {
    if (online) {
      memory.learn_online(features.view(), how, naive::crew(0));
    } else {
      memory.learn(features.view(), how, naive::crew(0));
    }
  }
};

class MemoryLearnFails : public MemoryLearn,
                         public testing::WithParamInterface<Consolidate::Rule> {};

INSTANTIATE_TEST_SUITE_P(Rules, MemoryLearnFails,
                         testing::Values(Consolidate::Rule::kShare, Consolidate::Rule::kPaper),
                         [](const auto& rule) { return Consolidate{rule.param}.name(); });

TEST_P(MemoryLearnFails, IsAsBefore) {
  for (const bool online : {false, true}) {
    for (const std::size_t before : {0u, 1u, 3u, 6u}) {
      const Consolidate rule{GetParam(), before == 3 ? 0.0 : 0.75};
      Learner failing{Memory(9, 20, rule), online};
      Learner clean{Memory(9, 20, rule), online};
      for (std::size_t s = 0; s < before; ++s) {
        const Set features = naive::make(Family::kClusters, 30, 9, s / 2, s);
        failing.learn(features, how_to("task " + std::to_string(s / 2), 0.3));
        clean.learn(features, how_to("task " + std::to_string(s / 2), 0.3));
      }
      const std::string untouched = bytes_of(clean.memory);
      const auto still = [&](const std::string& what) {
        EXPECT_EQ(bytes_of(failing.memory) == untouched, true)
            << what << (online ? ", online, after " : ", after ") << before;
      };
      still("before");

      // Few are picked, so that a memory is changed in place where it can be. It has an index,
      // which must be brought up to date or go.
      const Set asked = naive::make(Family::kClusters, 5, 9, 1, 3);
      const auto ask = [&](Learner& learner) {
        return before == 0 ? std::vector<float>{}
                           : learner.memory.distances(asked.view(), naive::crew(0));
      };
      for (const std::string task : {"new", "task 0"}) {
        for (const float bad : {kNan, kInfinity, -kInfinity, 3e38f, 1e30f}) {
          for (const std::size_t row : {0u, 17u, 39u}) {
            ask(failing);
            Set spoilt = naive::make(Family::kClusters, 40, 9, 1, 2);
            spoilt.row(row)[row % 9] = bad;
            expect_error(Error::Kind::kInput, [&] { failing.learn(spoilt, how_to(task, 0.1)); });
            still("not finite");
          }
        }
        // Near to each other, but so far from all else that squared distances overflow.
        ask(failing);
        Set far = naive::make(Family::kClusters, 40, 9, 1, 2);
        for (std::size_t i = 0; i < far.n; ++i) {
          for (std::size_t j = 0; j < far.d; ++j) far.row(i)[j] = far.row(i)[j] * 1e12f + 8e18f;
        }
        expect_error(Error::Kind::kInput, [&] { failing.learn(far, how_to(task, 0.1)); });
        still("too far");
        for (const double p : {-0.1, 0.0, 1.5, std::nan("")}) {
          expect_error(Error::Kind::kUsage, [&] { failing.learn(asked, how_to(task, p)); });
        }
        expect_error(Error::Kind::kInput, [&] { failing.learn(Set(0, 9), how_to(task, 0.1)); });
        expect_error(Error::Kind::kInput, [&] { failing.learn(asked, how_to("\xff", 0.1)); });
        still("makes no sense");
        EXPECT_EQ(ask(failing), ask(clean));
      }
      const Set other = naive::make(Family::kClusters, 40, 8, 1, 2);
      expect_error(Error::Kind::kInput, [&] { failing.learn(other, how_to("new", 0.3)); });
      still("another dimension");

      const Set features = naive::make(Family::kClusters, 200, 9, 7, 8);
      bool done = false;
      std::size_t at = 0;
      for (; !done; ++at) {
        ASSERT_LT(at, 100000u);
        const bool all_bytes = at % 8 == 0;
        for (const bool throws : {false, true}) {
          std::size_t calls = 0;
          LearnHow how = how_to("new", 0.5);
          how.progress = [&](double) {
            if (calls++ < at) return true;
            if (throws) throw std::runtime_error("from outside");
            return false;
          };
          try {
            failing.learn(features, how);
            EXPECT_LE(calls, at) << "it was told to stop";
            done = true;
            break;
          } catch (const Error& error) {
            EXPECT_EQ(error.kind(), Error::Kind::kCancelled) << error.what();
          } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "from outside");
          }
          EXPECT_EQ(calls, at + 1);
          EXPECT_EQ(difference(failing.memory, clean.memory), "");
          if (all_bytes) still("stopped at call " + std::to_string(at));
        }
      }
      clean.learn(features, how_to("new", 0.5));
      for (std::size_t s = 0; s < 4; ++s) {
        EXPECT_EQ(difference(failing.memory, clean.memory), "");
        const Set more = naive::make(Family::kClusters, 20, 9, s, 100 + s);
        failing.learn(more, how_to("more", 0.3));
        clean.learn(more, how_to("more", 0.3));
      }
      EXPECT_EQ(bytes_of(failing.memory) == bytes_of(clean.memory), true);
    }
  }
}

// Memory runs out at every place it can, one after the other.
TEST_P(MemoryLearnFails, IsAsBeforeWithoutRoom) {
  const auto filled = [&] {
    Memory memory(9, 30, Consolidate{GetParam(), 0.75});
    for (std::size_t s = 0; s < 5; ++s) {
      const Set features = naive::make(Family::kClusters, 30, 9, s / 2, s);
      memory.learn(features.view(), how_to("task " + std::to_string(s / 2), 0.4), naive::crew(0));
    }
    naive::calibrate(memory, naive::make(Family::kClusters, 6, 9, 1, 50), "task 1");
    return memory;
  };
  const Set image = naive::make(Family::kClusters, 40, 9, 1, 60);
  const Set good = naive::make(Family::kClusters, 10, 9, 1, 61);
  const auto learn = [&](const char* task, bool online) {
    return [&, task, online](Memory& memory) {
      Learner learner{std::move(memory), online};
      try {
        learner.learn(image, how_to(task, 0.15));
      } catch (...) {
        memory = std::move(learner.memory);
        throw;
      }
      memory = std::move(learner.memory);
    };
  };
  const std::vector<std::pair<const char*, std::function<void(Memory&)>>> changes = {
      {"learn", learn("task 1", false)},
      {"learn a new task", learn("new", false)},
      {"learn online", learn("task 1", true)},
      {"learn a new task online", learn("new", true)},
      {"calibrate", [&](Memory& memory) { naive::calibrate(memory, good, "task 1"); }}};
  for (const auto& [what, change] : changes) {
    Memory clean = filled();
    const std::string before = bytes_of(clean);
    change(clean);
    const std::string after = bytes_of(clean);
    Memory failing = filled();
    bool done = false;
    for (std::size_t n = 1; !done; ++n) {
      ASSERT_LT(n, 100000u);
      failing.distances(good.view(), naive::crew(0));  // it has an index
      try {
        const scarce::Failing nth(n);
        change(failing);
        done = true;
      } catch (const std::bad_alloc&) {
        ASSERT_TRUE(bytes_of(failing) == before) << what << ", allocation " << n;
      }
    }
    EXPECT_TRUE(bytes_of(failing) == after) << what;
  }
}

TEST_F(MemoryLearn, ProgressRisesToOne) {
  const Set features = naive::make(Family::kLowRank, 400, 20, 1, 2);
  for (const std::size_t m : {30u, 1000u}) {  // consolidated, and not yet
    Learner learner{Memory(20, m), false};
    for (int time = 0; time < 3; ++time) {
      LearnHow how = how_to("a", 0.3);
      std::vector<double> values;
      how.progress = [&](double done) {
        values.push_back(done);
        return true;
      };
      learner.learn(features, how);
      ASSERT_FALSE(values.empty());
      EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
      EXPECT_GE(values.front(), 0.0);
      EXPECT_EQ(values.back(), 1.0);
    }
  }
}

// ---------------------------------------------------------------- misuse and the smallest cases

TEST_F(MemoryLearn, CallsThatMakeNoSense) {
  expect_error(Error::Kind::kUsage, [] { Memory(0, 10); });
  expect_error(Error::Kind::kUsage, [] { Memory(10, 0); });
  for (const double q : {-0.01, 1.01, std::nan(""), HUGE_VAL}) {
    expect_error(Error::Kind::kUsage, [q] { Memory(10, 10, Consolidate::paper(q)); });
  }

  Memory memory(4, 10);
  const Set features = naive::make(Family::kGaussian, 30, 4, 1, 2);
  expect_error(Error::Kind::kInput, [&] { memory.distances(features.view(), naive::crew(0)); });
  for (const double p : {-0.1, 1.5, std::nan(""), HUGE_VAL}) {
    expect_error(Error::Kind::kUsage,
                 [&] { memory.learn(features.view(), how_to("a", p), naive::crew(0)); });
    expect_error(Error::Kind::kUsage,
                 [&] { memory.learn_online(features.view(), how_to("a", p), naive::crew(0)); });
  }
  for (const VectorView nothing : {VectorView(), VectorView(features.row(0), 0, 4)}) {
    expect_error(Error::Kind::kInput,
                 [&] { memory.learn(nothing, how_to("a", 0.5), naive::crew(0)); });
    expect_error(Error::Kind::kInput,
                 [&] { memory.learn_online(nothing, how_to("a", 0.5), naive::crew(0)); });
  }
  EXPECT_EQ(memory.size(), 0u);
  EXPECT_TRUE(memory.tasks().empty());

  memory.learn(features.view(), how_to("a", 0.5), naive::crew(0));
  const Set wider = naive::make(Family::kGaussian, 30, 5, 1, 2);
  expect_error(Error::Kind::kInput, [&] { memory.distances(wider.view(), naive::crew(0)); });
  Set spoilt = features;
  spoilt.row(3)[1] = kNan;
  expect_error(Error::Kind::kInput, [&] { memory.distances(spoilt.view(), naive::crew(0)); });
}

TEST_F(MemoryLearn, OneVectorOfOneNumber) {
  for (const double q : {0.0, 0.75, 1.0}) {
    Memory memory(1, 1, Consolidate::paper(q));
    naive::Twin twin(1, 1, q);
    for (const float value : {1.0f, 1.0f, -4.0f, 0.5f, 100.0f, -0.0f, 0.0f}) {
      Set one(1, 1);
      one.row(0)[0] = value;
      memory.learn_online(one.view(), how_to("a", 1), naive::crew(0));
      twin.learn(one, how_to("a", 1));
      ASSERT_EQ(naive::difference(memory, twin), "") << value;
      EXPECT_EQ(memory.size(), 1u);
    }
    EXPECT_GE(memory.certificate(),
              std::abs(100.0 - static_cast<double>(memory.vectors().row(0)[0])));
  }
}

TEST_F(MemoryLearn, ACapacityIsNotPaidForInAdvance) {
  Memory memory(3, 1000000000);
  const Set features = naive::make(Family::kGaussian, 50, 3, 1, 2);
  memory.learn(features.view(), how_to("a", 1), naive::crew(0));
  memory.learn_online(features.view(), how_to("a", 1), naive::crew(0));
  EXPECT_EQ(memory.size(), 50u);
  EXPECT_EQ(reopened(memory).capacity(), memory.capacity());
}

TEST_F(MemoryLearn, RecordsWhatItLearned) {
  Memory memory(6, 30);
  const Set features = naive::make(Family::kGaussian, 100, 6, 1, 2);
  LearnHow how = how_to("bottle", 0.1);
  how.images = 7;
  memory.learn(features.view(), how, naive::crew(0));
  how.task = "cable";
  how.time.clear();
  memory.learn(features.view().part(0, 5), how, naive::crew(0));
  ASSERT_EQ(memory.tasks().size(), 2u);
  EXPECT_EQ(memory.tasks()[0].name, "bottle");
  EXPECT_EQ(memory.tasks()[0].images, 7u);
  EXPECT_EQ(memory.tasks()[0].patches, 100u);
  EXPECT_EQ(memory.tasks()[0].picked, 10u);
  EXPECT_EQ(memory.tasks()[0].learned, "2031-05-04T03:02:01Z");
  const std::string now = memory.tasks()[1].learned;  // 2031-05-04T03:02:01Z
  ASSERT_EQ(now.size(), 20u) << now;
  EXPECT_EQ(now.substr(0, 2) + now[4] + now[10] + now[19], "20-TZ") << now;
  EXPECT_EQ(memory.radii()[0], kInfinity);
  EXPECT_EQ(memory.capacity(), 30u);
  EXPECT_EQ(memory.dimension(), 6u);
  EXPECT_EQ(memory.consolidation().q, 0.75);
}

// A memory whose text no reader would take is not made: learned or merged, with what is refused as
// it was.
TEST_F(MemoryLearn, HasRoomForSoManyRegions) {
  constexpr std::size_t kSide = 256;
  Compute compute(1);
  const auto mask = [&](std::size_t first) {  // as ragged as can be
    auto region = std::make_shared<RegionOfInterest>();
    region->width = region->height = kSide;
    region->counts.assign(RegionOfInterest::kMostCounts, 2);
    region->counts.front() = 1;
    region->counts.back() = 3;
    std::swap(region->counts[first], region->counts[first + 1]);
    return SharedRegion(region);
  };
  const Vectors features(4, 2);
  const auto fill = [&](Memory& memory, const std::string& name, std::size_t tasks) {
    for (std::size_t t = 0; t < tasks; ++t) {
      LearnHow how = how_to(name + std::to_string(t), 1);
      how.region = mask(t);
      memory.learn(features.view(), how, compute);
    }
  };
  Memory a(2, 1000), b(2, 1000);
  fill(a, "a", 60);
  fill(b, "b", 60);
  expect_error(Error::Kind::kInput, [&] { Memory::merge(a, b, 1000, compute); });
  expect_error(Error::Kind::kInput, [&] { fill(a, "more", 60); });
  const std::size_t tasks = a.tasks().size();
  EXPECT_GT(tasks, 100U);
  a.save(path("many.ccm"));
  EXPECT_EQ(Memory::open(path("many.ccm")).tasks().size(), tasks);
  a.learn(features.view(), how_to("without", 1), compute);
}

}  // namespace
}  // namespace contcore
