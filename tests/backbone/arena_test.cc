#include "backbone/arena.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace contcore {
namespace {

// Two buffers that are alive at the same time and share a byte: wrong numbers, now and then.
TEST(Arena, LivingBuffersNeverOverlap) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    std::vector<Lifetime> buffers(1 + random.below(40));
    std::size_t all = 0;
    for (Lifetime& buffer : buffers) {
      buffer.bytes = random.below(5000);
      buffer.first = random.below(20);
      buffer.last =
          random.below(6) == 0 ? static_cast<std::size_t>(-1) : buffer.first + random.below(5);
      all += buffer.bytes + 64;
    }
    const std::size_t total = plan_arena(buffers);
    EXPECT_LE(total, all);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const Lifetime& a = buffers[i];
      EXPECT_EQ(a.offset % 64, 0u);
      EXPECT_LE(a.offset + a.bytes, total);
      for (std::size_t j = 0; j < i; ++j) {
        const Lifetime& b = buffers[j];
        const bool together = a.first <= b.last && b.first <= a.last;
        const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
        EXPECT_TRUE(!together || apart || a.bytes == 0 || b.bytes == 0);
      }
    }
  }
}

TEST(Arena, MemoryIsUsedAgain) {
  std::vector<Lifetime> chain;
  for (std::size_t i = 0; i < 20; ++i) chain.push_back({1000, i, i + 1, 0});
  EXPECT_LE(plan_arena(chain), 2100u);
}

}  // namespace
}  // namespace contcore
