// The farthest points, and the plain loop on them.
#include "coreset/gpu_distance.cuh"
#include "coreset/greedy_gpu_device.cuh"

namespace contcore::greedy_gpu {
namespace {

// ---- which points
// ---------------------------------------------------------------------------------

constexpr unsigned kThreads = 256;
constexpr std::uint32_t kBins = 2048;
constexpr std::uint32_t kBinsEach = kBins / kThreads;

// Which bin, from the top, the rank-th key falls in. All threads of the block.
__device__ void choose_bin(Selection* selection, int shift, std::uint32_t wanted, bool first) {
  __shared__ std::uint32_t sums[kThreads];
  std::uint32_t counts[kBinsEach];
  std::uint32_t mine = 0;
  const std::uint32_t top = kBins - 1 - threadIdx.x * kBinsEach;
#pragma unroll
  for (std::uint32_t k = 0; k < kBinsEach; ++k) {
    counts[k] = __ldcg(&selection->histogram[top - k]);
    selection->histogram[top - k] = 0;
    mine += counts[k];
  }
  sums[threadIdx.x] = mine;
  __syncthreads();
  std::uint32_t end = mine;
  for (std::uint32_t h = 1; h < kThreads; h *= 2) {
    const std::uint32_t before = threadIdx.x >= h ? sums[threadIdx.x - h] : 0;
    __syncthreads();
    end += before;
    sums[threadIdx.x] = end;
    __syncthreads();
  }
  const std::uint32_t all = sums[kThreads - 1];
  const std::uint32_t rank = first ? min(wanted, all) : selection->rank;
  __syncthreads();  // all have read the rank
  if (threadIdx.x == 0) selection->ticket = 0;
  if (all == 0) {
    if (threadIdx.x == 0) {
      selection->threshold = ~std::uint64_t{0};
      selection->settled = 1;
    }
    return;
  }
  std::uint32_t before = end - mine;
  if (!(before < rank && rank <= end)) return;
#pragma unroll
  for (std::uint32_t k = 0; k < kBinsEach; ++k) {
    if (before < rank && rank <= before + counts[k]) {
      selection->threshold |= static_cast<std::uint64_t>(top - k) << shift;
      selection->rank = rank - before;
      selection->settled = rank - before == counts[k] ? 1 : 0;  // all of the bin
    }
    before += counts[k];
  }
}

// Counts the keys that agree with the threshold above `shift + bits` by their next bits; the last
// block to end chooses.
__global__ void select_kernel(const std::uint32_t* bounds, std::uint32_t n, int shift, int bits,
                              std::uint32_t wanted, bool first, Selection* selection) {
  __shared__ std::uint32_t histogram[kBins];
  __shared__ bool last;
  if (selection->settled != 0) return;  // not set before all blocks have passed here
  for (std::uint32_t b = threadIdx.x; b < kBins; b += blockDim.x) histogram[b] = 0;
  __syncthreads();
  const std::uint64_t above = first ? 0 : selection->threshold >> (shift + bits);
  for (std::uint32_t i = grid_thread(); i < n; i += grid_threads()) {
    const std::uint64_t key = key_of(bounds[i], i);
    if (key == 0 || (!first && key >> (shift + bits) != above)) continue;
    atomicAdd(&histogram[static_cast<std::uint32_t>(key >> shift) & ((1u << bits) - 1)], 1u);
  }
  __syncthreads();
  for (std::uint32_t b = threadIdx.x; b < kBins; b += blockDim.x) {
    if (histogram[b] != 0) atomicAdd(&selection->histogram[b], histogram[b]);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&selection->ticket, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  choose_bin(selection, shift, wanted, first);
}

__global__ void gather_kernel(const std::uint32_t* bounds, std::uint32_t n, std::uint32_t wanted,
                              const Selection* selection, std::uint32_t* ids, Tally* tally) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint64_t threshold = selection->threshold;
  const std::uint32_t groups = (n + 31) / 32;
  for (std::uint32_t group = grid_warp(); group < groups; group += grid_warps()) {
    const std::uint32_t i = group * 32 + lane;
    const std::uint64_t key = i < n ? key_of(bounds[i], i) : 0;
    const bool in = key != 0 && key >= threshold;
    const std::uint32_t all = __ballot_sync(kWholeWarp, in);
    if (all == 0) continue;
    std::uint32_t slot = 0;
    if (lane == 0) slot = atomicAdd(&tally->survivors, static_cast<std::uint32_t>(__popc(all)));
    slot = __shfl_sync(kWholeWarp, slot, 0) +
           static_cast<std::uint32_t>(__popc(all & ((1u << lane) - 1)));
    if (in && slot < wanted) ids[slot] = i;
  }
}

__global__ void begin_kernel(Tally* tally) { tally->survivors = 0; }

// ---- the plain loop
// -------------------------------------------------------------------------------

constexpr std::uint32_t kPickThreads = 256;
constexpr std::uint32_t kPickWarps = kPickThreads / 32;
constexpr std::uint32_t kEach = kMostSurvivors / kPickThreads;

// A survivor's slot, and its key.
struct Candidate {
  std::uint64_t key;
  std::uint32_t slot;
};

// A thread's survivors: four that stand together, of every four times so many threads.
__device__ std::uint32_t slot_of(std::uint32_t k) {
  return k / 4 * 4 * kPickThreads + 4 * threadIdx.x + k % 4;
}

// The candidate that is picked next: the farthest, then the first.
__device__ bool comes_first(std::uint32_t bound_a, std::uint32_t id_a, std::uint32_t bound_b,
                            std::uint32_t id_b) {
  return bound_a > bound_b || (bound_a == bound_b && id_a < id_b);
}

__device__ Candidate first_of_warp(std::uint32_t bound, std::uint32_t not_id, std::uint32_t slot) {
  const std::uint32_t largest = __reduce_max_sync(kWholeWarp, bound);
  const std::uint32_t first = __reduce_max_sync(kWholeWarp, bound == largest ? not_id : 0);
  const std::uint32_t holders = __ballot_sync(kWholeWarp, bound == largest && not_id == first);
  const int source = __ffs(static_cast<int>(holders)) - 1;
  return {static_cast<std::uint64_t>(largest) << 32 | first, __shfl_sync(kWholeWarp, slot, source)};
}

struct Survivors {
  std::uint32_t bound[kEach], id[kEach], slot[kEach];
};

// The first of 2 h comes to the front.
template <std::uint32_t h>
__device__ void find_first(Survivors& all) {
#pragma unroll
  for (std::uint32_t k = 0; k < h; ++k) {
    if (!comes_first(all.bound[k + h], all.id[k + h], all.bound[k], all.id[k])) continue;
    all.bound[k] = all.bound[k + h];
    all.id[k] = all.id[k + h];
    all.slot[k] = all.slot[k + h];
  }
  if constexpr (h > 1) find_first<h / 2>(all);
}

__device__ Candidate first_of_survivors(Survivors all) {
  find_first<kEach / 2>(all);
  return first_of_warp(all.bound[0], ~all.id[0], all.slot[0]);
}

// Into the cache, by a warp: what may be picked soon.
__device__ void prefetch_row(const std::uint32_t* row, std::uint32_t n) {
  constexpr std::uint32_t kLine = 32;  // numbers
  for (std::uint32_t at = threadIdx.x % 32 * kLine; at < n; at += 32 * kLine) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(row + at));
  }
}

