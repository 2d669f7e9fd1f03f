// Naive twins of the exact operations, written from their specification alone, and the generators
// of the cases they are compared on.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contcore/compute.h"
#include "contcore/greedy.h"
#include "contcore/vectors.h"
#include "coreset/kernels.h"

namespace contcore::naive {

/// Whether the library is watched by a sanitizer, and all takes ten times as long.
inline bool slow() {
  const char* text = std::getenv("CONTCORE_SANITIZE");
  return text != nullptr && *text != '\0';
}

/// How many of `full` cases to run: all, a tenth under a sanitizer, and CONTCORE_TEST_CASES (a
/// factor such as 0.1 or 20) times that where it is set.
inline std::size_t cases(std::size_t full) {
  double factor = slow() ? 0.1 : 1.0;
  if (const char* text = std::getenv("CONTCORE_TEST_CASES")) factor *= std::strtod(text, nullptr);
  const double count = std::ceil(static_cast<double>(full) * factor);
  return count < 1 ? 1 : static_cast<std::size_t>(count);
}

/// Added to every seed, for runs that look further: CONTCORE_TEST_SEED.
inline std::uint64_t first_seed() {
  const char* text = std::getenv("CONTCORE_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 0;
}

// ---------------------------------------------------------------- random numbers

/// splitmix64.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_((seed + first_seed()) * 0x9E3779B97F4A7C15u + 1) {}

  std::uint64_t bits() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// Uniform enough in [0, n).
  std::size_t below(std::size_t n) { return static_cast<std::size_t>((bits() >> 16) % n); }
  /// In [low, high].
  std::size_t between(std::size_t low, std::size_t high) { return low + below(high - low + 1); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// Near enough a standard normal.
  double gaussian() {
    const std::uint64_t x = bits();
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<double>((x >> (16 * i)) & 0xFFFF);
    return (sum * 0x1p-16 - 2.0) * 1.7320508;
  }
  /// 10 to a power between the two.
  double scale(double low, double high) { return std::pow(10.0, low + (high - low) * uniform()); }

  template <class T>
  T pick(std::initializer_list<T> list) {
    return list.begin()[below(list.size())];
  }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[below(list.size())];
  }

 private:
  std::uint64_t state_;
};

// ---------------------------------------------------------------- float16

inline float half_to_float(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  double value = 0;
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(1024 + fraction, exponent - 25);
  }
  return static_cast<float>((half & 0x8000) ? -value : value);
}

/// A float16 near x (rounded down in magnitude).
inline std::uint16_t to_half(float x) {
  const unsigned sign = std::signbit(x) ? 0x8000u : 0u;
  const double value = std::min(std::abs(static_cast<double>(x)), 65504.0);
  unsigned bits = 0;
  if (value < 0x1p-14) {
    bits = static_cast<unsigned>(value * 0x1p24);
  } else {
    const int exponent = std::ilogb(value);
    const double fraction = std::ldexp(value, -exponent) - 1;
    bits = (static_cast<unsigned>(exponent + 15) << 10) | static_cast<unsigned>(fraction * 1024);
  }
  return static_cast<std::uint16_t>(sign | bits);
}

// ---------------------------------------------------------------- sets of vectors

/// Rows of float32 and, for a set of float16 or bytes, what they were widened from. The rows stand
/// at an offset of `lead` floats, so that they are not always aligned; nothing follows the last
/// one.
struct Set {
  std::size_t n = 0;
  std::size_t d = 0;
  std::size_t lead = 0;
  std::vector<float> values;
  std::vector<std::uint16_t> halves;
  std::vector<std::uint8_t> bytes;

  Set() = default;
  Set(std::size_t rows, std::size_t cols, std::size_t offset = 0)
      : n(rows), d(cols), lead(offset), values(offset + rows * cols) {}

  float* row(std::size_t i) { return values.data() + lead + i * d; }
  const float* row(std::size_t i) const { return values.data() + lead + i * d; }

