#include "contcore/samplers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "contcore/distance.h"
#include "contcore/error.h"
#include "coreset/naive.h"

namespace contcore {
namespace {

using naive::Family;
using naive::Set;

using Indices = std::vector<std::int64_t>;

// Clusters, with every fifth vector a copy of an earlier one: ties, and distances of zero.
Vectors clustered(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  Vectors vectors(rows, cols);
  Random random(seed);
  for (std::size_t i = 0; i < rows; ++i) {
    const float centre = static_cast<float>(random.below(6));
    const float* copied = i % 5 == 4 ? vectors.row(random.below(i)) : nullptr;
    for (std::size_t j = 0; j < cols; ++j) {
      const float fresh = (j % 3 == 0 ? centre : 1.0f) + 0.3f * random.gaussian();
      vectors.row(i)[j] = copied != nullptr ? copied[j] : fresh;
    }
  }
  return vectors;
}

Vectors widened(const std::vector<std::uint16_t>& halves, std::size_t rows, std::size_t cols) {
  Vectors wide(rows, cols);
  widen_half(halves.data(), halves.size(), wide.data());
  return wide;
}

std::vector<std::uint16_t> random_halves(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint16_t> halves(count);
  Random random(seed);
  for (auto& h : halves) {
    h = static_cast<std::uint16_t>((random.below(2) << 15) + 0x3800 + random.below(2048));
  }
  return halves;
}

void expect_error(Error::Kind kind, const std::string& words, const auto& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  }
}

// Whether a count is what `trials` of probability p give, within five standard deviations.
void expect_share(std::size_t count, std::size_t trials, double p, const std::string& what) {
  const double n = static_cast<double>(trials);
  EXPECT_NEAR(static_cast<double>(count), n * p, 5 * std::sqrt(n * p * (1 - p))) << what;
}

// ---- random ----------------------------------------------------------------------------------

TEST(RandomSample, IsWithoutRepeats) {
  for (const std::size_t count : {0u, 1u, 37u, 99u, 100u, 250u}) {
    Indices picks = random_sample(100, count, 5);
    ASSERT_EQ(picks.size(), std::min<std::size_t>(count, 100));
    std::sort(picks.begin(), picks.end());
    EXPECT_EQ(std::adjacent_find(picks.begin(), picks.end()), picks.end());
    for (const std::int64_t pick : picks) EXPECT_TRUE(pick >= 0 && pick < 100) << pick;
  }
  EXPECT_TRUE(random_sample(0, 3, 1).empty());
  EXPECT_EQ(random_sample(1, 3, 1), Indices{0});
}

TEST(RandomSample, AllAreShuffledByTheSeed) {
  Indices in_order(100);
  std::iota(in_order.begin(), in_order.end(), std::int64_t{0});
  EXPECT_NE(random_sample(100, 100, 1), in_order);
  EXPECT_EQ(random_sample(100, 100, 1), random_sample(100, 100, 1));
  EXPECT_NE(random_sample(100, 100, 1), random_sample(100, 100, 2));
}

// The beginning of a whole shuffle, for which nobody has room when there are very many.
TEST(RandomSample, IsTheBeginningOfAShuffle) {
  for (const std::size_t rows : {1u, 2u, 50u, 1000u}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Indices shuffled(rows);
      std::iota(shuffled.begin(), shuffled.end(), std::int64_t{0});
      Random random(seed);
      for (std::size_t i = 0; i < rows; ++i) {
        std::swap(shuffled[i], shuffled[i + random.below(rows - i)]);
      }
      for (const std::size_t count : {rows, rows / 2, rows / 20}) {
        EXPECT_EQ(random_sample(rows, count, seed),
                  Indices(shuffled.begin(), shuffled.begin() + static_cast<std::ptrdiff_t>(count)));
      }
    }
  }
  EXPECT_EQ(random_sample(std::size_t{1} << 62, 5, 0).size(), 5u);
}

