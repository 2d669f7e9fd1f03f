// What the memory proves of everything it ever learned; smaller memories and merged ones.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

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

class MemoryCertificate : public naive::MemoryTest {};
class MemoryShrink : public naive::MemoryTest {};
class MemoryMerge : public naive::MemoryTest {};

// Distances so small that their squares underflow have no relative error to speak of.
constexpr double kTiny = 1e-18;

/// A memory, its twin, and all it ever learned.
struct Life {
  Memory memory;
  naive::Twin twin;
  Set seen;

  Life(std::size_t d, std::size_t m, double q)
      : memory(d, m, Consolidate::paper(q)), twin(d, m, q), seen(0, d) {}

  void learn(const Step& step, bool online, Compute& crew) {
    if (online) {
      memory.learn_online(step.features.view(), step.how, crew);
    } else {
      memory.learn(step.features.view(), step.how, crew);
    }
    twin.learn(step.features, step.how);
    seen = naive::joined(seen, step.features);
  }

  void check(const std::string& what) const {
    ASSERT_EQ(naive::difference(memory, twin), "") << what;
    const double truth = static_cast<double>(naive::farthest(seen, twin.vectors));
    ASSERT_GE(memory.certificate(), truth) << what << ": not sound";
    ASSERT_LE(memory.certificate(), twin.delta * (1 + 1e-4) + kTiny) << what << ": too loose";
  }
};

TEST_F(MemoryCertificate, HoldsForAllThatWasEverLearned) {
  double tighter = 0;
  std::size_t lives = 0;
  for (std::size_t seed = 0; seed < naive::cases(240) && !HasFailure(); ++seed) {
    Dice dice(seed * 7919 + 9000000);
    const Family family = static_cast<Family>(seed % naive::kFamilies);
    const std::size_t d = dice.pick<std::size_t>({1, 2, 5, 16, 35});
    const std::size_t m = dice.pick<std::size_t>({1, 3, 6, 12, 20});
    const double q = dice.pick({0.0, 0.5, 0.75, 0.9, 1.0});
    Life life(d, m, q);
    Life other(d, dice.between(1, 15), q);  // merged in now and then
    const std::string what = "seed " + std::to_string(seed) + ", " + naive::name(family) + ", d " +
                             std::to_string(d) + ", q " + std::to_string(q);
    const auto crew = [&]() -> Compute& { return naive::any_crew(dice); };
    std::size_t s = 0;
    for (const Step& step : naive::story(dice, family, d, 14, 25)) {
      const std::size_t what_next = s++ == 0 ? 0 : dice.below(10);
      if (what_next < 7) {
        life.learn(step, dice.one_in(2), crew());
      } else if (what_next == 7 && life.memory.size() > 1) {
        const std::size_t count = dice.between(1, life.memory.capacity());
        const Memory smaller = life.memory.shrink(count, crew());
        const Vectors vectors = smaller.vectors();
        Set set(vectors.rows(), d);
        for (std::size_t i = 0; i < set.n; ++i) std::copy_n(vectors.row(i), d, set.row(i));
        ASSERT_LE(smaller.size(), count) << what;
        ASSERT_GE(smaller.certificate(), static_cast<double>(naive::farthest(life.seen, set)))
            << what << ", shrunk: not sound";
        const float moved = naive::farthest(life.twin.vectors, set);
        ASSERT_LE(smaller.certificate(),
                  (life.twin.delta + static_cast<double>(moved)) * (1 + 1e-4) + kTiny)
            << what << ", shrunk: too loose";
      } else if (other.memory.size() == 0 || what_next == 8) {
        other.learn(step, dice.one_in(2), crew());
        ASSERT_NO_FATAL_FAILURE(other.check(what + ", other"));
      } else {
        const std::size_t capacity = dice.between(2, 30);
        life.memory = Memory::merge(life.memory, other.memory, capacity, crew());
        life.twin.merge(other.twin, capacity);
        life.seen = naive::joined(life.seen, other.seen);
      }
      ASSERT_NO_FATAL_FAILURE(life.check(what + ", step " + std::to_string(s)));
    }
    if (life.twin.delta > 0) {
      tighter += life.memory.certificate() / life.twin.delta;
      ++lives;
    }
  }
  // Following each vector is worth something over the plain recursion.
  EXPECT_LT(tighter, static_cast<double>(lives));
}

