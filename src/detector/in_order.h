// Work that is done several items at a time and used one after the other.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "contcore/compute.h"

namespace contcore {

/// Calls use(i, make(i, worker)) for each i below `items`: make in parallel, use in increasing
/// order of i and never two at once, from whichever thread is there. What is made too early waits,
/// but not more than `ahead` of it. An exception of either ends it all and is rethrown.
template <typename Item>
void run_in_order(Compute& compute, std::size_t items, std::size_t ahead,
                  const std::function<Item(std::size_t, std::size_t)>& make,
                  const std::function<void(std::size_t, Item&)>& use) {
  std::mutex mutex;
  std::condition_variable moved;
  std::map<std::size_t, Item> early;
  std::size_t next = 0;
  bool failed = false;
  compute.threads().run(items, [&](std::size_t i, std::size_t worker) {
    try {
      {
        // Items are handed out in order, so whoever has the next one never waits here.
        std::unique_lock<std::mutex> lock(mutex);
        moved.wait(lock, [&] { return failed || i < next + ahead; });
        if (failed) return;
      }
      Item item = make(i, worker);
      const std::lock_guard<std::mutex> lock(mutex);  // let go before the handler below takes it
      if (failed) return;
      early.emplace(i, std::move(item));
      for (auto at = early.find(next); at != early.end(); at = early.find(next)) {
        use(next, at->second);
        early.erase(at);
        ++next;
      }
      moved.notify_all();
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      failed = true;
      moved.notify_all();
      throw;
    }
  });
}

}  // namespace contcore
