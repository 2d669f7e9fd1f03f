// The sketch's certificate: what it rules out is truly farther away.
#include "coreset/sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "contcore/error.h"
#include "coreset/bytes.h"
#include "coreset/kernels.h"
#include "coreset/naive.h"

namespace contcore {
namespace {

using naive::bits;
using naive::Dice;
using naive::Family;
using naive::Set;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool enough() { return ::testing::Test::HasFailure(); }

struct Sum {
  const char* how;
  double acc;   // y_a·y_b + r_a r_b + h_b
  double dot;   // without h_b
  bool is_dot;  // whether `dot` was computed on its own
};

/// acc in several orders of summation, in float32 and in float64.
std::vector<Sum> sums(const float* a, const float* b, std::size_t width, float ra, float rb,
                      float h, Dice& dice) {
  std::vector<Sum> result;
  {  // one after the other
    float dot = 0;
    for (std::size_t i = 0; i < width; ++i) dot += a[i] * b[i];
    dot += ra * rb;
    result.push_back({"forward", static_cast<double>(dot + h), static_cast<double>(dot), true});
  }
  {  // starting from h, fused
    float acc = h;
    for (std::size_t i = 0; i < width; ++i) acc = std::fma(a[i], b[i], acc);
    acc = std::fma(ra, rb, acc);
    result.push_back({"fused from h", static_cast<double>(acc), 0, false});
  }
  {  // backwards, fused
    float dot = ra * rb;
    for (std::size_t i = width; i-- > 0;) dot = std::fma(a[i], b[i], dot);
    result.push_back(
        {"fused backwards", static_cast<double>(dot + h), static_cast<double>(dot), true});
  }
  {  // sixteen lanes
    std::array<float, 16> lanes = {};
    for (std::size_t i = 0; i < width; ++i) lanes[i % 16] = std::fma(a[i], b[i], lanes[i % 16]);
    for (std::size_t step = 8; step >= 1; step /= 2) {
      for (std::size_t l = 0; l < step; ++l) lanes[l] += lanes[l + step];
    }
    const float dot = lanes[0] + ra * rb;
    result.push_back({"lanes", static_cast<double>(dot + h), static_cast<double>(dot), true});
  }
  {  // all terms in a random order, h among them
    std::vector<float> terms = {h, ra * rb};
    for (std::size_t i = 0; i < width; ++i) terms.push_back(a[i] * b[i]);
    for (std::size_t i = terms.size() - 1; i > 0; --i) {
      std::swap(terms[i], terms[dice.below(i + 1)]);
    }
    float acc = 0;
    for (const float term : terms) acc += term;
    result.push_back({"shuffled", static_cast<double>(acc), 0, false});
    // From the most negative up, and down from the largest: the partial sums wander far.
    std::sort(terms.begin(), terms.end());
    acc = 0;
    for (const float term : terms) acc += term;
    result.push_back({"rising", static_cast<double>(acc), 0, false});
    acc = 0;
    for (std::size_t i = terms.size(); i-- > 0;) acc += terms[i];
    result.push_back({"falling", static_cast<double>(acc), 0, false});
  }
  {
    double dot = 0;
    for (std::size_t i = 0; i < width; ++i) {
      dot += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    dot += static_cast<double>(ra) * static_cast<double>(rb);
    result.push_back({"float64", dot + static_cast<double>(h), 0, false});
  }
  return result;
}

/// The distances a pair is tried with.
std::array<float, 8> tries(float c) {
  return {c,
          std::nextafterf(c, kInfinity),
          std::nextafterf(c, 0.0f),
          c * 0.5f,
          c * 2.0f,
          0.0f,
          c * 1.0001f,
          c * 0.9999f};
}

/// Vectors and their sketches.
struct Sketched {
  std::vector<const float*> vectors;
  std::vector<const float*> rows;
};

struct Counts {
  std::size_t ruled_out = 0;  // at half the distance
  std::size_t pairs = 0;
};

void check_pair(const Sketch& sketch, const Sketched& s, std::size_t i, std::size_t j,
                std::size_t d, Dice& dice, const std::string& what, Counts& counts) {
  const float c = naive::canonical(s.vectors[i], s.vectors[j], d);
  const float* a = s.rows[i];
  const float* b = s.rows[j];
  for (std::size_t level = 0; level < sketch.levels(); ++level) {
    const float h = sketch.half_norm(level, b);
    ASSERT_GE(sketch.e(a, level), 0.0f) << what;
    const std::vector<Sum> all =
        sums(a, b, sketch.width(level), sketch.r(a, level), sketch.r(b, level), h, dice);
    const std::array<float, 8> bests = tries(c);
    std::array<float, 8> gates;
    for (std::size_t t = 0; t < bests.size(); ++t) {
      gates[t] = sketch.gate(level, a, sketch.reach(bests[t]));
      ASSERT_FALSE(std::isnan(gates[t])) << what;
    }
    for (const Sum& sum : all) {
      ASSERT_FALSE(std::isnan(sum.acc)) << what << ", " << sum.how;
      for (std::size_t t = 0; t < bests.size(); ++t) {
        if (sum.acc < static_cast<double>(gates[t])) {
          ASSERT_GT(c, bests[t]) << what << ", level " << level << ", vectors " << i << " and " << j
                                 << ", " << sum.how << " acc " << sum.acc << ", gate " << gates[t];
        }
      }
    }
    ++counts.pairs;
    if (all[0].acc < static_cast<double>(sketch.gate(level, a, sketch.reach(c * 0.5f)))) {
      ++counts.ruled_out;
    }
  }
}

/// The same for bytes: whatever reach is asked for, no vector within it is below the gate, and a
/// lane without a vector always is.
void check_bytes(const Sketch& sketch, const Sketched& s, std::size_t d, Dice& dice,
                 const std::string& what) {
  const std::size_t width = sketch.width(0);
  if (s.rows.empty() || (width != 16 && width != 64)) return;
  ByteTile tile(width);
  std::vector<std::size_t> members(kernels::kTile);
  std::vector<bool> held(kernels::kTile);
  for (std::size_t l = 0; l < kernels::kTile; ++l) {
    members[l] = dice.below(s.rows.size());
    held[l] = !dice.one_in(5);
    ByteSketch bytes;
    to_bytes(sketch, s.rows[members[l]], 127, &bytes);
    tile.put(l, bytes);
    if (!held[l]) tile.clear(l);
  }
  const std::size_t n = dice.between(1, kernels::kScanPoints);
  std::vector<std::size_t> points;
  std::vector<ByteQuery> queries;
  std::vector<const kernels::BytePoint*> asked;
  for (std::size_t p = 0; p < n; ++p) {
    points.push_back(dice.below(s.rows.size()));
    queries.emplace_back(sketch, s.rows[points[p]]);
  }
  for (const ByteQuery& query : queries) asked.push_back(&query.point);
  std::vector<float> values(n * kernels::kTile);
  std::vector<float> most(n);
  kernels::scan_bytes(asked.data(), n, tile.data(), width, values.data(), most.data());
  for (std::size_t p = 0; p < n; ++p) {
    const float* row = values.data() + p * kernels::kTile;
    ASSERT_EQ(most[p], *std::max_element(row, row + kernels::kTile)) << what;
    for (std::size_t near = 0; near < kernels::kTile; ++near) {
      const float best = naive::canonical(s.vectors[points[p]], s.vectors[members[near]], d);
      const float gate = queries[p].gate(sketch.reach(best), tile.error());
      for (std::size_t l = 0; l < kernels::kTile; ++l) {
        if (!held[l]) {
          ASSERT_EQ(row[l], -kInfinity) << what;
        } else if (row[l] < gate) {
          ASSERT_GT(naive::canonical(s.vectors[points[p]], s.vectors[members[l]], d), best)
              << what << ", bytes";
        }
      }
    }
  }
}

/// Vectors that the sketch was not fitted to.
Set strangers(const Set& sample, const std::vector<float>& centre, Family family, std::size_t shape,
              std::size_t seed, Dice& dice) {
  const std::size_t n = 60;
  const std::size_t d = sample.d;
  Set set = naive::make(family, n, d, shape, seed);
  const Set other =
      naive::make(static_cast<Family>(dice.below(naive::kFamilies)), n, d, shape + 1, seed + 1);
  const double magnify = dice.scale(-4, 4);
  for (std::size_t i = 0; i < n; ++i) {
    float* row = set.row(i);
    const float* member = sample.row(dice.below(sample.n));
    switch (i % 12) {
      case 0:  // a member, moved by a unit in the last place
        std::copy_n(member, d, row);
        naive::nudge(row + dice.below(d), dice);
        break;
      case 1:  // all of it moved
        std::copy_n(member, d, row);
        for (std::size_t j = 0; j < d; ++j) naive::nudge(row + j, dice);
        break;
      case 2:  // the centre
        std::copy_n(centre.data(), d, row);
        break;
      case 3:  // a member on the other side of the centre
        for (std::size_t j = 0; j < d; ++j) row[j] = centre[j] - (member[j] - centre[j]);
        break;
      case 4:  // a family that has nothing to do with it
      case 5:
        naive::copy_row(other, i, set, i);
        break;
      case 6:  // along the line from the centre through a member
        for (std::size_t j = 0; j < d; ++j) {
          row[j] = static_cast<float>(static_cast<double>(centre[j]) +
                                      magnify * static_cast<double>(member[j] - centre[j]));
        }
        break;
      case 7:  // the one before, moved by a little
        naive::copy_row(set, i - 1, set, i);
        for (std::size_t j = 0; j < d; j += dice.between(1, 5)) naive::nudge(row + j, dice);
        break;
      case 8:  // one number only
        std::copy_n(centre.data(), d, row);
        row[dice.below(d)] *= static_cast<float>(magnify);
        break;
      case 9:  // the one before, in another place
        naive::copy_row(set, i - 1, set, i);
        row[dice.below(d)] += static_cast<float>(dice.gaussian());
        break;
      default:
        break;
    }
    for (std::size_t j = 0; j < d; ++j) {  // within what is accepted
      if (!(std::abs(row[j]) < 1e18f)) row[j] = std::copysign(1e17f, row[j]);
    }
    const float largest = 0x1p118f;
    if (!(naive::canonical(row, centre.data(), d) < largest)) std::copy_n(centre.data(), d, row);
  }
  return set;
}

Counts check_family(Family family, std::size_t seed, std::size_t n, std::size_t d,
                    std::vector<std::size_t> widths, std::size_t pairs, Dice& dice) {
  Counts counts;
  Set sample = naive::make(family, n, d, seed, 3 * seed);
  if (dice.one_in(8)) sample.make_half();
  const Set more = naive::make(family, dice.one_in(3) ? dice.between(1, 50) : 0, d,
                               dice.one_in(2) ? seed : seed + 1, 3 * seed + 1);
  std::ostringstream text;
  text << "seed " << seed << ", " << naive::name(family) << ", n " << n << ", d " << d
       << ", widths";
  for (const std::size_t w : widths) text << ' ' << w;
  static const std::vector<std::string> targets = kernels::targets();
  const std::string target = dice.pick(targets);
  text << ", more " << more.n << ", " << target;
  const std::string what = text.str();
  const naive::ForcedTarget forced(target);
  Compute& crew = naive::crew(dice.below(4));
  const Sketch sketch(sample.view(), more.n > 0 ? more.view() : VectorView(), widths, crew);
  EXPECT_EQ(sketch.levels(), widths.size()) << what;
  const std::vector<float> centre(sketch.centre(), sketch.centre() + d);
  const Set others = strangers(sample, centre, family, seed, 3 * seed + 2, dice);
  std::vector<float> mean;
  Vectors rows;
  Vectors more_rows;
  Vectors other_rows;
  try {
    rows = sketch.embed(sample.view(), "sample", crew, &mean);
    if (more.n > 0) more_rows = sketch.embed(more.view(), "more", crew);
    other_rows = sketch.embed(others.view(), "others", crew);
  } catch (const Error& error) {
    ADD_FAILURE() << what << ": " << error.what();
    return counts;
  }
  const std::vector<float> expected_mean = naive::mean(sample);
  for (std::size_t j = 0; j < d; ++j) EXPECT_EQ(bits(mean[j]), bits(expected_mean[j])) << what;

  Sketched s;
  const auto take = [&](const Set& set, const Vectors& sketched, std::size_t i) {
    s.vectors.push_back(set.row(i));
    s.rows.push_back(sketched.row(i));
  };
  for (std::size_t i = 0; i < n; ++i) take(sample, rows, i);
  for (std::size_t i = 0; i < more.n; ++i) take(more, more_rows, i);
  for (std::size_t i = 0; i < others.n; ++i) take(others, other_rows, i);
  for (std::size_t i = 0; i < s.rows.size(); ++i) {
    EXPECT_EQ(bits(sketch.norm(s.rows[i])), bits(naive::canonical(s.vectors[i], centre.data(), d)))
        << what;
  }
  for (std::size_t p = 0; p < pairs && !enough(); ++p) {
    const std::size_t i = dice.below(s.rows.size());
    // Itself, a neighbour (the strangers come in nearly equal pairs), any other.
    const std::size_t j = dice.one_in(8)   ? i
                          : dice.one_in(3) ? (i > 0 ? i - 1 : i)
                                           : dice.below(s.rows.size());
    check_pair(sketch, s, i, j, d, dice, what, counts);
  }
  for (std::size_t again = 0; again < 3 && !enough(); ++again) {
    check_bytes(sketch, s, d, dice, what);
  }
  return counts;
}

std::vector<std::size_t> random_widths(Dice& dice) {
  using Widths = std::vector<std::size_t>;
  return dice.pick(std::vector<Widths>{
      {16}, {32}, {64}, {16, 32}, {32, 64}, {16, 32, 64}, {48}, {16, 48, 80, 128}});
}

TEST(Sketch, CertificateIsSound) {
  for (std::size_t seed = 0; seed < naive::cases(600) && !enough(); ++seed) {
    Dice dice(seed + 2100000);
    const std::size_t d =
        dice.one_in(2) ? dice.between(1, 200)
                       : dice.pick<std::size_t>({1, 2, 3, 16, 17, 63, 64, 65, 127, 128, 129});
    const std::size_t n = dice.one_in(5) ? dice.between(1, 4) : dice.between(2, 150);
    check_family(static_cast<Family>(seed % naive::kFamilies), seed, n, d, random_widths(dice), 60,
                 dice);
  }
}

TEST(Sketch, CertificateIsSoundInHighDimensions) {
  for (std::size_t seed = 0; seed < naive::cases(40) && !enough(); ++seed) {
    Dice dice(seed + 2200000);
    const std::size_t d = dice.pick<std::size_t>({255, 513, 1023, 1024, 1025, 1537});
    check_family(static_cast<Family>(seed % naive::kFamilies), seed, dice.between(1, 120), d,
                 random_widths(dice), 80, dice);
  }
}

TEST(Sketch, CertificateIsSoundAtEveryScale) {
  // One shape at scales from 1e-25 to 1e17, to find where a margin gives out.
  for (std::size_t seed = 0; seed < naive::cases(200) && !enough(); ++seed) {
    Dice dice(seed + 2300000);
    const std::size_t d = dice.between(2, 140);
    const double exponent = -25 + 42 * (static_cast<double>(seed % 100) / 100);
    const double scale = std::pow(10.0, exponent) / std::sqrt(static_cast<double>(d));
    const Family family = dice.pick({Family::kGaussian, Family::kLowRank, Family::kNearDuplicates,
                                     Family::kSparse, Family::kCollinear, Family::kFarCluster});
    Set sample = naive::make(family, 70, d, seed % 7, seed);
    float largest = 0;
    for (const float x : sample.values) largest = std::max(largest, std::abs(x));
    for (float& x : sample.values) {
      x = static_cast<float>(static_cast<double>(x) / static_cast<double>(largest) * scale);
    }
    for (std::size_t i = 1; i < 70; i += 4) {  // pairs that are nearly equal
      naive::copy_row(sample, i - 1, sample, i);
      for (std::size_t j = 0; j < d; j += dice.between(1, 9)) naive::nudge(sample.row(i) + j, dice);
    }
    const std::vector<std::size_t> widths = random_widths(dice);
    const naive::ForcedTarget forced(dice.pick(kernels::targets()));
    const Sketch sketch(sample.view(), {}, widths, naive::crew(1));
    const Vectors rows = sketch.embed(sample.view(), "sample", naive::crew(1));
    Sketched s;
    for (std::size_t i = 0; i < 70; ++i) {
      s.vectors.push_back(sample.row(i));
      s.rows.push_back(rows.row(i));
    }
    const std::string what = "seed " + std::to_string(seed) + ", " + naive::name(family) +
                             ", scale " + std::to_string(exponent) + ", d " + std::to_string(d);
    Counts counts;
    for (std::size_t i = 0; i < 70 && !enough(); ++i) {
      check_pair(sketch, s, i, i > 0 ? i - 1 : 0, d, dice, what, counts);
      check_pair(sketch, s, i, i, d, dice, what, counts);
      check_pair(sketch, s, i, dice.below(70), d, dice, what, counts);
    }
    check_bytes(sketch, s, d, dice, what);
  }
}

TEST(Sketch, CertificateIsOfUse) {
  // Soundness alone would be easy: on features like real ones most is ruled out.
  Dice dice(2400000);
  Counts all;
  for (std::size_t seed = 0; seed < 5; ++seed) {
    const Set sample = naive::make(Family::kLowRank, 400, 256, seed, seed);
    const Sketch sketch(sample.view(), {}, {32}, naive::crew(1));
    const Vectors rows = sketch.embed(sample.view(), "sample", naive::crew(1));
    Sketched s;
    for (std::size_t i = 0; i < 400; ++i) {
      s.vectors.push_back(sample.row(i));
      s.rows.push_back(rows.row(i));
    }
    for (std::size_t p = 0; p < 200; ++p) {
      check_pair(sketch, s, dice.below(200), 200 + dice.below(200), 256, dice, "low rank", all);
    }
  }
  EXPECT_GT(static_cast<double>(all.ruled_out), 0.8 * static_cast<double>(all.pairs));
}

TEST(Sketch, RoundingGoesOneWay) {
  Dice dice(2500000);
  for (std::size_t i = 0; i < naive::cases(200000); ++i) {
    const double sign = dice.one_in(2) ? 1.0 : -1.0;
    const double x = sign * dice.scale(-50, 41) * (dice.one_in(9) ? 0.0 : 1.0);
    ASSERT_GE(static_cast<double>(round_up(x)), x);
    ASSERT_LE(static_cast<double>(round_down(x)), x);
  }
  for (const double x :
       {0.0, -0.0, 0x1p127, -0x1p127, 0x1.fffffffffp126, 0x1p-149, 0x1p-150, -0x1p-150,
        0x1.000001p0, 0x1.0000010001p0, -0x1.0000010001p0, 1e300, -1e300,
        std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    EXPECT_GE(static_cast<double>(round_up(x)), x) << x;
    EXPECT_LE(static_cast<double>(round_down(x)), x) << x;
  }
}

TEST(Sketch, MeanIsThatOfBlocks) {
  for (const std::size_t n : {1u, 1023u, 1024u, 1025u, 2048u, 5000u}) {
    for (const Family family : {Family::kOffset, Family::kMixedScales, Family::kGaussian}) {
      Set set = naive::make(family, n, 7, n, n + 1);
      if (family == Family::kGaussian) set.make_half();
      const std::vector<float> expected = naive::mean(set);
      for (std::size_t crew = 0; crew < 4; ++crew) {
        const std::vector<float> got = mean_of(set.view(), naive::crew(crew));
        std::vector<float> embedded;
        const Sketch sketch(set.view(), {}, {}, naive::crew(crew));
        sketch.embed(set.view(), "set", naive::crew(crew), &embedded);
        ASSERT_EQ(got.size(), 7u);
        ASSERT_EQ(embedded.size(), 7u);
        for (std::size_t j = 0; j < 7; ++j) {
          EXPECT_EQ(bits(got[j]), bits(expected[j])) << n << ' ' << naive::name(family);
          EXPECT_EQ(bits(embedded[j]), bits(expected[j])) << n << ' ' << naive::name(family);
        }
      }
    }
  }
}

}  // namespace
}  // namespace contcore
