// Canonical distances of floats: of single pairs by a warp, of all pairs of two sets in tiles.
#include "coreset/gpu_distance.cuh"
#include "coreset/greedy_gpu_device.cuh"

namespace contcore::greedy_gpu {
namespace {

constexpr unsigned kThreads = 256;

// ---- pairs that the codes leave open
// -------------------------------------------------------------

// If the canonical squared distance of point i and any centre is below `bound`, then their codes
// are no farther apart, squared, than this:
//   |k_a − k_b| ≤ |cut(a) − cut(b)| / step + e_a + e_b ≤ |a − b| / step + e_a + e_b.
__device__ std::uint32_t gate_of(float bound, float error, float largest_error,
                                 const Steps& steps) {
  const double squared = (static_cast<double>(bound) + steps.underflow) * (1 + steps.canonical);
  const double sum = sqrt(squared) * steps.inverse * (1 + 1e-9) + static_cast<double>(error) +
                     static_cast<double>(largest_error);
  const double gate = sum * sum * (1 + 1e-9) + 1;
  return gate < 4294967295.0 ? static_cast<std::uint32_t>(gate) : 0xffffffffu;
}

__device__ void lower(std::uint32_t* bound, float distance) {
  const std::uint32_t bits = __float_as_uint(distance);
  if (bits < *const_cast<volatile std::uint32_t*>(bound)) atomicMin(bound, bits);
}

// Each lane looks at a point; those that are near are measured by the whole warp, one by one.
__global__ void measure_nearest_kernel(RowSet points, RowSet centres, Steps steps,
                                       PairSearch search, std::uint32_t* bounds, Tally* tally) {
  const std::uint32_t lane = threadIdx.x % 32;
  const float largest_error = __uint_as_float(tally->largest_error);
  const std::uint32_t groups = (points.n + 31) / 32;
  for (std::uint32_t group = grid_warp(); group < groups; group += grid_warps()) {
    const std::uint32_t i = group * 32 + lane;
    float bound = 0, error = 0;
    std::uint32_t which = 0;
    bool near = false;
    if (i < points.n) {
      bound = __uint_as_float(bounds[i]);
      error = points.errors[i];
      const std::uint64_t nearest = search.nearest[i];
      which = static_cast<std::uint32_t>(nearest);
      near = bound > 0 && static_cast<std::uint32_t>(nearest >> 32) <=
                              gate_of(bound, error, largest_error, steps);
    }
    const std::uint32_t all = __ballot_sync(kWholeWarp, near);
    for (std::uint32_t left = all; left != 0; left &= left - 1) {
      const int source = __ffs(static_cast<int>(left)) - 1;
      const std::uint32_t point = group * 32 + static_cast<std::uint32_t>(source);
      const std::uint32_t centre = __shfl_sync(kWholeWarp, which, source);
      const float distance =
          warp_distance(float_row(points, point), float_row(centres, centre), points.d);
      if (lane == static_cast<std::uint32_t>(source)) bound = fminf(bound, distance);
    }
    if (all == 0) continue;
    std::uint32_t slot = 0;
    if (lane == 0) slot = atomicAdd(&tally->listed, static_cast<std::uint32_t>(__popc(all)));
    slot = __shfl_sync(kWholeWarp, slot, 0);
    if (!near) continue;
    bounds[i] = __float_as_uint(bound);
    search.gates[i] = gate_of(bound, error, largest_error, steps);
    search.list[slot + static_cast<std::uint32_t>(__popc(all & ((1u << lane) - 1)))] = i;
  }
}

__global__ void measure_pairs_kernel(RowSet points, RowSet centres, PairSearch search,
                                     std::uint32_t* bounds, const Tally* tally) {
  const std::uint32_t n = tally->pairs;
  if (n > search.most_pairs) return;  // all are measured instead
  for (std::uint32_t at = grid_warp(); at < n; at += grid_warps()) {
    const std::uint64_t pair = search.pairs[at];
    const auto point = static_cast<std::uint32_t>(pair >> 32);
    const auto centre = static_cast<std::uint32_t>(pair);
    const float distance =
        warp_distance(float_row(points, point), float_row(centres, centre), points.d);
    if (threadIdx.x % 32 == 0) lower(bounds + point, distance);
  }
}

__global__ void count_kernel(RowSet points, RowSet centres, bool coded, std::uint32_t most_pairs,
                             Tally* tally) {
  std::uint64_t exact = static_cast<std::uint64_t>(coded ? tally->listed : points.n) * centres.n;
  if (coded && tally->pairs <= most_pairs) {
    exact = static_cast<std::uint64_t>(tally->listed) + tally->pairs;
  }
  tally->exact += exact;
  tally->full += exact;
  tally->listed = 0;
  tally->pairs = 0;
}

// ---- all pairs ----------------------------------------------------------------------------------

// A block takes 16 × 32 pairs, each of its 8 warps 8 × 8 of them: a lane has a partial sum of each
// and goes along the rows 32 numbers at a time. What it reads stands in shared memory, 64 numbers
// of each row, three times: one is computed with while two are on their way.
constexpr std::uint32_t kDown = 16;
constexpr std::uint32_t kAcross = 32;
constexpr std::uint32_t kNumbers = 64;
constexpr std::uint32_t kStages = 3;
constexpr std::uint32_t kStageNumbers = (kDown + kAcross) * kNumbers;
constexpr int kSide = 8;

// Copies 4 or 16 bytes, or writes as many zeros.
template <int kBytes>
__device__ void copy(std::uint32_t to, const float* from, bool there) {
  const int bytes = there ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes));
  }
}

