// Exact greedy sampling and the canonical distance against their naive twins, bit for bit.
#include "contcore/greedy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "contcore/distance.h"
#include "contcore/error.h"
#include "coreset/greedy.h"
#include "coreset/greedy_cases.h"
#include "coreset/kernels.h"
#include "coreset/naive.h"

namespace contcore {
namespace {

using greedy_cases::Case;
using greedy_cases::describe;
using greedy_cases::difference;
using greedy_cases::random_case;
using greedy_cases::random_tuning;
using naive::bits;
using naive::Dice;
using naive::Family;
using naive::Set;
using Start = GreedyOptions::Start;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// ---------------------------------------------------------------- the canonical distance

TEST(Distance, IsTheFormulaOnEveryTarget) {
  std::vector<std::size_t> dimensions(200);
  std::iota(dimensions.begin(), dimensions.end(), std::size_t{1});
  for (const std::size_t d : {1023u, 1024u, 1025u}) dimensions.push_back(d);
  ASSERT_FALSE(kernels::targets().empty());
  for (const std::string& target : kernels::targets()) {
    const naive::ForcedTarget forced(target);
    for (const std::size_t d : dimensions) {
      for (std::size_t f = 0; f < naive::kFamilies; ++f) {
        const Set set = naive::make(static_cast<Family>(f), 3, d, d + f, d * 31 + f);
        for (std::size_t i = 0; i < 3; ++i) {
          for (std::size_t j = 0; j < 3; ++j) {
            ASSERT_EQ(bits(squared_distance(set.row(i), set.row(j), d)),
                      bits(naive::canonical(set.row(i), set.row(j), d)))
                << target << ", dimension " << d << ", " << naive::name(static_cast<Family>(f));
          }
        }
      }
    }
  }
}

TEST(Distance, IsTheSameInBlocksAndInSubtract) {
  for (const std::string& target : kernels::targets()) {
    const naive::ForcedTarget forced(target);
    for (std::size_t seed = 0; seed < naive::cases(400); ++seed) {
      Dice dice(seed);
      const std::size_t d = dice.between(1, 150);
      const std::size_t na = dice.between(1, 11);
      const std::size_t nb = dice.between(1, 11);
      const Family family = static_cast<Family>(seed % naive::kFamilies);
      const Set a = naive::make(family, na, d, seed, 2 * seed);
      const Set b = naive::make(family, nb, d, seed, 2 * seed + 1);
      std::vector<const float*> rows_a;
      std::vector<const float*> rows_b;
      for (std::size_t i = 0; i < na; ++i) rows_a.push_back(a.row(i));
      for (std::size_t j = 0; j < nb; ++j) rows_b.push_back(b.row(j));
      std::vector<float> out(na * nb, kNan);
      kernels::squared_distances(rows_a.data(), na, rows_b.data(), nb, d, out.data());
      std::vector<float> difference(d, kNan);
      for (std::size_t i = 0; i < na; ++i) {
        for (std::size_t j = 0; j < nb; ++j) {
          const float expected = naive::canonical(a.row(i), b.row(j), d);
          ASSERT_EQ(bits(out[i * nb + j]), bits(expected)) << target << ", seed " << seed;
          ASSERT_EQ(bits(kernels::subtract(a.row(i), b.row(j), d, difference.data())),
                    bits(expected))
              << target << ", seed " << seed;
          for (std::size_t l = 0; l < d; ++l) {
            ASSERT_EQ(bits(difference[l]), bits(a.row(i)[l] - b.row(j)[l]));
          }
        }
      }
    }
  }
}

// ---------------------------------------------------------------- greedy against the plain loop

/// What is wrong with the stages; empty if nothing.
std::string stages_wrong(const GreedyResult& got, std::size_t rows, std::size_t base_rows) {
  if (got.stages.empty()) return "no stages";
  std::uint64_t sum = 0;
  std::ostringstream out;
  for (const GreedyStage& stage : got.stages) {
    if (stage.name.empty()) return "a stage without a name";
    sum += stage.settled;
    out << stage.name << ' ' << stage.settled << ", ";
  }
  const std::uint64_t expected =
      static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(base_rows + got.picks.size());
  if (sum == expected) return "";
  out << "sum " << sum << ", expected " << expected;
  return out.str();
}

/// Runs a case once with its naive twin and `runs` times with random crews, targets and tunings.
void check(const Case& c, std::size_t runs, Dice& dice, bool tuned = true, bool stages = false) {
  std::optional<GreedyResult> expected;
  const std::vector<float>* initial = c.initial.empty() ? nullptr : &c.initial;
  const auto twin = [&](std::optional<std::size_t> first) {
    expected = naive::greedy(c.points, c.base, c.options.count, first, initial);
  };
  if (c.base.n > 0 || initial) {
    twin({});
  } else if (c.options.start == Start::kMean) {
    twin(naive::farthest_from_mean(c.points));
  } else if (c.options.start == Start::kIndex) {
    twin(c.options.start_index);
  }
  for (std::size_t run = 0; run < runs; ++run) {
    const std::string target = naive::any_target(dice, c.points.n * c.points.d);
    const std::size_t crew = dice.below(4);
    const GreedyTuning tuning = tuned ? random_tuning(dice) : GreedyTuning();
    const std::string how = c.what + "; " + target + ", threads " +
                            std::to_string(naive::crew(crew).threads().count()) + ", " +
                            describe(tuning);
    const naive::ForcedTarget forced(target);
    GreedyResult got;
    try {
      got = greedy_sample_tuned(c.points.view(), c.base.view(), c.options, naive::crew(crew),
                                tuning, initial);
    } catch (const std::exception& error) {
      ADD_FAILURE() << how << ": threw " << error.what();
      continue;
    }
    if (!expected) {  // a random start: any point will do, but always the same one
      ASSERT_FALSE(got.picks.empty()) << how;
      ASSERT_GE(got.picks[0], 0) << how;
      ASSERT_LT(got.picks[0], static_cast<std::int64_t>(c.points.n)) << how;
      twin(static_cast<std::size_t>(got.picks[0]));
    }
    EXPECT_EQ(difference(got, *expected), "") << how;
    if (stages) {
      EXPECT_EQ(stages_wrong(got, c.points.n, c.base.n), "") << how;
    }
    EXPECT_TRUE(std::is_sorted(got.radii.rbegin(), got.radii.rend())) << how;
  }
}

/// Stops a property that has already failed often enough to make its point.
bool enough() { return ::testing::Test::HasFailure(); }

TEST(Greedy, IsThePlainLoopOnSmallSets) {
  for (std::size_t seed = 0; seed < naive::cases(1100) && !enough(); ++seed) {
    Dice dice(seed + 1000000);
    const Case c = random_case(seed, 100, dice);
    check(c, 2, dice);
  }
}

TEST(Greedy, IsThePlainLoopInHighDimensions) {
  for (std::size_t seed = 0; seed < naive::cases(60) && !enough(); ++seed) {
    Dice dice(seed + 2000000);
    Case c;
    const Family family = static_cast<Family>(seed % naive::kFamilies);
    const std::size_t d = dice.pick<std::size_t>({255, 257, 512, 513, 1023, 1024, 1025});
    const std::size_t n = dice.between(2, 90);
    c.points = naive::make(family, n, d, seed, 3 * seed);
    c.base = naive::make(family, dice.one_in(2) ? 0 : dice.between(1, 30), d, seed, 3 * seed + 1);
    if (dice.one_in(2)) {
      c.points.make_bytes(-2, 2);
      c.base.make_bytes(-2, 2);
    }
    c.options.count = dice.between(1, n);
    c.what = "seed " + std::to_string(seed) + ", " + naive::name(family) + ", n " +
             std::to_string(n) + ", d " + std::to_string(d) + ", count " +
             std::to_string(c.options.count) + ", base " + std::to_string(c.base.n);
    check(c, 3, dice);
  }
}

TEST(Greedy, IsThePlainLoopOnMediumSets) {
  for (std::size_t seed = 0; seed < naive::cases(50) && !enough(); ++seed) {
    Dice dice(seed + 3000000);
    Case c;
    const Family family = static_cast<Family>(seed % naive::kFamilies);
    const std::size_t d = dice.pick<std::size_t>({3, 63, 64, 65, 100, 128});
    const std::size_t n = dice.between(300, 1000);
    c.points = naive::make(family, n, d, seed, 3 * seed);
    if (dice.one_in(5)) c.points.make_half();
    c.base = naive::make(family, dice.one_in(2) ? 0 : dice.between(1, 100), d, seed, 3 * seed + 1);
    c.options.count = dice.between(1, 80);
    c.what = "seed " + std::to_string(seed) + ", " + naive::name(family) + ", n " +
             std::to_string(n) + ", d " + std::to_string(d) + ", count " +
             std::to_string(c.options.count) + ", base " + std::to_string(c.base.n);
    check(c, 3, dice);
  }
}

TEST(Greedy, IsThePlainLoopOnLargerSetsAsTuned) {
  struct Size {
    Family family;
    std::size_t n, d, base, count;
  };
  const std::vector<Size> sizes = {
      {Family::kLowRank, 4000, 128, 0, 120},    {Family::kLowRank, 2000, 1024, 0, 30},
      {Family::kClusters, 3000, 256, 40, 40},   {Family::kGaussian, 2000, 512, 0, 40},
      {Family::kSparse, 3000, 200, 0, 100},     {Family::kOffset, 3000, 129, 20, 80},
      {Family::kGrid, 5000, 64, 0, 100},        {Family::kDuplicates, 5000, 96, 0, 100},
      {Family::kMixedScales, 3000, 128, 0, 80}, {Family::kFarCluster, 3000, 128, 0, 80},
      {Family::kSphere, 5000, 65, 100, 20},     {Family::kNearDuplicates, 4100, 128, 0, 80},
  };
  for (std::size_t s = 0; s < naive::cases(sizes.size()) && s < sizes.size(); ++s) {
    Dice dice(s + 4000000);
    const Size& size = sizes[s];
    Case c;
    c.points = naive::make(size.family, size.n, size.d, s + 50, 3 * s);
    if (s % 4 == 1) c.points.make_half();
    c.base = naive::make(size.family, size.base, size.d, s + 50, 3 * s + 1);
    if (s % 4 == 2) {
      c.points.make_bytes(-3, 3);
      c.base.make_bytes(-3, 3);
    }
    c.options.count = size.count;
    c.what = std::string("large ") + naive::name(size.family) + ", n " + std::to_string(size.n) +
             ", d " + std::to_string(size.d);
    check(c, 2, dice, false);
    check(c, 1, dice, true);
  }
}

// Bytes of a few values at the ends of their range: many ties, and sums beyond 2²⁴.
TEST(Greedy, IsThePlainLoopOnBytesAtTheirEnds) {
  for (const std::size_t d : {1u, 3u, 63u, 512u, 513u, 4096u}) {
    for (const std::size_t distinct : {1u, 2u, 5u, 60u}) {
      Dice dice(d * 100 + distinct);
      Case c;
      c.points = Set(130, d, 1);
      for (std::size_t i = 0; i < c.points.n; ++i) {
        const std::size_t which = dice.below(distinct);
        Dice of_row(which + d);
        for (std::size_t j = 0; j < d; ++j) {
          const float value = of_row.pick({0.0f, 255.0f, 255.0f, 254.0f});
          c.points.row(i)[j] = distinct == 1 ? (d % 2 == 0 ? 255.0f : 0.0f) : value;
        }
      }
      c.points.make_bytes(0, 255);
      c.options.count = 70;
      c.what = "bytes, d " + std::to_string(d) + ", " + std::to_string(distinct) + " distinct";
      check(c, 4, dice);
    }
  }
}

TEST(Greedy, StagesAddUp) {
  for (std::size_t seed = 0; seed < naive::cases(150) && !enough(); ++seed) {
    Dice dice(seed + 7000000);
    const Case c = random_case(seed, 100, dice);
    check(c, 3, dice, true, true);
  }
  for (const Family family : {Family::kGaussian, Family::kLowRank, Family::kOffset}) {
    Dice dice(static_cast<std::uint64_t>(family) + 8000000);
    Case c;
    c.points = naive::make(family, 2000, 129, 1, 2);
    c.base = naive::make(family, 20, 129, 1, 3);
    c.options.count = 40;
    c.what = naive::name(family);
    check(c, 1, dice, false, true);
  }
}

TEST(Greedy, PicksOfASmallerCountAreAPrefix) {
  const Set points = naive::make(Family::kClusters, 700, 80, 1, 2);
  GreedyOptions options;
  options.count = 200;
  const GreedyResult all = greedy_sample(points.view(), {}, options, naive::crew(1));
  ASSERT_EQ(all.picks.size(), 200u);
  for (const std::size_t count : {1u, 2u, 3u, 10u, 63u, 64u, 65u, 199u}) {
    options.count = count;
    const GreedyResult some = greedy_sample(points.view(), {}, options, naive::crew(2));
    ASSERT_EQ(some.picks.size(), count);
    EXPECT_TRUE(std::equal(some.picks.begin(), some.picks.end(), all.picks.begin()));
    EXPECT_EQ(bits(some.covering_radius), bits(all.radii[count]));
  }
}

TEST(Greedy, PicksOnABaseOfItsPicksAreTheRest) {
  const Set points = naive::make(Family::kLowRank, 500, 100, 3, 2);
  GreedyOptions options;
  options.count = 120;
  const GreedyResult all = greedy_sample(points.view(), {}, options, naive::crew(1));
  ASSERT_EQ(all.picks.size(), 120u);
  Set base(50, 100);
  for (std::size_t i = 0; i < 50; ++i) {
    naive::copy_row(points, static_cast<std::size_t>(all.picks[i]), base, i);
  }
  options.count = 70;
  const GreedyResult rest = greedy_sample(points.view(), base.view(), options, naive::crew(2));
  ASSERT_EQ(rest.picks.size(), 70u);
  EXPECT_TRUE(std::equal(rest.picks.begin(), rest.picks.end(), all.picks.begin() + 50));
  EXPECT_TRUE(std::equal(rest.radii.begin(), rest.radii.end(), all.radii.begin() + 50));
}

TEST(Greedy, RandomStartDependsOnTheSeedAlone) {
  const Set points = naive::make(Family::kGaussian, 300, 8, 1, 2);
  GreedyOptions options;
  options.count = 2;
  options.start = Start::kRandom;
  std::vector<std::int64_t> firsts;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    options.seed = seed;
    const GreedyResult one = greedy_sample(points.view(), {}, options, naive::crew(0));
    const GreedyResult two = greedy_sample(points.view(), {}, options, naive::crew(3));
    EXPECT_EQ(one.picks, two.picks);
    EXPECT_EQ(bits(one.radii[0]), bits(kInfinity));
    firsts.push_back(one.picks[0]);
  }
  std::sort(firsts.begin(), firsts.end());
  EXPECT_GT(std::unique(firsts.begin(), firsts.end()) - firsts.begin(), 10);
}

// ---------------------------------------------------------------- errors

/// The error a call throws; a failure if it throws none.
template <class Call>
std::optional<Error> error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {};
}

