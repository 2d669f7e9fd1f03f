// Exact nearest neighbours against brute force, bit for bit.
#include "contcore/nearest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "contcore/error.h"
#include "coreset/kernels.h"
#include "coreset/naive.h"

namespace contcore {
namespace {

using naive::bits;
using naive::Dice;
using naive::Family;
using naive::Set;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// All vectors in the order of their distances, for each query.
using Truth = std::vector<std::vector<std::pair<float, std::int64_t>>>;

Truth brute_force(const naive::Nearest& memory, const Set& queries) {
  Truth truth;
  for (std::size_t i = 0; i < queries.n; ++i) {
    truth.push_back(memory.search(queries.row(i), memory.rows.size()));
  }
  return truth;
}

/// Where a result differs from brute force; empty if nowhere.
std::string difference(const NearestResult& got, const Truth& truth, std::size_t k) {
  std::ostringstream out;
  if (got.k != k || got.ids.size() != truth.size() * k ||
      got.distances.size() != truth.size() * k) {
    out << "k " << got.k << ", " << got.ids.size() << " ids, " << got.distances.size()
        << " distances";
    return out.str();
  }
  for (std::size_t i = 0; i < truth.size(); ++i) {
    for (std::size_t j = 0; j < k; ++j) {
      const bool there = j < truth[i].size();
      const std::int64_t id = there ? truth[i][j].second : -1;
      const float distance = there ? std::sqrt(truth[i][j].first) : kInfinity;
      const std::size_t at = i * k + j;
      if (got.ids[at] != id || bits(got.distances[at]) != bits(distance)) {
        out << "query " << i << ", neighbour " << j << ": id " << got.ids[at] << " at "
            << got.distances[at] << ", expected " << id << " at " << distance;
        return out.str();
      }
    }
  }
  return "";
}

std::string difference(const NearestResult& got, const naive::Nearest& memory, const Set& queries,
                       std::size_t k) {
  return difference(got, brute_force(memory, queries), k);
}

/// Queries that belong to a memory: members, near-members, others of its family, of another family,
/// duplicates of each other.
Set make_queries(const Set& memory, Family family, std::size_t n, std::size_t shape,
                 std::size_t seed, Dice& dice) {
  Set queries = naive::make(family, n, memory.d, shape, seed);
  const Set strangers = naive::make(static_cast<Family>(dice.below(naive::kFamilies)), n, memory.d,
                                    shape + 1, seed + 1);
  for (std::size_t i = 0; i < n; ++i) {
    switch (dice.below(6)) {
      case 0:
        if (memory.n > 0) naive::copy_row(memory, dice.below(memory.n), queries, i);
        break;
      case 1:
        if (memory.n > 0) naive::copy_row(memory, dice.below(memory.n), queries, i);
        naive::nudge(queries.row(i) + dice.below(memory.d), dice);
        break;
      case 2:
        if (dice.one_in(2)) naive::copy_row(strangers, i, queries, i);
        break;
      case 3:
        if (i > 0) naive::copy_row(queries, dice.below(i), queries, i);
        break;
      case 4:  // halfway between two members
        if (memory.n > 0) {
          const float* a = memory.row(dice.below(memory.n));
          const float* b = memory.row(dice.below(memory.n));
          for (std::size_t j = 0; j < memory.d; ++j) {
            queries.row(i)[j] = 0.5f * a[j] + 0.5f * b[j];
          }
        }
        break;
      default:
        break;
    }
  }
  if (dice.one_in(6)) queries.make_half();
  return queries;
}

bool enough() { return ::testing::Test::HasFailure(); }

/// Searches `runs` times, each with a k, a crew and a target of its own.
void check(const NearestIndex& index, const naive::Nearest& memory, const Set& queries,
           std::size_t runs, Dice& dice, const std::string& what) {
  const Truth truth = brute_force(memory, queries);
  for (std::size_t run = 0; run < runs; ++run) {
    const std::size_t k = dice.one_in(12)  ? memory.rows.size() + dice.between(1, 3)
                          : dice.one_in(8) ? std::max<std::size_t>(1, memory.rows.size())
                                           : dice.pick<std::size_t>({1, 1, 2, 5, 9});
    const std::size_t crew = dice.below(4);
    const std::string target = naive::any_target(dice, memory.rows.size() * queries.d);
    const std::string how = what + ", " + std::to_string(queries.n) + " queries, k " +
                            std::to_string(k) + ", " + target + ", threads " +
                            std::to_string(naive::crew(crew).threads().count());
    const naive::ForcedTarget forced(target);
    try {
      const NearestResult got = index.search(queries.view(), k, naive::crew(crew));
      EXPECT_EQ(difference(got, truth, k), "") << how;
    } catch (const std::exception& error) {
      ADD_FAILURE() << how << ": threw " << error.what();
    }
  }
}

std::string describe(std::size_t seed, Family family, std::size_t n, std::size_t d) {
  return "seed " + std::to_string(seed) + ", " + naive::name(family) + ", n " + std::to_string(n) +
         ", d " + std::to_string(d);
}

void check_random(std::size_t seed, std::size_t n, std::size_t d, std::size_t queries,
                  std::size_t runs, Dice& dice) {
  const Family family = static_cast<Family>(seed % naive::kFamilies);
  Set memory = naive::make(family, n, d, seed, 3 * seed);
  if (dice.one_in(6)) memory.make_half();
  const std::string what = describe(seed, family, n, d);
  const Set asked = make_queries(memory, family, queries, seed, 3 * seed + 1, dice);
  naive::Nearest twin;
  twin.add(memory, 0);
  const naive::ForcedTarget forced(naive::any_target(dice, n * d));
  try {
    const NearestIndex index(memory.view(), naive::crew(dice.below(4)));
    EXPECT_EQ(index.size(), n);
    EXPECT_EQ(index.dimension(), d);
    check(index, twin, asked, runs, dice, what);
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": threw " << error.what();
  }
}

TEST(Nearest, IsBruteForceOnSmallSets) {
  for (std::size_t seed = 0; seed < naive::cases(1640) && !enough(); ++seed) {
    Dice dice(seed + 1100000);
    const std::size_t d = dice.one_in(3)
                              ? dice.between(1, 130)
                              : dice.pick<std::size_t>({1, 2, 3, 63, 64, 65, 127, 128, 16, 33});
    const std::size_t n = dice.one_in(6) ? dice.below(4) : dice.between(1, 120);
    check_random(seed, n, d, dice.between(1, 12), 2, dice);
  }
}

TEST(Nearest, IsBruteForceOnSketchedSets) {
  for (std::size_t seed = 0; seed < naive::cases(440) && !enough(); ++seed) {
    Dice dice(seed + 1200000);
    const std::size_t d = dice.one_in(3) ? dice.between(60, 140)
                                         : dice.pick<std::size_t>({63, 64, 65, 96, 127, 128, 129});
    const std::size_t n = dice.one_in(4)    ? dice.pick<std::size_t>({255, 256, 257, 319, 320, 321})
                          : dice.one_in(12) ? dice.between(1000, 3000)
                                            : dice.between(256, 700);
    check_random(seed, n, d, dice.one_in(12) ? dice.between(60, 70) : dice.between(1, 10), 3, dice);
  }
}

TEST(Nearest, IsBruteForceInHighDimensions) {
  for (std::size_t seed = 0; seed < naive::cases(24) && !enough(); ++seed) {
    Dice dice(seed + 1300000);
    const std::size_t d = dice.pick<std::size_t>({255, 257, 1023, 1024, 1025});
    check_random(seed, dice.between(256, 330), d, dice.between(1, 5), 2, dice);
  }
}

TEST(Nearest, FollowsAddAndDrop) {
  for (std::size_t seed = 0; seed < naive::cases(160) && !enough(); ++seed) {
    Dice dice(seed + 1400000);
    const Family family = static_cast<Family>(seed % naive::kFamilies);
    const std::size_t d = dice.pick<std::size_t>({1, 3, 63, 64, 65, 128});
    const std::size_t n = dice.one_in(8)   ? 0
                          : dice.one_in(3) ? dice.between(1, 250)
                                           : dice.between(250, 600);
    std::deque<Set> sets;  // stay where they are
    sets.push_back(naive::make(family, n, d, seed, 1000 * seed));
    std::string what = describe(seed, family, n, d);
    naive::Nearest twin;
    twin.add(sets[0], 0);
    std::optional<NearestIndex> index;
    index.emplace(sets[0].view(), naive::crew(dice.below(4)));
    std::int64_t next = static_cast<std::int64_t>(n);
    const std::size_t steps = dice.between(3, 8);
    for (std::size_t step = 1; step <= steps && !enough(); ++step) {
      if (dice.one_in(2)) {
        const bool stranger = dice.one_in(4);
        const Family other = stranger ? static_cast<Family>(dice.below(naive::kFamilies)) : family;
        const std::size_t count = dice.one_in(6)   ? 0
                                  : dice.one_in(4) ? dice.between(100, 400)
                                                   : dice.between(1, 70);
        sets.push_back(
            naive::make(other, count, d, stranger ? seed + step : seed, 1000 * seed + step));
        Set& added = sets.back();
        if (sets[0].n > 0) {  // some copies of what is there
          for (std::size_t i = 0; i < count; i += 5) {
            naive::copy_row(sets[0], dice.below(sets[0].n), added, i);
          }
        }
        if (dice.one_in(5)) added.make_half();
        const std::int64_t first = index->add(added.view(), naive::crew(dice.below(4)));
        what += ", add " + std::to_string(count);
        ASSERT_EQ(first, next) << what;
        twin.add(added, first);
        next += static_cast<std::int64_t>(count);
      } else if (!twin.rows.empty()) {
        std::vector<std::int64_t> ids;
        for (const auto& [id, row] : twin.rows) ids.push_back(id);
        for (std::size_t i = ids.size() - 1; i > 0; --i) std::swap(ids[i], ids[dice.below(i + 1)]);
        ids.resize(dice.one_in(8) ? ids.size() : dice.below(ids.size() / 2 + 2));
        ids.resize(std::min(ids.size(), twin.rows.size()));
        index->drop(ids);
        for (const std::int64_t id : ids) twin.drop(id);
        what += ", drop " + std::to_string(ids.size());
      }
      ASSERT_EQ(index->size(), twin.rows.size()) << what;
      ASSERT_EQ(index->dimension(), d) << what;
      const Set& from = sets[dice.below(sets.size())];
      const Set queries =
          make_queries(from, family, dice.between(1, 10), seed, 1000 * seed + 500 + step, dice);
      check(*index, twin, queries, 1, dice, what);
      if (dice.one_in(4)) {  // a moved index is the same index
        NearestIndex moved(std::move(*index));
        index.reset();
        index.emplace(std::move(moved));
      }
    }
  }
}

// Rows anywhere in a larger set, in any order, to start with and to add; what lies between them is
// never found, and copies of a row are told apart by their ids.
TEST(Nearest, FindsSomeRowsOfASet) {
  for (std::size_t seed = 0; seed < naive::cases(80) && !enough(); ++seed) {
    Dice dice(seed + 1500000);
    const Family family = static_cast<Family>(seed % naive::kFamilies);
    const std::size_t d = dice.pick<std::size_t>({1, 64, 128});
    const Set all = naive::make(family, dice.between(2, 900), d, seed, 1000 * seed);
    std::vector<std::uint32_t> rows(all.n);
    std::iota(rows.begin(), rows.end(), 0U);
    if (!dice.one_in(4)) {
      for (std::size_t i = all.n - 1; i > 0; --i) std::swap(rows[i], rows[dice.below(i + 1)]);
    }
    const auto first = static_cast<std::ptrdiff_t>(dice.below(all.n));
    const auto last =
        first + static_cast<std::ptrdiff_t>(dice.below(all.n - static_cast<std::size_t>(first)));
    NearestIndex index(all.view(), std::vector(rows.begin(), rows.begin() + first),
                       naive::crew(dice.below(4)));
    const std::int64_t added =
        index.add(all.view(), std::vector(rows.begin() + first, rows.begin() + last),
                  naive::crew(dice.below(4)));
    const std::string what = describe(seed, family, all.n, d) + ", " + std::to_string(first) +
                             " and more to " + std::to_string(last);
    ASSERT_EQ(added, first) << what;
    naive::Nearest twin;
    Set chosen = naive::make(family, static_cast<std::size_t>(last), d, seed, 0);
    for (std::size_t i = 0; i < chosen.n; ++i) naive::copy_row(all, rows[i], chosen, i);
    twin.add(chosen, 0);
    check(index, twin, make_queries(all, family, 8, seed, 7, dice), 1, dice, what);
  }
}

TEST(Nearest, NoQueriesNoAnswers) {
  const Set memory = naive::make(Family::kGaussian, 300, 64, 1, 2);
  const NearestIndex index(memory.view(), naive::crew(1));
  const NearestResult result = index.search(VectorView(memory.row(0), 0, 64), 3, naive::crew(1));
  EXPECT_TRUE(result.ids.empty());
  EXPECT_TRUE(result.distances.empty());
}

TEST(Nearest, SearchesFromSeveralThreadsAtOnce) {
  const Set memory = naive::make(Family::kLowRank, 1500, 96, 1, 2);
  const Set queries = naive::make(Family::kLowRank, 60, 96, 1, 3);
  const NearestIndex index(memory.view(), naive::crew(1));
  naive::Nearest twin;
  twin.add(memory, 0);
  const Truth truth = brute_force(twin, queries);
  std::vector<std::string> wrong(4, "not run");
  std::vector<std::thread> callers;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    callers.emplace_back([&, t] {
      Compute crew(t % 2 + 1);
      for (int again = 0; again < 3; ++again) {
        wrong[t] = difference(index.search(queries.view(), 4, crew), truth, 4);
        if (!wrong[t].empty()) return;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const std::string& text : wrong) EXPECT_EQ(text, "");
}

// ---------------------------------------------------------------- errors

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

TEST(NearestErrors, ValuesThatAreNotFiniteNameTheirRow) {
  for (std::size_t seed = 0; seed < naive::cases(150); ++seed) {
    Dice dice(seed + 1500000);
    const std::size_t d = dice.pick<std::size_t>({1, 7, 64, 65, 130});
    const std::size_t n = dice.pick<std::size_t>({1, 40, 300, 1100});
    const Set clean = naive::make(Family::kGaussian, n, d, seed, seed);
    Set bad = naive::make(Family::kGaussian, dice.between(1, 400), d, seed, seed + 1);
    const bool half = dice.one_in(3);
    if (half) bad.make_half();
    const std::size_t row = dice.one_in(4) ? bad.n - 1 : dice.below(bad.n);
    const std::size_t at = bad.lead + row * d + dice.below(d);
    const std::size_t which = dice.below(3);
    bad.values[at] = which == 0 ? kNan : which == 1 ? kInfinity : -kInfinity;
    if (half) bad.halves[at] = which == 0 ? 0x7E01u : which == 1 ? 0x7C00u : 0xFC00u;
    if (!half && dice.one_in(2)) bad.row(bad.n - 1)[d - 1] = kNan;

    Compute& crew = naive::crew(dice.below(4));
    NearestIndex index(clean.view(), crew);
    naive::Nearest twin;
    twin.add(clean, 0);
    const std::size_t where = seed % 3;
    const std::optional<Error> error = error_of([&] {
      if (where == 0) NearestIndex(bad.view(), crew, "The Thing");
      if (where == 1) index.add(bad.view(), crew, "The Thing");
      if (where == 2) index.search(bad.view(), 2, crew, "The Thing");
    });
    ASSERT_TRUE(error) << "seed " << seed << ", n " << n << ", d " << d << ", row " << row
                       << ", where " << where;
    const std::string message = error->what();
    EXPECT_EQ(error->kind(), Error::Kind::kInput) << message;
    EXPECT_TRUE(names_number(message, row))
        << "seed " << seed << ", row " << row << ", where " << where << ": " << message;
    EXPECT_NE(message.find("The Thing"), std::string::npos) << message;
    // The index is as it was.
    EXPECT_EQ(index.size(), n);
    const Set queries = naive::make(Family::kGaussian, 4, d, seed, seed + 2);
    EXPECT_EQ(difference(index.search(queries.view(), 3, crew), twin, queries, 3), "");
    EXPECT_EQ(index.add(clean.view(), crew), static_cast<std::int64_t>(n));
  }
}

TEST(NearestErrors, ValuesTooLargeAreRefusedOrRight) {
  for (const float value : {5e18f, 1e19f, 1e25f, 3e38f, -3e38f}) {
    for (const std::size_t n : {10u, 400u}) {
      const std::size_t d = 64;
      const Set fine = naive::make(Family::kGaussian, n, d, 1, 2);
      Set large = naive::make(Family::kGaussian, n, d, 1, 3);
      large.row(7)[5] = value;
      const auto attempt = [&](const Set& memory, const Set& queries) {
        try {
          const NearestIndex index(memory.view(), naive::crew(1));
          naive::Nearest twin;
          twin.add(memory, 0);
          EXPECT_EQ(difference(index.search(queries.view(), 2, naive::crew(1)), twin, queries, 2),
                    "")
              << value << ", n " << n;
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), Error::Kind::kInput) << error.what();
        }
      };
      attempt(large, fine);
      attempt(fine, large);
      attempt(large, large);
    }
  }
}

TEST(NearestErrors, CallsThatMakeNoSense) {
  for (const std::size_t n : {20u, 400u}) {
    const std::size_t d = 64;
    const Set memory = naive::make(Family::kGaussian, n, d, 1, 2);
    const Set other = naive::make(Family::kGaussian, n, d + 1, 1, 2);
    Compute& crew = naive::crew(1);
    NearestIndex index(memory.view(), crew);
    naive::Nearest twin;
    twin.add(memory, 0);

    std::optional<Error> error = error_of([&] { index.search(memory.view(), 0, crew); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), Error::Kind::kUsage) << error->what();
    // Four queries of 2^62 neighbours each would wrap around to none.
    EXPECT_THROW(index.search(memory.view().part(0, 4), std::size_t{1} << 62, crew),
                 std::bad_alloc);
    error = error_of([&] { index.search(other.view(), 1, crew); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), Error::Kind::kInput) << error->what();
    error = error_of([&] { index.add(other.view(), crew); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), Error::Kind::kInput) << error->what();

    const std::vector<std::uint32_t> beyond = {0, static_cast<std::uint32_t>(n)};
    error = error_of([&] { NearestIndex(memory.view(), beyond, crew); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), Error::Kind::kUsage) << error->what();
    error = error_of([&] { index.add(memory.view(), beyond, crew); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), Error::Kind::kUsage) << error->what();
    EXPECT_EQ(index.size(), n);

    const auto drop_fails = [&](std::vector<std::int64_t> ids) {
      const std::optional<Error> thrown = error_of([&] { index.drop(ids); });
      ASSERT_TRUE(thrown);
      EXPECT_EQ(thrown->kind(), Error::Kind::kUsage) << thrown->what();
      // Nothing was dropped.
      EXPECT_EQ(index.size(), twin.rows.size());
      EXPECT_EQ(difference(index.search(memory.view(), 2, crew), twin, memory, 2), "");
    };
    const std::int64_t end = static_cast<std::int64_t>(n);
    drop_fails({end});
    drop_fails({-1});
    drop_fails({std::numeric_limits<std::int64_t>::min()});
    drop_fails({std::numeric_limits<std::int64_t>::max()});
    const std::vector<std::int64_t> some = {3, 0, end - 1};
    index.drop(some);
    for (const std::int64_t id : some) twin.drop(id);
    drop_fails({3});
    drop_fails({end - 1});
    index.drop({});
    EXPECT_EQ(index.size(), n - 3);
    EXPECT_EQ(difference(index.search(memory.view(), 2, crew), twin, memory, 2), "");
  }
}

TEST(NearestErrors, AFailedDropDropsNothing) {
  for (const std::size_t n : {20u, 400u}) {
    const Set memory = naive::make(Family::kGaussian, n, 64, 1, 2);
    naive::Nearest twin;
    twin.add(memory, 0);
    const std::int64_t end = static_cast<std::int64_t>(n);
    for (const std::vector<std::int64_t>& ids :
         {std::vector<std::int64_t>{5, 6, end}, {7, 7}, {end, 5}}) {
      NearestIndex index(memory.view(), naive::crew(1));
      const std::optional<Error> error = error_of([&] { index.drop(ids); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->kind(), Error::Kind::kUsage) << error->what();
      EXPECT_EQ(index.size(), n) << ids.size() << " ids, the first " << ids[0];
      EXPECT_EQ(difference(index.search(memory.view(), 2, naive::crew(1)), twin, memory, 2), "");
    }
  }
}

TEST(Nearest, CountsNoMoreFullDistancesThanPairs) {
  for (std::size_t f = 0; f < naive::kFamilies; ++f) {
    const Family family = static_cast<Family>(f);
    const Set memory = naive::make(family, 300, 96, f, 2);
    const Set queries = naive::make(family, 10, 96, f, 3);
    const NearestIndex index(memory.view(), naive::crew(1));
    for (const std::size_t k : {1u, 5u, 300u}) {
      EXPECT_LE(index.search(queries.view(), k, naive::crew(1)).exact, 10u * 300u)
          << naive::name(family) << ", k " << k;
    }
  }
}

TEST(NearestProgress, RisesToOneAndCancels) {
  for (std::size_t seed = 0; seed < naive::cases(20); ++seed) {
    Dice dice(seed + 1600000);
    const std::size_t d = dice.pick<std::size_t>({3, 64, 128});
    const Set memory =
        naive::make(Family::kLowRank, dice.pick<std::size_t>({1, 100, 1000}), d, seed, seed);
    const Set queries =
        naive::make(Family::kLowRank, dice.pick<std::size_t>({1, 70, 200}), d, seed, seed + 1);
    Compute& crew = naive::crew(dice.below(4));
    const NearestIndex index(memory.view(), crew);
    naive::Nearest twin;
    twin.add(memory, 0);
    std::vector<double> values;
    bool elsewhere = false;
    const std::thread::id here = std::this_thread::get_id();
    const NearestResult all = index.search(queries.view(), 2, crew, "queries", [&](double done) {
      values.push_back(done);
      elsewhere = elsewhere || std::this_thread::get_id() != here;
      return true;
    });
    const Truth truth = brute_force(twin, queries);
    EXPECT_EQ(difference(all, truth, 2), "");
    ASSERT_FALSE(values.empty());
    EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
    EXPECT_GE(values.front(), 0.0);
    EXPECT_EQ(values.back(), 1.0);
    EXPECT_FALSE(elsewhere);
    for (int attempt = 0; attempt < 4; ++attempt) {
      const std::size_t at = attempt == 0 ? values.size() - 1 : dice.below(values.size());
      std::size_t calls = 0;
      try {
        index.search(queries.view(), 2, crew, "queries", [&](double) { return calls++ != at; });
        EXPECT_LE(calls, at) << "seed " << seed << ": went on after call " << at << " of "
                             << values.size() << " said to stop";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), Error::Kind::kCancelled) << error.what();
        EXPECT_EQ(calls, at + 1);
      }
    }
    EXPECT_EQ(difference(index.search(queries.view(), 2, crew), truth, 2), "");
  }
}

}  // namespace
}  // namespace contcore