  void make_half() {
    halves.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      halves[i] = to_half(values[i]);
      values[i] = half_to_float(halves[i]);
    }
  }

  /// `low` becomes 0 and `high` 255; what is beyond is cut.
  void make_bytes(float low, float high) {
    bytes.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double part = (static_cast<double>(values[i]) - static_cast<double>(low)) /
                          (static_cast<double>(high) - static_cast<double>(low));
      bytes[i] = static_cast<std::uint8_t>(std::clamp(part >= 0 ? part : 0.0, 0.0, 1.0) * 255);
      values[i] = bytes[i];
    }
  }

  VectorView view() const {
    if (!bytes.empty()) return {bytes.data() + lead, n, d, Scalar::kUint8};
    if (!halves.empty()) return {halves.data() + lead, n, d, Scalar::kFloat16};
    return {values.data() + lead, n, d};
  }
};

enum class Family {
  kGaussian,
  kLowRank,
  kClusters,
  kDuplicates,
  kAllEqual,
  kCollinear,
  kGrid,
  kScaled,
  kMixedScales,
  kOutlier,
  kOffset,
  kDenormal,
  kZeros,
  kSparse,
  kNearDuplicates,
  kSimplex,
  kSigns,
  kColumnScales,
  kFarCluster,
  kSphere,
};
inline constexpr std::size_t kFamilies = 20;

inline const char* name(Family family) {
  static constexpr std::array<const char*, kFamilies> names = {
      "gaussian",  "low rank", "clusters",      "duplicates",   "all equal",
      "collinear", "grid",     "scaled",        "mixed scales", "outlier",
      "offset",    "denormal", "zeros",         "sparse",       "near duplicates",
      "simplex",   "signs",    "column scales", "far cluster",  "sphere"};
  return names[static_cast<std::size_t>(family)];
}

/// One number moved by a unit in the last place, up or down.
inline void nudge(float* value, Dice& dice) {
  *value = std::nextafterf(*value, dice.one_in(2) ? 1e30f : -1e30f);
}

