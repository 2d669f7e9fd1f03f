// Squared distances of codes by products on tensor cores: |a − b|² = |a|² + |b|² − 2 a·b, exact in
// 32 bits without a sign (what overflows on the way comes back).
//
// A block takes a tile of 128 × 128 pairs and goes along the rows in chunks of 64 bytes, some of
// which are on their way while one is multiplied. Each of its 8 warps has 64 × 32 of the pairs.
#include "coreset/gpu_distance.cuh"
#include "coreset/greedy_gpu_device.cuh"

namespace contcore::greedy_gpu {
namespace {

constexpr std::uint32_t kTile = 128;
constexpr std::uint32_t kChunk = kCodeChunk;
constexpr int kStages = 4;
constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kSideBytes = kTile * kChunk;
constexpr std::uint32_t kStageBytes = 2 * kSideBytes;
constexpr std::uint32_t kSharedBytes = kStages * kStageBytes;
constexpr std::uint32_t kNoDistance = 0xffffffffu;

// A warp's pairs: rows 64 · down + 16 m + 8 h + lane / 4, columns 32 · across + 8 n + lane % 4 · 2
// + e. Their products are sums[m][n][2 h + e].
using Sums = int[4][4][4];

struct Place {
  std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t down = threadIdx.x / 32 % 2;
  std::uint32_t across = threadIdx.x / 64;

  __device__ Place() {}
  __device__ std::uint32_t row(int m, int h) const {
    return 64 * down + 16 * static_cast<std::uint32_t>(m) + 8 * static_cast<std::uint32_t>(h) +
           lane / 4;
  }
  __device__ std::uint32_t column(int n, int e) const {
    return 32 * across + 8 * static_cast<std::uint32_t>(n) + lane % 4 * 2 +
           static_cast<std::uint32_t>(e);
  }
};

// Where 16 bytes of a row stand among a side's bytes: the eight rows that are read together lie in
// different banks.
__device__ std::uint32_t place_of(std::uint32_t row, std::uint32_t part) {
  return row * kChunk + ((part ^ (row / 2 % 4)) * 16);
}

// Copies 16 bytes, or writes as many zeros.
__device__ void copy16(std::uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(there ? 16 : 0));
}
__device__ void end_copies() { asm volatile("cp.async.commit_group;"); }
template <int kLeft>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

__device__ void load_fragments(std::uint32_t from, std::uint32_t (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}

__device__ void multiply(const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                         int (&sums)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ void multiply_chunk(std::uint32_t shared_a, const Place& at, Sums& sums) {
  const std::uint32_t shared_b = shared_a + kSideBytes;
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    std::uint32_t a[4][4], b[2][4];
#pragma unroll
    for (std::uint32_t m = 0; m < 4; ++m) {
      const std::uint32_t row = 64 * at.down + 16 * m + at.lane % 16;
      load_fragments(shared_a + place_of(row, 2 * half + at.lane / 16), a[m]);
    }
#pragma unroll
    for (std::uint32_t n = 0; n < 2; ++n) {
      const std::uint32_t row = 32 * at.across + 16 * n + at.lane % 8 + at.lane / 16 * 8;
      load_fragments(shared_b + place_of(row, 2 * half + at.lane / 8 % 2), b[n]);
    }
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        multiply(a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1], sums[m][n]);
      }
    }
  }
}

