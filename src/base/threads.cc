#include "contcore/threads.h"

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace contcore {

std::size_t cores_allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) {
    return static_cast<std::size_t>(CPU_COUNT(&set));
  }
  const unsigned n = std::thread::hardware_concurrency();
  return n == 0 ? 1 : n;
}

struct Threads::Crew {
  explicit Crew(std::size_t count) {
    try {
      for (std::size_t w = 1; w < count; ++w) workers.emplace_back([this, w] { serve(w); });
    } catch (...) {  // the system has no more threads: send home those that came
      dismiss();
      throw;
    }
  }

  ~Crew() { dismiss(); }

  void dismiss() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
      round.fetch_add(1, std::memory_order_release);
    }
    wake.notify_all();
    for (auto& t : workers) t.join();
  }

  // Rounds of sampling follow each other within microseconds, so a worker looks for the next one
  // a while before it goes to sleep.
  void await_round(std::uint64_t seen) {
    for (int spin = 0; spin < 2000; ++spin) {
      if (round.load(std::memory_order_acquire) != seen) return;
      if (spin > 200) std::this_thread::yield();
    }
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return round.load(std::memory_order_acquire) != seen; });
  }

  void serve(std::size_t worker) {
    std::uint64_t seen = 0;
    for (;;) {
      await_round(seen);
      ++seen;
      if (stopping) return;
      take_items(worker);
      if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        std::lock_guard lock(mutex);
        idle.notify_one();
      }
    }
  }

  void take_items(std::size_t worker) {
    try {
      for (;;) {
        const std::size_t i = next.fetch_add(1, std::memory_order_relaxed);
        if (i >= items) return;
        (*work)(i, worker);
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next.store(items, std::memory_order_relaxed);
    }
  }

  void run(std::size_t n, const std::function<void(std::size_t, std::size_t)>& f) {
    items = n;
    work = &f;
    failure = nullptr;
    next.store(0, std::memory_order_relaxed);
    busy.store(workers.size(), std::memory_order_relaxed);
    {
      std::lock_guard lock(mutex);
      round.fetch_add(1, std::memory_order_release);
    }
    wake.notify_all();
    take_items(0);
    for (int spin = 0; spin < 2000 && busy.load(std::memory_order_acquire) != 0; ++spin) {
      if (spin > 200) std::this_thread::yield();
    }
    {
      std::unique_lock lock(mutex);
      idle.wait(lock, [&] { return busy.load(std::memory_order_acquire) == 0; });
    }
    if (failure) std::rethrow_exception(failure);
  }

  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable idle;
  std::atomic<std::uint64_t> round{0};
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> busy{0};
  std::size_t items = 0;
  const std::function<void(std::size_t, std::size_t)>* work = nullptr;
  std::exception_ptr failure;
  bool stopping = false;
};

Threads::Threads(std::size_t count)
    : crew_(std::make_unique<Crew>(count == 0 ? cores_allowed() : count)) {}

Threads::~Threads() = default;

std::size_t Threads::count() const { return crew_->workers.size() + 1; }

void Threads::run(std::size_t items, const std::function<void(std::size_t, std::size_t)>& work) {
  if (items == 0) return;
  if (crew_->workers.empty() || items == 1) {
    for (std::size_t i = 0; i < items; ++i) work(i, 0);
    return;
  }
  crew_->run(items, work);
}

}  // namespace contcore