// The sixteen threads of a row copy their parts of it.
__device__ void copy_numbers(const float* const (&rows)[3], std::uint32_t from, std::uint32_t d,
                             std::uint32_t shared) {
  const std::uint32_t part = threadIdx.x % 16;
#pragma unroll
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::uint32_t to = shared + (threadIdx.x / 16 + 16 * i) * kNumbers * 4;
    if (d % 4 == 0) {
      const std::uint32_t j = from + part * 4;
      copy<16>(to + part * 16, rows[i] + (j < d ? j : 0), j < d);
    } else {
#pragma unroll
      for (std::uint32_t k = 0; k < 4; ++k) {
        const std::uint32_t j = from + part + 16 * k;
        copy<4>(to + (part + 16 * k) * 4, rows[i] + (j < d ? j : 0), j < d);
      }
    }
  }
}

__device__ void add_numbers(const float* shared, float (&sums)[2][32]) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32;
  const float* a = shared + warp % 2 * kSide * kNumbers + lane;
  const float* b = shared + (kDown + warp / 2 * kSide) * kNumbers + lane;
#pragma unroll
  for (std::uint32_t j = 0; j < kNumbers; j += 32) {
    float from_a[kSide], from_b[kSide];
#pragma unroll
    for (std::uint32_t i = 0; i < kSide; ++i) {
      from_a[i] = a[i * kNumbers + j];
      from_b[i] = b[i * kNumbers + j];
    }
#pragma unroll
    for (int p = 0; p < kSide; ++p) {
#pragma unroll
      for (int q = 0; q < kSide; ++q) {
        float& sum = sums[p / 4][p % 4 * kSide + q];
        sum = add_square(from_a[p], from_b[q], sum);
      }
    }
  }
}

// Distances of a tile: lane l of a warp gets those of its rows l / 8 and 4 + l / 8 with its column
// l % 8.
__device__ void measure_tile(const RowSet& a, std::uint32_t rows_a, std::uint32_t first_a,
                             const RowSet& b, std::uint32_t rows_b, std::uint32_t first_b,
                             float* shared, float (&distances)[2]) {
  const std::uint32_t slot = threadIdx.x / 16;
  const float* const rows[3] = {float_row(a, min(first_a + slot, rows_a - 1)),
                                float_row(b, min(first_b + slot, rows_b - 1)),
                                float_row(b, min(first_b + 16 + slot, rows_b - 1))};
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const std::uint32_t chunks = (a.d + kNumbers - 1) / kNumbers;
  const auto load = [&](std::uint32_t chunk) {
    if (chunk < chunks) {
      copy_numbers(rows, chunk * kNumbers, a.d, base + chunk % kStages * kStageNumbers * 4);
    }
    asm volatile("cp.async.commit_group;");
  };
  float sums[2][32];
#pragma unroll
  for (int i = 0; i < 32; ++i) sums[0][i] = sums[1][i] = 0;
  load(0);
  load(1);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    load(chunk + 2);
    add_numbers(shared + chunk % kStages * kStageNumbers, sums);
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  distances[0] = add_lanes_of_all(sums[0]);
  distances[1] = add_lanes_of_all(sums[1]);
}