// Rows beyond the last are zeros. (Were they the last again, all blocks would read the same.)
__device__ void multiply_tile(const RowSet& a, std::uint32_t rows_a, std::uint32_t first_a,
                              const RowSet& b, std::uint32_t rows_b, std::uint32_t first_b,
                              std::uint8_t* shared, Sums& sums) {
  const Place at;
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const std::uint32_t part = threadIdx.x % 4;
  const std::uint8_t* from[4];
  std::uint32_t to[4];
  bool there[4];
#pragma unroll
  for (std::uint32_t i = 0; i < 2; ++i) {
    const std::uint32_t row = threadIdx.x / 4 + 64 * i;
    there[i] = first_a + row < rows_a;
    there[i + 2] = first_b + row < rows_b;
    from[i] = code_row(a, there[i] ? first_a + row : 0) + part * 16;
    from[i + 2] = code_row(b, there[i + 2] ? first_b + row : 0) + part * 16;
    to[i] = base + place_of(row, part);
    to[i + 2] = to[i] + kSideBytes;
  }
  const std::uint32_t chunks = a.stride / kChunk;
  const auto load = [&](std::uint32_t chunk) {
    if (chunk < chunks) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        copy16(to[i] + chunk % kStages * kStageBytes, from[i] + chunk * kChunk, there[i]);
      }
    }
    end_copies();
  };
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[m][n][i] = 0;
    }
  }
  for (std::uint32_t chunk = 0; chunk + 1 < kStages; ++chunk) load(chunk);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    wait_for_copies<kStages - 2>();
    __syncthreads();
    load(chunk + kStages - 1);
    multiply_chunk(base + chunk % kStages * kStageBytes, at, sums);
  }
  wait_for_copies<0>();
  __syncthreads();  // the shared memory can be used again
}

// The norms of a thread's eight columns, and whether there are such columns.
struct Columns {
  std::uint32_t norm[4][2];
  bool there[4][2];

  __device__ Columns(const RowSet& b, std::uint32_t rows_b, std::uint32_t first_b,
                     const Place& at) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const std::uint32_t j = first_b + at.column(n, e);
        there[n][e] = j < rows_b;
        norm[n][e] = there[n][e] ? b.norms[row_id(b, j)] : 0;
      }
    }
  }
};

// Goes over all tiles of a grid of pairs, and hands the pairs of each to `use`. Tiles with the same
// rows of a follow one another.
template <class Use>
__device__ void for_each_tile(const RowSet& a, const RowSet& b, std::uint8_t* shared, Use use) {
  const std::uint32_t rows_a = rows_of(a);
  const std::uint32_t rows_b = rows_of(b);
  if (rows_a == 0 || rows_b == 0) return;
  const std::uint32_t across = (rows_b + kTile - 1) / kTile;
  const std::uint32_t tiles = (rows_a + kTile - 1) / kTile * across;
  for (std::uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::uint32_t first_a = tile / across * kTile;
    const std::uint32_t first_b = tile % across * kTile;
    Sums sums;
    multiply_tile(a, rows_a, first_a, b, rows_b, first_b, shared, sums);
    const Place at;
    const Columns columns(b, rows_b, first_b, at);
    use(at, columns, sums, first_a, rows_a, first_b);
  }
}

__device__ std::uint32_t distance_of(std::uint32_t norm_a, std::uint32_t norm_b, int product) {
  return norm_a + norm_b - 2 * static_cast<std::uint32_t>(product);
}

__device__ std::uint32_t norm_of_row(const RowSet& a, std::uint32_t i, std::uint32_t rows_a) {
  return i < rows_a ? a.norms[row_id(a, i)] : 0;
}

// The least of a row's values: of the four lanes that share it, then of the warps across, by way of
// the shared memory. Threads below kTile get that of their row.
template <class T>
__device__ T least_of_rows(const Place& at, const T (&least)[4][2], std::uint8_t* shared) {
  T* rows = reinterpret_cast<T*>(shared);
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      T value = least[m][h];
      value = min(value, __shfl_xor_sync(kWholeWarp, value, 1));
      value = min(value, __shfl_xor_sync(kWholeWarp, value, 2));
      if (at.lane % 4 == 0) rows[at.across * kTile + at.row(m, h)] = value;
    }
  }
  __syncthreads();
  T value = 0;
  if (threadIdx.x < kTile) {
    value = rows[threadIdx.x];
#pragma unroll
    for (std::uint32_t w = 1; w < 4; ++w) value = min(value, rows[w * kTile + threadIdx.x]);
  }
  __syncthreads();
  return value;
}

