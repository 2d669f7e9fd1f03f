// Exact nearest neighbours in a set of vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/progress.h"
#include "contcore/vectors.h"

namespace contcore {

class VectorIndex;

/// The k nearest vectors of each query, nearest first: entry j of query i is at [i · k + j]. Where
/// the index holds fewer than k vectors, the rest is −1 at an infinite distance.
struct NearestResult {
  std::size_t k = 1;
  std::vector<float> distances;
  std::vector<std::int64_t> ids;
  std::uint64_t exact = 0;  ///< full distances that had to be computed, of queries × vectors
};

/// Finds, for each query, the vectors at the smallest canonical distance (contcore/distance.h),
/// ties going to the lowest id. The answer is brute force's to the last bit. Built once, searched
/// often, cheap to change. Holds vectors of bytes or of floats; what is added or searched for must
/// be of the same kind, or Error (kInput) is thrown.
class NearestIndex {
 public:
  /// An index of the vectors, whose ids are 0, 1, 2, … The vectors are not copied and must stay
  /// where they are as long as the index does. Throws Error (kInput) on values that are not finite
  /// (`name` is what the message calls them).
  NearestIndex(VectorView vectors, Compute& compute, const std::string& name = "memory");
  /// An index of some of them: the id of the vector in rows[i] is i. Throws Error (kUsage) on a row
  /// that is not there, as add() does.
  NearestIndex(VectorView vectors, const std::vector<std::uint32_t>& rows, Compute& compute);
  ~NearestIndex();
  NearestIndex(NearestIndex&&) noexcept;
  NearestIndex& operator=(NearestIndex&&) noexcept;

  /// How many vectors can be found.
  std::size_t size() const;
  std::size_t dimension() const;

  /// Adds vectors, which also must stay where they are; returns the id of the first, the others
  /// follow. Costs one sketch for each, whatever the size of the index; of bytes, all are laid out
  /// anew when half of them have changed.
  std::int64_t add(VectorView vectors, Compute& compute, const std::string& name = "vectors");
  /// Adds some of them, in the order of `rows`.
  std::int64_t add(VectorView vectors, const std::vector<std::uint32_t>& rows, Compute& compute);

  /// Removes vectors by id; the other ids stay as they are. Constant cost for each. Throws Error
  /// (kUsage) on an id that is not there or named twice, and then removes none.
  void drop(std::span<const std::int64_t> ids);

  /// Searches k ≥ 1 neighbours for each query. Safe to call from several threads at once, each with
  /// a Compute of its own.
  NearestResult search(VectorView queries, std::size_t k, Compute& compute,
                       const std::string& name = "queries", const Progress& progress = {}) const;

 private:
  std::unique_ptr<VectorIndex> index_;
};

}  // namespace contcore
