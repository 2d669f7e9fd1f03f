#include "detector/in_order.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace contcore {
namespace {

std::size_t made_slowly(std::size_t i) {
  std::this_thread::sleep_for(std::chrono::microseconds(i % 7 == 0 ? 2000 : 50));
  return i * i;
}

TEST(InOrder, UsesEachOnceInOrder) {
  for (const std::size_t count : {1U, 2U, 4U}) {
    Compute compute(count);
    std::vector<std::size_t> used;
    run_in_order<std::size_t>(
        compute, 100, 3, [](std::size_t i, std::size_t) { return made_slowly(i); },
        [&](std::size_t i, std::size_t& item) {
          EXPECT_EQ(item, i * i);
          used.push_back(i);
        });
    ASSERT_EQ(used.size(), 100U);
    for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(used[i], i);
  }
}

// The others must not wait for an item that never comes.
TEST(InOrder, EndsWhenOneFails) {
  Compute compute(4);
  for (const std::size_t bad : {0U, 5U, 20U}) {
    std::size_t used = 0;
    EXPECT_THROW(run_in_order<std::size_t>(
                     compute, 200, 2,
                     [&](std::size_t i, std::size_t) {
                       if (i == bad) throw std::runtime_error("bad");
                       return made_slowly(i);
                     },
                     [&](std::size_t, std::size_t&) { ++used; }),
                 std::runtime_error);
    EXPECT_LE(used, bad);
    EXPECT_THROW(run_in_order<std::size_t>(
                     compute, 200, 2, [](std::size_t i, std::size_t) { return made_slowly(i); },
                     [&](std::size_t i, std::size_t&) {
                       if (i == bad) throw std::runtime_error("bad");
                     }),
                 std::runtime_error);
  }
}

}  // namespace
}  // namespace contcore