__global__ void __launch_bounds__(kThreads, 2)
    lower_kernel(RowSet points, RowSet centres, std::uint32_t* bounds) {
  extern __shared__ __align__(128) std::uint8_t shared[];
  for_each_tile(points, centres, shared,
                [&](const Place& at, const Columns& columns, const Sums& sums,
                    std::uint32_t first_a, std::uint32_t rows_a, std::uint32_t) {
                  std::uint32_t least[4][2];
#pragma unroll
                  for (int m = 0; m < 4; ++m) {
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                      const std::uint32_t norm =
                          norm_of_row(points, first_a + at.row(m, h), rows_a);
                      std::uint32_t value = kNoDistance;
#pragma unroll
                      for (int n = 0; n < 4; ++n) {
#pragma unroll
                        for (int e = 0; e < 2; ++e) {
                          const std::uint32_t distance =
                              distance_of(norm, columns.norm[n][e], sums[m][n][2 * h + e]);
                          if (columns.there[n][e]) value = min(value, distance);
                        }
                      }
                      least[m][h] = value;
                    }
                  }
                  const std::uint32_t value = least_of_rows(at, least, shared);
                  const std::uint32_t i = first_a + threadIdx.x;
                  if (threadIdx.x >= kTile || i >= rows_a) return;
                  const std::uint32_t bits = __float_as_uint(__uint2float_rn(value));
                  std::uint32_t* bound = bounds + row_id(points, i);
                  if (bits < *bound) atomicMin(bound, bits);
                });
}

__global__ void __launch_bounds__(kThreads, 2)
    nearest_kernel(RowSet points, RowSet centres, std::uint64_t* nearest) {
  extern __shared__ __align__(128) std::uint8_t shared[];
  using Wide = unsigned long long;
  for_each_tile(points, centres, shared,
                [&](const Place& at, const Columns& columns, const Sums& sums,
                    std::uint32_t first_a, std::uint32_t rows_a, std::uint32_t first_b) {
                  Wide least[4][2];
#pragma unroll
                  for (int m = 0; m < 4; ++m) {
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                      const std::uint32_t norm =
                          norm_of_row(points, first_a + at.row(m, h), rows_a);
                      std::uint32_t value = kNoDistance;
                      std::uint32_t which = 0;
#pragma unroll
                      for (int n = 0; n < 4; ++n) {
#pragma unroll
                        for (int e = 0; e < 2; ++e) {
                          const std::uint32_t distance =
                              distance_of(norm, columns.norm[n][e], sums[m][n][2 * h + e]);
                          if (columns.there[n][e] && distance < value) {
                            value = distance;
                            which = first_b + at.column(n, e);
                          }
                        }
                      }
                      least[m][h] = static_cast<Wide>(value) << 32 | which;
                    }
                  }
                  const Wide value = least_of_rows(at, least, shared);
                  const std::uint32_t i = first_a + threadIdx.x;
                  if (threadIdx.x >= kTile || i >= rows_a) return;
                  auto* to = reinterpret_cast<Wide*>(nearest + row_id(points, i));
                  if (value < *to) atomicMin(to, value);
                });
}

__global__ void __launch_bounds__(kThreads, 2)
    pairs_kernel(RowSet points, RowSet centres, PairSearch search, Tally* tally) {
  extern __shared__ __align__(128) std::uint8_t shared[];
  for_each_tile(
      points, centres, shared,
      [&](const Place& at, const Columns& columns, const Sums& sums, std::uint32_t first_a,
          std::uint32_t rows_a, std::uint32_t first_b) {
        std::uint64_t open = 0;  // a bit for each of the thread's pairs
#pragma unroll
        for (int m = 0; m < 4; ++m) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const std::uint32_t i = first_a + at.row(m, h);
            if (i >= rows_a) continue;
            const std::uint32_t id = row_id(points, i);
            const std::uint32_t norm = points.norms[id];
            const std::uint32_t gate = search.gates[id];
            const auto known = static_cast<std::uint32_t>(search.nearest[id]);
#pragma unroll
            for (int n = 0; n < 4; ++n) {
#pragma unroll
              for (int e = 0; e < 2; ++e) {
                const std::uint32_t distance =
                    distance_of(norm, columns.norm[n][e], sums[m][n][2 * h + e]);
                if (columns.there[n][e] && distance <= gate && first_b + at.column(n, e) != known) {
                  open |= std::uint64_t{1} << (m * 16 + h * 8 + n * 2 + e);
                }
              }
            }
          }
        }
        // One reservation a warp.
        const auto mine = static_cast<std::uint32_t>(__popcll(open));
        std::uint32_t end = mine;
#pragma unroll
        for (std::uint32_t h = 1; h < 32; h *= 2) {
          const std::uint32_t before = __shfl_up_sync(kWholeWarp, end, h);
          if (at.lane >= h) end += before;
        }
        const std::uint32_t all = __shfl_sync(kWholeWarp, end, 31);
        if (all == 0) return;
        // Once there are too many the count stands still: it must not wrap around.
        std::uint32_t slot = search.most_pairs;
        if (at.lane == 31 &&
            *const_cast<volatile std::uint32_t*>(&tally->pairs) <= search.most_pairs) {
          slot = atomicAdd(&tally->pairs, all);
        }
        slot = __shfl_sync(kWholeWarp, slot, 31);
        if (slot >= search.most_pairs) return;
        slot += end - mine;
        for (; open != 0; open &= open - 1, ++slot) {
          if (slot >= search.most_pairs) return;
          const int bit = __ffsll(static_cast<long long>(open)) - 1;
          const std::uint32_t id = row_id(points, first_a + at.row(bit / 16, bit / 8 % 2));
          search.pairs[slot] =
              static_cast<std::uint64_t>(id) << 32 | (first_b + at.column(bit / 2 % 4, bit % 2));
        }
      });
}