TEST_F(MemoryCertificate, HoldsWhereSquaresUnderflow) {
  // Each is at a canonical distance of zero from the next, but not from the one after that.
  const auto point = [](float value) {
    Set set(1, 1);
    set.row(0)[0] = value;
    return set;
  };
  Memory a(1, 1, Consolidate::paper(0));
  a.learn(point(0).view(), how_to("a", 1), naive::crew(0));
  a.learn(point(-2e-23f).view(), how_to("a", 1), naive::crew(0));
  Memory b(1, 1, Consolidate::paper(0));
  b.learn(point(2e-23f).view(), how_to("b", 1), naive::crew(0));
  const Memory one = Memory::merge(b, a, 1, naive::crew(0));
  const float far = one.distances(point(-2e-23f).view(), naive::crew(0))[0];
  EXPECT_GE(one.certificate(), static_cast<double>(far));
}

TEST_F(MemoryCertificate, OfAMemoryThatHoldsEverythingIsNothing) {
  Memory memory(4, 100);
  EXPECT_LE(memory.certificate(), kTiny);
  const Set features = naive::make(Family::kGaussian, 50, 4, 1, 2);
  memory.learn(features.view(), how_to("a", 1), naive::crew(0));
  EXPECT_LE(memory.certificate(), kTiny);
}

// ---------------------------------------------------------------- shrink

std::vector<std::uint32_t> row_bits(const Memory& memory, std::size_t rows) {
  const Vectors vectors = memory.vectors();
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; i < std::min(rows, vectors.rows()); ++i) {
    for (std::size_t j = 0; j < vectors.cols(); ++j) out.push_back(bits(vectors.row(i)[j]));
  }
  return out;
}

template <class T>
std::vector<T> first_of(const std::vector<T>& all, std::size_t count) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size()))};
}

void expect_prefix(const Memory& memory, std::size_t count) {
  const Memory smaller = memory.shrink(count, naive::crew(1));
  EXPECT_EQ(smaller.size(), count);
  EXPECT_EQ(smaller.capacity(), count);
  EXPECT_EQ(row_bits(smaller, count) == row_bits(memory, count), true) << "first " << count;
  EXPECT_EQ(smaller.origins(), first_of(memory.origins(), count));
  EXPECT_EQ(smaller.radii(), first_of(memory.radii(), count));
  EXPECT_GE(smaller.certificate(), memory.certificate() * 0.999999 - kTiny);
}

TEST_F(MemoryShrink, TakesAPrefixOfAFullMemoryWithoutRatio) {
  for (std::size_t seed = 0; seed < naive::cases(30); ++seed) {
    Dice dice(seed * 7919 + 9100000);
    const Family family = dice.pick({Family::kGaussian, Family::kClusters, Family::kLowRank});
    const std::size_t m = dice.between(3, 25);
    Memory memory(7, m, Consolidate::paper(0));
    for (std::size_t s = 0; s < 3; ++s) {
      const Set features = naive::make(family, m + 5, 7, seed + s, s);
      memory.learn(features.view(), how_to("task", 0.9), naive::crew(0));
    }
    ASSERT_EQ(memory.size(), m);
    for (const std::size_t count : {std::size_t{1}, m / 2, m - 1}) {
      if (count > 0) expect_prefix(memory, count);
    }
    expect_prefix(reopened(memory), m - 1);
    // A prefix of a prefix.
    if (m > 3) expect_prefix(memory.shrink(m - 1, naive::crew(0)), m - 2);
    // An image that adds nothing leaves the order as it is.
    const Vectors known = memory.vectors();
    memory.learn(known.view(), how_to("again", 1), naive::crew(0));
    expect_prefix(memory, m / 2 + 1);
  }
}

