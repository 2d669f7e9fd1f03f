// How large numbers are, on a coarse scale.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace contcore {

/// Counts absolute values in steps of an eighth of an octave: 1, 1.125, … 1.875, 2, 2.25, … A
/// quantile is one of these, so that the last bits of the numbers, which differ from machine to
/// machine, do not show in it.
class Magnitudes {
 public:
  void add(std::span<const float> values) {
    // Four tables in turn: most numbers are zero, and the same place would be waited for.
    const std::size_t whole = values.size() / 4 * 4;
    for (std::size_t i = 0; i < whole; i += 4) {
      for (std::size_t t = 0; t < 4; ++t) count(values[i + t], t);
    }
    for (std::size_t i = whole; i < values.size(); ++i) count(values[i], 0);
  }

  void add(const Magnitudes& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    negative_ |= other.negative_;
  }

  std::uint64_t count() const { return below(kSteps); }
  bool finite() const { return count() == below(kInfinity); }
  /// Whether there was a number below zero.
  bool negative() const { return negative_ != 0; }

  /// The end of the step that the given part of the numbers lies below; of the last step there is
  /// if that is all zeros, and 0 if all are.
  float quantile(double part) const {
    const auto wanted = static_cast<double>(count()) * part;
    std::uint64_t sum = 0;
    std::size_t last = 0;
    for (std::size_t step = 0; step < kInfinity; ++step) {
      const std::uint64_t here = at(step);
      if (here == 0) continue;
      sum += here;
      last = step;
      if (step > 0 && static_cast<double>(sum) >= wanted) break;
    }
    return last == 0 ? 0 : std::bit_cast<float>(static_cast<std::uint32_t>(last + 1) << kShift);
  }

 private:
  static constexpr unsigned kShift = 20;  // three bits of the mantissa stay
  static constexpr std::size_t kSteps = std::size_t{1} << (31 - kShift);
  static constexpr std::size_t kInfinity = 0x7f800000u >> kShift;

  void count(float value, std::size_t table) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    negative_ |= static_cast<std::uint32_t>(value < 0);
    ++counts_[table * kSteps + ((bits & 0x7fffffffu) >> kShift)];
  }
  std::uint64_t at(std::size_t step) const {
    return counts_[step] + counts_[kSteps + step] + counts_[2 * kSteps + step] +
           counts_[3 * kSteps + step];
  }
  std::uint64_t below(std::size_t end) const {
    std::uint64_t sum = 0;
    for (std::size_t step = 0; step < end; ++step) sum += at(step);
    return sum;
  }

  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(4 * kSteps, 0);
  std::uint32_t negative_ = 0;
};

}  // namespace contcore
