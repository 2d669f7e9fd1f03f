// What a memory holds, apart from its calibration: vectors and the record of each task. The rules
// (memory/rule.h) make it and change it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "contcore/memory.h"
#include "memory/vector_store.h"

namespace contcore {

struct Contents {
  Contents(std::size_t dimension, std::size_t m, Scalar scalar)
      : capacity(m), store(dimension, scalar) {}
  /// None yet, of the same kind as another's.
  explicit Contents(const VectorStore& like, std::size_t m)
      : Contents(like.dimension(), m, like.scalar()) {}

  std::size_t capacity;
  /// Whether any prefix of the order is a greedy coreset (paper).
  bool greedy_order = false;
  std::vector<TaskRecord> tasks;
  VectorStore store;

  /// A task's number; one that is not there is added.
  std::int32_t add_task(const std::string& name);
};

/// Where an exception ends the life of this, the contents are again what they were at its
/// beginning. Meanwhile vectors may be added and removed; the slots are not given anew.
class Transaction {
 public:
  explicit Transaction(Contents& contents);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

 private:
  Contents& contents_;
  int exceptions_;
  bool greedy_order_;
  std::vector<TaskRecord> tasks_;
  VectorStore::Columns columns_;
};

/// How many vectors each task has.
std::vector<std::size_t> vectors_of_tasks(const Contents& contents);

/// ⌊p·rows⌋, at least one.
std::size_t picks_of(double p, std::size_t rows);

/// Hands the distances of an image to LearnHow::before, given their squares.
void report_distances(const LearnHow& how, std::vector<float> squared);

/// Now, as TaskRecord::learned has it.
std::string utc_time();

/// Adds a learning to a task's record.
void remember(TaskRecord& record, const LearnHow& how, std::size_t patches, std::size_t picked,
              float epsilon, float epsilon_hat);

/// A bound on a sum of canonical distances in `dimension` numbers, with their rounding and this
/// one's covered.
float bound(double distance, std::size_t dimension);

/// A vector with slack `from` is dropped, at a canonical squared distance from the one in slot
/// `to`, which stands for it.
void pass_slack(VectorStore& store, float from, float squared, std::uint32_t to);

/// Throws Error (kInput) if a vector is so far from 0 that its squared distance to another one may
/// overflow: it could not be searched for in a memory, whatever else that holds.
void check_reach(const float* vector, std::size_t dimension, const std::string& name);
void check_reach(VectorView vectors, const std::string& name);  // all of them
template <typename Indices>
void check_reach(VectorView vectors, const Indices& rows, const std::string& name) {
  if (vectors.scalar == Scalar::kUint8) return;  // bytes never are
  std::vector<float> scratch(vectors.cols);
  for (const auto i : rows) {
    check_reach(vectors.row(static_cast<std::size_t>(i), scratch.data()), vectors.cols, name);
  }
}

}  // namespace contcore