/// Whether a message has a number as a word of its own.
bool names_number(const std::string& message, std::size_t number) {
  std::string digits;
  for (const char character : message + " ") {
    if (character >= '0' && character <= '9') {
      digits += character;
    } else {
      if (digits == std::to_string(number)) return true;
      digits.clear();
    }
  }
  return false;
}

TEST(GreedyErrors, ValuesThatAreNotFiniteNameTheirRow) {
  for (std::size_t seed = 0; seed < naive::cases(200); ++seed) {
    Dice dice(seed + 5000000);
    const std::size_t d = dice.pick<std::size_t>({1, 2, 7, 64, 65, 100, 130});
    const std::size_t n = dice.pick<std::size_t>({1, 40, 300, 1100});
    Set points = naive::make(Family::kGaussian, n, d, seed, seed);
    Set base = naive::make(Family::kGaussian, 50, d, seed, seed + 1);
    const bool half = dice.one_in(3);
    if (half) points.make_half();
    if (half) base.make_half();
    const bool in_base = dice.one_in(2);
    Set& bad = in_base ? base : points;
    const std::size_t row = dice.one_in(4) ? bad.n - 1 : dice.below(bad.n);
    const auto spoil = [&](std::size_t i, std::size_t j, std::size_t which) {
      const std::size_t at = bad.lead + i * d + j;
      bad.values[at] = which == 0 ? kNan : which == 1 ? kInfinity : -kInfinity;
      if (half) bad.halves[at] = which == 0 ? 0x7E01u : which == 1 ? 0x7C00u : 0xFC00u;
    };
    spoil(row, dice.below(d), dice.below(3));
    // A later one must not be named instead.
    if (row + 1 < bad.n && dice.one_in(2)) spoil(bad.n - 1, dice.below(d), dice.below(3));
    GreedyOptions options;
    options.count = dice.between(1, 10);
    options.points_name = "the Points";
    options.base_name = "the Base";
    options.start = dice.pick({Start::kMean, Start::kRandom, Start::kIndex});
    const VectorView base_view = in_base || dice.one_in(2) ? base.view() : VectorView();
    const std::size_t crew = dice.below(4);
    const GreedyTuning tuning = random_tuning(dice);
    const std::optional<Error> error = error_of(
        [&] { greedy_sample_tuned(points.view(), base_view, options, naive::crew(crew), tuning); });
    ASSERT_TRUE(error) << "seed " << seed << ", row " << row << (in_base ? " of base" : "");
    EXPECT_EQ(error->kind(), Error::Kind::kInput) << error->what();
    const std::string message = error->what();
    EXPECT_TRUE(names_number(message, row))
        << "seed " << seed << ", row " << row << ": " << message;
    EXPECT_NE(message.find(in_base ? "the Base" : "the Points"), std::string::npos) << message;
  }
}

