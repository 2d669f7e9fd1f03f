// Greedy sampling on several ranks against one process, bit for bit.
#include "coreset/greedy_ranks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "contcore/error.h"
#include "coreset/greedy_cases.h"
#include "coreset/naive.h"
#include "coreset/points.h"
#include "device/packing.h"
#include "device/thread_ranks.h"

namespace contcore {
namespace {

using greedy_cases::Case;
using greedy_cases::difference;
using greedy_cases::random_case;
using greedy_cases::random_tuning;
using in_threads::on_ranks;
using naive::Dice;
using naive::Family;

/// How many of n points each rank has: evenly; most of them with one; all with one.
std::vector<std::size_t> parts_of(std::size_t n, std::size_t ranks, std::size_t how, Dice& dice) {
  std::vector<std::size_t> parts(ranks, 0);
  switch (how % 4) {
    case 0:
      for (std::size_t r = 0; r < ranks; ++r) parts[r] = n * (r + 1) / ranks - n * r / ranks;
      break;
    case 1:  // skewed
      for (std::size_t i = 0; i < n; ++i) ++parts[dice.below(1 + dice.below(ranks))];
      break;
    case 2:
      parts[dice.below(ranks)] = n;
      break;
    default:  // in any way
      for (std::size_t i = 0; i < n; ++i) ++parts[dice.below(ranks)];
      break;
  }
  return parts;
}

struct OnRanks {
  std::vector<std::size_t> parts;
  GreedyTuning tuning;
  RankGreedyLimits limits;
};

/// The result of rank 0, after checking that all ranks have it, with the picks' vectors.
GreedyResult sample(const Case& c, const OnRanks& how) {
  GreedyResult result;
  on_ranks(how.parts.size(), [&](Ranks& ranks) {
    const std::size_t first = std::accumulate(
        how.parts.begin(), how.parts.begin() + static_cast<std::ptrdiff_t>(ranks.rank()),
        std::size_t{0});
    const VectorView part = c.points.view().part(first, how.parts[ranks.rank()]);
    Compute compute(1 + ranks.rank() % 2);
    const Points points(part.rows > 0 ? part : VectorView(), ranks);
    PickedPoints picked =
        greedy_sample_on_ranks(points, c.base.view(), c.options, compute, how.tuning, how.limits);
    Packer packer;
    packer.put_all(picked.greedy.picks);
    packer.put_all(picked.greedy.radii);
    packer.put(picked.greedy.covering_radius);
    const std::vector<Ranks::Bytes> all = ranks.all_gather(packer.bytes());
    EXPECT_EQ(all[0], all[ranks.rank()]);
    std::vector<float> scratch(c.points.d);
    ASSERT_EQ(picked.vectors.rows(), picked.greedy.picks.size());
    for (std::size_t k = 0; k < picked.vectors.rows(); ++k) {
      const auto id = static_cast<std::size_t>(picked.greedy.picks[k]);
      if (picked.vectors.scalar() == Scalar::kUint8) {
        EXPECT_EQ(std::memcmp(picked.vectors.byte_row(k), c.points.view().byte_row(id), c.points.d),
                  0);
      } else {
        const float* row = c.points.view().row(id, scratch.data());
        EXPECT_EQ(std::memcmp(picked.vectors.row(k), row, c.points.d * sizeof(float)), 0);
      }
    }
    if (ranks.rank() == 0) result = std::move(picked.greedy);
  });
  return result;
}

OnRanks any_ranks(std::size_t n, std::size_t seed, Dice& dice) {
  OnRanks how;
  how.parts = parts_of(n, dice.pick<std::size_t>({1, 2, 3, 4, 7}), seed / 5, dice);
  how.tuning = random_tuning(dice);
  how.limits.candidates = dice.pick<std::size_t>({1, 2, 5, 64, 512});
  how.limits.kept = dice.pick<std::size_t>({0, 1, 3, 100, 16384});
  return how;
}

void check(const Case& c, const OnRanks& how) {
  std::string text = c.what + ", parts";
  for (const std::size_t part : how.parts) text += " " + std::to_string(part);
  text += ", candidates " + std::to_string(how.limits.candidates) + ", kept " +
          std::to_string(how.limits.kept) + ", " + greedy_cases::describe(how.tuning);
  Compute compute(2);
  const GreedyResult expected = greedy_sample(c.points.view(), c.base.view(), c.options, compute);
  EXPECT_EQ(difference(sample(c, how), expected), "") << text;
}

TEST(GreedyOnRanks, IsOneProcess) {
  for (std::size_t seed = 0; seed < naive::cases(500) && !HasFailure(); ++seed) {
    Dice dice(seed + 9000000);
    Case c = random_case(seed, 100, dice);
    c.initial.clear();
    check(c, any_ranks(c.points.n, seed, dice));
  }
}

// Every family of points, every number of ranks, and three ways to share them out; so many points
// that there are several rounds, blocks of the mean, and sketches.
TEST(GreedyOnRanks, IsOneProcessOnLargerSets) {
  std::size_t seed = 0;
  for (const std::size_t ranks : {2u, 3u, 4u, 7u}) {
    for (std::size_t way = 0; way < 3; ++way) {
      for (std::size_t f = 0; f < naive::kFamilies; ++f, ++seed) {
        if (naive::cases(2) == 1 && seed % 5 != 0) continue;  // under a sanitizer
        Dice dice(seed + 9500000);
        Case c;
        const auto family = static_cast<Family>(f);
        const std::size_t d = dice.pick<std::size_t>({33, 64, 129});
        const std::size_t n = dice.between(1500, 4000);
        c.points = naive::make(family, n, d, seed, 3 * seed);
        c.base =
            naive::make(family, dice.one_in(2) ? 0 : dice.between(1, 70), d, seed, 3 * seed + 1);
        if (dice.one_in(3)) {
          c.points.make_bytes(-3, 3);
          c.base.make_bytes(-3, 3);
        } else if (dice.one_in(4)) {
          c.points.make_half();
        }
        c.options.count = dice.between(1, 200);
        c.what = std::string(naive::name(family)) + ", n " + std::to_string(n) + ", d " +
                 std::to_string(d) + ", base " + std::to_string(c.base.n);
        OnRanks how;
        how.parts = parts_of(n, ranks, way, dice);
        how.limits.candidates = dice.pick<std::size_t>({16, 64, 512});
        check(c, how);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(GreedyOnRanks, IsOneProcessWithinAMemoryLimit) {
  Dice dice(5);
  Case c;
  c.points = naive::make(Family::kLowRank, 3000, 128, 1, 2);
  c.options.count = 50;
  c.options.memory_limit = std::size_t{64} << 20;
  OnRanks how;
  how.parts = {1000, 0, 2000};
  check(c, how);
}

TEST(GreedyOnRanks, AnErrorOfOneIsThrownOnAll) {
  naive::Set points = naive::make(Family::kGaussian, 300, 20, 1, 2);
  points.row(250)[3] = std::numeric_limits<float>::quiet_NaN();
  std::atomic<int> thrown = 0;
  on_ranks(3, [&](Ranks& ranks) {
    Compute compute(1);
    GreedyOptions options;
    options.count = 5;
    const Points part(points.view().part(ranks.rank() * 100, 100), ranks);
    try {
      pick_points(part, {}, options, compute);
      ADD_FAILURE() << "no error on rank " << ranks.rank();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
      EXPECT_NE(std::string(error.what()).find("not a number"), std::string::npos);
      ++thrown;
    }
  });
  EXPECT_EQ(thrown, 3);
}

TEST(GreedyOnRanks, WhoIsToldToStopStopsAll) {
  const naive::Set points = naive::make(Family::kGaussian, 3000, 20, 1, 2);
  std::atomic<int> stopped = 0;
  on_ranks(3, [&](Ranks& ranks) {
    Compute compute(1);
    GreedyOptions options;
    options.count = 2000;
    if (ranks.rank() == 1) options.progress = [](double done) { return done < 0.3; };
    const Points part(points.view().part(ranks.rank() * 1000, 1000), ranks);
    try {
      greedy_sample_on_ranks(part, {}, options, compute, {}, {16, 100});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kCancelled);
      ++stopped;
    }
  });
  EXPECT_EQ(stopped, 3);
}

void expect_refused_by_all(std::size_t ranks, const std::function<void(Ranks&)>& work) {
  std::atomic<std::size_t> refused = 0;
  on_ranks(ranks, [&](Ranks& with) {
    try {
      work(with);
    } catch (const RanksError& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
      ++refused;
    }
  });
  EXPECT_EQ(refused, ranks);
}

TEST(GreedyOnRanks, WhatCannotBeSampledIsRefusedByAll) {
  GreedyOptions options;
  options.count = 5;
  expect_refused_by_all(2, [&](Ranks& ranks) {
    Compute compute(1);
    pick_points(Points({}, ranks), {}, options, compute);
  });
  expect_refused_by_all(2, [&](Ranks& ranks) {
    const naive::Set set = naive::make(Family::kGaussian, 10, 3 + ranks.rank(), 1, 2);
    const Points points(set.view(), ranks);
  });
  // Each rank's own points are well within reach of each other, but not of the other's.
  expect_refused_by_all(2, [&](Ranks& ranks) {
    naive::Set set = naive::make(Family::kGaussian, 100, 16, 1, 2);
    for (std::size_t i = 0; i < 100; ++i) set.row(i)[0] += ranks.rank() == 0 ? 3e18F : -3e18F;
    Compute compute(1);
    pick_points(Points(set.view(), ranks), {}, options, compute);
  });
}

}  // namespace
}  // namespace contcore
