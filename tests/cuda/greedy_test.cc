// Greedy sampling on the GPU against the naive twin and against the processor, bit for bit.
#include "contcore/greedy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "contcore/error.h"
#include "coreset/greedy.h"
#include "coreset/greedy_cases.h"
#include "coreset/greedy_gpu.h"
#include "coreset/naive.h"

namespace contcore {
namespace {

using greedy_cases::Case;
using greedy_cases::difference;
using naive::bits;
using naive::Dice;
using naive::Family;
using naive::Set;
using Start = GreedyOptions::Start;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Compute& gpu() {
  static Compute compute(4, Device{0});
  return compute;
}

Compute& processor() {
  static Compute compute(0);
  return compute;
}

GpuGreedyLimits random_limits(Dice& dice) {
  GpuGreedyLimits limits;
  if (dice.one_in(5)) return limits;
  limits.survivors = dice.pick<std::size_t>({0, 1, 2, 5, 33, 100});
  limits.centres = dice.pick<std::size_t>({1, 3, 64, 2048, 2048});
  limits.pairs = dice.pick<std::size_t>({0, 0, 1, 20});
  limits.codes = !dice.one_in(5);
  return limits;
}

std::string describe(const GpuGreedyLimits& limits) {
  std::ostringstream out;
  out << "survivors " << limits.survivors << ", centres " << limits.centres << ", pairs "
      << limits.pairs << ", resident " << limits.resident << ", codes " << limits.codes;
  return out.str();
}

GreedyResult on_gpu(const Case& c, const GpuGreedyLimits& limits) {
  return greedy_sample_on_gpu(*gpu().gpu(), c.points.view(), c.base.view(), c.options, gpu(),
                              limits, c.initial.empty() ? nullptr : &c.initial);
}

void check_stages(const GreedyResult& got, const Case& c, const std::string& how) {
  std::uint64_t sum = 0;
  for (const GreedyStage& stage : got.stages) {
    EXPECT_FALSE(stage.name.empty()) << how;
    sum += stage.settled;
  }
  EXPECT_EQ(sum, static_cast<std::uint64_t>(c.points.n) * (c.base.n + got.picks.size())) << how;
}

/// What is expected: of the naive twin, or of the processor.
GreedyResult expected_of(const Case& c, bool twin) {
  const std::vector<float>* initial = c.initial.empty() ? nullptr : &c.initial;
  if (!twin || (c.options.start == Start::kRandom && c.base.n == 0 && initial == nullptr)) {
    return greedy_sample_tuned(c.points.view(), c.base.view(), c.options, processor(), {}, initial);
  }
  std::optional<std::size_t> first;
  if (c.base.n == 0 && initial == nullptr) {
    first = c.options.start == Start::kMean ? naive::farthest_from_mean(c.points)
                                            : c.options.start_index;
  }
  return naive::greedy(c.points, c.base, c.options.count, first, initial);
}

void check(const Case& c, std::size_t runs, Dice& dice, bool twin, std::size_t resident = 0) {
  const GreedyResult expected = expected_of(c, twin);
  for (std::size_t run = 0; run < runs; ++run) {
    GpuGreedyLimits limits = run == 0 ? GpuGreedyLimits() : random_limits(dice);
    limits.resident = resident;
    const std::string how = c.what + "; " + describe(limits);
    try {
      const GreedyResult got = on_gpu(c, limits);
      EXPECT_EQ(difference(got, expected), "") << how;
      check_stages(got, c, how);
    } catch (const std::exception& error) {
      ADD_FAILURE() << how << ": threw " << error.what();
    }
  }
}

/// Stops a property that has already failed often enough to make its point.
bool enough() { return ::testing::Test::HasFailure(); }

void make_kind(std::size_t kind, Set& points, Set& base) {
  if (kind == 1) {
    points.make_half();
    if (base.n > 0) base.make_half();
  }
  if (kind == 2) points.make_half();  // beside a base of float32
  if (kind == 3) {
    const auto [low, high] = std::minmax_element(points.values.begin(), points.values.end());
    const float lowest = *low, highest = *high;
    points.make_bytes(lowest, highest);
    if (base.n > 0) base.make_bytes(lowest, highest);
  }
}

Case random_case(std::size_t seed, std::size_t n, std::size_t d, Dice& dice) {
  Case c;
  const Family family = static_cast<Family>(seed % naive::kFamilies);
  c.points = naive::make(family, n, d, seed, 3 * seed);
  const std::size_t base_kind = dice.below(8);
  switch (base_kind) {
    case 0:
    case 1:
      c.base = naive::make(family, dice.between(1, 150), d, seed, 3 * seed + 1);
      break;
    case 2:  // another family
      c.base = naive::make(static_cast<Family>(dice.below(naive::kFamilies)), dice.between(1, 80),
                           d, seed + 1, 3 * seed + 1);
      break;
    case 3:  // the points themselves, or some of them
      c.base = dice.one_in(2) ? c.points : Set(1 + n / 2, d);
      for (std::size_t i = 0; i < c.base.n; ++i) {
        naive::copy_row(c.points, c.base.n == n ? i : dice.below(n), c.base, i);
      }
      break;
    default:
      break;
  }
  const std::size_t kind = dice.pick<std::size_t>({0, 0, 0, 1, 2, 3, 3, 3});
  make_kind(kind, c.points, c.base);
  if (base_kind == 4) {  // distances to start from
    for (std::size_t i = 0; i < n; ++i) {
      c.initial.push_back(naive::distance(c.points, i, c.points, dice.below(n)));
      if (dice.one_in(4)) c.initial.back() *= 0.5f;
    }
  }
  c.options.count = dice.pick<std::size_t>({1, n, n + 7, dice.between(1, n), dice.between(1, n)});
  c.options.start = dice.pick({Start::kMean, Start::kMean, Start::kRandom, Start::kIndex});
  c.options.start_index = dice.below(n);
  c.options.seed = dice.bits();
  std::ostringstream what;
  what << "seed " << seed << ", " << naive::name(family) << ", kind " << kind << ", n " << n
       << ", d " << d << ", count " << c.options.count << ", base kind " << base_kind << " of "
       << c.base.n << " rows, start " << static_cast<int>(c.options.start);
  c.what = what.str();
  return c;
}

TEST(GpuGreedy, IsThePlainLoopOnSmallSets) {
  for (std::size_t seed = 0; seed < naive::cases(800) && !enough(); ++seed) {
    Dice dice(seed + 1000000);
    const std::size_t d =
        dice.pick<std::size_t>({1, 2, 3, 7, 16, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 130});
    const std::size_t n = dice.one_in(8) ? dice.between(1, 3) : dice.between(2, 150);
    check(random_case(seed, n, d, dice), 3, dice, true);
  }
}

TEST(GpuGreedy, IsThePlainLoopInHighDimensions) {
  for (std::size_t seed = 0; seed < naive::cases(100) && !enough(); ++seed) {
    Dice dice(seed + 2000000);
    const std::size_t d = dice.pick<std::size_t>({255, 257, 512, 513, 1023, 1024, 1536});
    check(random_case(seed, dice.between(2, 90), d, dice), 3, dice, true);
  }
}

TEST(GpuGreedy, IsTheProcessorsOnMediumSets) {
  for (std::size_t seed = 0; seed < naive::cases(80) && !enough(); ++seed) {
    Dice dice(seed + 3000000);
    const std::size_t d = dice.pick<std::size_t>({7, 64, 100, 128, 300});
    Case c = random_case(seed, dice.between(1000, 9000), d, dice);
    c.options.count = dice.between(1, 400);
    check(c, 2, dice, false);
  }
}

TEST(GpuGreedy, IsTheProcessorsOnLargerSets) {
  struct Size {
    Family family;
    std::size_t n, d, count, kind;
  };
  const std::vector<Size> sizes = {
      {Family::kLowRank, 60000, 256, 900, 0},  {Family::kLowRank, 60000, 256, 900, 3},
      {Family::kClusters, 50000, 128, 500, 1}, {Family::kClusters, 50000, 512, 500, 3},
      {Family::kSparse, 40000, 200, 400, 0},   {Family::kGrid, 40000, 64, 300, 3},
      {Family::kGaussian, 30000, 128, 300, 0}, {Family::kSimplex, 30000, 100, 400, 0},
  };
  for (std::size_t s = 0; s < sizes.size() && !enough(); ++s) {
    Dice dice(s + 4000000);
    const Size& size = sizes[s];
    Case c;
    c.points = naive::make(size.family, size.n, size.d, s + 50, 3 * s);
    make_kind(size.kind, c.points, c.base);
    c.options.count = size.count;
    c.what =
        std::string("large ") + naive::name(size.family) + ", kind " + std::to_string(size.kind);
    check(c, 2, dice, false);
  }
}

// Points that pass through the GPU's memory in parts, of 1024 or a few times as many.
TEST(GpuGreedy, IsTheSameInParts) {
  for (std::size_t seed = 0; seed < naive::cases(60) && !enough(); ++seed) {
    Dice dice(seed + 7000000);
    const std::size_t d = dice.pick<std::size_t>({1, 7, 63, 64, 65, 100, 128, 300});
    const bool twin = dice.one_in(2) && d <= 128;
    const std::size_t n =
        twin ? dice.pick<std::size_t>({1024, 1025, 2048, 1700, 2049}) : dice.between(2050, 7000);
    Case c = random_case(seed, n, d, dice);
    c.options.count = dice.between(1, 100);
    for (const std::size_t resident : {1u, 1u << 20, 3u << 20}) {
      check(c, 2, dice, twin, resident);
    }
  }
}

TEST(GpuGreedy, IsTheProcessorsOnLargerSetsInParts) {
  for (std::size_t kind = 0; kind < 4 && !enough(); ++kind) {
    Dice dice(kind + 8000000);
    Case c;
    c.points = naive::make(Family::kLowRank, 40000, 200, kind + 70, 3 * kind);
    if (kind >= 2) c.base = naive::make(Family::kLowRank, 5000, 200, kind + 70, 3 * kind + 1);
    make_kind(kind, c.points, c.base);
    c.options.count = 600;
    c.what = "large in parts, kind " + std::to_string(kind);
    check(c, 1, dice, false, std::size_t{1} << (20 + 2 * (kind % 3)));
  }
}

// Bytes of a few values at the ends of their range: many ties, and sums beyond 2²⁴.
TEST(GpuGreedy, IsThePlainLoopOnBytesAtTheirEnds) {
  for (const std::size_t d : {1u, 3u, 63u, 512u, 513u, 4096u, 32768u}) {
    for (const std::size_t distinct : {1u, 2u, 5u, 60u}) {
      Dice dice(d * 100 + distinct);
      Case c;
      c.points = Set(130, d, 1);
      for (std::size_t i = 0; i < c.points.n; ++i) {
        Dice of_row(dice.below(distinct) + d);
        for (std::size_t j = 0; j < d; ++j) {
          const float value = of_row.pick({0.0f, 255.0f, 255.0f, 254.0f});
          c.points.row(i)[j] = distinct == 1 ? (d % 2 == 0 ? 255.0f : 0.0f) : value;
        }
      }
      c.points.make_bytes(0, 255);
      c.options.count = 70;
      c.what = "bytes, d " + std::to_string(d) + ", " + std::to_string(distinct) + " distinct";
      check(c, 3, dice, true);
    }
  }
}

// A round's least bound may be so small that its bits are few; those that coincide are not picked.
TEST(GpuGreedy, PicksOneOfManyThatCoincideNearTheBase) {
  for (const std::size_t d : {3u, 64u, 513u}) {
    for (const float value : {1e-22f, 1e-20f, 1e-19f, 1e-10f}) {
      Dice dice(d);
      Case c;
      c.points = naive::make(Family::kGaussian, 90, d, 1, 2);
      for (std::size_t i = 0; i < 40; ++i) std::fill_n(c.points.row(2 * i), d, 0.0f);
      c.base = Set(1, d);
      std::fill_n(c.base.row(0), d, value);
      c.options.count = 90;
      c.what = "near the base, d " + std::to_string(d);
      check(c, 3, dice, true);
    }
  }
}

// Whoever asks for a GPU gets it where there is enough to do.
TEST(GpuGreedy, IsUsedBySampling) {
  Case c;
  c.points = naive::make(Family::kLowRank, 20000, 512, 1, 2);
  c.options.count = 600;
  ASSERT_TRUE(greedy_pays_on_gpu(c.points.view(), {}, c.options));
  EXPECT_EQ(difference(greedy_sample(c.points.view(), {}, c.options, gpu()),
                       greedy_sample(c.points.view(), {}, c.options, processor())),
            "");
}

TEST(GpuGreedy, IsDoneByTheProcessorWhereTheGpuHasNoMemory) {
  Case c;
  c.points = naive::make(Family::kClusters, 3000, 256, 1, 2);
  c.options.count = 100;
  const GreedyResult expected = greedy_sample(c.points.view(), {}, c.options, processor());
  Compute compute(2, Device{0});
  std::vector<GpuBuffer> taken;
  for (std::size_t size = std::size_t{1} << 36; size >= 4096;) {
    try {
      taken.emplace_back(*compute.gpu(), size);
    } catch (const GpuMemoryError&) {
      size /= 2;
    }
  }
  EXPECT_THROW(greedy_sample_on_gpu(*compute.gpu(), c.points.view(), {}, c.options, compute),
               GpuMemoryError);
  EXPECT_EQ(difference(greedy_sample(c.points.view(), {}, c.options, compute), expected), "");
  taken.clear();
  EXPECT_EQ(difference(on_gpu(c, {}), expected), "");
}

// There is room for what is kept of each point, but not for all of the points.
TEST(GpuGreedy, IsDoneInPartsWhereTheGpuHasLittleMemory) {
  Case c;
  c.points = naive::make(Family::kLowRank, 100000, 512, 1, 2);
  c.options.count = 200;
  Compute compute(4, Device{0});
  const auto sample = [&] {
    return greedy_sample_on_gpu(*compute.gpu(), c.points.view(), {}, c.options, compute);
  };
  const GreedyResult expected = sample();  // and all kernels are loaded
  std::vector<GpuBuffer> taken;
  GpuBuffer spare(*compute.gpu(), std::size_t{256} << 20);
  for (std::size_t size = std::size_t{1} << 36; size >= (std::size_t{1} << 20);) {
    try {
      taken.emplace_back(*compute.gpu(), size);
    } catch (const GpuMemoryError&) {
      size /= 2;
    }
  }
  spare = GpuBuffer();
  try {
    EXPECT_EQ(difference(sample(), expected), "");
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

// ---------------------------------------------------------------- errors

std::string error_of(const Case& c, bool there, std::size_t resident = 0) {
  GpuGreedyLimits limits;
  limits.resident = resident;
  try {
    if (there) {
      on_gpu(c, limits);
    } else {
      greedy_sample(c.points.view(), c.base.view(), c.options, processor());
    }
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.kind())) + " " + error.what();
  }
  return "no error";
}

TEST(GpuGreedyErrors, AreTheProcessors) {
  for (std::size_t seed = 0; seed < naive::cases(150) && !enough(); ++seed) {
    Dice dice(seed + 5000000);
    const std::size_t d = dice.pick<std::size_t>({1, 2, 7, 64, 65, 130});
    const std::size_t n = dice.pick<std::size_t>({1, 40, 300, 3000});
    Case c;
    c.points = naive::make(Family::kGaussian, n, d, seed, seed);
    c.base = naive::make(Family::kGaussian, dice.one_in(2) ? 0 : 50, d, seed, seed + 1);
    c.options.count = dice.between(1, 10);
    const bool half = dice.one_in(3);
    if (half) make_kind(1, c.points, c.base);
    Set& bad = c.base.n > 0 && dice.one_in(2) ? c.base : c.points;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t at = bad.lead + dice.below(bad.n) * d + dice.below(d);
      bad.values[at] = dice.pick({kNan, kInfinity, -kInfinity, 1e19f, 3e38f});
      if (half) bad.halves[at] = dice.pick<std::uint16_t>({0x7E01u, 0x7C00u, 0xFC00u});
    }
    const std::string expected = error_of(c, false);
    EXPECT_EQ(error_of(c, true), expected) << "seed " << seed;
    EXPECT_EQ(error_of(c, true, 1), expected) << "seed " << seed << ", in parts";
  }
}

TEST(GpuGreedyErrors, ValuesAtTheLimitAreTheProcessors) {
  for (const float value : {1e17f, 1e18f, 2e18f, 4e18f, 6e18f, 1e19f}) {
    for (const std::size_t d : {2u, 64u, 100u}) {
      Case c;
      c.points = naive::make(Family::kGaussian, 50, d, 1, 2);
      for (std::size_t j = 0; j < d; ++j) c.points.row(20)[j] = value;
      c.options.count = 5;
      EXPECT_EQ(error_of(c, true), error_of(c, false)) << value << ", d " << d;
    }
  }
}

// ---------------------------------------------------------------- progress

TEST(GpuGreedyProgress, RisesToOneAndCancels) {
  for (std::size_t seed = 0; seed < naive::cases(24); ++seed) {
    Dice dice(seed + 6000000);
    Case c = random_case(seed, dice.pick<std::size_t>({1, 60, 3000}), 64, dice);
    c.options.count = dice.between(1, 50);
    GpuGreedyLimits limits;
    limits.survivors = 20;
    limits.resident = seed % 2;  // in parts
    std::vector<double> values;
    c.options.progress = [&](double done) {
      values.push_back(done);
      return true;
    };
    const GreedyResult expected = on_gpu(c, limits);
    ASSERT_FALSE(values.empty());
    EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
    EXPECT_EQ(values.back(), 1.0);
    for (int attempt = 0; attempt < 3; ++attempt) {
      const std::size_t at = dice.below(values.size());
      std::size_t calls = 0;
      c.options.progress = [&](double) { return calls++ != at; };
      try {
        on_gpu(c, limits);
        ADD_FAILURE() << c.what << ": went on";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), Error::Kind::kCancelled) << error.what();
        EXPECT_EQ(calls, at + 1);
      }
    }
    c.options.progress = {};
    EXPECT_EQ(difference(on_gpu(c, limits), expected), "") << c.what;
  }
}

}  // namespace
}  // namespace contcore