/// n vectors of a family. What the vectors of a family have in common (its directions, clusters,
/// scale, offset) comes from `shape`, so that two sets of one shape belong together.
inline Set make(Family family, std::size_t n, std::size_t d, std::uint64_t shape,
                std::uint64_t seed) {
  Dice common(shape * 7919 + 13);
  Dice dice(seed * 104729 + 7);
  Set set(n, d, dice.below(4));
  const auto fill = [&](std::size_t i, double scale) {
    for (std::size_t j = 0; j < d; ++j) set.row(i)[j] = static_cast<float>(dice.gaussian() * scale);
  };
  const auto direction = [&] {
    std::vector<double> v(d);
    for (double& x : v) x = common.gaussian();
    return v;
  };

  switch (family) {
    case Family::kGaussian:
      for (std::size_t i = 0; i < n; ++i) fill(i, 1);
      break;
    case Family::kLowRank: {
      const std::size_t rank = std::min<std::size_t>(d, common.between(1, 12));
      const double noise = common.pick({0.0, 1e-3, 1e-2, 0.1});
      const double decay = common.pick({0.5, 0.7, 0.9});
      const double shift = common.pick({0.0, 0.0, 3.0});
      std::vector<std::vector<double>> directions;
      for (std::size_t r = 0; r < rank; ++r) directions.push_back(direction());
      std::vector<double> sum(d);
      for (std::size_t i = 0; i < n; ++i) {
        std::fill(sum.begin(), sum.end(), shift);
        double weight = 1;
        for (std::size_t r = 0; r < rank; ++r) {
          const double t = dice.gaussian() * weight;
          for (std::size_t j = 0; j < d; ++j) sum[j] += t * directions[r][j];
          weight *= decay;
        }
        for (std::size_t j = 0; j < d; ++j) {
          const double extra = noise > 0 ? noise * dice.gaussian() : 0;
          set.row(i)[j] = static_cast<float>(sum[j] + extra);
        }
      }
      break;
    }
    case Family::kClusters: {
      const std::size_t clusters = common.between(1, 6);
      std::vector<std::vector<double>> centres;
      for (std::size_t c = 0; c < clusters; ++c) centres.push_back(direction());
      for (std::size_t i = 0; i < n; ++i) {
        const std::vector<double>& centre = centres[dice.below(clusters)];
        const double spread = 0.01 / (dice.uniform() * dice.uniform() + 1e-6);
        for (std::size_t j = 0; j < d; ++j) {
          set.row(i)[j] = static_cast<float>(10 * centre[j] + spread * dice.gaussian());
        }
      }
      break;
    }
    case Family::kDuplicates: {
      // The distinct rows come from the shape: two sets share them.
      const std::size_t distinct = common.between(1, 1 + n / 4);
      std::vector<std::vector<double>> rows;
      for (std::size_t c = 0; c < distinct; ++c) rows.push_back(direction());
      for (std::size_t i = 0; i < n; ++i) {
        const std::vector<double>& from = rows[dice.below(distinct)];
        for (std::size_t j = 0; j < d; ++j) set.row(i)[j] = static_cast<float>(from[j]);
      }
      break;
    }
    case Family::kAllEqual: {
      const std::vector<double> from = direction();
      const double scale = common.pick({1.0, 1e-3, 1e10});
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < d; ++j) set.row(i)[j] = static_cast<float>(from[j] * scale);
      }
      break;
    }
    case Family::kCollinear: {
      const std::vector<double> from = direction();
      const std::vector<double> along = direction();
      const bool steps = common.one_in(2);
      for (std::size_t i = 0; i < n; ++i) {
        const double t = steps ? static_cast<double>(dice.below(n)) : dice.gaussian();
        for (std::size_t j = 0; j < d; ++j) {
          set.row(i)[j] = static_cast<float>(from[j] + t * along[j]);
        }
      }
      break;
    }
    case Family::kGrid: {
      const double step = common.pick({1.0, 0.1, 0x1p-20, 1e6});
      const std::size_t values = common.between(2, 4);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < d; ++j) {
          set.row(i)[j] = static_cast<float>(static_cast<double>(dice.below(values)) * step);
        }
      }
      break;
    }
    case Family::kScaled: {
      const double scale = common.scale(-20, 18) / std::sqrt(static_cast<double>(d));
      for (std::size_t i = 0; i < n; ++i) fill(i, scale);
      break;
    }
    case Family::kMixedScales:
      for (std::size_t i = 0; i < n; ++i) {
        fill(i, dice.scale(-20, 18) / std::sqrt(static_cast<double>(d)));
      }
      break;
    case Family::kOutlier: {
      for (std::size_t i = 0; i < n; ++i) fill(i, 1);
      const double scale = common.scale(3, 18) / std::sqrt(static_cast<double>(d));
      if (n > 0) fill(dice.below(n), scale);
      break;
    }
    case Family::kOffset: {
      const double offset = common.pick({1e6, 1e6, 1e4, 1e2, -3e7});
      const double spread = common.pick({1e-2, 1.0, 0.1});
      const std::vector<double> along = direction();
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < d; ++j) {
          set.row(i)[j] =
              static_cast<float>(offset * (1 + 0.1 * along[j]) + spread * dice.gaussian());
        }
      }
      break;
    }
    case Family::kDenormal: {
      const double scale = common.pick({1e-44, 1e-42, 1e-39, 1e-38, 1e-23, 1e-22, 1e-19});
      for (std::size_t i = 0; i < n; ++i) fill(i, scale);
      break;
    }
    case Family::kZeros:
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < d; ++j) {
          set.row(i)[j] = dice.one_in(16) ? 1.0f : dice.one_in(2) ? -0.0f : 0.0f;
        }
      }
      break;
    case Family::kSparse: {
      const double cut = common.pick({0.0, 0.5, 1.2});
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < d; ++j) {
          set.row(i)[j] = static_cast<float>(std::max(0.0, dice.gaussian() - cut));
        }
      }
      break;
    }
    case Family::kNearDuplicates: {
      const std::size_t distinct = common.between(1, 4);
      std::vector<std::vector<double>> rows;
      for (std::size_t c = 0; c < distinct; ++c) rows.push_back(direction());
      for (std::size_t i = 0; i < n; ++i) {
        const std::vector<double>& from = rows[dice.below(distinct)];
        for (std::size_t j = 0; j < d; ++j) set.row(i)[j] = static_cast<float>(from[j]);
        const std::size_t changes = dice.below(4);
        for (std::size_t c = 0; c < changes; ++c) nudge(set.row(i) + dice.below(d), dice);
      }
      break;
    }
    case Family::kSimplex: {
      // Scaled unit vectors: all distances equal but for the scale.
      const std::size_t scales = common.between(1, 2);
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t sign = dice.below(2);
        set.row(i)[dice.below(d)] =
            (sign != 0 ? -1.0f : 1.0f) * static_cast<float>(dice.between(1, scales));
      }
      break;
    }
    case Family::kSigns:
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < d; ++j) set.row(i)[j] = dice.one_in(2) ? 1.0f : -1.0f;
      }
      break;
    case Family::kColumnScales: {
      std::vector<double> scales(d);
      for (double& s : scales) s = common.scale(-15, 10);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < d; ++j) {
          set.row(i)[j] = static_cast<float>(dice.gaussian() * scales[j]);
        }
      }
      break;
    }
    case Family::kFarCluster: {
      // Most around the origin, some close together a long way off.
      const std::vector<double> far = direction();
      const double away = common.scale(1, 8);
      const double spread = away * common.scale(-8, -2);
      for (std::size_t i = 0; i < n; ++i) {
        const bool there = dice.one_in(3);
        for (std::size_t j = 0; j < d; ++j) {
          set.row(i)[j] = static_cast<float>(there ? away * far[j] + spread * dice.gaussian()
                                                   : dice.gaussian());
        }
      }
      break;
    }
    case Family::kSphere: {
      // Every point at nearly the same distance from the mean.
      const double radius = common.scale(-3, 3);
      for (std::size_t i = 0; i < n; ++i) {
        std::vector<double> v(d);
        double norm = 1e-30;
        for (double& x : v) {
          x = dice.gaussian();
          norm += x * x;
        }
        for (std::size_t j = 0; j < d; ++j) {
          set.row(i)[j] = static_cast<float>(v[j] * radius / std::sqrt(norm));
        }
      }
      break;
    }
  }
  return set;
}

