// The k nearest of each query, given a bound on each group of vectors.
//
// A block of four warps has one query. The k groups of the least bounds are measured first, which
// gives a distance that excludes nearly all others: those whose bound, at their first place, would
// be behind the k-th best. If few are left, the block measures them, a quarter of a group for each
// warp. A query that has many left puts them into a queue, which all blocks of the next kernel
// share; a third one picks out the nearest. If the queue is full, the block does it all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coreset/nearest_list.cuh"

namespace contcore::nearest_gpu {

constexpr int kWarps = 4;
constexpr int kSelectThreads = kWarps * kLanes;
constexpr std::uint32_t kListed = 1024;  // groups that are looked at together
constexpr std::uint32_t kFew = 4;        // groups that are not worth queueing
constexpr int kTogether = 4;             // fours of bounds that a thread fetches at once

/// Groups that are left to be measured.
struct Queue {
  struct Pair {
    std::uint32_t query, group;
  };
  struct Job {
    std::uint32_t query, first, pairs;  // some in a row
  };
  static constexpr std::uint32_t kNobody = 0xffffffffu;  // a query

  unsigned* pairs_taken;  // may be more than there is room for
  unsigned* jobs_taken;
  Pair* pairs;
  Job* jobs;  // one for each query at most
  Key* keys;  // kMembers of each pair
  std::uint32_t room;
};

template <typename Kind>
class Selection {
 public:
  __device__ Selection(const Kind& kind, std::uint32_t groups, int k, const Queue& queue)
      : kind_(kind), queue_(queue), groups_(groups), k_(k), found_(k), guess_(k) {}

  __device__ void run() {
    if (threadIdx.x == 0) shared().bar = kNoKey;
    guess();
    for (int j = 0; j < k_; ++j) {
      const Key key = guess_.at(j);
      if (key == kNoKey) break;
      measure(place_of(key));
    }
    merge();
    const std::uint32_t left = list(0, groups_);
    if (left > kFew && enqueue(left)) return;
    if (left <= kListed) {
      measure_listed(left);
    } else {
      for (std::uint32_t first = 0; first < groups_; first += kListed) {
        measure_listed(list(first, min(groups_, first + kListed)));
      }
    }
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
    std::uint32_t listed;
    std::uint32_t from;  // in the queue
  };
  __device__ static Shared& shared() {
    __shared__ Shared of_block;
    return of_block;
  }

  /// A group with its bound; none if it has no vectors.
  __device__ static Key group(float bound, std::uint32_t g) {
    return bound < __int_as_float(0x7f800000) ? key_of(bound, g) : kNoKey;
  }
  /// No vector of the group has a lower key.
  __device__ static Key least(Key group) {
    return key_of(distance_of(group), Kind::first_of(place_of(group)));
  }

