// Sets of vectors: a view that owns nothing, and an owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace contcore {

enum class Scalar { kFloat32, kFloat16 };

/// A read-only view of `rows` vectors of `cols` numbers, one after the other. Owns nothing: the
/// memory behind it (an array, a mapped file) must outlive it. Float16 values are widened when
/// read, so every computation is in float32.
struct VectorView {
  const void* data = nullptr;
  std::size_t rows = 0;
  std::size_t cols = 0;
  Scalar scalar = Scalar::kFloat32;

  VectorView() = default;
  VectorView(const float* values, std::size_t n, std::size_t d) : data(values), rows(n), cols(d) {}
  VectorView(const void* values, std::size_t n, std::size_t d, Scalar s)
      : data(values), rows(n), cols(d), scalar(s) {}

  /// Row i as float32. Float32 rows are returned in place and `scratch` is not touched; float16
  /// rows are widened into `scratch`, which must hold `cols` floats.
  const float* row(std::size_t i, float* scratch) const {
    if (scalar == Scalar::kFloat32) return static_cast<const float*>(data) + i * cols;
    return widen(i, scratch);
  }

  /// The n rows from `first` on, as a view of their own.
  VectorView part(std::size_t first, std::size_t n) const {
    const std::size_t bytes = cols * (scalar == Scalar::kFloat32 ? 4 : 2);
    return {static_cast<const char*>(data) + first * bytes, n, cols, scalar};
  }

 private:
  const float* widen(std::size_t i, float* scratch) const;
};

/// Owns `rows` × `cols` float32, aligned to 64 bytes, zero at first. Movable, not copyable.
class Vectors {
 public:
  Vectors() = default;
  /// Throws std::bad_alloc when there is not enough memory, also when rows · cols overflows.
  Vectors(std::size_t rows, std::size_t cols);

  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  float* row(std::size_t i) { return data_.get() + i * cols_; }
  const float* row(std::size_t i) const { return data_.get() + i * cols_; }
  VectorView view() const { return {data_.get(), rows_, cols_}; }

 private:
  struct Free {
    std::size_t mapped;  // bytes to unmap; 0: allocated
    Free() noexcept : mapped(0) {}
    explicit Free(std::size_t bytes) noexcept : mapped(bytes) {}
    void operator()(float* p) const;
  };
  std::unique_ptr<float[], Free> data_;
  std::size_t rows_ = 0;
  std::size_t cols_ = 0;
};

}  // namespace contcore