inline void copy_row(const Set& from, std::size_t i, Set& to, std::size_t j) {
  std::copy_n(from.row(i), from.d, to.row(j));
}

// ---------------------------------------------------------------- the naive twins

/// The canonical squared distance: 32 partial sums of fused multiply-adds, then a tree.
inline float canonical(const float* a, const float* b, std::size_t d) {
  float sum[32] = {};
  for (std::size_t i = 0; i < d; ++i) {
    const float difference = a[i] - b[i];
    sum[i % 32] = std::fma(difference, difference, sum[i % 32]);
  }
  for (std::size_t h = 16; h >= 1; h /= 2) {
    for (std::size_t l = 0; l < h; ++l) sum[l] = sum[l] + sum[l + h];
  }
  return sum[0];
}

/// The canonical squared distance of two vectors of sets; of bytes the exact sum, rounded once.
inline float distance(const Set& a, std::size_t i, const Set& b, std::size_t j) {
  if (a.bytes.empty()) return canonical(a.row(i), b.row(j), a.d);
  std::uint64_t sum = 0;
  for (std::size_t l = 0; l < a.d; ++l) {
    const int difference = int{a.bytes[a.lead + i * a.d + l]} - int{b.bytes[b.lead + j * b.d + l]};
    sum += static_cast<std::uint64_t>(difference * difference);
  }
  return static_cast<float>(sum);
}

/// float64 sums over blocks of 1024 rows, each in row order; blocks added in order; divided by the
/// number of rows and rounded.
inline std::vector<float> mean(const Set& set) {
  std::vector<double> total(set.d, 0.0);
  for (std::size_t from = 0; from < set.n; from += 1024) {
    std::vector<double> block(set.d, 0.0);
    for (std::size_t i = from; i < std::min(set.n, from + 1024); ++i) {
      for (std::size_t j = 0; j < set.d; ++j) block[j] += static_cast<double>(set.row(i)[j]);
    }
    for (std::size_t j = 0; j < set.d; ++j) total[j] += block[j];
  }
  std::vector<float> result(set.d);
  for (std::size_t j = 0; j < set.d; ++j) {
    result[j] = static_cast<float>(total[j] / static_cast<double>(set.n));
  }
  return result;
}

