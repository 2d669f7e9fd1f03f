// What a NearestIndex is made of: an index of vectors of one kind.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "contcore/compute.h"
#include "contcore/nearest.h"
#include "contcore/progress.h"
#include "contcore/vectors.h"
#include "coreset/nearest_gpu.h"

namespace contcore {

/// A neighbour that was found; the nearer is the smaller.
struct Neighbour {
  float distance;  // squared
  std::int64_t id;
  bool operator<(const Neighbour& other) const {
    return distance < other.distance || (distance == other.distance && id < other.id);
  }
};

/// Keeps the k smallest, sorted; says whether the candidate is one of them.
inline bool insert_neighbour(std::vector<Neighbour>& found, const Neighbour& candidate,
                             std::size_t k) {
  if (found.size() == k && !(candidate < found.back())) return false;
  found.insert(std::upper_bound(found.begin(), found.end(), candidate), candidate);
  if (found.size() > k) found.pop_back();
  return true;
}

/// Vectors stand at places; this knows the place of each id.
class VectorIndex {
 public:
  static constexpr std::int64_t kFree = -1;  ///< the id at a place without a vector

  VectorIndex(VectorView vectors, Scalar kind) : d_(vectors.cols), kind_(kind) {}
  virtual ~VectorIndex() = default;
  VectorIndex(const VectorIndex&) = delete;
  VectorIndex& operator=(const VectorIndex&) = delete;

  std::size_t dimension() const { return d_; }
  virtual std::size_t size() const = 0;
  virtual NearestResult search(VectorView queries, std::size_t k, Compute& compute,
                               const std::string& name, const Progress& progress) const = 0;
  /// The same on a GPU; nothing if there is none, it would take longer, or its memory is full. The
  /// vectors are copied there by the first search, and what has changed since by the others.
  std::optional<NearestResult> search_on_gpu(VectorView queries, std::size_t k, Compute& compute,
                                             const std::string& name,
                                             const Progress& progress) const;

  /// Throw as NearestIndex does.
  std::int64_t add(VectorView vectors, Compute& compute, const std::string& name);
  void drop(std::span<const std::int64_t> ids);
  /// `holder` is what the message calls the index.
  void check(const VectorView& vectors, const std::string& name, const char* holder) const;

  /// The vectors with ids from `first` on are elsewhere.
  void relocate(const VectorView& vectors, const std::vector<std::uint32_t>& rows,
                std::int64_t first);

 protected:
  virtual std::size_t places() const = 0;
  virtual std::int64_t id_at(std::size_t place) const = 0;
  virtual VectorView vector_at(std::size_t place) const = 0;
  /// A point among vectors of floats.
  virtual const float* centre() const = 0;
  /// Puts vectors at places and calls know_place() for each; all of them, or it throws.
  virtual void put(const VectorView& vectors, std::int64_t first_id, Compute& compute,
                   const std::string& name) = 0;
  virtual void clear(std::uint32_t place) = 0;
  virtual void move(std::uint32_t place, const VectorView& to) = 0;

  void know_place(std::int64_t id, std::uint32_t place) {
    if (places_known_) place_of_[id] = place;
  }
  /// All places will change.
  void forget_places();

  std::int64_t next_id_ = 0;

 private:
  /// The vectors on one GPU, as they were when it was asked last.
  struct Mirror {
    int device;
    std::int64_t next_id = 0;           // it knows of those before
    std::vector<std::int64_t> dropped;  // of those, since
    std::unique_ptr<GpuVectors> vectors;
  };

  void know_places();
  const GpuVectors& mirror(int device, Compute& compute) const;
  void bring_up_to_date(Mirror& mirror, Compute& compute) const;
  std::vector<HeldVector> held_from(std::int64_t first_id) const;

  std::size_t d_;
  Scalar kind_;
  // Made when something changes for the first time.
  std::unordered_map<std::int64_t, std::uint32_t> place_of_;
  bool places_known_ = false;
  mutable std::mutex mirrors_mutex_;
  mutable std::vector<Mirror> mirrors_;
};

/// An index of bytes (coreset/byte_index.cc).
std::unique_ptr<VectorIndex> make_byte_index(VectorView vectors, Compute& compute);

}  // namespace contcore
