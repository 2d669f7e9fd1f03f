#include "detector/hold_out.h"

#include <algorithm>

#include "memory/calibration.h"

namespace contcore {
namespace {

constexpr std::size_t kMostHeldOut = Calibration::kMostImages;
constexpr std::uint64_t kEvery = 5;

}  // namespace

bool is_held_out(std::size_t i, std::size_t n, double part) {
  if (n < 2 || part <= 0) return false;
  const auto wanted = static_cast<std::size_t>(part * static_cast<double>(n) + 0.5);
  const std::size_t held = std::clamp<std::size_t>(wanted, 1, std::min(kMostHeldOut, n - 1));
  return (i + 1) * held / n > i * held / n;
}

bool is_next_held_out(std::uint64_t before, std::size_t held) {
  return held < kMostHeldOut && before % kEvery == kEvery - 1;
}

}  // namespace contcore
