// Where the work is done: handed in, never found.
#pragma once

#include <cstddef>
#include <memory>

#include "contcore/device.h"
#include "contcore/threads.h"

namespace contcore {

class Gpu;  // src/device/gpu.h

/// What a call may compute with: a crew of threads, and a GPU where one is named. The answers are
/// the same either way. Not to be used by two calls at once.
class Compute {
 public:
  /// With `threads` threads, the caller included; 0: one for each core this process may run on.
  explicit Compute(std::size_t threads = 0, Device device = {});
  ~Compute();
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;

  Threads& threads() { return threads_; }
  /// Where the work is done: the device named, or the processor since a GPU failed.
  Device device() const;

  /// The GPU to be used beside the threads, taken when it is first asked for; nullptr: the
  /// processor does it all. Throws Error (kUsage) if it cannot be used, GpuMemoryError.
  Gpu* gpu();

 private:
  Threads threads_;
  Device device_;
  std::unique_ptr<Gpu> gpu_;
};

}  // namespace contcore
