// The hot loop of the backbone that is not oneDNN's, compiled for every SIMD target of the
// machine's family and chosen at run time. It gives the same bits on every target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace contcore::backbone_kernels {

/// What is done to sums of codes · codes to make them numbers of the next map, or codes of it: in
/// this order, and rounded where oneDNN's integer convolutions round, so that the bits are theirs.
struct Finish {
  struct Op {
    enum class Kind {
      kClip,       ///< to alpha … beta
      kAddFloats,  ///< the other summand
      kAddBytes,   ///< alpha · (the other summand's code − beta), by fused multiply-add
    };
    Kind kind = Kind::kClip;
    float alpha = 0, beta = 0;
  };
  std::vector<float> bias, factor;  ///< of each channel: (sum + bias) · factor comes first
  std::vector<Op> ops;              ///< at most one of them adds
  float last = 1;                   ///< a factor that comes last
  float zero = 0;                   ///< of the codes
};

/// For `places` places with the numbers of all channels behind each other. A sum is `low`, or, if
/// there is a `high`, 16 · high + low. `other` are floats or bytes as the ops say, and may be null.
/// Exactly one of `floats` and `bytes` is written; to bytes the nearest, ties to even.
void finish(const Finish& how, const float* low, const float* high, const void* other,
            std::size_t places, float* floats, std::uint8_t* bytes);

}  // namespace contcore::backbone_kernels
