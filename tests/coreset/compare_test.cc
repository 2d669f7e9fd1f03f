#include "contcore/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "contcore/distance.h"
#include "contcore/error.h"
#include "coreset/naive.h"

namespace contcore {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Vectors random_vectors(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  Vectors vectors(rows, cols);
  Random random(seed);
  for (std::size_t i = 0; i < rows * cols; ++i) vectors.data()[i] = random.gaussian();
  return vectors;
}

Vectors line(const std::vector<float>& values) {
  Vectors vectors(values.size(), 1);
  std::copy(values.begin(), values.end(), vectors.data());
  return vectors;
}

Cover cover_by_brute_force(const Vectors& covered, const Vectors& by) {
  Cover result;
  double sum = 0;
  for (std::size_t i = 0; i < covered.rows(); ++i) {
    float nearest = kInfinity;
    for (std::size_t j = 0; j < by.rows(); ++j) {
      nearest = std::min(nearest, squared_distance(covered.row(i), by.row(j), by.cols()));
    }
    const float distance = std::sqrt(nearest);
    result.largest = std::max(result.largest, distance);
    sum += static_cast<double>(distance);
  }
  result.average = sum / static_cast<double>(covered.rows());
  return result;
}

void expect_error(Error::Kind kind, const std::vector<std::string>& words, const auto& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    for (const std::string& word : words) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos)
          << "no '" << word << "' in: " << e.what();
    }
  }
}

TEST(Compare, CoverAndHausdorffAreBruteForces) {
  struct Case {
    std::size_t a, b, d;
  };
  for (const auto& [a_rows, b_rows, d] :
       {Case{1, 1, 1}, Case{1, 50, 3}, Case{50, 1, 3}, Case{200, 130, 17}, Case{900, 600, 96}}) {
    Vectors a = random_vectors(a_rows, d, 1);
    const Vectors b = random_vectors(b_rows, d, 2);
    // Some of b again in a: distances of zero.
    for (std::size_t i = 0; i + 1 < std::min(a_rows, b_rows); i += 3) {
      std::copy(b.row(i), b.row(i) + d, a.row(i));
    }
    const Cover there = cover_by_brute_force(a, b);
    const Cover back = cover_by_brute_force(b, a);
    for (const std::size_t count : {1u, 3u}) {
      Compute compute(count);
      EXPECT_EQ(cover(a.view(), b.view(), compute).largest, there.largest);
      EXPECT_EQ(cover(a.view(), b.view(), compute).average, there.average);
      EXPECT_EQ(cover(b.view(), a.view(), compute).largest, back.largest);
      EXPECT_EQ(cover(b.view(), a.view(), compute).average, back.average);
      EXPECT_EQ(hausdorff(a.view(), b.view(), compute), std::max(there.largest, back.largest));
    }
  }
}

// Which set is covered and which covers: {0} is covered by {0, 3, 3} at once, not the other way.
TEST(Compare, CoverHasADirection) {
  Compute compute(2);
  const Vectors one = line({0});
  const Vectors three = line({0, 3, 3});
  EXPECT_EQ(cover(one.view(), three.view(), compute).largest, 0);
  EXPECT_EQ(cover(one.view(), three.view(), compute).average, 0);
  EXPECT_EQ(cover(three.view(), one.view(), compute).largest, 3);
  EXPECT_EQ(cover(three.view(), one.view(), compute).average, 2);
  EXPECT_EQ(hausdorff(one.view(), three.view(), compute), 3);
  EXPECT_EQ(hausdorff(three.view(), one.view(), compute), 3);
  EXPECT_EQ(hausdorff(three.view(), three.view(), compute), 0);
}

TEST(Compare, SlicedWassersteinOfAShiftedLineIsTheShift) {
  Compute compute(2);
  const Vectors a = random_vectors(400, 1, 3);
  Vectors b(400, 1);
  for (std::size_t i = 0; i < 400; ++i) b.data()[399 - i] = a.data()[i] + 2.5f;
  EXPECT_NEAR(sliced_wasserstein(a.view(), b.view(), 7, 0, compute), 2.5, 1e-6);
  EXPECT_EQ(sliced_wasserstein(a.view(), a.view(), 7, 0, compute), 0);
}

TEST(Compare, SlicedWassersteinOfDifferentSizes) {
  Compute compute(2);
  const Vectors zero = line({0});
  const Vectors pair = line({1, 0});
  EXPECT_NEAR(sliced_wasserstein(zero.view(), pair.view(), 5, 1, compute), std::sqrt(0.5), 1e-15);
  EXPECT_NEAR(sliced_wasserstein(pair.view(), zero.view(), 5, 1, compute), std::sqrt(0.5), 1e-15);
  // Quantiles of {0, 1}: 0 up to ½; of {0, 1, 5}: 0 up to ⅓, 1 up to ⅔. They differ by 1 between ⅓
  // and ½ and by 4 from ⅔ on.
  const Vectors three = line({5, 1, 0});
  EXPECT_NEAR(sliced_wasserstein(pair.view(), three.view(), 5, 1, compute),
              std::sqrt(1.0 / 6 + 16.0 / 3), 1e-14);
  // A set with every vector twice is the same distribution.
  const Vectors doubled = line({0, 5, 1, 1, 5, 0});
  EXPECT_EQ(sliced_wasserstein(three.view(), doubled.view(), 5, 1, compute), 0);
}

