#include "serve/executor.h"

#include <sys/resource.h>

#include <chrono>
#include <exception>
#include <utility>

namespace contcore {

Executor::Executor(const Options& options) : options_(options) {
  for (std::size_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { run(); });
}

Executor::~Executor() { finish(); }

bool Executor::submit(Work work) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ending_ || waiting_.size() >= options_.most) return false;
    waiting_.push_back(std::move(work));
  }
  came_.notify_one();
  return true;
}

std::size_t Executor::waiting() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return waiting_.size();
}

void Executor::finish() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  came_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Executor::run() {
  // On Linux this is of the thread alone, and of those it starts: its crew.
  if (options_.nice > 0) ::setpriority(PRIO_PROCESS, 0, options_.nice);
  Compute crew(options_.crew, options_.device);
  const std::chrono::duration<double> quiet(options_.idle_seconds);
  for (;;) {
    Work work;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      const auto ready = [&] { return ending_ || !waiting_.empty(); };
      if (options_.idle) {
        came_.wait_for(lock, quiet, ready);
      } else {
        came_.wait(lock, ready);
      }
      if (!waiting_.empty()) {
        work = std::move(waiting_.front());
        waiting_.pop_front();
      } else if (ending_) {
        return;
      }
    }
    try {
      if (work) {
        work(crew);
      } else if (options_.idle) {
        options_.idle(crew);
      }
    } catch (const std::exception& error) {
      // Nobody is left to tell but the log; the next one may do better.
      if (options_.note) options_.note(error.what());
    }
  }
}

}  // namespace contcore
