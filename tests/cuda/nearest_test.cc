// Nearest neighbours found on the GPU against those the processor finds, bit for bit.
#include "contcore/nearest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "contcore/error.h"
#include "coreset/naive.h"
#include "coreset/nearest_gpu.h"

namespace contcore {
namespace {

using naive::Dice;
using naive::Family;
using naive::Set;

Compute& on_gpu() {
  static Compute compute(4, Device{0});
  return compute;
}

/// The smallest searches go to the GPU, too.
struct Forced {
  Forced() { force_gpu_search(true); }
  ~Forced() { force_gpu_search(false); }
};

void expect_same(const NearestIndex& index, VectorView queries, std::size_t k,
                 const std::string& what, Compute& gpu = on_gpu()) {
  const NearestResult truth = index.search(queries, k, naive::crew(3));
  const NearestResult found = index.search(queries, k, gpu);
  ASSERT_EQ(found.k, k);
  ASSERT_EQ(found.ids.size(), truth.ids.size());
  EXPECT_LE(found.exact, queries.rows * index.size()) << what;
  for (std::size_t i = 0; i < truth.ids.size(); ++i) {
    ASSERT_EQ(found.ids[i], truth.ids[i])
        << what << ", query " << i / k << ", neighbour " << i % k << ": " << found.distances[i]
        << ", " << truth.distances[i];
    ASSERT_EQ(naive::bits(found.distances[i]), naive::bits(truth.distances[i]))
        << what << ", query " << i / k << ", neighbour " << i % k;
  }
}

void expect_brute_force(const NearestIndex& index, const Set& vectors, const Set& queries,
                        std::size_t k, const std::string& what) {
  const NearestResult found = index.search(queries.view(), k, on_gpu());
  for (std::size_t i = 0; i < queries.n; ++i) {
    std::vector<std::pair<float, std::int64_t>> all;
    for (std::size_t j = 0; j < vectors.n; ++j) {
      all.emplace_back(naive::distance(queries, i, vectors, j), static_cast<std::int64_t>(j));
    }
    std::sort(all.begin(), all.end());
    for (std::size_t j = 0; j < k; ++j) {
      const bool there = j < all.size();
      ASSERT_EQ(found.ids[i * k + j], there ? all[j].second : -1) << what << ", query " << i;
      ASSERT_EQ(found.distances[i * k + j],
                there ? std::sqrt(all[j].first) : std::numeric_limits<float>::infinity())
          << what << ", query " << i;
    }
  }
}

/// Members, near-members, members of another family, points between two members.
Set make_queries(const Set& vectors, Family family, std::size_t n, std::size_t seed, Dice& dice) {
  Set queries = naive::make(family, n, vectors.d, seed, 3 * seed + 1);
  const Set strangers = naive::make(static_cast<Family>(dice.below(naive::kFamilies)), n, vectors.d,
                                    seed + 1, 3 * seed + 2);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t one = dice.below(vectors.n);
    const std::size_t two = dice.below(vectors.n);
    switch (dice.below(5)) {
      case 0:
        naive::copy_row(vectors, one, queries, i);
        break;
      case 1:
        naive::copy_row(vectors, one, queries, i);
        naive::nudge(queries.row(i) + dice.below(vectors.d), dice);
        break;
      case 2:
        naive::copy_row(strangers, i, queries, i);
        break;
      case 3:
        for (std::size_t j = 0; j < vectors.d; ++j) {
          queries.row(i)[j] = 0.5f * vectors.row(one)[j] + 0.5f * vectors.row(two)[j];
        }
        break;
      default:
        break;
    }
  }
  return queries;
}

std::string described(const char* kind, std::size_t seed, std::size_t n, std::size_t d,
                      std::size_t queries, std::size_t k) {
  return std::string(kind) + ", seed " + std::to_string(seed) + ", " + std::to_string(queries) +
         " of " + std::to_string(n) + " × " + std::to_string(d) + ", k " + std::to_string(k);
}

TEST(CudaNearest, FloatsOfEveryFamily) {
  const Forced forced;
  for (std::size_t seed = 0; seed < naive::cases(400) && !testing::Test::HasFailure(); ++seed) {
    Dice dice(seed + 5100000);
    const auto family = static_cast<Family>(seed % naive::kFamilies);
    const auto d = dice.pick<std::size_t>({1, 2, 7, 31, 32, 33, 63, 64, 65, 100, 512, 513, 1024});
    const std::size_t n = dice.one_in(4)   ? dice.between(1, 9)
                          : dice.one_in(3) ? dice.pick<std::size_t>({127, 128, 129, 256, 257})
                                           : dice.between(10, 1500);
    const std::size_t m = dice.one_in(4) ? dice.between(120, 300) : dice.between(1, 40);
    const auto k = dice.pick<std::size_t>({1, 1, 2, 5, 9, 32});
    const std::string what = described(naive::name(family), seed, n, d, m, k);
    Set vectors = naive::make(family, n, d, seed, 3 * seed);
    Set queries = make_queries(vectors, family, m, seed, dice);
    if (dice.one_in(4)) vectors.make_half();
    if (dice.one_in(4)) queries.make_half();
    const NearestIndex index(vectors.view(), naive::crew(3));
    expect_same(index, queries.view(), k, what);
    if (n * m * d < 200000) expect_brute_force(index, vectors, queries, k, what);
  }
}

TEST(CudaNearest, BytesOfEveryKind) {
  const Forced forced;
  for (std::size_t seed = 0; seed < naive::cases(300) && !testing::Test::HasFailure(); ++seed) {
    Dice dice(seed + 5200000);
    const auto family = static_cast<Family>(dice.below(naive::kFamilies));
    const auto d =
        dice.pick<std::size_t>({1, 7, 31, 32, 33, 63, 64, 65, 100, 512, 513, 1024, 3000});
    const std::size_t n = dice.one_in(3) ? dice.between(1, 200) : dice.between(200, 1500);
    const std::size_t m = dice.one_in(4) ? dice.between(120, 300) : dice.between(1, 40);
    const auto k = dice.pick<std::size_t>({1, 1, 2, 5, 9, 32});
    const std::string what = described(naive::name(family), seed, n, d, m, k);
    const auto low = dice.pick({-3.0f, -1.0f, 0.0f});
    const auto high = dice.pick({0.01f, 1.0f, 3.0f});
    Set vectors = naive::make(family, n, d, seed, 3 * seed);
    Set queries = make_queries(vectors, family, m, seed, dice);
    vectors.make_bytes(low, high);
    queries.make_bytes(low, high);
    const NearestIndex index(vectors.view(), naive::crew(3));
    expect_same(index, queries.view(), k, what);
    if (n * m * d < 200000) expect_brute_force(index, vectors, queries, k, what);
  }
}

// Whole numbers above 2²⁴ that round to one float: the lowest id is the nearest of them.
TEST(CudaNearest, BytesFarApart) {
  const Forced forced;
  for (const std::size_t d : {512u, 1024u, 4096u, 32768u, 32769u}) {
    const std::size_t n = d > 4096 ? 70 : 400;
    Vectors vectors(n, d, Scalar::kUint8);
    Vectors queries(5, d, Scalar::kUint8);
    Dice dice(d);
    for (std::size_t i = 0; i < n; ++i) {
      std::fill_n(vectors.byte_row(i), d, std::uint8_t{255});
      for (std::size_t j = 0; j < dice.below(6); ++j) vectors.byte_row(i)[dice.below(d)] = 254;
      if (i == n / 2) std::fill_n(vectors.byte_row(i), d, std::uint8_t{0});
    }
    for (std::size_t j = 0; j < d; ++j) {
      queries.byte_row(1)[j] = 255;
      queries.byte_row(2)[j] = static_cast<std::uint8_t>(dice.below(256));
      queries.byte_row(3)[j] = static_cast<std::uint8_t>(j % 2 * 255);
      queries.byte_row(4)[j] = 1;
    }
    const NearestIndex index(vectors.view(), naive::crew(3));
    for (const std::size_t k : {1u, 3u, 20u}) {
      expect_same(index, queries.view(), k, std::to_string(d) + ", k " + std::to_string(k));
    }
  }
}

TEST(CudaNearest, FollowsAddAndDrop) {
  const Forced forced;
  for (std::size_t seed = 0; seed < naive::cases(60) && !testing::Test::HasFailure(); ++seed) {
    Dice dice(seed + 5300000);
    const auto family = static_cast<Family>(seed % naive::kFamilies);
    const auto d = dice.pick<std::size_t>({3, 64, 100});
    const bool bytes = dice.one_in(3);
    std::deque<Set> sets;
    const auto more = [&](std::size_t n) -> const Set& {
      sets.push_back(naive::make(family, n, d, seed, 100 * seed + sets.size()));
      if (bytes) sets.back().make_bytes(-2, 2);
      if (!bytes && dice.one_in(4)) sets.back().make_half();
      return sets.back();
    };
    std::vector<std::uint32_t> rows(dice.between(1, 700));
    std::iota(rows.begin(), rows.end(), 0u);
    for (std::size_t i = rows.size() - 1; i > 0; --i) std::swap(rows[i], rows[dice.below(i + 1)]);
    NearestIndex index(more(rows.size() + 10).view(), rows, naive::crew(3));
    std::vector<std::int64_t> ids(rows.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::string what = described(naive::name(family), seed, rows.size(), d, 0, 0);
    for (std::size_t step = 0; step < 6; ++step) {
      if (dice.one_in(2)) {
        const std::size_t count = dice.one_in(4) ? dice.between(500, 3000) : dice.below(40);
        const Set& set = more(count + 3);
        std::vector<std::uint32_t> some(count);
        std::iota(some.begin(), some.end(), 3u);
        std::int64_t id = dice.one_in(2) ? index.add(set.view().part(0, count), naive::crew(3))
                                         : index.add(set.view(), some, naive::crew(3));
        for (std::size_t i = 0; i < count; ++i) ids.push_back(id++);
        what += ", add " + std::to_string(count);
      }
      if (dice.one_in(2)) {
        for (std::size_t i = ids.size(); i-- > 1;) std::swap(ids[i], ids[dice.below(i + 1)]);
        const std::size_t left = dice.one_in(6) ? dice.below(3) : ids.size() - ids.size() / 3;
        std::vector<std::int64_t> gone(
            ids.begin() + static_cast<std::ptrdiff_t>(std::min(left, ids.size())), ids.end());
        ids.resize(std::min(left, ids.size()));
        index.drop(gone);
        what += ", drop " + std::to_string(gone.size());
      }
      if (dice.one_in(4)) {  // a moved index is the same index
        NearestIndex moved(std::move(index));
        index = std::move(moved);
      }
      if (dice.one_in(4)) continue;
      ASSERT_EQ(index.size(), ids.size());
      const auto k = dice.pick<std::size_t>({1, 3, 9});
      const Set& queries = more(20);
      expect_same(index, queries.view(), k, what);
      expect_same(index, sets.front().view().part(0, 1), k, what + ", the first");
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(CudaNearest, SearchesFromSeveralThreadsAtOnce) {
  const Forced forced;
  const Set vectors = naive::make(Family::kLowRank, 3000, 96, 1, 2);
  const Set queries = naive::make(Family::kLowRank, 300, 96, 1, 3);
  const NearestIndex index(vectors.view(), naive::crew(3));
  std::vector<std::thread> callers;
  for (std::size_t t = 0; t < 6; ++t) {
    callers.emplace_back([&, t] {
      Compute compute(1, Device{0});
      Compute plain(1);
      for (std::size_t again = 0; again < 10; ++again) {
        const std::size_t k = 1 + (t + again) % 4;
        const NearestResult truth = index.search(queries.view(), k, plain);
        const NearestResult found = index.search(queries.view(), k, compute);
        EXPECT_EQ(found.ids, truth.ids);
        EXPECT_EQ(found.distances, truth.distances);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// The vectors outlive the compute context they were copied with.
TEST(CudaNearest, VectorsStayWhenAContextGoes) {
  const Forced forced;
  const Set vectors = naive::make(Family::kClusters, 500, 40, 1, 2);
  const NearestIndex index(vectors.view(), naive::crew(3));
  for (std::size_t i = 0; i < 3; ++i) {
    Compute compute(2, Device{0});
    expect_same(index, vectors.view().part(i * 100, 100), 2, "context", compute);
  }
}

TEST(CudaNearest, RefusesWhatTheProcessorRefuses) {
  const Forced forced;
  const Set vectors = naive::make(Family::kGaussian, 400, 64, 1, 2);
  const NearestIndex index(vectors.view(), naive::crew(3));
  for (const float value : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(), 1e19f, -3e38f, 5e18f, 4e18f}) {
    Set queries = naive::make(Family::kGaussian, 300, 64, 1, 3);
    queries.row(217)[5] = value;
    const auto said = [&](Compute& compute) -> std::string {
      try {
        index.search(queries.view(), 2, compute, "The Thing");
      } catch (const Error& error) {
        return error.what();
      }
      return "nothing";
    };
    EXPECT_EQ(said(on_gpu()), said(naive::crew(3))) << value;
    if (said(on_gpu()) == "nothing") expect_same(index, queries.view(), 2, "large");
  }
  EXPECT_THROW(index.search(vectors.view(), 0, on_gpu()), Error);
  EXPECT_TRUE(index.search(vectors.view().part(0, 0), 3, on_gpu()).ids.empty());
}

TEST(CudaNearest, ReportsProgressAndStops) {
  const Forced forced;
  const Set vectors = naive::make(Family::kGaussian, 400, 16, 1, 2);
  const Set queries = naive::make(Family::kGaussian, 20000, 16, 1, 3);
  const NearestIndex index(vectors.view(), naive::crew(3));
  std::vector<double> values;
  index.search(queries.view(), 1, on_gpu(), "queries", [&](double done) {
    values.push_back(done);
    return true;
  });
  EXPECT_GT(values.size(), 3u);
  EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
  EXPECT_EQ(values.back(), 1.0);
  expect_same(index, queries.view(), 1, "in chunks");
  try {
    index.search(queries.view(), 1, on_gpu(), "queries", [](double done) { return done < 0.3; });
    ADD_FAILURE() << "was not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kCancelled);
  }
}

// Values so small that products of them say nothing: all distances are left to be measured, by more
// blocks than the query's own, and then by that alone.
TEST(CudaNearest, WhereNothingCanBeExcluded) {
  const Forced forced;
  for (const std::size_t n : {3000u, 12000u}) {
    Set vectors = naive::make(Family::kGaussian, n, 40, 1, 2);
    Set queries = naive::make(Family::kGaussian, 260, 40, 1, 3);
    for (float& x : vectors.values) x *= 1e-20f;
    for (float& x : queries.values) x *= 1e-20f;
    naive::copy_row(vectors, n - 1, vectors, 5);
    naive::copy_row(vectors, 5, queries, 100);
    const NearestIndex index(vectors.view(), naive::crew(3));
    for (const std::size_t k : {1u, 4u}) {
      expect_same(index, queries.view(), k, std::to_string(n) + ", k " + std::to_string(k));
      expect_same(index, queries.view().part(90, 20), k, "some of " + std::to_string(n));
    }
  }
}

// Of vectors that differ in earnest few are measured, and more neighbours than a warp has lanes are
// found.
TEST(CudaNearest, MeasuresFewOfThePairs) {
  const Set vectors = naive::make(Family::kSparse, 9000, 256, 4, 2);
  const Set queries = naive::make(Family::kSparse, 700, 256, 4, 3);
  const NearestIndex index(vectors.view(), naive::crew(3));
  ASSERT_TRUE(pays_on_gpu(700, 9000, 256, Scalar::kFloat32, 1));
  EXPECT_LT(index.search(queries.view(), 1, on_gpu()).exact, 700u * 9000u / 20);
  expect_same(index, queries.view(), 1, "many");
  expect_same(index, queries.view(), 7, "many");
  expect_same(index, queries.view().part(0, 20), 33, "more than a warp has lanes");
}

}  // namespace
}  // namespace contcore