TEST(GreedyErrors, ValuesTooLargeAreRefused) {
  for (const float value : {1e19f, 1e25f, 3e38f, -3e38f}) {
    for (const std::size_t d : {2u, 64u, 100u}) {
      Set points = naive::make(Family::kGaussian, 50, d, 1, 2);
      for (std::size_t j = 0; j < d; ++j) points.row(20)[j] = value;
      GreedyOptions options;
      options.count = 5;
      const std::optional<Error> error =
          error_of([&] { greedy_sample(points.view(), {}, options, naive::crew(1)); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->kind(), Error::Kind::kInput) << error->what();
      const Set fine = naive::make(Family::kGaussian, 50, d, 1, 3);
      const std::optional<Error> of_base =
          error_of([&] { greedy_sample(fine.view(), points.view(), options, naive::crew(1)); });
      ASSERT_TRUE(of_base);
      EXPECT_EQ(of_base->kind(), Error::Kind::kInput) << of_base->what();
    }
  }
}

TEST(GreedyErrors, CallsThatMakeNoSense) {
  const Set points = naive::make(Family::kGaussian, 30, 6, 1, 2);
  const Set base = naive::make(Family::kGaussian, 30, 7, 1, 2);
  GreedyOptions options;
  options.count = 0;
  std::optional<Error> error =
      error_of([&] { greedy_sample(points.view(), {}, options, naive::crew(0)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), Error::Kind::kUsage) << error->what();

  options.count = 3;
  error = error_of([&] { greedy_sample(points.view(), base.view(), options, naive::crew(0)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), Error::Kind::kInput) << error->what();

  error = error_of([&] { greedy_sample({}, {}, options, naive::crew(0)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), Error::Kind::kInput) << error->what();
  error = error_of(
      [&] { greedy_sample(VectorView(points.row(0), 0, 6), {}, options, naive::crew(0)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), Error::Kind::kInput) << error->what();

  options.start = Start::kIndex;
  for (const std::size_t index : {std::size_t{30}, std::size_t{31}, ~std::size_t{0}}) {
    options.start_index = index;
    error = error_of([&] { greedy_sample(points.view(), {}, options, naive::crew(0)); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), Error::Kind::kUsage) << error->what();
  }
  options.start_index = 29;
  EXPECT_EQ(greedy_sample(points.view(), {}, options, naive::crew(0)).picks[0], 29);
}

TEST(GreedyErrors, BytesAndFloatsAreNotMixed) {
  Set floats = naive::make(Family::kGaussian, 20, 8, 1, 2);
  Set bytes = floats;
  bytes.make_bytes(-2, 2);
  GreedyOptions options;
  options.count = 3;
  options.points_name = "new.npy";
  options.base_name = "kept.npy";
  for (const bool points_are_bytes : {false, true}) {
    const std::optional<Error> error = error_of([&] {
      greedy_sample((points_are_bytes ? bytes : floats).view(),
                    (points_are_bytes ? floats : bytes).view(), options, naive::crew(0));
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), Error::Kind::kInput);
    for (const char* part : {"new.npy", "kept.npy", "uint8", "float"}) {
      EXPECT_NE(std::string(error->what()).find(part), std::string::npos) << error->what();
    }
  }
}

TEST(GreedyErrors, MemoryLimitIsKeptToOrRefused) {
  const Set points = naive::make(Family::kLowRank, 5000, 256, 5, 6);
  GreedyOptions options;
  options.count = 60;
  const GreedyResult expected =
      naive::greedy(points, Set(0, 256), 60, naive::farthest_from_mean(points));
  bool enough_before = false;
  constexpr std::size_t kMega = 1000000;
  for (const std::size_t limit :
       {std::size_t{1}, std::size_t{1000}, kMega, 2 * kMega, 5 * kMega, 10 * kMega, 20 * kMega,
        30 * kMega, 40 * kMega, 41 * kMega, 45 * kMega, 50 * kMega, 64 * kMega, 200 * kMega,
        1000 * kMega, std::size_t{0}}) {
    options.memory_limit = limit;
    try {
      const GreedyResult got = greedy_sample(points.view(), {}, options, naive::crew(limit % 3));
      enough_before = true;
      EXPECT_NE(limit, 1u);
      EXPECT_EQ(difference(got, expected), "") << "limit " << limit;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput) << error.what();
      EXPECT_FALSE(enough_before) << "limit " << limit << ": less was enough";
      EXPECT_LT(limit, 40 * kMega) << error.what();
    }
  }
}

// ---------------------------------------------------------------- progress

TEST(GreedyProgress, RisesToOneAndCancels) {
  for (std::size_t seed = 0; seed < naive::cases(30); ++seed) {
    Dice dice(seed + 6000000);
    const std::size_t d = dice.pick<std::size_t>({3, 64, 128});
    const std::size_t n = dice.pick<std::size_t>({1, 60, 600, 3000});
    const Family family = dice.pick({Family::kLowRank, Family::kDuplicates, Family::kGaussian});
    const Set points = naive::make(family, n, d, seed, seed);
    const Set base = naive::make(family, dice.pick<std::size_t>({0, 0, 1, 200}), d, seed, seed + 9);
    const GreedyTuning tuning = random_tuning(dice);
    const std::size_t crew = dice.below(4);
    GreedyOptions options;
    options.count = dice.between(1, 50);
    std::vector<double> values;
    bool elsewhere = false;
    const std::thread::id here = std::this_thread::get_id();
    options.progress = [&](double done) {
      values.push_back(done);
      elsewhere = elsewhere || std::this_thread::get_id() != here;
      return true;
    };
    const auto call = [&] {
      return greedy_sample_tuned(points.view(), base.view(), options, naive::crew(crew), tuning);
    };
    const GreedyResult expected = call();
    const std::string what = "seed " + std::to_string(seed) + ", n " + std::to_string(n) + ", d " +
                             std::to_string(d) + ", base " + std::to_string(base.n) + ", " +
                             naive::name(family) + ", " + describe(tuning);
    ASSERT_FALSE(values.empty()) << what;
    EXPECT_TRUE(std::is_sorted(values.begin(), values.end())) << what;
    EXPECT_GE(values.front(), 0.0) << what;
    EXPECT_EQ(values.back(), 1.0) << what;
    EXPECT_FALSE(elsewhere) << what;

    for (int attempt = 0; attempt < 4; ++attempt) {
      const std::size_t at = attempt == 0 ? values.size() - 1 : dice.below(values.size());
      std::size_t calls = 0;
      options.progress = [&](double) { return calls++ != at; };
      try {
        const GreedyResult got = call();
        EXPECT_LE(calls, at) << what << ": went on after call " << at << " of " << values.size()
                             << " said to stop";
        EXPECT_EQ(difference(got, expected), "") << what;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), Error::Kind::kCancelled) << error.what();
        EXPECT_EQ(calls, at + 1) << what;
      }
    }
    // The crew is as good as before.
    options.progress = {};
    EXPECT_EQ(difference(call(), expected), "") << what;
  }
}

}  // namespace
}  // namespace contcore