// Every index is as likely as any other in every position: a shuffle that draws from the wrong
// range favours some.
TEST(RandomSample, IsUniformInEveryPosition) {
  constexpr std::size_t kRows = 12, kCount = 5, kSeeds = 20000;
  std::vector<std::size_t> seen(kRows * kCount, 0);
  for (std::size_t seed = 0; seed < kSeeds; ++seed) {
    const Indices picks = random_sample(kRows, kCount, seed);
    for (std::size_t k = 0; k < kCount; ++k) {
      ++seen[k * kRows + static_cast<std::size_t>(picks[k])];
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    expect_share(seen[i], kSeeds, 1.0 / kRows, "cell " + std::to_string(i));
  }
}

// ---- reservoir -------------------------------------------------------------------------------

TEST(Reservoir, HoldsWhatTookThePlaces) {
  Reservoir reservoir(7, 3);
  Indices expected;
  for (std::int64_t i = 0; i < 500; ++i) {
    const std::int64_t place = reservoir.offer();
    if (i < 7) {
      ASSERT_EQ(place, i);
      expected.push_back(i);
    } else {
      ASSERT_TRUE(place >= -1 && place < 7) << place;
      if (place >= 0) expected[static_cast<std::size_t>(place)] = i;
    }
    ASSERT_EQ(reservoir.held(), expected);
  }
}

// Of n vectors each holds each place with probability 1/n once it has come after the first few,
// which have a place of their own that they keep with probability places/n. Drawing from one too
// many or one too few shifts the vectors next to the first few most.
TEST(Reservoir, IsUniformOverTheStream) {
  constexpr std::size_t kPlaces = 4, kStream = 15, kSeeds = 30000;
  std::vector<std::size_t> seen(kPlaces * kStream, 0);
  for (std::size_t seed = 0; seed < kSeeds; ++seed) {
    Reservoir reservoir(kPlaces, seed);
    for (std::size_t i = 0; i < kStream; ++i) reservoir.offer();
    for (std::size_t place = 0; place < kPlaces; ++place) {
      ++seen[place * kStream + static_cast<std::size_t>(reservoir.held()[place])];
    }
  }
  const double each = 1.0 / kStream;
  for (std::size_t place = 0; place < kPlaces; ++place) {
    for (std::size_t i = 0; i < kStream; ++i) {
      const double p = i >= kPlaces ? each : i == place ? kPlaces * each : 0.0;
      expect_share(seen[place * kStream + i], kSeeds, p,
                   "vector " + std::to_string(i) + " in place " + std::to_string(place));
    }
  }
}

TEST(Reservoir, IsSeeded) {
  const auto held = [](std::uint64_t seed) {
    Reservoir reservoir(10, seed);
    for (int i = 0; i < 1000; ++i) reservoir.offer();
    return reservoir.held();
  };
  EXPECT_EQ(held(1), held(1));
  EXPECT_NE(held(1), held(2));
  expect_error(Error::Kind::kUsage, "0 places", [] { Reservoir(0, 1); });
}

// ---- herding ---------------------------------------------------------------------------------

Indices herding_in_plain_loops(const Vectors& points, std::size_t count) {
  const std::size_t d = points.cols();
  std::vector<double> mean(d, 0.0);
  for (std::size_t i = 0; i < points.rows(); ++i) {
    for (std::size_t j = 0; j < d; ++j) mean[j] += static_cast<double>(points.row(i)[j]);
  }
  for (double& m : mean) m /= static_cast<double>(points.rows());
  std::vector<double> sum(d, 0.0);
  std::vector<float> target(d);
  std::vector<bool> picked(points.rows(), false);
  Indices picks;
  for (std::size_t number = 1; number <= std::min(count, points.rows()); ++number) {
    for (std::size_t j = 0; j < d; ++j) {
      target[j] = static_cast<float>(static_cast<double>(number) * mean[j] - sum[j]);
    }
    std::size_t best = points.rows();
    float nearest = 0;
    for (std::size_t i = 0; i < points.rows(); ++i) {
      if (picked[i]) continue;
      const float distance = squared_distance(target.data(), points.row(i), d);
      if (best < points.rows() && !(distance < nearest)) continue;
      best = i;
      nearest = distance;
    }
    picked[best] = true;
    picks.push_back(static_cast<std::int64_t>(best));
    for (std::size_t j = 0; j < d; ++j) sum[j] += static_cast<double>(points.row(best)[j]);
  }
  return picks;
}

TEST(Herding, IsThePlainLoops) {
  struct Case {
    std::size_t rows, cols, count;
  };
  for (const auto& [rows, cols, count] :
       {Case{1, 1, 1}, Case{1, 5, 9}, Case{60, 3, 60}, Case{60, 3, 100}, Case{333, 40, 100},
        Case{900, 96, 150}, Case{700, 300, 80}}) {
    const Vectors points = clustered(rows, cols, rows + cols);
    const Indices expected = herding_in_plain_loops(points, count);
    for (const std::size_t crew : {1u, 3u}) {
      Compute compute(crew);
      EXPECT_EQ(herding_sample(points.view(), count, compute), expected)
          << rows << " rows of " << cols;
    }
  }
}

// The mean of many rows is summed in parts. Multiples of 1/64 add up exactly in any order, so the
// plain loop's mean is the same.
TEST(Herding, TakesTheMeanOfAllRows) {
  Vectors points = clustered(3500, 20, 1);
  for (std::size_t i = 0; i < points.rows() * points.cols(); ++i) {
    points.data()[i] = std::round(points.data()[i] * 64) / 64;
  }
  Compute compute(3);
  EXPECT_EQ(herding_sample(points.view(), 60, compute), herding_in_plain_loops(points, 60));
}

// A mean that is not a float32: rounded to one, the error grows with every pick.
TEST(Herding, KeepsTheMeanPrecise) {
  Vectors points(900, 2);
  Random random(8);
  for (std::size_t i = 0; i < 1800; ++i) points.data()[i] = 1000.0f + random.gaussian();
  Compute compute(2);
  EXPECT_EQ(herding_sample(points.view(), 900, compute), herding_in_plain_loops(points, 900));
}

TEST(Herding, WidensHalves) {
  const std::vector<std::uint16_t> halves = random_halves(300 * 70, 2);
  const VectorView narrow(halves.data(), 300, 70, Scalar::kFloat16);
  Compute compute(2);
  EXPECT_EQ(herding_sample(narrow, 40, compute),
            herding_in_plain_loops(widened(halves, 300, 70), 40));
}

TEST(Herding, WidensBytes) {
  Set points = naive::make(Family::kLowRank, 150, 70, 1, 2);
  points.make_bytes(-3, 3);
  const VectorView widened(points.row(0), points.n, points.d);
  EXPECT_EQ(herding_sample(points.view(), 40, naive::crew(1)),
            herding_sample(widened, 40, naive::crew(1)));
}

TEST(Herding, RefusesKindly) {
  Compute compute(2);
  Vectors points = clustered(50, 4, 1);
  expect_error(Error::Kind::kUsage, "count of 0",
               [&] { herding_sample(points.view(), 0, compute); });
  expect_error(Error::Kind::kInput, "points", [&] { herding_sample({}, 5, compute); });
  points.row(31)[2] = std::numeric_limits<float>::quiet_NaN();
  expect_error(Error::Kind::kInput, "points: row 31, column 2 ",
               [&] { herding_sample(points.view(), 5, compute); });
}

TEST(Herding, ReportsAndStops) {
  Compute compute(2);
  const Vectors points = clustered(50, 4, 1);
  std::vector<double> parts;
  herding_sample(points.view(), 10, compute, [&](double part) {
    parts.push_back(part);
    return true;
  });
  ASSERT_FALSE(parts.empty());
  EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end()));
  EXPECT_EQ(parts.back(), 1.0);
  expect_error(Error::Kind::kCancelled, "", [&] {
    herding_sample(points.view(), 10, compute, [](double part) { return part < 0.5; });
  });
}

