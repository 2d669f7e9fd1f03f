// Threads that do what is handed to them, in the order it came, with a bound on what waits.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "contcore/compute.h"

namespace contcore {

class Executor {
 public:
  using Work = std::function<void(Compute&)>;

  struct Options {
    std::size_t threads = 1;
    std::size_t crew = 1;   ///< of each thread, for the work to use; 0: one for each core
    Device device;          ///< of each thread
    std::size_t most = 64;  ///< that may wait
    int nice = 0;           ///< how far the threads stand back behind others, 0 to 19
    /// Called by a single thread when there has been nothing to do for a while.
    std::function<void(Compute&)> idle;
    double idle_seconds = 0.2;
    /// Told what work threw, which it must not.
    std::function<void(const std::string&)> note;
  };
  explicit Executor(const Options& options);
  /// As finish().
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// False when too much waits already, or all is to end. Work must not throw.
  bool submit(Work work);

  std::size_t waiting() const;
  std::size_t most() const { return options_.most; }

  /// Takes no more, does what waits, and ends the threads.
  void finish();

 private:
  void run();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Work> waiting_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace contcore
