// Where the work is done: handed in, never found.
#pragma once

#include <cstddef>

#include "contcore/threads.h"

namespace contcore {

/// What a call may compute with: today a crew of threads. A device would be held here too, so that
/// no signature changes with it. Not to be used by two calls at once.
class Compute {
 public:
  /// With `threads` threads, the caller included; 0: one for each core this process may run on.
  explicit Compute(std::size_t threads = 0) : threads_(threads) {}

  Threads& threads() { return threads_; }

 private:
  Threads threads_;
};

}  // namespace contcore
