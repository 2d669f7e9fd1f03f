#include "contcore/vectors.h"

#include <sys/mman.h>

#include <algorithm>
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
  if (scalar == Scalar::kFloat16) {
    widen_half(static_cast<const std::uint16_t*>(data) + i * cols, cols, scratch);
  } else {
    std::copy_n(byte_row(i), cols, scratch);
  }
  return scratch;
}

void Vectors::Free::operator()(void* p) const {
  if (mapped > 0) {
    ::munmap(p, mapped);
  } else {
    std::free(p);
  }
}

// Large blocks come zeroed from the kernel, page by page as they are touched; huge pages make that
// first touch some ten times cheaper.
Vectors::Vectors(std::size_t rows, std::size_t cols, Scalar scalar)
    : rows_(rows), cols_(cols), scalar_(scalar) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 16;
  if (cols != 0 && rows > kMost / cols) throw std::bad_alloc();
  const std::size_t bytes = (rows * cols * bytes_of(scalar) / kCacheLine + 1) * kCacheLine;
  if (bytes >= kLarge) {
    void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    ::madvise(p, bytes, MADV_HUGEPAGE);
    data_ = {p, Free{bytes}};
  } else {
    void* p = std::aligned_alloc(kCacheLine, bytes);
    if (p == nullptr) throw std::bad_alloc();
    std::memset(p, 0, bytes);
    data_ = {p, Free{}};
  }
}

void Vectors::set_rows(std::size_t i, VectorView from) {
  if (from.rows == 0) return;
  if (from.scalar == scalar_) {
    const std::size_t row_bytes = cols_ * bytes_of(scalar_);
    std::memcpy(static_cast<char*>(data_.get()) + i * row_bytes, from.data, from.bytes());
    return;
  }
  for (std::size_t j = 0; j < from.rows; ++j) from.row(j, row(i + j));
}

}  // namespace contcore