// One block; each thread keeps its survivors in registers. Their distances to a new centre, one of
// them, are a row of the matrix. Two sets of shared candidates by turns need but one barrier a
// pick.
__global__ void __launch_bounds__(kPickThreads)
    pick_kernel(const std::uint32_t* ids, const std::uint32_t* matrix, std::uint32_t stride,
                const Selection* selection, std::uint32_t most_picks, std::uint32_t* bounds,
                std::uint32_t* picks, std::uint32_t* radii, Tally* tally) {
  __shared__ Candidate candidates[2][kPickWarps];
  const std::uint32_t n = tally->survivors;
  // Points at zero are never picked, however low the threshold.
  const std::uint64_t threshold = max(selection->threshold, std::uint64_t{1} << 32);
  Survivors mine;
#pragma unroll
  for (std::uint32_t k = 0; k < kEach; ++k) {
    mine.slot[k] = slot_of(k);
    mine.id[k] = slot_of(k) < n ? ids[slot_of(k)] : 0;
    mine.bound[k] = slot_of(k) < n ? bounds[mine.id[k]] : 0;
  }
  std::uint32_t made = tally->picks;
  std::uint32_t finished = n == 0 ? 1 : 0;  // all points are at a centre
  std::uint32_t covering = 0;
  std::uint32_t fetched = kMostSurvivors;
  for (std::uint32_t turn = 0; finished == 0; turn ^= 1) {
    const Candidate candidate = first_of_survivors(mine);
    if (threadIdx.x % 32 == 0) candidates[turn][threadIdx.x / 32] = candidate;
    __syncthreads();
    Candidate best = candidates[turn][threadIdx.x % kPickWarps];
    best = first_of_warp(static_cast<std::uint32_t>(best.key >> 32),
                         static_cast<std::uint32_t>(best.key), best.slot);
    if (best.key < threshold) break;
    const auto value = static_cast<std::uint32_t>(best.key >> 32);
    if (made == most_picks) {
      finished = 1;
      covering = value;
      break;
    }
    if (threadIdx.x == 0) {
      picks[made] = ~static_cast<std::uint32_t>(best.key);
      radii[made] = value;
    }
    ++made;
    const std::uint32_t* row = matrix + static_cast<std::size_t>(best.slot) * stride;
#pragma unroll
    for (std::uint32_t k = 0; k < kEach; k += 4) {
      if (slot_of(k) >= n) continue;
      const uint4 distances = __ldcg(reinterpret_cast<const uint4*>(row + slot_of(k)));
      mine.bound[k] = min(mine.bound[k], distances.x);
      mine.bound[k + 1] = min(mine.bound[k + 1], distances.y);
      mine.bound[k + 2] = min(mine.bound[k + 2], distances.z);
      mine.bound[k + 3] = min(mine.bound[k + 3], distances.w);
    }
    // The next pick is likely one of the other warps' candidates.
    if (candidate.slot == best.slot || candidate.slot == fetched) continue;
    if (candidate.key < threshold) continue;
    fetched = candidate.slot;
    prefetch_row(matrix + static_cast<std::size_t>(fetched) * stride, n);
  }
#pragma unroll
  for (std::uint32_t k = 0; k < kEach; ++k) {
    if (slot_of(k) < n) bounds[mine.id[k]] = mine.bound[k];
  }
  __syncthreads();  // all have read the tally
  if (threadIdx.x != 0) return;
  tally->picks = made;
  tally->finished = finished;
  tally->covering = covering;
  tally->full += static_cast<std::uint64_t>(n) * n;
}

}  // namespace

