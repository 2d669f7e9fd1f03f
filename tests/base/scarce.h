// Memory that runs out when a test says so.
#pragma once

#include <cstddef>

namespace contcore::scarce {

/// From now on, the n-th `new` of this thread throws std::bad_alloc (1: the next one), and those
/// after it are granted again. 0: none does.
void fail_allocation(std::size_t n);

/// The same until it goes.
struct Failing {
  explicit Failing(std::size_t n) { fail_allocation(n); }
  ~Failing() { fail_allocation(0); }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;
};

}  // namespace contcore::scarce
