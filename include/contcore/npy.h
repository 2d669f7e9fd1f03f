// NumPy's .npy files: vectors mapped in, results written out.
//
//   "\x93NUMPY"  major minor  header length (2 bytes LE in version 1, 4 in 2 and 3)
//   {'descr': '<f4', 'fortran_order': False, 'shape': (rows, cols), }   padded with spaces, "\n"
//   rows × cols numbers, row after row
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "contcore/vectors.h"

namespace contcore {

/// A .npy file of vectors, mapped into memory read-only: nothing is read before it is needed, and
/// the file may be larger than memory. Takes C-ordered float32 or float16, little endian, or uint8,
/// of two dimensions. Movable, not copyable.
class NpyVectors {
 public:
  NpyVectors() = default;
  /// Throws Error (kInput) naming the file and what is wrong with it. The header is believed only
  /// as far as the file's size bears it out.
  explicit NpyVectors(const std::string& path);
  ~NpyVectors();
  NpyVectors(NpyVectors&& other) noexcept;
  NpyVectors& operator=(NpyVectors&& other) noexcept;

  /// The vectors, valid as long as this object.
  const VectorView& view() const { return view_; }

 private:
  void* mapped_ = nullptr;
  std::size_t bytes_ = 0;
  VectorView view_;
};

/// Write an array of one dimension, or of two (rows × cols, row after row), as .npy version 1. The
/// file appears whole or not at all: it is written beside its place, flushed and renamed. Throws
/// Error (kInput) naming the file and the reason.
void write_npy(const std::string& path, std::span<const float> values);
void write_npy(const std::string& path, std::span<const std::int64_t> values);
void write_npy(const std::string& path, std::span<const float> values, std::size_t cols);
void write_npy(const std::string& path, std::span<const std::int64_t> values, std::size_t cols);
void write_npy(const std::string& path, std::span<const std::uint8_t> values, std::size_t cols);

}  // namespace contcore