// Hands the distance of each pair (i, j) that `wanted` wants a tile for to `use`.
template <class Wanted, class Use>
__device__ void for_each_distance(const RowSet& a, const RowSet& b, float* shared, Wanted wanted,
                                  Use use) {
  const std::uint32_t rows_a = rows_of(a);
  const std::uint32_t rows_b = rows_of(b);
  if (rows_a == 0 || rows_b == 0) return;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t across = (rows_b + kAcross - 1) / kAcross;
  const std::uint64_t tiles = static_cast<std::uint64_t>((rows_a + kDown - 1) / kDown) * across;
  for (std::uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const auto first_a = static_cast<std::uint32_t>(tile / across) * kDown;
    const auto first_b = static_cast<std::uint32_t>(tile % across) * kAcross;
    if (!wanted(first_a, first_b)) continue;
    float distances[2];
    measure_tile(a, rows_a, first_a, b, rows_b, first_b, shared, distances);
    const std::uint32_t j = first_b + warp / 2 * kSide + lane % 8;
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t i = first_a + warp % 2 * kSide + 4 * half + lane / 8;
      if (i < rows_a && j < rows_b) use(i, j, distances[half]);
    }
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    measure_all_kernel(RowSet points, RowSet centres, bool coded, std::uint32_t most_pairs,
                       std::uint32_t* bounds, const Tally* tally) {
  __shared__ __align__(16) float shared[kStages * kStageNumbers];
  if (coded && tally->pairs <= most_pairs) return;
  for_each_distance(
      points, centres, shared, [](std::uint32_t, std::uint32_t) { return true; },
      [&](std::uint32_t i, std::uint32_t, float distance) {
        lower(bounds + row_id(points, i), distance);
      });
}

// Of each pair of tiles that mirror each other one will do.
__global__ void __launch_bounds__(kThreads, 2)
    matrix_kernel(RowSet survivors, std::uint32_t* matrix, std::uint32_t stride) {
  __shared__ __align__(16) float shared[kStages * kStageNumbers];
  for_each_distance(
      survivors, survivors, shared,
      [](std::uint32_t first_a, std::uint32_t first_b) { return first_a + kDown > first_b; },
      [&](std::uint32_t i, std::uint32_t j, float distance) {
        const std::uint32_t bits = __float_as_uint(distance);
        matrix[static_cast<std::size_t>(i) * stride + j] = bits;
        matrix[static_cast<std::size_t>(j) * stride + i] = bits;
      });
}

}  // namespace

void measure_nearest(Gpu& gpu, const RowSet& points, const RowSet& centres, const Steps& steps,
                     PairSearch search, std::uint32_t* bounds, Tally* tally) {
  gpu.use();
  measure_nearest_kernel<<<blocks_for(gpu, points.n, kThreads, 8), kThreads, 0, gpu.stream()>>>(
      points, centres, steps, search, bounds, tally);
  check_launch("measuring the nearest");
}

void measure_pairs(Gpu& gpu, const RowSet& points, const RowSet& centres, PairSearch search,
                   std::uint32_t* bounds, Tally* tally) {
  gpu.use();
  measure_pairs_kernel<<<static_cast<unsigned>(gpu.processors() * 8), kThreads, 0, gpu.stream()>>>(
      points, centres, search, bounds, tally);
  check_launch("measuring pairs");
}

void measure_all(Gpu& gpu, const RowSet& points, const RowSet& centres, PairSearch search,
                 std::uint32_t* bounds, Tally* tally) {
  gpu.use();
  const bool coded = points.codes != nullptr;
  RowSet listed = points;
  if (coded) {
    listed.ids = search.list;
    listed.count = &tally->listed;
  }
  const std::size_t tiles = (points.n + kDown - 1) / kDown *
                            static_cast<std::size_t>((centres.n + kAcross - 1) / kAcross);
  measure_all_kernel<<<blocks_for(gpu, tiles, 1, 2), kThreads, 0, gpu.stream()>>>(
      listed, centres, coded, search.most_pairs, bounds, tally);
  check_launch("measuring all");
}

void count_batch(Gpu& gpu, const RowSet& points, const RowSet& centres, std::uint32_t most_pairs,
                 Tally* tally) {
  gpu.use();
  count_kernel<<<1, 1, 0, gpu.stream()>>>(points, centres, points.codes != nullptr, most_pairs,
                                          tally);
  check_launch("counting");
}

void measure_float_survivors(Gpu& gpu, const RowSet& survivors, std::uint32_t* matrix,
                             std::uint32_t stride) {
  gpu.use();
  const std::size_t tiles = (survivors.n + kDown - 1) / kDown *
                            static_cast<std::size_t>((survivors.n + kAcross - 1) / kAcross);
  matrix_kernel<<<blocks_for(gpu, tiles, 1, 2), kThreads, 0, gpu.stream()>>>(survivors, matrix,
                                                                             stride);
  check_launch("measuring survivors");
}

}  // namespace contcore::greedy_gpu
