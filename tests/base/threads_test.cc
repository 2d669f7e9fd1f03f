#include "contcore/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace contcore {
namespace {

const std::vector<std::size_t> kCounts = {1, 2, 3, 8};

TEST(Threads, EveryItemIsDoneOnceByAWorkerOfTheCrew) {
  for (const std::size_t count : kCounts) {
    Threads threads(count);
    ASSERT_EQ(threads.count(), count);
    for (const std::size_t items : {0u, 1u, 7u, 10000u}) {
      std::vector<std::atomic<int>> calls(items);
      std::atomic<bool> strange_worker{false};
      threads.run(items, [&](std::size_t i, std::size_t worker) {
        calls.at(i).fetch_add(1);
        if (worker >= count) strange_worker = true;
      });
      EXPECT_FALSE(strange_worker);
      for (std::size_t i = 0; i < items; ++i) ASSERT_EQ(calls[i], 1) << i << " of " << items;
    }
  }
}

// Scratch space is kept for each worker, so no two may share a number at a time, and worker 0 is
// the caller, which alone reports progress.
TEST(Threads, WorkerNumbersAreOneThreadsEach) {
  Threads threads(8);
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<std::atomic<int>> inside(8);
  std::atomic<bool> shared{false};
  std::atomic<bool> caller_confused{false};
  threads.run(10000, [&](std::size_t, std::size_t worker) {
    if (inside[worker].fetch_add(1) != 0) shared = true;
    if ((worker == 0) != (std::this_thread::get_id() == caller)) caller_confused = true;
    inside[worker].fetch_sub(1);
  });
  EXPECT_FALSE(shared);
  EXPECT_FALSE(caller_confused);
}

TEST(Threads, EachWorkerGetsItsItemsInIncreasingOrder) {
  for (const std::size_t count : kCounts) {
    Threads threads(count);
    std::vector<std::vector<std::size_t>> items(count);
    threads.run(5000, [&](std::size_t i, std::size_t worker) { items[worker].push_back(i); });
    for (const auto& mine : items) {
      for (std::size_t k = 1; k < mine.size(); ++k) ASSERT_LT(mine[k - 1], mine[k]);
    }
  }
}

TEST(Threads, NoCountMeansAtLeastOne) { EXPECT_GE(Threads().count(), 1u); }

TEST(Threads, AnExceptionReachesTheCallerAndTheCrewGoesOn) {
  for (const std::size_t count : kCounts) {
    Threads threads(count);
    for (const std::size_t items : {1u, 7u, 1000u}) {
      for (int round = 0; round < 20; ++round) {
        try {
          threads.run(items, [&](std::size_t i, std::size_t) {
            if (i == items / 2) throw std::runtime_error("item " + std::to_string(i));
          });
          ADD_FAILURE() << "nothing was thrown";
        } catch (const std::runtime_error& e) {
          EXPECT_EQ(e.what(), "item " + std::to_string(items / 2));
        }
        std::atomic<std::size_t> done{0};
        threads.run(items, [&](std::size_t, std::size_t) { done.fetch_add(1); });
        ASSERT_EQ(done, items);  // in full, and without the old exception
      }
    }
  }
}

TEST(Threads, ManyExceptionsAtOnceGiveOne) {
  Threads threads(8);
  for (int round = 0; round < 100; ++round) {
    EXPECT_THROW(
        threads.run(100, [](std::size_t, std::size_t) { throw std::runtime_error("all fail"); }),
        std::runtime_error);
  }
}

// Rounds of a few items follow each other without a pause: a wake-up lost or a round served twice
// would hang or miscount.
TEST(Threads, ManyTinyRoundsDoNotHang) {
  for (const std::size_t count : kCounts) {
    Threads threads(count);
    std::atomic<std::size_t> done{0};
    for (int round = 0; round < 5000; ++round) {
      threads.run(3, [&](std::size_t, std::size_t) { done.fetch_add(1); });
      ASSERT_EQ(done, static_cast<std::size_t>(round + 1) * 3);
    }
  }
}

TEST(Threads, CrewsComeAndGo) {
  for (int round = 0; round < 200; ++round) {
    Threads threads(4);
    std::atomic<int> done{0};
    if (round % 2 == 0) threads.run(5, [&](std::size_t, std::size_t) { done.fetch_add(1); });
    EXPECT_EQ(done, round % 2 == 0 ? 5 : 0);
  }
}

}  // namespace
}  // namespace contcore