TEST_F(MemoryShrink, IsTheGreedyCoresetOtherwise) {
  for (std::size_t seed = 0; seed < naive::cases(60) && !HasFailure(); ++seed) {
    Dice dice(seed * 7919 + 9200000);
    const Family family = static_cast<Family>(seed % naive::kFamilies);
    const std::size_t d = dice.between(1, 20);
    const std::size_t m = dice.between(4, 30);
    const double q = dice.pick({0.5, 0.75, 1.0});
    Life life(d, m, q);
    for (const Step& step : naive::story(dice, family, d, 5, 30)) {
      life.learn(step, dice.one_in(2), naive::crew(0));
    }
    // Something new at the end, so that the order is that of no single task.
    Step more{naive::make(Family::kGaussian, 3, d, seed, 9), how_to("more", 1)};
    life.learn(more, true, naive::crew(0));
    const std::size_t count = dice.between(1, m + 3);
    Life smaller = [&] {
      Life copy(d, m, q);
      copy.memory = life.memory.shrink(count, naive::crew(1));
      copy.twin = life.twin;
      copy.seen = life.seen;
      return copy;
    }();
    smaller.twin.shrink(count);
    ASSERT_NO_FATAL_FAILURE(smaller.check("seed " + std::to_string(seed)));
    EXPECT_EQ(smaller.memory.capacity(), count);
    EXPECT_EQ(smaller.memory.consolidation().q, q);
    // And it learns on.
    smaller.learn(more, true, naive::crew(0));
    const Step last{naive::make(family, 20, d, seed + 1, 8), how_to("last", 0.5)};
    smaller.learn(last, true, naive::crew(0));
    ASSERT_NO_FATAL_FAILURE(smaller.check("seed " + std::to_string(seed) + ", later"));
  }
}

TEST_F(MemoryShrink, LeavesTheLargeOneAloneAndRefusesNothing) {
  Memory memory(3, 10);
  memory.source["backbone"] = "abc";
  const Set features = naive::make(Family::kGaussian, 40, 3, 1, 2);
  memory.learn(features.view(), how_to("a", 0.5), naive::crew(0));
  const std::string before = bytes_of(memory);
  const Memory smaller = memory.shrink(4, naive::crew(0));
  EXPECT_EQ(bytes_of(memory) == before, true);
  EXPECT_EQ(smaller.source, memory.source);
  EXPECT_EQ(smaller.tasks().size(), 1u);
  expect_error(Error::Kind::kUsage, [&] { memory.shrink(0, naive::crew(0)); });
}

// ---------------------------------------------------------------- merge

Memory learned(const std::string& task, std::uint64_t seed, std::size_t m = 10) {
  Memory memory(5, m);
  const Set features = naive::make(Family::kGaussian, 40, 5, seed, seed);
  memory.learn(features.view(), how_to(task, 0.5), naive::crew(0));
  return memory;
}

TEST_F(MemoryMerge, JoinsTasksByName) {
  Memory a = learned("bottle", 1);
  Memory b = learned("cable", 2);
  const Set more = naive::make(Family::kGaussian, 30, 5, 3, 3);
  b.learn(more.view(), how_to("bottle", 0.4), naive::crew(0));
  naive::calibrate(a, more, "bottle");
  naive::calibrate(b, more, "cable");
  naive::calibrate(b, more, "bottle");
  const Memory both = Memory::merge(a, b, 100, naive::crew(1));
  ASSERT_EQ(both.tasks().size(), 2u);
  EXPECT_EQ(both.tasks()[0].name, "bottle");
  EXPECT_EQ(both.tasks()[0].patches, 70u);
  EXPECT_EQ(both.tasks()[0].images, 2u);
  EXPECT_EQ(both.tasks()[0].picked, 15u);  // ten, and five in half of the other memory
  EXPECT_EQ(both.tasks()[1].name, "cable");
  EXPECT_EQ(both.tasks()[1].patches, 40u);
  EXPECT_EQ(both.capacity(), 100u);
  ASSERT_EQ(both.size(), a.size() + b.size());
  EXPECT_EQ(row_bits(both, a.size()) == row_bits(a, a.size()), true);
  for (std::size_t i = 0; i < b.size(); ++i) {
    const std::int32_t task = b.origins()[i];  // cable, bottle
    EXPECT_EQ(both.origins()[a.size() + i], task == 0 ? 1 : 0);
  }
  ASSERT_EQ(both.states().size(), 2u);
  EXPECT_EQ(both.states()[0].calibrated, 2u);
  EXPECT_EQ(both.states()[1].calibrated, 1u);
}

