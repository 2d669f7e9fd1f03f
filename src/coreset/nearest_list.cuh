// The k smallest of what a warp is offered.
#pragma once

#include <cstdint>

namespace contcore::nearest_gpu {

constexpr unsigned kAll = 0xffffffffu;  // lanes
constexpr int kLanes = 32;

/// What is ordered: a distance, which is not negative, and the place it was found at, the lower
/// first of those equally near.
using Key = unsigned long long;
constexpr Key kNoKey = ~Key{0};
__device__ inline Key key_of(float distance, std::uint32_t place) {
  return Key{__float_as_uint(distance)} << 32 | place;
}
__device__ inline float distance_of(Key key) {
  return __uint_as_float(static_cast<unsigned>(key >> 32));
}
__device__ inline std::uint32_t place_of(Key key) { return static_cast<std::uint32_t>(key); }

/// Lane j holds the j-th smallest; all lanes call everything.
class WarpList {
 public:
  /// k ≤ kLanes.
  __device__ explicit WarpList(int k) : k_(k) {}

  __device__ Key key() const { return key_; }
  __device__ Key at(int j) const { return __shfl_sync(kAll, key_, j); }
  __device__ Key last() const { return last_; }
  __device__ void clear() { key_ = last_ = kNoKey; }

  /// Each lane offers a key of its own; kNoKey is none. The smallest is taken first, so that no
  /// more than k are.
  __device__ void offer(Key candidate) {
    while (__any_sync(kAll, candidate < last_)) {
      const unsigned high = static_cast<unsigned>(candidate >> 32);
      const unsigned least = __reduce_min_sync(kAll, high);
      const unsigned low = high == least ? static_cast<unsigned>(candidate) : ~0u;
      const Key one = Key{least} << 32 | __reduce_min_sync(kAll, low);
      if (candidate == one) candidate = kNoKey;
      insert(one);
    }
  }

 private:
  __device__ void insert(Key one) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const int at = __popc(__ballot_sync(kAll, key_ < one));
    const Key before = __shfl_up_sync(kAll, key_, 1);
    if (lane == at) key_ = one;
    if (lane > at) key_ = before;
    last_ = __shfl_sync(kAll, key_, k_ - 1);
  }

  Key key_ = kNoKey;
  Key last_ = kNoKey;
  int k_;
};

}  // namespace contcore::nearest_gpu
