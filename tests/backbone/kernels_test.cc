#include "backbone/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "coreset/naive.h"

namespace contcore {
namespace {

using backbone_kernels::Finish;
using Kind = Finish::Op::Kind;

struct Case {
  Finish how;
  std::vector<float> low, high, other_floats;
  std::vector<std::uint8_t> other_bytes;
  bool two = false;
};

// One number, as the header says it is made.
float finished(const Case& c, std::size_t i) {
  const std::size_t channel = i % c.how.bias.size();
  float x = c.two ? std::fma(16.0f, c.high[i], c.low[i]) : c.low[i];
  x = (x + c.how.bias[channel]) * c.how.factor[channel];
  for (const Finish::Op& op : c.how.ops) {
    if (op.kind == Kind::kClip) x = std::min(std::max(x, op.alpha), op.beta);
    if (op.kind == Kind::kAddFloats) x = x + c.other_floats[i];
    if (op.kind == Kind::kAddBytes) {
      x = std::fma(static_cast<float>(c.other_bytes[i]) - op.beta, op.alpha, x);
    }
  }
  return x * c.how.last;
}

std::uint8_t code(const Case& c, std::size_t i) {
  const float x = std::min(std::max(finished(c, i) + c.how.zero, 0.0f), 255.0f);
  return static_cast<std::uint8_t>(std::nearbyint(x));
}

Case random_case(Random& random, std::size_t channels, std::size_t places, int which) {
  Case c;
  const std::size_t n = channels * places;
  const auto whole = [&](double most) {
    return static_cast<float>(std::round((random.uniform() * 2 - 1) * most));
  };
  c.two = which % 2 == 1;
  for (std::size_t i = 0; i < channels; ++i) {
    c.how.bias.push_back(whole(1e5) + 0.37f);
    c.how.factor.push_back(1e-5f * static_cast<float>(1 + random.uniform()));
  }
  for (std::size_t i = 0; i < n; ++i) {
    c.low.push_back(whole(1 << 24));
    c.high.push_back(whole(1 << 24));  // together beyond what a float holds exactly
    c.other_floats.push_back(random.gaussian() * 50);
    c.other_bytes.push_back(static_cast<std::uint8_t>(random.below(256)));
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (which % 3 == 1) c.how.ops = {{Kind::kAddFloats, 0, 0}, {Kind::kClip, 0, kInfinity}};
  if (which % 3 == 2) c.how.ops = {{Kind::kClip, -90, 99}, {Kind::kAddBytes, 0.7312f, 113}};
  if (which % 5 == 0) c.how.last = 1 / 0.0317f;
  c.how.zero = which % 4 == 0 ? 0 : 128;
  return c;
}

TEST(BackboneKernels, FinishIsItsTwinOnEveryTarget) {
  Random random(1);
  int which = 0;
  for (const std::size_t channels : {1u, 3u, 8u, 16u, 19u, 64u}) {
    for (const std::size_t places : {1u, 7u}) {
      const Case c = random_case(random, channels, places, which++);
      const std::size_t n = channels * places;
      const bool bytes = std::any_of(c.how.ops.begin(), c.how.ops.end(),
                                     [](const auto& op) { return op.kind == Kind::kAddBytes; });
      const void* other = bytes ? static_cast<const void*>(c.other_bytes.data())
                                : static_cast<const void*>(c.other_floats.data());
      const float* high = c.two ? c.high.data() : nullptr;
      for (const std::string& target : kernels::targets()) {
        SCOPED_TRACE(target);
        const naive::ForcedTarget forced(target);
        std::vector<float> floats(n);
        std::vector<std::uint8_t> codes(n);
        backbone_kernels::finish(c.how, c.low.data(), high, other, places, floats.data(), nullptr);
        backbone_kernels::finish(c.how, c.low.data(), high, other, places, nullptr, codes.data());
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(naive::bits(floats[i]), naive::bits(finished(c, i))) << i;
          ASSERT_EQ(codes[i], code(c, i)) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace contcore
