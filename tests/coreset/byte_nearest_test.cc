// Exact nearest neighbours of bytes against brute force, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contcore/error.h"
#include "contcore/nearest.h"
#include "coreset/byte_projection.h"
#include "coreset/kernels.h"
#include "coreset/naive.h"

namespace contcore {
namespace {

using naive::Dice;

enum class Kind { kNoise, kEqual, kExtremes, kLowRank, kClusters, kCopies, kFewValues, kSparse };
constexpr std::size_t kKinds = 8;

std::uint8_t to_byte(double x) { return static_cast<std::uint8_t>(std::clamp(x, 0.0, 255.0)); }

/// n vectors of a kind; those of one shape belong together.
Vectors make_bytes(Kind kind, std::size_t n, std::size_t d, std::uint64_t shape,
                   std::uint64_t seed) {
  Dice common(shape * 7919 + 5);
  Dice dice(seed * 104729 + 3);
  Vectors out(n, d, Scalar::kUint8);
  std::vector<std::vector<double>> some(5, std::vector<double>(d));
  for (auto& row : some) {
    for (double& x : row) x = common.gaussian();
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::uint8_t* row = out.byte_row(i);
    const std::vector<double>& one = some[dice.below(some.size())];
    const double t = dice.gaussian();
    const double u = dice.gaussian();
    for (std::size_t j = 0; j < d; ++j) {
      switch (kind) {
        case Kind::kNoise:
          row[j] = static_cast<std::uint8_t>(dice.below(256));
          break;
        case Kind::kEqual:
          row[j] = to_byte(128 + 60 * some[0][j]);
          break;
        case Kind::kExtremes:
          row[j] = dice.one_in(2) ? 255 : 0;
          break;
        case Kind::kLowRank:
          row[j] = to_byte(120 + 50 * t * some[0][j] + 20 * u * some[1][j] + 2 * dice.gaussian());
          break;
        case Kind::kClusters:
          row[j] = to_byte(100 + 40 * one[j] + 4 * dice.gaussian());
          break;
        case Kind::kCopies:
          row[j] = to_byte(100 + 40 * one[j]);
          break;
        case Kind::kFewValues:
          row[j] = static_cast<std::uint8_t>(dice.below(2));
          break;
        case Kind::kSparse:
          row[j] = dice.one_in(30) ? 255 : 0;
          break;
      }
    }
  }
  return out;
}

/// Searched one by one, by the definition.
struct Twin {
  std::size_t d;
  std::vector<std::pair<std::int64_t, const std::uint8_t*>> rows;