// ---- PatchCore -------------------------------------------------------------------------------

// Segment by segment of 128 numbers, as kernels::project sums.
Vectors project_in_plain_loops(const Vectors& points, std::uint64_t seed) {
  constexpr std::size_t kWidth = 128;
  const std::size_t d = points.cols();
  const float scale = 0.08838834764831845f;  // 1/√128
  std::vector<float> matrix(d * kWidth);
  Random random(seed);
  for (float& entry : matrix) entry = random.gaussian() * scale;
  Vectors out(points.rows(), kWidth);
  for (std::size_t i = 0; i < points.rows(); ++i) {
    for (std::size_t k = 0; k < kWidth; ++k) {
      float sum = 0;
      for (std::size_t from = 0; from < d; from += 128) {
        float part = 0;
        for (std::size_t j = from; j < std::min(d, from + 128); ++j) {
          part = std::fma(points.row(i)[j], matrix[j * kWidth + k], part);
        }
        sum += part;
      }
      out.row(i)[k] = sum;
    }
  }
  return out;
}

std::vector<float> mean_distances_squared(const Vectors& points, const Indices& starts) {
  std::vector<float> out;
  for (std::size_t i = 0; i < points.rows(); ++i) {
    double sum = 0;
    for (const std::int64_t s : starts) {
      const float* start = points.row(static_cast<std::size_t>(s));
      sum += static_cast<double>(std::sqrt(squared_distance(points.row(i), start, points.cols())));
    }
    const double mean = sum / static_cast<double>(starts.size());
    out.push_back(static_cast<float>(mean * mean));
  }
  return out;
}