  // Calls use(key) for a warp's groups in [first, end), multiples of four, if one of them may have
  // a bound that is no more than limit(), which may be NaN for no limit.
  template <typename Limit, typename Use>
  __device__ void for_groups(std::uint32_t first, std::uint32_t end, Limit limit, Use use) const {
    constexpr std::uint32_t kStride = 4 * kSelectThreads;
    for (std::uint32_t at = first; at < end; at += kTogether * kStride) {
      const std::uint32_t mine = at + 4 * threadIdx.x;
      float4 bounds[kTogether];
      float lowest = __int_as_float(0x7f800000);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        bounds[i] = mine + i * kStride < end ? kind_.bounds(blockIdx.x, mine / 4 + i * kStride / 4)
                                             : float4{lowest, lowest, lowest, lowest};
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const float4& four = bounds[i];
        lowest = fminf(lowest, fminf(fminf(four.x, four.y), fminf(four.z, four.w)));
      }
      if (!__any_sync(kAll, !(lowest > limit()))) continue;
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const std::uint32_t g = mine + i * kStride;
        use(group(bounds[i].x, g));
        use(group(bounds[i].y, g + 1));
        use(group(bounds[i].z, g + 2));
        use(group(bounds[i].w, g + 3));
      }
    }
  }

  // The same in all warps.
  __device__ void guess() {
    WarpList mine(k_);
    for_groups(
        0, groups_, [&] { return distance_of(mine.last()); }, [&](Key key) { mine.offer(key); });
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
    if (lane() == 0 && found_.last() < bar()) atomicMin(&shared().bar, found_.last());
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
      if (lane() == 0 && found_.last() < bar()) atomicMin(&shared().bar, found_.last());
    }
    __syncthreads();
  }

  // Lists what may be near of [first, end) and was not guessed: as many as there is room for, but
  // returns how many there are.
  __device__ std::uint32_t list(std::uint32_t first, std::uint32_t end) {
    if (threadIdx.x == 0) shared().listed = 0;
    const Key guessed = guess_.last();
    const Key now = bar();
    __syncthreads();
    for_groups(
        first, end, [&] { return distance_of(now); },
        [&](Key key) {
          if (key == kNoKey || key <= guessed || least(key) >= now) return;
          const std::uint32_t at = atomicAdd(&shared().listed, 1);
          if (at < kListed) shared().list[at] = key;
        });
    __syncthreads();
    const std::uint32_t listed = shared().listed;
    __syncthreads();
    return listed;
  }

  __device__ void measure_listed(std::uint32_t listed) {
    for (std::uint32_t i = 0; i < listed; ++i) {
      const Key key = shared().list[i];
      const bool near = __shfl_sync(kAll, least(key) < bar(), 0);
      if (near) measure(place_of(key));
    }
    if (listed > 0) merge();
  }

  // Whether there was room; then somebody else measures what is left.
  __device__ bool enqueue(std::uint32_t left) {
    if (left > queue_.room) return false;  // so that what is taken never wraps around
    if (threadIdx.x == 0) shared().from = atomicAdd(queue_.pairs_taken, left);
    __syncthreads();
    std::uint32_t from = shared().from;
    if (from > queue_.room || left > queue_.room - from) {
      for (std::uint32_t i = from + threadIdx.x; i < queue_.room; i += kSelectThreads) {
        queue_.pairs[i] = {Queue::kNobody, 0};
      }
      return false;
    }
    if (threadIdx.x == 0) {
      queue_.jobs[atomicAdd(queue_.jobs_taken, 1)] = {blockIdx.x, from, left};
    }
    if (left <= kListed) {
      enqueue_listed(from, left);
      return true;
    }
    for (std::uint32_t first = 0; first < groups_; first += kListed) {
      const std::uint32_t listed = list(first, min(groups_, first + kListed));
      enqueue_listed(from, listed);
      from += listed;
      __syncthreads();
    }
    return true;
  }
  __device__ void enqueue_listed(std::uint32_t from, std::uint32_t listed) {
    for (std::uint32_t i = threadIdx.x; i < listed; i += kSelectThreads) {
      queue_.pairs[from + i] = {blockIdx.x, place_of(shared().list[i])};
    }
  }

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / kLanes; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  __device__ static Key bar() { return *static_cast<volatile Key*>(&shared().bar); }

  const Kind& kind_;
  const Queue& queue_;
  std::uint32_t groups_;
  int k_;
  WarpList found_, guess_;
  unsigned measured_ = 0;
};

/// keys[i · k + j], and how many vectors were measured in all.
template <typename Kind>
__global__ void __launch_bounds__(kSelectThreads, 6)
    select(Kind kind, std::uint32_t groups, int k, Queue queue, Key* keys, Key* measured) {
  Selection<Kind> selection(kind, groups, k, queue);
  selection.run();
  if (threadIdx.x < static_cast<unsigned>(k)) {
    keys[static_cast<std::size_t>(blockIdx.x) * k + threadIdx.x] = selection.found();
  }
  if (threadIdx.x % kLanes == 0) atomicAdd(measured, Key{selection.measured()});
}

/// Measures what is in the queue, a quarter of a group for a warp.
template <typename Kind>
__global__ void __launch_bounds__(kSelectThreads)
    measure_queue(Kind kind, int k, Queue queue, const Key* keys, Key* measured) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int quarter = static_cast<int>(threadIdx.x) / kLanes;
  const std::uint32_t taken = min(*queue.pairs_taken, queue.room);
  unsigned count = 0;
  for (std::uint32_t i = blockIdx.x; i < taken; i += gridDim.x) {
    const Queue::Pair pair = queue.pairs[i];
    if (pair.query == Queue::kNobody) continue;
    const Key key = kind.measure(pair.query, pair.group, quarter, lane, &count);
    const Key bar = keys[static_cast<std::size_t>(pair.query) * k + k - 1];
    const int member = Kind::member(quarter, lane);
    if (member >= 0) {
      queue.keys[std::size_t{i} * Kind::kMembers + member] = key < bar ? key : kNoKey;
    }
  }
  if (lane == 0 && count > 0) atomicAdd(measured, Key{count});
}

/// Picks out the nearest. A warp for each job.
template <typename Kind>
__global__ void __launch_bounds__(kSelectThreads) finish_queue(int k, Queue queue, Key* keys) {
  const auto lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::uint32_t jobs = *queue.jobs_taken;
  for (std::uint32_t i = blockIdx.x * kWarps + threadIdx.x / kLanes; i < jobs;
       i += gridDim.x * kWarps) {
    const Queue::Job job = queue.jobs[i];
    Key* of_query = keys + static_cast<std::size_t>(job.query) * k;
    WarpList found(k);
    found.offer(lane < k ? of_query[lane] : kNoKey);
    const Key* measured = queue.keys + std::size_t{job.first} * Kind::kMembers;
    const std::uint32_t all = job.pairs * Kind::kMembers;
    for (std::uint32_t at = 0; at < all; at += kLanes) {
      found.offer(at + lane < all ? measured[at + lane] : kNoKey);
    }
    if (lane < k) of_query[lane] = found.key();
  }
}

}  // namespace contcore::nearest_gpu
