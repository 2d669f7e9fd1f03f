// Replaces the global `new` of the tests. The arrays' forms end here too; the aligned ones do not
// and are always granted, as are those who can do without. A sanitizer watches malloc() behind it.
#include "base/scarce.h"

#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t left = 0;

bool granted() { return left == 0 || --left > 0; }

}  // namespace

namespace contcore::scarce {

void fail_allocation(std::size_t n) { left = n; }

}  // namespace contcore::scarce

void* operator new(std::size_t bytes) {
  void* place = granted() ? std::malloc(bytes == 0 ? 1 : bytes) : nullptr;
  if (place == nullptr) throw std::bad_alloc();
  return place;
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* place) noexcept { std::free(place); }
void operator delete(void* place, std::size_t) noexcept { std::free(place); }
void operator delete(void* place, const std::nothrow_t&) noexcept { std::free(place); }