GreedyResult patchcore_in_plain_loops(const Vectors& points, std::size_t count,
                                      std::uint64_t seed) {
  const Indices starts = random_sample(points.rows(), 10, ~seed);
  std::vector<float> distance = mean_distances_squared(points, starts);
  GreedyResult result;
  for (;;) {
    const auto farthest = std::max_element(distance.begin(), distance.end());
    result.covering_radius = std::sqrt(std::max(0.0f, *farthest));
    if (!(*farthest > 0) || result.picks.size() == count) return result;
    const auto pick = static_cast<std::size_t>(farthest - distance.begin());
    result.picks.push_back(static_cast<std::int64_t>(pick));
    result.radii.push_back(std::sqrt(*farthest));
    for (std::size_t i = 0; i < points.rows(); ++i) {
      const float to_pick = squared_distance(points.row(i), points.row(pick), points.cols());
      distance[i] = std::min(distance[i], to_pick);
    }
    distance[pick] = -1;
  }
}

void expect_same(const GreedyResult& actual, const GreedyResult& expected) {
  EXPECT_EQ(actual.picks, expected.picks);
  EXPECT_EQ(actual.radii, expected.radii);
  EXPECT_EQ(actual.covering_radius, expected.covering_radius);
}

GreedyOptions options_of(std::size_t count, std::uint64_t seed) {
  GreedyOptions options;
  options.count = count;
  options.seed = seed;
  return options;
}

struct Size {
  std::size_t rows, cols, count;
};

TEST(PatchCore, IsThePlainLoopsWhereNothingIsProjected) {
  for (const auto& [rows, cols, count] :
       {Size{2, 3, 1}, Size{7, 3, 7}, Size{10, 2, 4}, Size{40, 3, 100}, Size{300, 64, 120},
        Size{1500, 128, 200}}) {
    const Vectors points = clustered(rows, cols, rows + cols);
    for (const std::size_t crew : {1u, 3u}) {
      Compute compute(crew);
      expect_same(patchcore_sample(points.view(), options_of(count, 11), compute),
                  patchcore_in_plain_loops(points, count, 11));
    }
  }
}

TEST(PatchCore, IsThePlainLoopsInTheProjection) {
  for (const auto& [rows, cols, count] :
       {Size{12, 129, 12}, Size{150, 300, 60}, Size{900, 200, 150}}) {
    const Vectors points = clustered(rows, cols, rows + cols);
    const Vectors projected = project_in_plain_loops(points, 12);
    for (const std::size_t crew : {1u, 3u}) {
      Compute compute(crew);
      expect_same(patchcore_sample(points.view(), options_of(count, 12), compute),
                  patchcore_in_plain_loops(projected, count, 12));
    }
  }
}

TEST(PatchCore, WidensHalves) {
  for (const std::size_t cols : {70u, 200u}) {
    const std::vector<std::uint16_t> halves = random_halves(100 * cols, 2);
    const VectorView narrow(halves.data(), 100, cols, Scalar::kFloat16);
    Compute compute(2);
    expect_same(patchcore_sample(narrow, options_of(30, 3), compute),
                patchcore_sample(widened(halves, 100, cols).view(), options_of(30, 3), compute));
  }
}

// The random projection keeps distances, on average: the scale is right.
TEST(PatchCore, WidensBytes) {
  for (const std::size_t d : {60u, 200u}) {
    Set points = naive::make(Family::kLowRank, 700, d, 1, 2);
    points.make_bytes(-3, 3);
    const VectorView widened(points.row(0), points.n, points.d);
    GreedyOptions options;
    options.count = 30;
    const GreedyResult bytes = patchcore_sample(points.view(), options, naive::crew(1));
    const GreedyResult floats = patchcore_sample(widened, options, naive::crew(1));
    EXPECT_EQ(bytes.picks, floats.picks);
    EXPECT_EQ(bytes.radii, floats.radii);
  }
}

