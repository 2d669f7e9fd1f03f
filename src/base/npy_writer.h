// Vectors written to an .npy file one after the other.
#pragma once

#include <cstddef>

#include "contcore/vectors.h"

namespace contcore {

/// How many there are is told at the end: until finish() the file is not an .npy file. The
/// descriptor stays the caller's. False with errno set on failure.
class NpyWriter {
 public:
  NpyWriter(int fd, std::size_t cols, Scalar scalar) : fd_(fd), cols_(cols), scalar_(scalar) {}

  bool append(VectorView rows);
  bool finish();

  std::size_t rows() const { return rows_; }
  std::size_t bytes() const;  ///< of the file

 private:
  int fd_;
  std::size_t cols_;
  Scalar scalar_;
  std::size_t rows_ = 0;
};

}  // namespace contcore
