// Some vectors, wherever they lie, to be measured together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contcore/vectors.h"
#include "coreset/kernels.h"

namespace contcore {

/// Rows of views of one dimension, all of bytes or none; float16 is widened.
class RowBatch {
 public:
  /// Empties it, for `most` vectors of d numbers at the most.
  void reset(std::size_t d, std::size_t most) {
    d_ = d;
    most_ = most;
    floats_.clear();
    bytes_.clear();
  }

  void add(const VectorView& from, std::size_t i) {
    if (from.scalar == Scalar::kUint8) {
      bytes_.push_back(from.byte_row(i));
      return;
    }
    float* room = nullptr;  // float32 needs none
    if (from.scalar == Scalar::kFloat16) {
      widened_.resize(most_ * d_);
      room = widened_.data() + floats_.size() * d_;
    }
    floats_.push_back(from.row(i, room));
  }

  std::size_t size() const { return floats_.size() + bytes_.size(); }

  /// Canonical squared distances to all of b: out[i * b.size() + j].
  void measure(const RowBatch& b, float* out) const {
    if (!bytes_.empty()) {
      kernels::squared_distances(bytes_.data(), size(), b.bytes_.data(), b.size(), d_, out);
    } else {
      kernels::squared_distances(floats_.data(), size(), b.floats_.data(), b.size(), d_, out);
    }
  }

 private:
  std::size_t d_ = 0;
  std::size_t most_ = 0;
  std::vector<const float*> floats_;
  std::vector<const std::uint8_t*> bytes_;
  std::vector<float> widened_;
};

}  // namespace contcore