TEST(PatchCore, RadiiAreOfTheSizeOfTheDistances) {
  const Vectors points = clustered(200, 400, 3);
  Compute compute(2);
  const GreedyResult projected = patchcore_sample(points.view(), options_of(50, 3), compute);
  const GreedyResult full = greedy_sample(points.view(), {}, options_of(50, 3), compute);
  EXPECT_NEAR(projected.radii.back() / full.radii.back(), 1.0f, 0.15f);
}

TEST(PatchCore, DependsOnTheSeedAndNotOnTheStart) {
  const Vectors points = clustered(300, 150, 4);
  Compute compute(2);
  const GreedyResult result = patchcore_sample(points.view(), options_of(50, 1), compute);
  GreedyOptions options = options_of(50, 1);
  options.start = GreedyOptions::Start::kIndex;
  options.start_index = 100000;
  expect_same(patchcore_sample(points.view(), options, compute), result);
  EXPECT_NE(patchcore_sample(points.view(), options_of(50, 2), compute).picks, result.picks);
}

// Points that all coincide are at distance zero from any starting point, yet one has to stand for
// them.
TEST(PatchCore, OnePointStandsForEqualOnes) {
  Compute compute(2);
  for (const std::size_t cols : {3u, 200u}) {
    for (const std::size_t rows : {1u, 30u}) {
      Vectors points(rows, cols);
      std::fill(points.data(), points.data() + rows * cols, 2.0f);
      const GreedyResult result = patchcore_sample(points.view(), options_of(5, 1), compute);
      EXPECT_EQ(result.picks, Indices{0});
      EXPECT_EQ(result.covering_radius, 0);
    }
  }
}

TEST(PatchCore, RefusesKindly) {
  Compute compute(2);
  for (const std::size_t cols : {20u, 200u}) {
    Vectors points = clustered(50, cols, 1);
    GreedyOptions options = options_of(0, 1);
    options.points_name = "bottle.npy";
    expect_error(Error::Kind::kUsage, "count of 0",
                 [&] { patchcore_sample(points.view(), options, compute); });
    options.count = 5;
    expect_error(Error::Kind::kInput, "bottle.npy",
                 [&] { patchcore_sample(Vectors(0, cols).view(), options, compute); });
    // The column is one of the points', not of their projection.
    points.row(40)[cols - 1] = std::numeric_limits<float>::infinity();
    expect_error(Error::Kind::kInput, "bottle.npy: row 40, column " + std::to_string(cols - 1),
                 [&] { patchcore_sample(points.view(), options, compute); });
    points.row(31)[2] = std::numeric_limits<float>::quiet_NaN();
    expect_error(Error::Kind::kInput, "bottle.npy: row 31, column 2 ",
                 [&] { patchcore_sample(points.view(), options, compute); });
    points.row(31)[2] = points.row(40)[cols - 1] = 3e38f;
    expect_error(Error::Kind::kInput, "bottle.npy: values so large",
                 [&] { patchcore_sample(points.view(), options, compute); });
  }
}

TEST(PatchCore, ReportsAndStops) {
  for (const std::size_t cols : {20u, 200u}) {
    const Vectors points = clustered(5000, cols, 1);
    for (const std::size_t crew : {1u, 3u}) {
      Compute compute(crew);
      GreedyOptions options = options_of(20, 1);
      std::vector<double> parts;
      options.progress = [&](double part) {
        parts.push_back(part);
        return true;
      };
      patchcore_sample(points.view(), options, compute);
      ASSERT_FALSE(parts.empty());
      EXPECT_GE(parts.front(), 0.0);
      EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end()));
      EXPECT_EQ(parts.back(), 1.0);
      for (const double limit : {0.0, 0.3, 0.99}) {
        options.progress = [&](double part) { return part < limit; };
        expect_error(Error::Kind::kCancelled, "",
                     [&] { patchcore_sample(points.view(), options, compute); });
      }
    }
  }
}

TEST(PatchCore, StaysWithinALimitOfMemory) {
  const Vectors points = clustered(2000, 200, 1);
  Compute compute(2);
  const GreedyResult free = patchcore_sample(points.view(), options_of(50, 1), compute);
  GreedyOptions options = options_of(50, 1);
  options.memory_limit = std::size_t{75} << 20;
  expect_same(patchcore_sample(points.view(), options, compute), free);
  options.memory_limit = 1000000;
  expect_error(Error::Kind::kInput, "memory limit of 1000000",
               [&] { patchcore_sample(points.view(), options, compute); });
}

}  // namespace
}  // namespace contcore