// E⟨u, s⟩² = |s|²/d for a uniformly random unit vector u: directions that are not unit, or not
// isotropic, miss it.
TEST(Compare, SlicedWassersteinAveragesOverDirections) {
  Compute compute(2);
  const std::size_t d = 10;
  for (std::size_t axis : {0u, 9u}) {
    Vectors a(1, d);
    Vectors b(1, d);
    b.data()[axis] = 3;
    const double distance = sliced_wasserstein(a.view(), b.view(), 40000, 5, compute);
    EXPECT_NEAR(distance * distance, 0.9, 0.03);
  }
}

TEST(Compare, SlicedWassersteinDependsOnTheSeedAndNotOnThreads) {
  const Vectors a = random_vectors(120, 33, 7);
  const Vectors b = random_vectors(77, 33, 8);
  Compute alone(1);
  const double distance = sliced_wasserstein(a.view(), b.view(), 50, 9, alone);
  EXPECT_GT(distance, 0);
  for (const std::size_t count : {2u, 5u}) {
    Compute compute(count);
    EXPECT_EQ(sliced_wasserstein(a.view(), b.view(), 50, 9, compute), distance);
  }
  EXPECT_NE(sliced_wasserstein(a.view(), b.view(), 50, 10, alone), distance);
  EXPECT_NEAR(sliced_wasserstein(b.view(), a.view(), 50, 9, alone), distance, 1e-12);
}

TEST(Compare, HalvesAreWidened) {
  const std::size_t d = 20;
  std::vector<std::uint16_t> halves(90 * d);
  Random random(4);
  for (auto& h : halves) h = static_cast<std::uint16_t>(0x3c00 + random.below(1024));
  Vectors wide(90, d);
  widen_half(halves.data(), halves.size(), wide.data());
  const VectorView narrow(halves.data(), 90, d, Scalar::kFloat16);
  const Vectors other = random_vectors(40, d, 5);
  Compute compute(2);
  EXPECT_EQ(hausdorff(narrow, other.view(), compute),
            hausdorff(wide.view(), other.view(), compute));
  EXPECT_EQ(sliced_wasserstein(narrow, other.view(), 10, 0, compute),
            sliced_wasserstein(wide.view(), other.view(), 10, 0, compute));
}

TEST(Compare, BytesAreWidenedAndNotMixed) {
  naive::Set a = naive::make(naive::Family::kLowRank, 80, 40, 1, 2);
  naive::Set b = naive::make(naive::Family::kLowRank, 60, 40, 1, 3);
  a.make_bytes(-3, 3);
  b.make_bytes(-3, 3);
  const VectorView floats_a(a.row(0), a.n, a.d);
  const VectorView floats_b(b.row(0), b.n, b.d);
  EXPECT_EQ(sliced_wasserstein(a.view(), b.view(), 20, 1, naive::crew(1)),
            sliced_wasserstein(floats_a, floats_b, 20, 1, naive::crew(1)));
  EXPECT_EQ(hausdorff(a.view(), b.view(), naive::crew(1)),
            hausdorff(floats_a, floats_b, naive::crew(1)));
  EXPECT_THROW(cover(a.view(), floats_b, naive::crew(1)), Error);
  EXPECT_THROW(sliced_wasserstein(floats_a, b.view(), 20, 1, naive::crew(1)), Error);
}

TEST(Compare, Overlap) {
  const std::vector<std::int64_t> a = {9, 2, 5, 0};
  const std::vector<std::int64_t> b = {5, 7, 9, 1, 8};
  const std::vector<std::int64_t> none;
  EXPECT_EQ(overlap(a, b), 2u);
  EXPECT_EQ(overlap(b, a), 2u);
  EXPECT_EQ(overlap(a, a), 4u);
  EXPECT_EQ(overlap(a, none), 0u);
  EXPECT_EQ(overlap(none, none), 0u);
}

TEST(Compare, ErrorsNameBothNumbers) {
  Compute compute(2);
  const Vectors some = random_vectors(4, 3, 1);
  const Vectors wide = random_vectors(4, 5, 1);
  const Vectors none(0, 3);
  const auto all = [&](VectorView a, VectorView b, const std::vector<std::string>& words) {
    const auto kind = Error::Kind::kInput;
    expect_error(kind, words, [&] { cover(a, b, compute); });
    expect_error(kind, words, [&] { hausdorff(a, b, compute); });
    expect_error(kind, words, [&] { sliced_wasserstein(a, b, 3, 0, compute); });
  };
  all(some.view(), none.view(), {"4", "0"});
  all(none.view(), some.view(), {"4", "0"});
  all(some.view(), wide.view(), {"3", "5"});
  all({}, {}, {"0"});
  expect_error(Error::Kind::kUsage, {"0 directions"},
               [&] { sliced_wasserstein(some.view(), some.view(), 0, 0, compute); });
}

TEST(Compare, ValuesThatAreNotFiniteAreNamed) {
  Compute compute(2);
  const Vectors good = random_vectors(30, 3, 1);
  for (const float value : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    Vectors bad = random_vectors(30, 3, 2);
    bad.row(17)[1] = value;
    const auto kind = Error::Kind::kInput;
    expect_error(kind, {"covered set", "row 17"}, [&] { cover(bad.view(), good.view(), compute); });
    expect_error(kind, {"covering set", "row 17"},
                 [&] { cover(good.view(), bad.view(), compute); });
    expect_error(kind, {"first set", "row 17"},
                 [&] { sliced_wasserstein(bad.view(), good.view(), 3, 0, compute); });
    expect_error(kind, {"second set", "row 17"},
                 [&] { sliced_wasserstein(good.view(), bad.view(), 3, 0, compute); });
  }
}

}  // namespace
}  // namespace contcore
