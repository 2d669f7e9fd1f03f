// Seeded random numbers that are the same everywhere (the standard's distributions are not).
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace contcore {

/// Uniform in [0, n), n > 0, without bias: draws from the incomplete last interval are redrawn.
inline std::uint64_t below(std::mt19937_64& bits, std::uint64_t n) {
  const std::uint64_t limit = (0 - n) % n;  // 2^64 mod n
  for (;;) {
    const std::uint64_t x = bits();
    if (x >= limit) return x % n;
  }
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}

  std::uint64_t next() { return bits_(); }

  /// Uniform in [0, n), n > 0.
  std::uint64_t below(std::uint64_t n) { return contcore::below(bits_, n); }

  /// Uniform in [0, 1), with 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Standard normal to within the tails of twelve uniforms: exact arithmetic only, hence the same
  /// on every machine.
  float gaussian() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return static_cast<float>(sum);
  }

 private:
  std::mt19937_64 bits_;
};

}  // namespace contcore
