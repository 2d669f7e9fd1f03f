// Sets of vectors: a view that owns nothing, and an owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace contcore {

enum class Scalar { kFloat32, kFloat16, kUint8 };

/// Bytes of one number.
inline constexpr std::size_t bytes_of(Scalar scalar) {
  return scalar == Scalar::kFloat32 ? 4 : scalar == Scalar::kFloat16 ? 2 : 1;
}

/// A read-only view of `rows` vectors of `cols` numbers, one after the other. Owns nothing: the
/// memory behind it (an array, a mapped file) must outlive it. Float16 values are widened when
/// read, so every computation is in float32; those of bytes are computed with as they are.
struct VectorView {
  const void* data = nullptr;
  std::size_t rows = 0;
  std::size_t cols = 0;
  Scalar scalar = Scalar::kFloat32;

  VectorView() = default;
  VectorView(const float* values, std::size_t n, std::size_t d) : data(values), rows(n), cols(d) {}
  VectorView(const void* values, std::size_t n, std::size_t d, Scalar s)
      : data(values), rows(n), cols(d), scalar(s) {}

  /// Row i as float32. Float32 rows are returned in place and `scratch` is not touched; others are
  /// widened into `scratch`, which must hold `cols` floats.
  const float* row(std::size_t i, float* scratch) const {
    if (scalar == Scalar::kFloat32) return static_cast<const float*>(data) + i * cols;
    return widen(i, scratch);
  }

  /// Row i of a view of bytes.
  const std::uint8_t* byte_row(std::size_t i) const {
    return static_cast<const std::uint8_t*>(data) + i * cols;
  }

  /// The n rows from `first` on, as a view of their own.
  VectorView part(std::size_t first, std::size_t n) const {
    return {static_cast<const char*>(data) + first * cols * bytes_of(scalar), n, cols, scalar};
  }

  /// Of all rows.
  std::size_t bytes() const { return rows * cols * bytes_of(scalar); }

 private:
  const float* widen(std::size_t i, float* scratch) const;
};

/// Owns `rows` × `cols` numbers, float32 or bytes, aligned to 64 bytes, zero at first. Movable, not
/// copyable.
class Vectors {
 public:
  Vectors() = default;
  /// Throws std::bad_alloc when there is not enough memory, also when rows · cols overflows. There
  /// are none of float16.
  Vectors(std::size_t rows, std::size_t cols, Scalar scalar = Scalar::kFloat32);

  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  Scalar scalar() const { return scalar_; }

  // Of float32.
  float* data() { return static_cast<float*>(data_.get()); }
  const float* data() const { return static_cast<const float*>(data_.get()); }
  float* row(std::size_t i) { return data() + i * cols_; }
  const float* row(std::size_t i) const { return data() + i * cols_; }

  // Of bytes.
  std::uint8_t* byte_data() { return static_cast<std::uint8_t*>(data_.get()); }
  const std::uint8_t* byte_data() const { return static_cast<const std::uint8_t*>(data_.get()); }
  std::uint8_t* byte_row(std::size_t i) { return byte_data() + i * cols_; }
  const std::uint8_t* byte_row(std::size_t i) const { return byte_data() + i * cols_; }

  /// The rows of `from`, which has as many columns, become the rows from i on. Of the same kind, or
  /// float16 to be widened.
  void set_rows(std::size_t i, VectorView from);

  VectorView view() const { return {data_.get(), rows_, cols_, scalar_}; }

 private:
  struct Free {
    std::size_t mapped;  // bytes to unmap; 0: allocated
    Free() noexcept : mapped(0) {}
    explicit Free(std::size_t bytes) noexcept : mapped(bytes) {}
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Free> data_;
  std::size_t rows_ = 0;
  std::size_t cols_ = 0;
  Scalar scalar_ = Scalar::kFloat32;
};

}  // namespace contcore
