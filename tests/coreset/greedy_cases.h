// What greedy sampling is tried on, and how its answers are compared.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "coreset/greedy.h"
#include "coreset/naive.h"

namespace contcore::greedy_cases {

using naive::bits;
using naive::Dice;
using naive::Family;
using naive::Set;
using Start = GreedyOptions::Start;

inline std::string describe(const GreedyTuning& tuning) {
  std::ostringstream out;
  out << "width " << (tuning.width ? std::to_string(*tuning.width) : "default");
  out << ", round " << tuning.round << ", adaptive " << tuning.adaptive;
  return out.str();
}

/// Where two results differ; empty if nowhere.
inline std::string difference(const GreedyResult& got, const GreedyResult& expected) {
  std::ostringstream out;
  const std::size_t n = std::min(got.picks.size(), expected.picks.size());
  for (std::size_t i = 0; i < n && i < got.radii.size(); ++i) {
    if (got.picks[i] != expected.picks[i] || bits(got.radii[i]) != bits(expected.radii[i])) {
      out << "pick " << i << ": point " << got.picks[i] << " at " << got.radii[i] << ", expected "
          << expected.picks[i] << " at " << expected.radii[i];
      return out.str();
    }
  }
  if (got.picks.size() != expected.picks.size() || got.radii.size() != expected.radii.size()) {
    out << got.picks.size() << " picks, " << got.radii.size() << " radii, expected "
        << expected.picks.size();
  } else if (bits(got.covering_radius) != bits(expected.covering_radius)) {
    out << "covering radius " << got.covering_radius << ", expected " << expected.covering_radius;
  }
  return out.str();
}

struct Case {
  std::string what;
  Set points;
  Set base;
  GreedyOptions options;
  std::vector<float> initial;  // where not empty
};

inline GreedyTuning random_tuning(Dice& dice) {
  GreedyTuning tuning;
  if (!dice.one_in(10)) tuning.width = dice.pick<std::size_t>({0, 16, 16, 32, 32, 48, 64, 64});
  tuning.round = dice.pick<std::size_t>({0, 1, 2, 7, 64});
  tuning.adaptive = dice.one_in(2);
  return tuning;
}

inline Case random_case(std::size_t seed, std::size_t largest, Dice& dice) {
  Case c;
  const Family family = static_cast<Family>(seed % naive::kFamilies);
  const std::size_t d = dice.one_in(3)
                            ? dice.between(1, 130)
                            : dice.pick<std::size_t>({1, 2, 3, 63, 64, 65, 127, 128, 16, 31, 33});
  const std::size_t n = dice.one_in(8)   ? dice.between(1, 3)
                        : dice.one_in(3) ? dice.pick<std::size_t>({63, 64, 65, 127, 128, 129})
                                         : dice.between(2, largest);
  c.points = naive::make(family, n, d, seed, 3 * seed);
  if (dice.one_in(6)) c.points.make_half();

  const bool bytes = c.points.halves.empty() && dice.one_in(3);
  const auto [low, high] = std::minmax_element(c.points.values.begin(), c.points.values.end());
  const float lowest = *low;
  const float highest = *high;
  if (bytes) c.points.make_bytes(lowest, highest);

  const std::size_t kind = dice.below(12);
  std::size_t base_rows = 0;
  switch (kind) {
    case 0:  // the same family
    case 1:
      base_rows = dice.between(1, largest);
      c.base = naive::make(family, base_rows, d, seed, 3 * seed + 1);
      break;
    case 2:  // larger than the points
      base_rows = n + dice.between(1, 70);
      c.base = naive::make(family, base_rows, d, seed, 3 * seed + 1);
      break;
    case 3:  // the points themselves
      c.base = c.points;
      break;
    case 4: {  // some rows of the points
      base_rows = dice.between(1, n);
      c.base = naive::make(family, base_rows, d, seed, 3 * seed + 1);
      for (std::size_t i = 0; i < base_rows; ++i) {
        if (dice.one_in(2)) naive::copy_row(c.points, dice.below(n), c.base, i);
      }
      break;
    }
    case 5:  // another family
      base_rows = dice.between(1, 80);
      c.base = naive::make(static_cast<Family>(dice.below(naive::kFamilies)), base_rows, d,
                           seed + 1, 3 * seed + 1);
      break;
    case 6:  // one row
      base_rows = 1;
      c.base = naive::make(family, base_rows, d, seed, 3 * seed + 1);
      break;
    case 7: {  // distances to start from
      for (std::size_t i = 0; i < n; ++i) {
        c.initial.push_back(naive::distance(c.points, i, c.points, dice.below(n)));
        if (dice.one_in(4)) c.initial.back() *= 0.5f;
      }
      c.base = Set(0, d);
      break;
    }
    default:  // empty
      c.base = dice.one_in(2) ? Set() : Set(0, d);
      break;
  }
  if (bytes && c.base.n > 0) {
    c.base.make_bytes(kind == 3 || kind == 4 ? 0.0f : lowest,
                      kind == 3 || kind == 4 ? 255.0f : highest);
  } else if (base_rows > 0 && dice.one_in(6)) {
    c.base.make_half();
  }

  switch (dice.below(6)) {
    case 0:
      c.options.count = 1;
      break;
    case 1:
      c.options.count = n;
      break;
    case 2:
      c.options.count = n + dice.between(1, 20);
      break;
    default:
      c.options.count = dice.between(1, n);
      break;
  }
  c.options.start = dice.pick({Start::kMean, Start::kMean, Start::kRandom, Start::kIndex});
  c.options.start_index = dice.below(n);
  c.options.seed = dice.bits();
  std::ostringstream what;
  what << "seed " << seed << ", " << naive::name(family)
       << (c.points.halves.empty() ? bytes ? " bytes" : "" : " half") << ", n " << n << ", d " << d
       << ", count " << c.options.count << ", base kind " << kind << " of " << c.base.n
       << " rows, start " << static_cast<int>(c.options.start);
  c.what = what.str();
  return c;
}

}  // namespace contcore::greedy_cases
