// How Python calls the library: threads from a pool, the GIL released, Ctrl-C and a callback for
// progress looked at now and then.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>

#include "contcore/compute.h"
#include "contcore/error.h"
#include "contcore/progress.h"

namespace contcore::python {

namespace py = pybind11;

/// Lets go of the GIL for as long as it is there; takes it back when it goes.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// Takes the GIL for as long as it is there, on any thread.
class WithGil {
 public:
  WithGil();
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Asks a Python callable with the part done, a few times a second, whether to go on (it returns
/// False to stop), and whether Ctrl-C was pressed.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;

  /// None: nobody is told.
  explicit Watch(py::object callback) : callback_(std::move(callback)) {}

  /// For a call that was made without the GIL. This object must outlive it.
  Progress progress() {
    return [this](double done) { return update(done); };
  }
  /// Throws what the callback threw or Ctrl-C raised, if anything. With the GIL.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  bool update(double done);

  py::object callback_;
  Clock::time_point asked_ = Clock::now();
  std::exception_ptr failure_;
  bool stopped_ = false;
};

/// A Compute of so many threads (0: all cores) from a pool, which gets it back.
class PooledCompute {
 public:
  explicit PooledCompute(std::size_t threads);
  ~PooledCompute();
  PooledCompute(const PooledCompute&) = delete;
  PooledCompute& operator=(const PooledCompute&) = delete;
  Compute& operator*() { return *compute_; }

 private:
  std::size_t threads_;
  std::unique_ptr<Compute> compute_;
};

/// When Python ends, before the libraries below do: stops what other threads still compute, and
/// waits for it a while.
void end_calls();

/// To be called before a network runs. A process that was forked from one whose network has run
/// cannot run it: OpenMP's threads are gone, and it would wait for them for ever. Throws Error
/// (kUsage) there.
void network_runs();

/// Calls work(compute, progress) without the GIL.
template <typename Work>
auto call(std::size_t threads, const py::object& callback, const Work& work) {
  Watch watch(callback);
  PooledCompute compute(threads);
  try {
    const WithoutGil release;
    return work(*compute, watch.progress());
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kCancelled) watch.rethrow();
    throw;
  }
}

/// Calls work() without the GIL: for what may have to wait for another thread.
template <typename Work>
auto unlocked(const Work& work) {
  const WithoutGil release;
  return work();
}

}  // namespace contcore::python
