// The features of a task while it is learned: in memory, or in a file when they are too many.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "contcore/vectors.h"

namespace contcore {

/// What several stores together may take, in bytes. For any thread.
class FeatureRoom {
 public:
  FeatureRoom(std::size_t memory, std::size_t disk) : memory_(memory), disk_(disk) {}

  /// False when there is not as much left.
  bool take_memory(std::size_t bytes);
  /// Nor may they have more than half of what would be free in the folder without them.
  bool take_disk(std::size_t bytes, const std::string& folder);
  void give_back(std::size_t memory, std::size_t disk);

  std::size_t memory_taken() const;
  std::size_t disk_taken() const;

 private:
  mutable std::mutex mutex_;
  const std::size_t memory_;
  const std::size_t disk_;
  std::size_t memory_taken_ = 0;
  std::size_t disk_taken_ = 0;
};

/// Rows are appended, of one kind (float32 or bytes), then looked at as one set of vectors. Up to
/// `memory` bytes they stay in memory; beyond, all of them move to a nameless file in $TMPDIR (or
/// /var/tmp), which is gone when this object or the process is. A room that is shared with others
/// bounds both.
class FeatureStore {
 public:
  FeatureStore(std::size_t dimension, std::size_t memory,
               std::shared_ptr<FeatureRoom> shared = nullptr);
  ~FeatureStore();
  FeatureStore(const FeatureStore&) = delete;
  FeatureStore& operator=(const FeatureStore&) = delete;

  /// Throws Error (kInput) naming the folder when its disk is full, or the room on it.
  void append(VectorView rows);

  std::size_t rows() const { return rows_; }
  bool on_disk() const { return fd_ >= 0; }

  /// All rows. Valid until more are appended. Those on disk are mapped: their pages are the
  /// kernel's to take back.
  VectorView view();

 private:
  bool fits(std::size_t bytes);
  void move_to_disk();
  void take_disk(std::size_t bytes);
  void write(const void* data, std::size_t bytes, std::size_t at);

  std::size_t bytes() const { return rows_ * dimension_ * bytes_of(scalar_); }

  std::size_t dimension_;
  Scalar scalar_ = Scalar::kFloat32;  // of the first rows
  std::size_t room_;                  // bytes of memory_
  void* memory_ = nullptr;
  std::size_t rows_ = 0;
  std::string folder_;
  int fd_ = -1;
  void* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::shared_ptr<FeatureRoom> shared_;
  std::size_t memory_taken_ = 0;  // of what is shared
  std::size_t disk_taken_ = 0;
};

}  // namespace contcore