/// The first pick on an empty base: the farthest from the mean, the lowest index on ties.
inline std::size_t farthest_from_mean(const Set& points) {
  const std::vector<float> centre = mean(points);
  std::size_t best = 0;
  float largest = -1;
  for (std::size_t i = 0; i < points.n; ++i) {
    const float distance = canonical(points.row(i), centre.data(), points.d);
    if (distance > largest) {
      largest = distance;
      best = i;
    }
  }
  return best;
}

/// The plain loop. `first` is the first pick, for an empty base; `initial` the squared distances to
/// start from instead.
inline GreedyResult greedy(const Set& points, const Set& base, std::size_t count,
                           std::optional<std::size_t> first,
                           const std::vector<float>* initial = nullptr) {
  GreedyResult result;
  std::vector<float> nearest(points.n, std::numeric_limits<float>::infinity());
  std::vector<bool> picked(points.n, false);
  if (initial) nearest = *initial;
  for (std::size_t b = 0; b < base.n; ++b) {
    for (std::size_t i = 0; i < points.n; ++i) {
      nearest[i] = std::min(nearest[i], distance(points, i, base, b));
    }
  }
  while (result.picks.size() < count) {
    std::size_t best = points.n;
    for (std::size_t i = 0; i < points.n; ++i) {
      if (!picked[i] && (best == points.n || nearest[i] > nearest[best])) best = i;
    }
    if (best == points.n || nearest[best] == 0) break;
    if (first && result.picks.empty()) best = *first;
    picked[best] = true;
    result.picks.push_back(static_cast<std::int64_t>(best));
    result.radii.push_back(std::sqrt(nearest[best]));
    for (std::size_t i = 0; i < points.n; ++i) {
      nearest[i] = std::min(nearest[i], distance(points, i, points, best));
    }
  }
  float largest = 0;
  for (const float distance : nearest) largest = std::max(largest, distance);
  result.covering_radius = std::sqrt(largest);
  return result;
}

/// A set of vectors with ids, searched one by one.
struct Nearest {
  std::vector<std::pair<std::int64_t, std::vector<float>>> rows;

  void add(const Set& set, std::int64_t first) {
    for (std::size_t i = 0; i < set.n; ++i) {
      rows.emplace_back(first + static_cast<std::int64_t>(i),
                        std::vector<float>(set.row(i), set.row(i) + set.d));
    }
  }
  void drop(std::int64_t id) {
    std::erase_if(rows, [id](const auto& row) { return row.first == id; });
  }
  /// The (squared distance, id) pairs of the k nearest, in order.
  std::vector<std::pair<float, std::int64_t>> search(const float* query, std::size_t k) const {
    std::vector<std::pair<float, std::int64_t>> found;
    found.reserve(rows.size());
    for (const auto& [id, row] : rows) {
      found.emplace_back(canonical(query, row.data(), row.size()), id);
    }
    const std::size_t kept = std::min(k, found.size());
    std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept),
                      found.end());
    found.resize(kept);
    return found;
  }
};

// ---------------------------------------------------------------- crews and targets

inline std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

/// Crews of 1, 2, 3 and 8 threads.
inline Compute& crew(std::size_t which) {
  static std::array<Compute, 4> crews = {Compute(1), Compute(2), Compute(3), Compute(8)};
  return crews[which % crews.size()];
}

/// Forces a SIMD target for as long as it lives.
struct ForcedTarget {
  explicit ForcedTarget(const std::string& target) { kernels::force_target(target); }
  ~ForcedTarget() { kernels::force_target(""); }
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;
};

/// A target of the machine; for large cases mostly not the slowest.
inline std::string any_target(Dice& dice, std::size_t numbers) {
  static const std::vector<std::string> targets = kernels::targets();
  const bool fast = numbers > 50000 && targets.size() > 1 && !dice.one_in(8);
  return targets[dice.below(targets.size() - (fast ? 1 : 0))];
}

}  // namespace contcore::naive