  void add(const Vectors& set, std::int64_t first) {
    for (std::size_t i = 0; i < set.rows(); ++i) {
      rows.emplace_back(first + static_cast<std::int64_t>(i), set.byte_row(i));
    }
  }
  void drop(std::int64_t id) {
    std::erase_if(rows, [id](const auto& row) { return row.first == id; });
  }
  std::vector<std::pair<float, std::int64_t>> search(const std::uint8_t* query) const {
    std::vector<std::pair<float, std::int64_t>> found;
    for (const auto& [id, row] : rows) {
      std::uint64_t sum = 0;
      for (std::size_t j = 0; j < d; ++j) {
        const int difference = int{query[j]} - int{row[j]};
        sum += static_cast<std::uint64_t>(difference * difference);
      }
      found.emplace_back(static_cast<float>(sum), id);
    }
    std::sort(found.begin(), found.end());
    return found;
  }
};

/// Members, near-members, others of the kind, copies of each other.
Vectors make_asked(const Vectors& memory, Kind kind, std::size_t n, std::uint64_t shape,
                   std::uint64_t seed, Dice& dice) {
  Vectors asked = make_bytes(kind, n, memory.cols(), shape, seed);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t what = dice.below(4);
    if (what < 2 && memory.rows() > 0) {
      asked.set_rows(i, memory.view().part(dice.below(memory.rows()), 1));
    }
    if (what == 1) asked.byte_row(i)[dice.below(memory.cols())] ^= 1;
    if (what == 2 && i > 0) asked.set_rows(i, asked.view().part(dice.below(i), 1));
  }
  return asked;
}

void check(const NearestIndex& index, const Twin& twin, const Vectors& asked, Dice& dice,
           const std::string& what) {
  const std::string target = naive::any_target(dice, twin.rows.size() * twin.d);
  const naive::ForcedTarget forced(target);
  const std::size_t k =
      dice.one_in(8) ? twin.rows.size() + 2 : dice.pick<std::size_t>({1, 1, 2, 7, 70});
  const NearestResult got = index.search(asked.view(), k, naive::crew(dice.below(4)));
  EXPECT_LE(got.exact, asked.rows() * twin.rows.size()) << what;
  for (std::size_t i = 0; i < asked.rows(); ++i) {
    const auto truth = twin.search(asked.byte_row(i));
    for (std::size_t j = 0; j < k; ++j) {
      const bool there = j < truth.size();
      const std::size_t at = i * k + j;
      ASSERT_EQ(got.ids[at], there ? truth[j].second : -1)
          << what << ", " << target << ", query " << i << ", neighbour " << j << " of " << k;
      ASSERT_EQ(got.distances[at],
                there ? std::sqrt(truth[j].first) : std::numeric_limits<float>::infinity())
          << what << ", " << target << ", query " << i << ", neighbour " << j;
    }
  }
}

std::string described(std::size_t seed, std::size_t n, std::size_t d) {
  return "seed " + std::to_string(seed) + ", " + std::to_string(n) + " vectors of " +
         std::to_string(d);
}

TEST(ByteNearest, IsBruteForce) {
  for (std::size_t seed = 0; seed < naive::cases(120); ++seed) {
    Dice dice(seed + 4100000);
    const std::size_t d = dice.pick<std::size_t>({1, 3, 63, 127, 128, 129, 130, 131, 512, 513});
    const std::size_t n = dice.one_in(3) ? dice.below(260) : dice.between(256, 900);
    const auto kind = static_cast<Kind>(seed % kKinds);
    const Vectors memory = make_bytes(kind, n, d, seed, 2 * seed);
    const NearestIndex index(memory.view(), naive::crew(dice.below(4)));
    ASSERT_EQ(index.size(), n);
    Twin twin{d, {}};
    twin.add(memory, 0);
    const Vectors asked = make_asked(memory, kind, dice.between(1, 23), seed, 2 * seed + 1, dice);
    check(index, twin, asked, dice, described(seed, n, d));
    if (HasFatalFailure()) return;
  }
}

TEST(ByteNearest, IsBruteForceOfLongVectors) {
  for (const std::size_t d : {4096u, 32768u, 32769u, 70001u}) {
    const std::size_t n = d > kernels::kMostExactBytes ? 9 : 260;
    for (std::size_t kind = 0; kind<kKinds; kind += d> 4096 ? 3 : 1) {
      Dice dice(d + kind);
      const Vectors memory = make_bytes(static_cast<Kind>(kind), n, d, 1, 2);
      const NearestIndex index(memory.view(), naive::crew(1));
      Twin twin{d, {}};
      twin.add(memory, 0);
      check(index, twin, make_asked(memory, static_cast<Kind>(kind), 3, 1, 3, dice), dice,
            described(kind, n, d));
      if (HasFatalFailure()) return;
    }
  }
}

// Few changes are appended, many make the layout anew; ids stay what they are.
TEST(ByteNearest, FollowsAddAndDrop) {
  for (std::size_t seed = 0; seed < naive::cases(24); ++seed) {
    Dice dice(seed + 4200000);
    const auto kind = static_cast<Kind>(seed % kKinds);
    const std::size_t d = dice.pick<std::size_t>({3, 128, 200});
    const std::size_t n = dice.one_in(3) ? dice.below(300) : dice.between(256, 1500);
    std::string what = described(seed, n, d);
    std::deque<Vectors> sets;
    sets.push_back(make_bytes(kind, n, d, seed, seed));
    Twin twin{d, {}};
    twin.add(sets[0], 0);
    NearestIndex index(sets[0].view(), naive::crew(1));
    auto next = static_cast<std::int64_t>(n);
    for (std::size_t step = 0; step < 5; ++step) {
      const std::size_t count = dice.one_in(3) ? dice.between(600, 1400) : dice.below(90);
      const auto other = dice.one_in(3) ? static_cast<Kind>(dice.below(kKinds)) : kind;
      sets.push_back(make_bytes(other, count, d, seed, 100 * seed + step));
      std::vector<std::uint32_t> rows(count);
      std::iota(rows.begin(), rows.end(), 0u);
      std::reverse(rows.begin(), rows.end());
      if (dice.one_in(2)) {
        ASSERT_EQ(index.add(sets.back().view(), naive::crew(dice.below(4))), next);
        twin.add(sets.back(), next);
      } else {
        ASSERT_EQ(index.add(sets.back().view(), rows, naive::crew(dice.below(4))), next);
        for (std::size_t i = 0; i < count; ++i) {
          twin.rows.emplace_back(next + static_cast<std::int64_t>(i),
                                 sets.back().byte_row(rows[i]));
        }
      }
      next += static_cast<std::int64_t>(count);
      std::vector<std::int64_t> ids;
      for (const auto& [id, row] : twin.rows) ids.push_back(id);
      for (std::size_t i = ids.size(); i-- > 1;) std::swap(ids[i], ids[dice.below(i + 1)]);
      ids.resize(dice.one_in(10) ? ids.size() : dice.below(ids.size() / 2 + 1));
      index.drop(ids);
      std::sort(ids.begin(), ids.end());
      std::erase_if(twin.rows, [&](const auto& row) {
        return std::binary_search(ids.begin(), ids.end(), row.first);
      });
      what += ", add " + std::to_string(count) + ", drop " + std::to_string(ids.size());
      ASSERT_EQ(index.size(), twin.rows.size()) << what;
      const Vectors& from = sets[dice.below(sets.size())];
      check(index, twin, make_asked(from, kind, 6, seed, 7 * seed + step, dice), dice, what);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ByteNearest, RefusesTheOtherKind) {
  const Vectors bytes = make_bytes(Kind::kNoise, 300, 128, 1, 2);
  const naive::Set floats = naive::make(naive::Family::kGaussian, 300, 128, 1, 2);
  Compute& crew = naive::crew(1);
  NearestIndex of_bytes(bytes.view(), crew);
  NearestIndex of_floats(floats.view(), crew);
  const auto refused = [](const auto& call, const std::string& mine, const std::string& yours) {
    try {
      call();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
      const std::string text = error.what();
      ASSERT_NE(text.find(mine), std::string::npos) << text;
      EXPECT_LT(text.find(mine), text.find(yours)) << text;
    }
  };
  refused([&] { of_bytes.search(floats.view(), 1, crew); }, "floats", "bytes");
  refused([&] { of_floats.search(bytes.view(), 1, crew); }, "bytes", "floats");
  refused([&] { of_bytes.add(floats.view(), crew); }, "floats", "bytes");
  refused([&] { of_floats.add(bytes.view(), crew); }, "bytes", "floats");
  EXPECT_EQ(of_bytes.size(), 300u);
  EXPECT_EQ(of_floats.size(), 300u);
}

// On vectors like features the sketches leave few distances; else the search is brute force.
TEST(ByteNearest, MeasuresFewOfThePairs) {
  const Vectors memory = make_bytes(Kind::kLowRank, 4000, 256, 1, 2);
  const Vectors asked = make_bytes(Kind::kLowRank, 100, 256, 1, 3);
  const NearestIndex index(memory.view(), naive::crew(1));
  EXPECT_LT(index.search(asked.view(), 1, naive::crew(1)).exact, 100u * 4000u / 20);
}

// The bound itself: no pair is excluded at its own distance.
TEST(ByteProjection, NeverExcludesAVectorAtItsDistance) {
  for (std::size_t seed = 0; seed < naive::cases(16); ++seed) {
    Dice dice(seed + 4300000);
    const auto kind = static_cast<Kind>(seed % kKinds);
    const std::size_t d = dice.pick<std::size_t>({128, 129, 512, 2000});
    const Vectors set = make_bytes(kind, 80, d, seed, seed);
    const Vectors far = make_bytes(static_cast<Kind>(dice.below(kKinds)), 80, d, seed + 1, seed);
    std::vector<const std::uint8_t*> rows;
    for (std::size_t i = 0; i < 80; ++i) rows.push_back(set.byte_row(i));
    const ByteProjection projection(rows, d, naive::crew(1));
    for (std::size_t i = 0; i < 80; i += 4) rows.push_back(far.byte_row(i));
    std::vector<ProjectedBytes> projected(rows.size());
    for (std::size_t i = 0; i < rows.size(); i += 4) projection.project(&rows[i], 4, &projected[i]);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < rows.size(); ++j) {
        const float distance = static_cast<float>(Twin{d, {{0, rows[j]}}}.search(rows[i])[0].first);
        for (std::size_t level = 0; level < kByteLevels; ++level) {
          const ByteSteps& a = projected[i].levels[level];
          const ByteSteps& b = projected[j].levels[level];
          std::int32_t value = ByteProjection::start(b, kByteWidths[level]);
          for (std::size_t at = 0; at < kByteWidths[level]; ++at) {
            value += int{a.bytes[at]} * (int{b.bytes[at]} - 128);
          }
          ASSERT_GE(value, projection.gate(level, a, distance, b.error))
              << described(seed, 80, d) << ", level " << level;
        }
      }
    }
  }
}

}  // namespace
}  // namespace contcore
