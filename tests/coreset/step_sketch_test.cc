// The sketch in steps: what it rules out is truly at least as far away, what it bounds is within.
#include "coreset/step_sketch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "coreset/centres.h"
#include "coreset/kernels.h"
#include "coreset/naive.h"

namespace contcore {
namespace {

using naive::Dice;
using naive::Family;
using naive::Set;

// Scans a tile of vectors by points, and points by a vector, as greedy sampling does, with gates
// for distances around those of the pairs.
void check_tile(const StepSketch& sketch, const Set& set, const Vectors& rows, Dice& dice,
                const std::string& what) {
  const std::size_t width = sketch.width();
  std::vector<std::uint8_t> tile(kernels::step_tile_bytes(width));
  std::vector<std::size_t> members;
  std::vector<std::int32_t> sums;
  for (std::size_t lane = 0; lane < kernels::kTile; ++lane) {
    members.push_back(dice.below(set.n));
    const std::uint8_t* row = rows.byte_row(members.back());
    sums.push_back(put_in_tile(row, width, lane, tile.data()));
    const std::int32_t h = sketch.half_norm(row) - 128 * sums.back();
    std::memcpy(tile.data() + width * kernels::kTile + 4 * lane, &h, sizeof(h));
  }
  const std::size_t n = dice.between(1, kernels::kScanPoints);
  std::vector<std::size_t> points;
  std::vector<const std::uint8_t*> sketches;
  std::vector<std::int32_t> gates;
  std::vector<float> best;
  for (std::size_t p = 0; p < n; ++p) {
    points.push_back(dice.below(set.n));
    sketches.push_back(rows.byte_row(points[p]));
    best.push_back(naive::distance(set, points[p], set, members[dice.below(members.size())]) *
                   dice.pick({1.0f, 1.0f, 0.5f, 1.01f}));
    gates.push_back(sketch.gate(sketches[p], sketch.reach(best[p])));
  }
  std::vector<std::uint64_t> masks(n);
  kernels::scan_steps(sketches.data(), gates.data(), n, tile.data(), 1, width, masks.data());
  for (std::size_t p = 0; p < n; ++p) {
    for (std::size_t m = 0; m < members.size(); ++m) {
      if ((masks[p] >> m) & 1u) continue;
      ASSERT_GE(naive::distance(set, points[p], set, members[m]), best[p]) << what << ", scan";
    }
  }

  const std::size_t centre = dice.below(set.n);
  std::vector<std::int32_t> own;
  std::vector<float> nearest;
  for (std::size_t m = 0; m < members.size(); ++m) {
    nearest.push_back(naive::distance(set, members[m], set, centre) *
                      dice.pick({1.0f, 0.5f, 1.01f}));
    const std::uint8_t* row = rows.byte_row(members[m]);
    own.push_back(sketch.gate(row, sketch.reach(nearest[m])) + 128 * sums[m]);
  }
  const std::uint8_t* row = rows.byte_row(centre);
  const std::uint64_t mask =
      kernels::scan_step_tile(row, sketch.half_norm(row), tile.data(), own.data(), width);
  for (std::size_t m = 0; m < members.size(); ++m) {
    if ((mask >> m) & 1u) continue;
    ASSERT_GE(naive::distance(set, members[m], set, centre), nearest[m]) << what << ", tile";
  }
}

std::int32_t naive_dot(const std::uint8_t* a, const std::uint8_t* b, std::size_t width) {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < width; ++i) sum += (int{a[i]} - 128) * (int{b[i]} - 128);
  return sum;
}

// How many pairs the sketch tells apart at half their distance.
std::size_t check_pairs(const StepSketch& sketch, const Set& set, const Vectors& rows,
                        std::size_t pairs, Dice& dice, const std::string& what) {
  std::size_t told = 0;
  for (std::size_t p = 0; p < pairs; ++p) {
    const std::size_t i = dice.below(set.n);
    const std::size_t j = dice.below(set.n);
    const std::uint8_t* a = rows.byte_row(i);
    const std::uint8_t* b = rows.byte_row(j);
    std::int32_t dot = 0;
    kernels::step_dots(a, &b, 1, sketch.width(), &dot);
    EXPECT_EQ(dot, naive_dot(a, b, sketch.width())) << what;
    const float c = naive::distance(set, i, set, j);
    EXPECT_GE(sketch.upper(a, b, dot), c) << what << ", " << i << " and " << j;
    for (const float best : {std::nextafterf(c, 2 * c + 1), c * 1.001f, c * 2}) {
      if (best > c) {
        EXPECT_GE(dot + sketch.half_norm(b), sketch.gate(a, sketch.reach(best))) << what;
      }
    }
    told += dot + sketch.half_norm(b) < sketch.gate(a, sketch.reach(c * 0.25f)) ? 1u : 0u;
  }
  return told;
}

TEST(StepSketch, CertificateIsSound) {
  for (std::size_t seed = 0; seed < naive::cases(500) && !::testing::Test::HasFailure(); ++seed) {
    Dice dice(seed + 2500000);
    const Family family = static_cast<Family>(seed % naive::kFamilies);
    const std::size_t d =
        dice.one_in(10) ? dice.pick<std::size_t>({512, 513, 1024, 4096}) : dice.between(1, 200);
    Set set = naive::make(family, dice.between(1, 150), d, seed, 3 * seed);
    const bool bytes = dice.one_in(2);
    if (bytes) {
      const float size = dice.pick({0.1f, 1.0f, 3.0f, 30.0f});
      set.make_bytes(-size, size);
    }
    if (dice.one_in(8)) set = naive::make(family, 40, d, seed, 3 * seed);
    const std::size_t width = dice.pick<std::size_t>({16, 32, 48, 64});
    const std::string target = dice.pick(kernels::targets());
    const naive::ForcedTarget forced(target);
    Compute& crew = naive::crew(dice.below(4));
    StepSketch sketch(set.view(), {}, width, crew);
    std::vector<float> mean;
    const Vectors rows = sketch.embed(set.view(), "set", crew, &mean);
    const std::string what = "seed " + std::to_string(seed) + ", " + naive::name(family) +
                             (set.bytes.empty() ? "" : " bytes") + ", d " + std::to_string(d) +
                             ", width " + std::to_string(width) + ", " + target;
    EXPECT_EQ(mean, naive::mean(set)) << what;
    if (sketch.width() == 0) continue;  // all are equal, or out of range
    check_pairs(sketch, set, rows, 60, dice, what);
    check_tile(sketch, set, rows, dice, what);
  }
}

TEST(StepSketch, CertificateIsOfUse) {
  for (const bool bytes : {false, true}) {
    Dice dice(2600000);
    std::size_t told = 0;
    for (std::size_t seed = 0; seed < 5; ++seed) {
      Set set = naive::make(Family::kLowRank, 400, 256, seed, seed);
      if (bytes) set.make_bytes(-6, 6);
      StepSketch sketch(set.view(), {}, 32, naive::crew(1));
      const Vectors rows = sketch.embed(set.view(), "set", naive::crew(1));
      ASSERT_EQ(sketch.width(), 32u);
      told += check_pairs(sketch, set, rows, 200, dice, "low rank");
    }
    EXPECT_GT(told, 900u) << (bytes ? "bytes" : "floats");
  }
}

}  // namespace
}  // namespace contcore
