// The vectors of an index on a GPU, and the search in them. The answers are the processor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/nearest.h"
#include "contcore/progress.h"
#include "contcore/vectors.h"

namespace contcore {

/// A vector of an index; a view of one row.
struct HeldVector {
  std::int64_t id;
  VectorView row;
};

/// A copy of vectors on one GPU. Many threads may search at once, while nothing is changed.
class GpuVectors {
 public:
  virtual ~GpuVectors() = default;

  /// Copies more vectors; their ids increase, and are above all that came before. Throws
  /// GpuMemoryError where there is not enough: it is of no use then.
  virtual void append(const std::vector<HeldVector>& held, Compute& compute) = 0;
  virtual void drop(const std::vector<std::int64_t>& ids) = 0;

  /// Vectors, and places of those that were dropped.
  virtual std::size_t slots() const = 0;

  /// As NearestIndex::search does it, on `gpu`, which is the same GPU. Throws GpuError, mostly
  /// before it has reported any progress.
  virtual NearestResult search(Gpu& gpu, VectorView queries, std::size_t k, Compute& compute,
                               const std::string& name, const Progress& progress) const = 0;
};

/// For vectors of d numbers. `centre` is a point among vectors of floats: d floats that stay where
/// they are.
std::unique_ptr<GpuVectors> make_gpu_vectors(int device, std::size_t d, Scalar kind,
                                             const float* centre);

/// Whether a GPU can do a search, and does it sooner than the processor.
bool pays_on_gpu(std::size_t queries, std::size_t vectors, std::size_t d, Scalar kind,
                 std::size_t k);

/// For tests: even the smallest search is done on the GPU if there is one.
void force_gpu_search(bool force);

}  // namespace contcore