void find_survivors(Gpu& gpu, const std::uint32_t* bounds, std::size_t n, std::uint32_t wanted,
                    Selection* selection, std::uint32_t* ids, Tally* tally) {
  gpu.fill(selection, 0, sizeof(Selection));
  const auto rows = static_cast<std::uint32_t>(n);
  const unsigned blocks = blocks_for(gpu, n, 4 * kThreads, 4);
  int shift = 64;
  for (const int bits : {11, 11, 11, 11, 11, 9}) {
    shift -= bits;
    select_kernel<<<blocks, kThreads, 0, gpu.stream()>>>(bounds, rows, shift, bits, wanted,
                                                         shift == 53, selection);
  }
  begin_kernel<<<1, 1, 0, gpu.stream()>>>(tally);
  gather_kernel<<<blocks, kThreads, 0, gpu.stream()>>>(bounds, rows, wanted, selection, ids, tally);
  check_launch("finding the farthest points");
}

void pick(Gpu& gpu, const std::uint32_t* ids, const std::uint32_t* matrix, std::uint32_t stride,
          const Selection* selection, std::uint32_t most_picks, std::uint32_t* bounds,
          std::uint32_t* picks, std::uint32_t* radii, Tally* tally) {
  gpu.use();
  pick_kernel<<<1, kPickThreads, 0, gpu.stream()>>>(ids, matrix, stride, selection, most_picks,
                                                    bounds, picks, radii, tally);
  check_launch("picking");
}

}  // namespace contcore::greedy_gpu