TEST_F(MemoryMerge, RefusesWhatDoesNotBelongTogether) {
  Memory a = learned("a", 1);
  Memory b = learned("b", 2);
  const auto refused = [](const Memory& x, const Memory& y) {
    expect_error(Error::Kind::kInput, [&] { Memory::merge(x, y, 10, naive::crew(0)); });
    expect_error(Error::Kind::kInput, [&] { Memory::merge(y, x, 10, naive::crew(0)); });
  };
  a.source = {{"backbone", "one"}, {"size", "224"}};
  b.source = {{"backbone", "two"}, {"size", "224"}};
  refused(a, b);
  b.source = {{"backbone", "one"}};
  refused(a, b);
  b.source = {};
  refused(a, b);
  b.source = a.source;
  EXPECT_EQ(Memory::merge(a, b, 10, naive::crew(0)).source, a.source);
  expect_error(Error::Kind::kUsage, [&] { Memory::merge(a, b, 0, naive::crew(0)); });

  Memory empty(5, 10);
  empty.source = a.source;
  refused(a, empty);
  Memory wider(6, 10);
  wider.source = a.source;
  wider.learn(naive::make(Family::kGaussian, 9, 6, 1, 1).view(), how_to("a", 1), naive::crew(0));
  refused(a, wider);
}

TEST_F(MemoryMerge, SaysWhyATaskHasSoManyVectors) {
  Memory small(5, 2);
  for (const char* task : {"a", "b", "c"}) {
    const auto seed = static_cast<std::uint64_t>(task[0]);
    small.learn(naive::make(Family::kGaussian, 40, 5, seed, seed).view(), how_to(task, 0.5),
                naive::crew(0));
  }
  const std::vector<TaskState> states = small.states();
  EXPECT_STREQ(states[0].why, "equal share");  // it had two
  EXPECT_STREQ(states[1].why, "all it took");
  EXPECT_STREQ(states[2].why, "no room");
  EXPECT_EQ(states[2].vectors, 0u);
  const Memory large = Memory::merge(small, learned("e", 9), 100, naive::crew(0));
  EXPECT_STREQ(large.states()[0].why, "cut earlier");  // it is not full
  EXPECT_STREQ(large.states()[3].why, "all it took");
}

TEST_F(MemoryMerge, AFileIsToldByItsHash) {
  Memory a = learned("a", 1);
  Memory b = learned("b", 2);
  a.source = {{"net", "/here/net.onnx"}, {"net.sha256", "12"}};
  b.source = {{"net", "net"}, {"net.sha256", "12"}};
  EXPECT_EQ(Memory::merge(a, b, 10, naive::crew(0)).source, a.source);
  EXPECT_EQ(Memory::merge(b, a, 10, naive::crew(0)).source, b.source);
  const auto refused = [&] {
    expect_error(Error::Kind::kInput, [&] { Memory::merge(a, b, 10, naive::crew(0)); });
    expect_error(Error::Kind::kInput, [&] { Memory::merge(b, a, 10, naive::crew(0)); });
  };
  b.source = {{"net", "/here/net.onnx"}, {"net.sha256", "13"}};
  refused();
  b.source = {{"net", "/here/net.onnx"}};  // one hash alone tells nothing
  refused();
  b.source = {{"net.sha256", "13"}};
  refused();
}

TEST_F(MemoryMerge, IsTheSameForAnyNumberOfThreads) {
  const Memory a = learned("a", 1, 20);
  const Memory b = learned("b", 2, 20);
  const std::string one = bytes_of(Memory::merge(a, b, 15, naive::crew(0)));
  for (std::size_t crew = 1; crew < 4; ++crew) {
    EXPECT_EQ(bytes_of(Memory::merge(a, b, 15, naive::crew(crew))) == one, true);
  }
}

}  // namespace
}  // namespace contcore
