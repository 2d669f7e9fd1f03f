// The features of a task while it is learned: in memory, or in a file when they are too many.
#pragma once

#include <cstddef>
#include <string>

#include "contcore/vectors.h"

namespace contcore {

/// Rows are appended, then looked at as one set of vectors. Up to `memory` bytes they stay in
/// memory; beyond, all of them move to a nameless file in $TMPDIR (or /var/tmp), which is gone when
/// this object or the process is.
class FeatureStore {
 public:
  FeatureStore(std::size_t dimension, std::size_t memory);
  ~FeatureStore();
  FeatureStore(const FeatureStore&) = delete;
  FeatureStore& operator=(const FeatureStore&) = delete;

  /// Throws Error (kInput) naming the folder when its disk is full.
  void append(const float* rows, std::size_t count);

  std::size_t rows() const { return rows_; }
  bool on_disk() const { return fd_ >= 0; }

  /// All rows. Valid until more are appended. Those on disk are mapped: their pages are the
  /// kernel's to take back.
  VectorView view();

 private:
  void move_to_disk();
  void write(const void* data, std::size_t bytes, std::size_t at);

  std::size_t dimension_;
  std::size_t room_;  // bytes of memory_
  void* memory_ = nullptr;
  std::size_t rows_ = 0;
  std::string folder_;
  int fd_ = -1;
  void* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
};

}  // namespace contcore