__global__ void __launch_bounds__(kThreads, 2)
    matrix_kernel(RowSet survivors, std::uint32_t* matrix, std::uint32_t stride) {
  extern __shared__ __align__(128) std::uint8_t shared[];
  for_each_tile(survivors, survivors, shared,
                [&](const Place& at, const Columns& columns, const Sums& sums,
                    std::uint32_t first_a, std::uint32_t rows_a, std::uint32_t first_b) {
#pragma unroll
                  for (int m = 0; m < 4; ++m) {
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                      const std::uint32_t i = first_a + at.row(m, h);
                      if (i >= rows_a) continue;
                      const std::uint32_t norm = survivors.norms[row_id(survivors, i)];
                      std::uint32_t* to = matrix + static_cast<std::size_t>(i) * stride + first_b;
#pragma unroll
                      for (int n = 0; n < 4; ++n) {
#pragma unroll
                        for (int e = 0; e < 2; ++e) {
                          if (!columns.there[n][e]) continue;
                          to[at.column(n, e)] = __float_as_uint(__uint2float_rn(
                              distance_of(norm, columns.norm[n][e], sums[m][n][2 * h + e])));
                        }
                      }
                    }
                  }
                });
}

template <class Kernel, class... Arguments>
void launch(Gpu& gpu, Kernel* kernel, std::size_t rows_a, std::size_t rows_b,
            const Arguments&... arguments) {
  if (rows_a == 0 || rows_b == 0) return;
  gpu.use();
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(kSharedBytes)),
             "comparing vectors");
  const std::size_t tiles = (rows_a + kTile - 1) / kTile * ((rows_b + kTile - 1) / kTile);
  kernel<<<blocks_for(gpu, tiles, 1, 2), kThreads, kSharedBytes, gpu.stream()>>>(arguments...);
  check_launch("comparing vectors");
}

}  // namespace

void lower_by_bytes(Gpu& gpu, const RowSet& points, const RowSet& centres, std::uint32_t* bounds) {
  launch(gpu, lower_kernel, points.n, centres.n, points, centres, bounds);
}

void find_nearest_codes(Gpu& gpu, const RowSet& points, const RowSet& centres, PairSearch search) {
  gpu.fill(search.nearest, 0xff, points.n * sizeof(std::uint64_t));
  launch(gpu, nearest_kernel, points.n, centres.n, points, centres, search.nearest);
}

void find_pairs(Gpu& gpu, const RowSet& points, const RowSet& centres, PairSearch search,
                Tally* tally) {
  RowSet listed = points;
  listed.ids = search.list;
  listed.count = &tally->listed;
  launch(gpu, pairs_kernel, points.n, centres.n, listed, centres, search, tally);
}

void measure_byte_survivors(Gpu& gpu, const RowSet& survivors, std::uint32_t* matrix,
                            std::uint32_t stride) {
  launch(gpu, matrix_kernel, survivors.n, survivors.n, survivors, matrix, stride);
}

}  // namespace contcore::greedy_gpu
