#include "contcore/vectors.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "base/half.h"

namespace contcore {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kLarge = std::size_t{4} << 20;

}  // namespace

const float* VectorView::widen(std::size_t i, float* scratch) const {
  const auto* half = static_cast<const std::uint16_t*>(data) + i * cols;
  widen_half(half, cols, scratch);
  return scratch;
}

void Vectors::Free::operator()(float* p) const {
  if (mapped > 0) {
    ::munmap(p, mapped);
  } else {
    std::free(p);
  }
}

// Large blocks come zeroed from the kernel, page by page as they are touched; huge pages make that
// first touch some ten times cheaper.
Vectors::Vectors(std::size_t rows, std::size_t cols) : rows_(rows), cols_(cols) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 16;
  if (cols != 0 && rows > kMost / cols) throw std::bad_alloc();
  const std::size_t bytes = (rows * cols * sizeof(float) / kCacheLine + 1) * kCacheLine;
  if (bytes >= kLarge) {
    void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    ::madvise(p, bytes, MADV_HUGEPAGE);
    data_ = {static_cast<float*>(p), Free{bytes}};
  } else {
    void* p = std::aligned_alloc(kCacheLine, bytes);
    if (p == nullptr) throw std::bad_alloc();
    std::memset(p, 0, bytes);
    data_ = {static_cast<float*>(p), Free{}};
  }
}

}  // namespace contcore
