// The k nearest of each query, given a bound on each group of vectors.
//
// A block of four warps has one query. The k groups of the least bounds are measured first, which
// gives a distance that excludes nearly all others; the rest is measured, a quarter of a group for
// each warp. A group is excluded if its bound, at its first place, would be behind the k-th best.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coreset/nearest_list.cuh"

namespace contcore::nearest_gpu {

constexpr int kWarps = 4;
constexpr int kSelectThreads = kWarps * kLanes;
constexpr int kListed = 1024;  // groups that are looked at together

template <typename Kind>
class Selection {
 public:
  __device__ Selection(const Kind& kind, std::uint32_t groups, int k)
      : kind_(kind), groups_(groups), k_(k), found_(k), guess_(k) {}

  __device__ void run() {
    if (threadIdx.x == 0) shared().bar = kNoKey;
    guess();
    for (int j = 0; j < k_; ++j) {
      const Key key = guess_.at(j);
      if (key == kNoKey) break;
      measure(place_of(key));
    }
    merge();
    for (std::uint32_t first = 0; first < groups_; first += kListed) look_into(first);
  }

  /// Of the first warp.
  __device__ Key found() const { return found_.key(); }
  /// How many vectors this warp has measured.
  __device__ unsigned measured() const { return measured_; }

 private:
  struct Shared {
    Key list[kListed];
    Key lists[kWarps][kLanes];
    Key bar;  // what is not before it is none of the k nearest
    int listed;
  };
  __device__ static Shared& shared() {
    __shared__ Shared of_block;
    return of_block;
  }

  /// A group with its bound; none if it has no vectors.
  __device__ Key group(std::uint32_t g) const {
    const float bound = kind_.bound(blockIdx.x, g);
    return bound < __int_as_float(0x7f800000) ? key_of(bound, g) : kNoKey;
  }
  /// No vector of the group has a lower key.
  __device__ static Key least(Key group) {
    return key_of(distance_of(group), Kind::first_of(place_of(group)));
  }

  // The same in all warps.
  __device__ void guess() {
    WarpList mine(k_);
    for (std::uint32_t first = 0; first < groups_; first += kSelectThreads) {
      const std::uint32_t g = first + threadIdx.x;
      mine.offer(g < groups_ ? group(g) : kNoKey);
    }
    shared().lists[warp()][lane()] = mine.key();
    __syncthreads();
    for (int w = 0; w < kWarps; ++w) {
      guess_.offer(lane() < k_ ? shared().lists[w][lane()] : kNoKey);
    }
    __syncthreads();
  }

  __device__ void measure(std::uint32_t g) {
    const Key key = kind_.measure(blockIdx.x, g, warp(), lane(), &measured_);
    found_.offer(key < bar() ? key : kNoKey);
    const Key last = found_.last();
    if (lane() == 0 && last < bar()) atomicMin(&shared().bar, last);
  }

  // The first warp takes what all have found.
  __device__ void merge() {
    shared().lists[warp()][lane()] = found_.key();
    __syncthreads();
    if (warp() != 0) {
      found_.clear();
    } else {
      for (int w = 1; w < kWarps; ++w) {
        found_.offer(lane() < k_ ? shared().lists[w][lane()] : kNoKey);
      }
      const Key last = found_.last();
      if (lane() == 0 && last < bar()) atomicMin(&shared().bar, last);
    }
    __syncthreads();
  }

  // Measures what may be near of kListed groups and was not guessed.
  __device__ void look_into(std::uint32_t first) {
    if (threadIdx.x == 0) shared().listed = 0;
    const Key guessed = guess_.last();
    __syncthreads();
    const std::uint32_t end = min(groups_, first + kListed);
    for (std::uint32_t g = first + threadIdx.x; g < end; g += kSelectThreads) {
      const Key key = group(g);
      if (key == kNoKey || key <= guessed || least(key) >= bar()) continue;
      shared().list[atomicAdd(&shared().listed, 1)] = key;
    }
    __syncthreads();
    const int listed = shared().listed;
    for (int i = 0; i < listed; ++i) {
      const Key key = shared().list[i];
      const bool near = __shfl_sync(kAll, least(key) < bar(), 0);
      if (near) measure(place_of(key));
    }
    if (listed > 0) merge();
    __syncthreads();
  }

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / kLanes; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  __device__ static Key bar() { return *static_cast<volatile Key*>(&shared().bar); }

  const Kind& kind_;
  std::uint32_t groups_;
  int k_;
  WarpList found_, guess_;
  unsigned measured_ = 0;
};

/// keys[i · k + j], and how many vectors were measured in all.
template <typename Kind>
__global__ void __launch_bounds__(kSelectThreads)
    select(Kind kind, std::uint32_t groups, int k, Key* keys, Key* measured) {
  Selection<Kind> selection(kind, groups, k);
  selection.run();
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (threadIdx.x < static_cast<unsigned>(k)) {
    keys[static_cast<std::size_t>(blockIdx.x) * k + threadIdx.x] = selection.found();
  }
  if (lane == 0) atomicAdd(measured, Key{selection.measured()});
}

}  // namespace contcore::nearest_gpu
