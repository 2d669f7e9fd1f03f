#include "contcore/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/radix.h"
#include "base/random.h"
#include "contcore/error.h"
#include "evaluate/regions.h"
#include "evaluate/thresholds.h"

namespace contcore {
namespace {

using Scores = std::vector<float>;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// ---- Slow twins, each a transcription of a definition ------------------------------------------

double auroc_by_pairs(const Scores& good, const Scores& defect) {
  double wins = 0;
  for (const float d : defect) {
    for (const float g : good) wins += d > g ? 1 : d == g ? 0.5 : 0;
  }
  return wins / static_cast<double>(good.size() * defect.size());
}

double at_least(const Scores& scores, float threshold) {
  return static_cast<double>(
      std::count_if(scores.begin(), scores.end(), [&](float s) { return s >= threshold; }));
}

// All distinct scores, from the highest. Compared as floats, so 0 and −0 are one.
std::set<float, std::greater<>> thresholds_of(const Scores& good, const Scores& defect) {
  std::set<float, std::greater<>> all(good.begin(), good.end());
  all.insert(defect.begin(), defect.end());
  return all;
}

Ranking rank_by_definition(const Scores& good, const Scores& defect) {
  Ranking ranking{auroc_by_pairs(good, defect), 0, 0};
  double recall_before = 0;
  for (const float threshold : thresholds_of(good, defect)) {
    const double caught = at_least(defect, threshold);
    const double precision = caught / (caught + at_least(good, threshold));
    const double recall = caught / static_cast<double>(defect.size());
    *ranking.ap += (recall - recall_before) * precision;
    if (caught > 0) {
      *ranking.f1_max = std::max(*ranking.f1_max, 2 * precision * recall / (precision + recall));
    }
    recall_before = recall;
  }
  return ranking;
}

// Fills regions one after the other, a pixel at a time: 0 for no defect, else the region's number
// from 1 on, in the order of first pixels.
std::vector<std::size_t> label(const Mask& mask, std::size_t labels_before = 0) {
  std::vector<std::size_t> labels(mask.values.size(), 0);
  for (std::size_t start = 0; start < labels.size(); ++start) {
    if (mask.values[start] == 0 || labels[start] != 0) continue;
    labels[start] = ++labels_before;
    std::vector<std::size_t> stack{start};
    while (!stack.empty()) {
      const std::size_t x = stack.back() % mask.width;
      const std::size_t y = stack.back() / mask.width;
      stack.pop_back();
      for (std::size_t v = y == 0 ? 0 : y - 1; v <= y + 1 && v < mask.height; ++v) {
        for (std::size_t u = x == 0 ? 0 : x - 1; u <= x + 1 && u < mask.width; ++u) {
          const std::size_t at = v * mask.width + u;
          if (mask.values[at] == 0 || labels[at] != 0) continue;
          labels[at] = labels_before;
          stack.push_back(at);
        }
      }
    }
  }
  return labels;
}

struct Picture {
  Map map;
  Mask mask;
};

struct Pixels {
  Scores good;
  Scores defect;
  std::vector<Scores> regions;
};

Pixels pixels_of(const std::vector<Picture>& pictures) {
  Pixels pixels;
  for (const auto& [map, mask] : pictures) {
    const std::vector<std::size_t> labels = label(mask, pixels.regions.size());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      (labels[i] == 0 ? pixels.good : pixels.defect).push_back(map.values[i]);
      if (labels[i] == 0) continue;
      pixels.regions.resize(std::max(pixels.regions.size(), labels[i]));
      pixels.regions[labels[i] - 1].push_back(map.values[i]);
    }
  }
  return pixels;
}

double aupro_by_definition(const Pixels& pixels) {
  double area = 0;
  double rate_before = 0;
  double overlap_before = 0;
  for (const float threshold : thresholds_of(pixels.good, pixels.defect)) {
    double rate = at_least(pixels.good, threshold) / static_cast<double>(pixels.good.size());
    double overlap = 0;
    for (const Scores& region : pixels.regions) {
      overlap += at_least(region, threshold) / static_cast<double>(region.size());
    }
    overlap /= static_cast<double>(pixels.regions.size());
    const bool last = rate >= 0.3;
    if (rate > 0.3) {
      const double part = (0.3 - rate_before) / (rate - rate_before);
      overlap = overlap_before + (overlap - overlap_before) * part;
      rate = 0.3;
    }
    area += (rate - rate_before) * (overlap + overlap_before) / 2;
    if (last) break;
    rate_before = rate;
    overlap_before = overlap;
  }
  return area / 0.3;
}

// ---- Cases
// ---------------------------------------------------------------------------------------

// One of `levels` values; with few of them, nearly all scores are tied. Zeros of both signs, and
// infinities now and then.
float draw(Random& random, std::uint64_t levels, bool infinities) {
  if (infinities && random.below(8) == 0) return random.below(2) == 0 ? kInfinity : -kInfinity;
  const auto value =
      static_cast<float>(random.below(levels)) * 0.25f - static_cast<float>(levels / 2) * 0.25f;
  return value == 0 && random.below(2) == 0 ? -0.0f : value;
}

Scores draw_scores(Random& random, std::size_t n, std::uint64_t levels, float shift) {
  Scores scores(n);
  for (float& score : scores) score = draw(random, levels, levels % 2 == 1) + shift;
  return scores;
}

void expect_near(const Ranking& actual, const Ranking& expected) {
  ASSERT_TRUE(actual.auroc && actual.ap && actual.f1_max);
  EXPECT_NEAR(*actual.auroc, *expected.auroc, 1e-12);
  EXPECT_NEAR(*actual.ap, *expected.ap, 1e-12);
  EXPECT_NEAR(*actual.f1_max, *expected.f1_max, 1e-12);
}

void expect_usage_error(const std::string& part, const std::function<void()>& call) {
  try {
    call();
    FAIL() << "no error with: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

// A mask drawn in text, rows ended by '/'.
Mask mask_of(const std::string& drawing) {
  Mask mask;
  mask.width = std::min(drawing.find('/'), drawing.size());
  for (const char c : drawing) {
    if (c != '/') mask.values.push_back(c == '#' ? 255 : 0);
  }
  mask.height = mask.values.size() / mask.width;
  return mask;
}

// ---- rank
// ----------------------------------------------------------------------------------------

TEST(Rank, IsTheDefinitionWithManyTies) {
  Random random(1);
  Compute compute(2);
  for (std::size_t round = 0; round < 600; ++round) {
    const std::uint64_t levels = std::vector<std::uint64_t>{1, 2, 3, 5, 20, 1000}[round % 6];
    const Scores good = draw_scores(random, 1 + random.below(40), levels, 0);
    const Scores defect =
        draw_scores(random, 1 + random.below(40), levels, round % 4 == 0 ? 0.5f : 0);
    expect_near(rank(good, defect, compute), rank_by_definition(good, defect));
  }
}

TEST(Rank, OfOneEach) {
  Compute compute(1);
  struct Case {
    float good, defect;
    double auroc, ap, f1_max;
  };
  for (const auto& [good, defect, auroc, ap, f1_max] :
       {Case{1, 2, 1, 1, 1}, Case{2, 1, 0, 0.5, 2.0 / 3}, Case{3, 3, 0.5, 0.5, 2.0 / 3},
        Case{0.0f, -0.0f, 0.5, 0.5, 2.0 / 3}, Case{-0.0f, 0.0f, 0.5, 0.5, 2.0 / 3},
        Case{-kInfinity, kInfinity, 1, 1, 1}, Case{kInfinity, kInfinity, 0.5, 0.5, 2.0 / 3},
        Case{std::numeric_limits<float>::max(), kInfinity, 1, 1, 1},
        Case{-kInfinity, std::numeric_limits<float>::lowest(), 1, 1, 1},
        Case{0.0f, std::numeric_limits<float>::denorm_min(), 1, 1, 1},
        Case{-std::numeric_limits<float>::denorm_min(), -0.0f, 1, 1, 1}}) {
    const Ranking ranking = rank(std::vector{good}, std::vector{defect}, compute);
    EXPECT_EQ(ranking.auroc, auroc) << good << " " << defect;
    EXPECT_EQ(ranking.ap, ap) << good << " " << defect;
    EXPECT_EQ(ranking.f1_max, f1_max) << good << " " << defect;
  }
}

TEST(Rank, OfAllEqualScores) {
  Compute compute(2);
  const Ranking ranking = rank(Scores(30, 1.5f), Scores(10, 1.5f), compute);
  EXPECT_EQ(ranking.auroc, 0.5);
  EXPECT_EQ(ranking.ap, 0.25);
  EXPECT_EQ(ranking.f1_max, 0.4);
}

TEST(Rank, IsUndefinedWithOneKindOnly) {
  Compute compute(2);
  for (const auto& [good, defect] :
       {std::pair<Scores, Scores>{{1, 2}, {}}, {{}, {1, 2}}, {{}, {}}}) {
    const Ranking ranking = rank(good, defect, compute);
    EXPECT_FALSE(ranking.auroc || ranking.ap || ranking.f1_max);
  }
}

TEST(Rank, RefusesNan) {
  Compute compute(2);
  expect_usage_error("score 2 of the good", [&] { rank(Scores{1, 2, kNan}, Scores{1}, compute); });
  expect_usage_error("score 0 of the defects", [&] { rank(Scores{1}, Scores{-kNan, 3}, compute); });
  expect_usage_error("of the good", [&] { rank(Scores{kNan}, Scores{}, compute); });
}

// Several blocks of good scores, several parts of a sort and a table with many scores to a cell;
// the twin sorts both kinds and goes through them together.
TEST(Rank, OfManyScores) {
  Random random(5);
  for (const std::uint64_t levels :
       {std::uint64_t{7}, std::uint64_t{50000}, std::uint64_t{1} << 40}) {
    Scores good(300000);
    Scores defect(200000);
    for (float& s : good) s = static_cast<float>(random.below(levels)) - 5;
    for (float& s : defect) s = static_cast<float>(random.below(levels)) - 3;
    good[7] = -kInfinity;
    defect[9] = kInfinity;
    double pairs = 0;
    Scores sorted = good;
    std::sort(sorted.begin(), sorted.end());
    for (const float d : defect) {
      const auto [low, high] = std::equal_range(sorted.begin(), sorted.end(), d);
      pairs += static_cast<double>((low - sorted.begin()) + (high - sorted.begin())) / 2;
    }
    std::optional<Ranking> first;
    for (const std::size_t crew : {1u, 2u, 3u, 7u}) {
      Compute compute(crew);
      const Ranking ranking = rank(good, defect, compute);
      EXPECT_EQ(ranking.auroc, pairs / (300000.0 * 200000.0));
      if (!first) first = ranking;
      EXPECT_EQ(ranking.ap, first->ap);
      EXPECT_EQ(ranking.f1_max, first->f1_max);
    }
  }
}

// ---- pixels
// --------------------------------------------------------------------------------------

Picture draw_picture(Random& random, std::uint64_t levels, std::uint64_t one_in) {
  Picture picture;
  auto& [map, mask] = picture;
  map.width = mask.width = 1 + random.below(9);
  map.height = mask.height = 1 + random.below(9);
  for (std::size_t i = 0; i < map.width * map.height; ++i) {
    map.values.push_back(draw(random, levels, levels % 2 == 1));
    mask.values.push_back(random.below(one_in) == 0
                              ? static_cast<std::uint8_t>(1 + random.below(255))
                              : std::uint8_t{0});
    if (mask.values.back() != 0 && random.below(2) == 0) map.values.back() += 0.5f;
  }
  return picture;
}

TEST(PixelScores, AreTheDefinition) {
  Random random(2);
  Compute compute(2);
  for (std::size_t round = 0; round < 400; ++round) {
    const std::uint64_t levels = std::vector<std::uint64_t>{1, 2, 5, 20, 1000}[round % 5];
    std::vector<Picture> pictures(1 + random.below(4));
    PixelScores scores;
    for (Picture& picture : pictures) {
      picture = draw_picture(random, levels, 2 + random.below(8));
      scores.add(picture.map, picture.mask);
    }
    Picture good = draw_picture(random, levels, 2);
    good.mask.values.assign(good.mask.values.size(), 0);
    pictures.push_back(good);
    scores.add(good.map);
    const Pixels pixels = pixels_of(pictures);
    const PixelScores::Measures measures = scores.measure(compute);
    ASSERT_EQ(measures.aupro.has_value(), !pixels.regions.empty());
    if (pixels.regions.empty()) continue;
    expect_near(measures.pixels, rank_by_definition(pixels.good, pixels.defect));
    EXPECT_NEAR(*measures.aupro, aupro_by_definition(pixels), 1e-12);
  }
}

TEST(PixelScores, OverlapByHand) {
  Compute compute(1);
  PixelScores scores;
  // Regions of 1 and 2 pixels; of the 10 good pixels one has 5, one 4, the others 0.
  scores.add({13, 1, {9, 5, 4, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0}}, mask_of("#..##........"));
  // (0, 1/2); (0.1, 1/2); at 4, (0.2, 3/4); (0.2, 1); then level until 0.3.
  EXPECT_NEAR(*scores.measure(compute).aupro, (0.1 * 0.5 + 0.1 * 0.625 + 0.1) / 0.3, 1e-15);
}

TEST(PixelScores, CutTheLastPiece) {
  Compute compute(1);
  PixelScores flat;  // one threshold: from (0, 0) straight to (1, 1)
  flat.add({3, 1, {1, 1, 1}}, mask_of("#.."));
  EXPECT_NEAR(*flat.measure(compute).aupro, 0.15, 1e-15);
  PixelScores late;  // the defect is caught after all false alarms
  late.add({3, 1, {0, 1, 1}}, mask_of("#.."));
  EXPECT_EQ(late.measure(compute).aupro, 0);
  PixelScores early;
  early.add({3, 1, {2, 1, 1}}, mask_of("#.."));
  EXPECT_NEAR(*early.measure(compute).aupro, 1, 1e-15);
}

TEST(PixelScores, AreUndefinedWithOneKindOnly) {
  Compute compute(2);
  PixelScores none;
  PixelScores good;
  good.add({2, 1, {1, 2}});
  good.add({2, 1, {1, 2}}, mask_of(".."));
  PixelScores defects;
  defects.add({2, 1, {1, 2}}, mask_of("##"));
  PixelScores empty;
  empty.add({0, 0, {}});
  empty.add({0, 3, {}}, {0, 3, {}});
  for (const PixelScores* scores : {&none, &good, &defects, &empty}) {
    const PixelScores::Measures measures = scores->measure(compute);
    EXPECT_FALSE(measures.aupro || measures.pixels.auroc || measures.pixels.ap ||
                 measures.pixels.f1_max);
  }
}

TEST(PixelScores, RefuseWhatDoesNotFitAndKeepTheRest) {
  Compute compute(1);
  PixelScores scores;
  scores.add({3, 1, {0, 1, 1}}, mask_of("#.."));
  const std::size_t huge = std::size_t{1} << 32;
  expect_usage_error("3 values", [&] { scores.add({2, 2, {1, 2, 3}}); });
  expect_usage_error("0 values", [&] { scores.add({huge, huge, {}}); });
  expect_usage_error("1 values", [&] { scores.add({0, 1, {1}}); });
  expect_usage_error("column 1, row 0", [&] { scores.add({2, 1, {1, kNan}}); });
  expect_usage_error("column 0, row 1", [&] { scores.add({1, 2, {1, kNan}}, {1, 2, {0, 1}}); });
  expect_usage_error("mask of 1 × 2", [&] { scores.add({2, 1, {1, 2}}, {1, 2, {0, 1}}); });
  expect_usage_error("with 1 values", [&] { scores.add({2, 1, {1, 2}}, {2, 1, {1}}); });
  EXPECT_EQ(scores.measure(compute).pixels.auroc, 0);
}

TEST(PixelScores, AreTheSameForAnyNumberOfThreads) {
  Random random(3);
  PixelScores scores;
  for (int image = 0; image < 4; ++image) {
    Picture picture;
    auto& [map, mask] = picture;
    map.width = mask.width = 300;
    map.height = mask.height = 250;
    for (std::size_t i = 0; i < map.width * map.height; ++i) {
      mask.values.push_back(random.below(100) < 60 ? 1 : 0);
      map.values.push_back(image == 0 ? draw(random, 9, false) : random.gaussian());
    }
    scores.add(map, mask);
  }
  std::optional<PixelScores::Measures> first;
  for (const std::size_t crew : {1u, 2u, 3u, 7u}) {
    Compute compute(crew);
    const PixelScores::Measures measures = scores.measure(compute);
    if (!first) first = measures;
    EXPECT_EQ(measures.pixels.auroc, first->pixels.auroc);
    EXPECT_EQ(measures.pixels.ap, first->pixels.ap);
    EXPECT_EQ(measures.pixels.f1_max, first->pixels.f1_max);
    EXPECT_EQ(measures.aupro, first->aupro);
  }
}

// ---- regions
// -------------------------------------------------------------------------------------

std::vector<std::size_t> labels_from_runs(const Mask& mask) {
  std::vector<std::size_t> labels(mask.values.size(), 0);
  for (const Run& run : connected_runs(mask)) {
    for (std::size_t i = run.begin; i < run.end; ++i) labels[i] = run.region + 1;
  }
  return labels;
}

TEST(Regions, OfDrawings) {
  struct Case {
    const char* drawing;
    std::size_t regions;
  };
  for (const auto& [drawing, regions] : {
           Case{".", 0},
           Case{"#", 1},
           Case{"#.#", 2},
           Case{"#/./#", 2},
           Case{"#./.#", 1},        // touch at a corner
           Case{".#/#.", 1},        // at the other
           Case{"#.#/.#.", 1},      // joined from below
           Case{"..#/#../...", 2},  // the end of a row is not next to
           Case{"..#/.../#..", 2},  // the beginning of another
           Case{"###/...", 1},
           Case{"...#/#...", 2},                      // nor does a border wrap
           Case{"#..#/#..#/####", 1},                 // U
           Case{"####/#..#/#..#", 1},                 // the other way
           Case{"#.#.#/#.#.#/#####", 1},              // three arms
           Case{"#...#/.#.#./..#..", 1},              // V
           Case{"#####/#...#/#.#.#/#...#/#####", 2},  // a dot in a ring
           Case{"#######/......#/#####.#/#...#.#/#.###.#/#.....#/#######", 1},  // spiral
           Case{"##.##/#...#/...../#...#/##.##", 4},                            // corners
           Case{"#.#.#/...../#.#.#", 6},
       }) {
    const Mask mask = mask_of(drawing);
    const std::vector<std::size_t> labels = labels_from_runs(mask);
    EXPECT_EQ(labels, label(mask)) << drawing;
    EXPECT_EQ(*std::max_element(labels.begin(), labels.end()), regions) << drawing;
  }
}

TEST(Regions, AreThoseOfAFloodFill) {
  Random random(4);
  for (int round = 0; round < 500; ++round) {
    Mask mask;
    mask.width = 1 + random.below(20);
    mask.height = 1 + random.below(20);
    const std::uint64_t part = 1 + random.below(9);
    for (std::size_t i = 0; i < mask.width * mask.height; ++i) {
      mask.values.push_back(random.below(10) < part ? 1 : 0);
    }
    EXPECT_EQ(labels_from_runs(mask), label(mask));
  }
}

// Recursion would overflow the stack, and a careless forest would take quadratic time.
TEST(Regions, OfLargeMasks) {
  Mask comb{2001, 1001, std::vector<std::uint8_t>(std::size_t{2001} * 1001, 0)};
  Mask snake = comb;
  for (std::size_t y = 0; y < comb.height; ++y) {
    for (std::size_t x = 0; x < comb.width; ++x) {
      const std::size_t at = y * comb.width + x;
      comb.values[at] = x % 2 == 0 || y == comb.height - 1 ? 1 : 0;
      snake.values[at] = y % 2 == 0 || x == (y % 4 == 1 ? snake.width - 1 : 0) ? 1 : 0;
    }
  }
  for (const Mask* mask : {&comb, &snake}) {
    for (const auto& run : connected_runs(*mask)) ASSERT_EQ(run.region, 0u);
  }
}

// ---- sorting
// -------------------------------------------------------------------------------------

TEST(Radix, SortsByTheUpperHalfAndKeepsTheOrderOfEqualOnes) {
  Random random(6);
  for (const std::size_t n : {0u, 1u, 2u, 1000u, 70000u, 300000u}) {
    for (const int bits : {1, 9, 12, 23, 32}) {
      std::vector<std::uint64_t> words(n);
      for (auto& word : words) word = random.next() >> (32 - bits);
      std::vector<std::uint64_t> expected = words;
      std::stable_sort(expected.begin(), expected.end(),
                       [](std::uint64_t a, std::uint64_t b) { return a >> 32 < b >> 32; });
      for (const std::size_t crew : {1u, 3u}) {
        Compute compute(crew);
        std::vector<std::uint64_t> sorted = words;
        sort_by_upper_half(sorted, compute.threads());
        EXPECT_TRUE(sorted == expected) << n << " words of " << bits << " bits";
      }
    }
  }
}

TEST(Radix, SortsFew) {
  Random random(7);
  for (const std::size_t n : {0u, 1u, 2u, 1000u, 65536u}) {
    for (const int bits : {0, 1, 9, 12, 23, 32}) {
      std::vector<std::uint32_t> words(n);
      for (auto& word : words)
        word = static_cast<std::uint32_t>(random.next() >> 32 >> (32 - bits));
      for (const std::uint32_t base : {0u, 0x80000000u}) {
        for (auto& word : words) word ^= base;
        std::vector<std::uint32_t> expected = words;
        std::sort(expected.begin(), expected.end());
        std::vector<std::uint32_t> sorted = words;
        std::vector<std::uint32_t> other(n);
        sort_small(sorted, other);
        EXPECT_TRUE(sorted == expected) << n << " words of " << bits << " bits";
      }
    }
  }
}

TEST(FallingKey, FallsAsScoresRise) {
  const Scores rising{-kInfinity, -3e38f, -1, -1e-45f, 0, 1e-45f, 1, 3e38f, kInfinity};
  for (std::size_t i = 1; i < rising.size(); ++i) {
    EXPECT_GT(falling_key(rising[i - 1]), falling_key(rising[i])) << rising[i];
  }
  EXPECT_EQ(falling_key(-0.0f), falling_key(0.0f));
}

}  // namespace
}  // namespace contcore
