// Several threads, one order.
#include "serve/turns.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "serve/executor.h"

namespace contcore {
namespace {

// Some take long, some give up before it is their turn.
TEST(Turns, EndInTheOrderInWhichTheyWereTaken) {
  constexpr int kWork = 300;
  std::mutex mutex;
  std::vector<int> done, expected;
  {
    Turns turns;
    Executor::Options options;
    options.threads = 4;
    options.most = kWork;
    Executor executor(options);
    std::mt19937 random(5);
    for (int i = 0; i < kWork; ++i) {
      const bool gives_up = random() % 4 == 0;
      const std::chrono::microseconds time(random() % 2000);
      if (!gives_up) expected.push_back(i);
      ASSERT_TRUE(executor.submit([&, i, gives_up, time, turn = turns.take()](Compute&) {
        std::this_thread::sleep_for(time);
        if (gives_up) return;
        turn->wait();
        const std::lock_guard<std::mutex> lock(mutex);
        done.push_back(i);
      }));
    }
    executor.finish();
  }
  EXPECT_EQ(done, expected);
}

TEST(Turns, OneThatIsGivenUpAtOnceKeepsNobody) {
  Turns turns;
  turns.take();
  const auto second = turns.take();
  auto third = turns.take();
  third.reset();
  second->wait();
}

}  // namespace
}  // namespace contcore
