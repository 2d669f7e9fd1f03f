// How Python calls the library: threads from a pool, the GIL released, Ctrl-C and a callback for
// progress looked at now and then.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>

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

/// What a call computes with. Python says it as a tuple of the threads (0: all cores) and the
/// device's name.
struct Where {
  std::size_t threads = 0;
  Device device;
};

/// As find_gpus, none in a process that was forked from one with a GPU.
Gpus known_gpus();

/// As Device::parse, asked once for each name. In a process that was forked from one with a GPU,
/// which cannot use any, "auto" is the processor.
Device device_named(const std::string& name);

/// A Compute from a pool, which gets it back.
class PooledCompute {
 public:
  explicit PooledCompute(const Where& where);
  ~PooledCompute();
  PooledCompute(const PooledCompute&) = delete;
  PooledCompute& operator=(const PooledCompute&) = delete;
  Compute& operator*() { return *compute_; }

 private:
  Where where_;
  std::unique_ptr<Compute> compute_;
};

/// When Python ends, before the libraries below do: stops what other threads still compute, and
/// waits for it a while.
void end_calls();

/// To be called before a network runs. A process that was forked from one whose network has run
/// cannot run it: OpenMP's threads are gone, and it would wait for them for ever. Throws Error
/// (kUsage) there.
void network_runs();

/// Calls work(compute, progress) without the GIL. What the callback threw comes out also when the
/// work was done before it could be stopped.
template <typename Work>
auto call(const Where& where, const py::object& callback, const Work& work) {
  Watch watch(callback);
  PooledCompute compute(where);
  const auto run = [&] {
    const WithoutGil release;
    return work(*compute, watch.progress());
  };
  try {
    if constexpr (std::is_void_v<decltype(run())>) {
      run();
      watch.rethrow();
    } else {
      auto result = run();
      watch.rethrow();
      return result;
    }
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

namespace pybind11::detail {

template <>
struct type_caster<contcore::python::Where> {
  PYBIND11_TYPE_CASTER(contcore::python::Where, const_name("Tuple[int, str]"));
  bool load(handle from, bool /*convert*/) {
    if (!isinstance<tuple>(from) || len(from) != 2) return false;
    const auto both = reinterpret_borrow<tuple>(from);
    value.threads = both[0].cast<std::size_t>();
    value.device = contcore::python::device_named(both[1].cast<std::string>());
    return true;
  }
};

}  // namespace pybind11::detail
