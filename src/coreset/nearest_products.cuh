// Products of all queries with all vectors on the tensor cores. They are not kept: of each group of
// vectors, the least value that a kind makes of its products is.
//
// A block multiplies tiles of 128 queries by 128 or 256 vectors, one after the other. Rows are
// `width` bytes, whatever the numbers in them are, and go through shared memory 64 bytes at a time,
// some steps ahead. The 16-byte pieces of a row are swizzled there, so that neither the copies nor
// ldmatrix meet in a bank. Short queries stay in shared memory while vectors pass; where they do
// not, wide tiles spare the L2 cache, which would be what the others wait for.
#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

namespace contcore::nearest_gpu {

constexpr int kTileRows = 128;  // queries; a tile of a kind is kind::kWide times as many vectors
constexpr int kMostWide = 2;
constexpr int kStep = 64;  // bytes of a row
constexpr int kStages = 4;
constexpr int kStageBytes = kTileRows * kStep;
constexpr int kGroup = 32;          // vectors in a row, of which a kind makes groups

struct Operands {
  const std::uint8_t* queries;  // rows of both are `width` bytes, a multiple of kStep
  const std::uint8_t* vectors;
  int width;
  int query_tiles;
  int vector_tiles;
};

template <typename Kind>
constexpr int kTileThreads = 128 * Kind::kWide;
template <typename Kind>
constexpr int kTileVectors = kTileRows * Kind::kWide;

// Bytes of a query that stays. With them no block asks for more shared memory than any GPU has.
template <int kWide>
constexpr int kMostResident = 512 / kWide;
constexpr std::size_t kMostShared = std::size_t{12} * kStageBytes;

template <typename Kind>
std::size_t shared_bytes(int width) {
  static_assert(kMostResident<Kind::kWide> / kStep + kStages * Kind::kWide <= 12);
  const int of_queries = width <= kMostResident<Kind::kWide> ? width / kStep : kStages;
  return static_cast<std::size_t>(of_queries + kStages * Kind::kWide) * kStageBytes;
}

// ---- instructions --------------------------------------------------------------------------

__device__ inline void copy_16(std::uint32_t to, const std::uint8_t* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
               : "memory");
}
__device__ inline void end_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

using Fragment = std::uint32_t[4];  // 16 rows of 32 bytes, spread over a warp

__device__ inline void load_fragment(Fragment& out, std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(from)
               : "memory");
}

__device__ inline void multiply(int (&sum)[4], const Fragment& a, std::uint32_t b0,
                                std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void multiply(float (&sum)[4], const Fragment& a, std::uint32_t b0,
                                std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- a warp's part of a tile ---------------------------------------------------------------

/// 64 queries by 64 vectors: fragments of 16 by 8. Of fragment (i, j) a lane has four sums: number
/// 2h + c is of query 16 i + 8 h + lane / 4 and vector 8 j + 2 (lane mod 4) + c.
constexpr int kQueryParts = 4;
constexpr int kVectorParts = 8;

/// Half a step of its operands. The addresses are this lane's of the first fragments.
struct WarpOperands {
  Fragment queries[kQueryParts];
  Fragment vectors[kVectorParts / 2];

  __device__ void load(std::uint32_t queries_at, std::uint32_t vectors_at) {
#pragma unroll
    for (int i = 0; i < kQueryParts; ++i) load_fragment(queries[i], queries_at + i * 16 * kStep);
#pragma unroll
    for (int j = 0; j < kVectorParts / 2; ++j) {
      load_fragment(vectors[j], vectors_at + j * 16 * kStep);
    }
  }
};

template <typename Sum>
struct WarpSums {
  Sum of[kQueryParts][kVectorParts][4];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kQueryParts; ++i) {
#pragma unroll
      for (int j = 0; j < kVectorParts; ++j) {
#pragma unroll
        for (int c = 0; c < 4; ++c) of[i][j][c] = Sum{0};
      }
    }
  }

  __device__ void add(const WarpOperands& from) {
#pragma unroll
    for (int i = 0; i < kQueryParts; ++i) {
#pragma unroll
      for (int j = 0; j < kVectorParts; ++j) {
        const Fragment& two = from.vectors[j / 2];
        multiply(of[i][j], from.queries[i], two[j % 2 * 2], two[j % 2 * 2 + 1]);
      }
    }
  }
};

// ---- the kernel ----------------------------------------------------------------------------

/// Copies steps of a block's tiles into shared memory, in the order they are needed in.
template <int kWide>
class Feed {
 public:
  __device__ Feed(const Operands& in, std::uint32_t shared)
      : width_(in.width),
        steps_(in.width / kStep),
        resident_(in.width <= kMostResident<kWide>),
        queries_at_(shared),
        vectors_at_(shared + (resident_ ? steps_ : kStages) * kStageBytes) {
    const int row = static_cast<int>(threadIdx.x) / 4;
    const int piece = static_cast<int>(threadIdx.x) % 4;
    to_ = static_cast<std::uint32_t>(row * kStep + ((piece ^ (row / 2 % 4)) * 16));
    from_ = static_cast<std::size_t>(row) * static_cast<std::size_t>(width_) +
            static_cast<std::size_t>(piece) * 16;
  }

  /// `tiles` tiles of vectors for one tile of queries.
  __device__ void start(const std::uint8_t* queries, const std::uint8_t* vectors, int tiles) {
    queries_ = queries + from_;
    vectors_ = vectors + from_;
    tiles_ = tiles;
    tile_ = step_ = stage_ = 0;
    for (int i = 0; i < kStages - 1; ++i) issue();
  }

  /// Nothing when all has been copied.
  __device__ void issue() {
    if (tile_ < tiles_) {
      copy<kTileRows * kWide>(vectors_slot(stage_), vectors_);
      if (!resident_ || tile_ == 0) copy<kTileRows>(queries_slot(step_, stage_), queries_);
      if (++step_ == steps_) {
        step_ = 0;
        ++tile_;
        vectors_ += static_cast<std::size_t>(kTileRows * kWide) * static_cast<std::size_t>(width_);
      }
    }
    stage_ = (stage_ + 1) % kStages;
    end_of_copies();
  }

  __device__ std::uint32_t queries_slot(int step, int stage) const {
    return queries_at_ + (resident_ ? step : stage) * kStageBytes;
  }
  __device__ std::uint32_t vectors_slot(int stage) const {
    return vectors_at_ + stage * kStageBytes * kWide;
  }

 private:
  template <int kRows>
  __device__ void copy(std::uint32_t slot, const std::uint8_t* rows) const {
    constexpr int kAtOnce = 32 * kWide;
    const std::uint8_t* from = rows + step_ * kStep;
#pragma unroll
    for (int i = 0; i < kRows; i += kAtOnce) {
      copy_16(slot + to_ + i * kStep,
              from + static_cast<std::size_t>(i) * static_cast<std::size_t>(width_));
    }
  }

  int width_, steps_;
  bool resident_;
  std::uint32_t queries_at_, vectors_at_, to_;
  std::size_t from_;
  const std::uint8_t* queries_ = nullptr;
  const std::uint8_t* vectors_ = nullptr;
  int tiles_ = 0, tile_ = 0, step_ = 0, stage_ = 0;
};

/// The tiles are shared out evenly, those of one tile of queries in a row. `kind.begin(tile)` is
/// called by all threads for each tile of queries, `kind.keep(sums, query, vector, lane)` by a warp
/// whose sums begin there.
template <typename Kind>
__global__ void __launch_bounds__(kTileThreads<Kind>, kMostWide / Kind::kWide)
    minima(Operands in, Kind kind) {
  extern __shared__ __align__(1024) std::uint8_t shared[];
  Feed<Kind::kWide> feed(in, static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int query = warp % 2 * 64;
  const int vector = warp / 2 * 64;
  const int swizzle = lane / 2 % 4;
  const int query_row = query + lane % 16;
  const int vector_row = vector + lane % 8 + lane / 16 * 8;
  const auto query_at =
      static_cast<std::uint32_t>(query_row * kStep + ((lane / 16) ^ swizzle) * 16);
  const auto vector_at =
      static_cast<std::uint32_t>(vector_row * kStep + ((lane / 8 % 2) ^ swizzle) * 16);
  const std::size_t tile_bytes = static_cast<std::size_t>(kTileRows) * in.width;  // of queries
  const int steps = in.width / kStep;

  const long long all = static_cast<long long>(in.query_tiles) * in.vector_tiles;
  const long long end = all * (blockIdx.x + 1) / gridDim.x;
  for (long long at = all * blockIdx.x / gridDim.x; at < end;) {
    const auto row = static_cast<int>(at / in.vector_tiles);
    const auto first = static_cast<int>(at % in.vector_tiles);
    const auto tiles =
        static_cast<int>(min(end - at, static_cast<long long>(in.vector_tiles - first)));
    at += tiles;
    feed.start(in.queries + row * tile_bytes, in.vectors + first * tile_bytes * Kind::kWide, tiles);
    kind.begin(row * kTileRows);
    // Operands are fetched half a step ahead, from one step into the next.
    WarpOperands even, odd;
    WarpSums<typename Kind::Sum> sums;
    wait_for_copies<kStages - 2>();
    __syncthreads();
    std::uint32_t queries_now = feed.queries_slot(0, 0) + query_at;
    std::uint32_t vectors_now = feed.vectors_slot(0) + vector_at;
    even.load(queries_now, vectors_now);
    int stage = 0;
    for (int tile = first; tile < first + tiles; ++tile) {
      sums.clear();
      for (int step = 0; step < steps; ++step) {
        odd.load(queries_now ^ 32, vectors_now ^ 32);
        sums.add(even);
        wait_for_copies<kStages - 3>();
        __syncthreads();  // the next step is there, and nobody reads the one before any more
        feed.issue();
        stage = (stage + 1) % kStages;
        queries_now = feed.queries_slot(step + 1 < steps ? step + 1 : 0, stage) + query_at;
        vectors_now = feed.vectors_slot(stage) + vector_at;
        even.load(queries_now, vectors_now);  // behind the last step nobody needs it
        sums.add(odd);
      }
      kind.keep(sums, row * kTileRows, query, tile * kTileVectors<Kind> + vector, lane);
    }
    wait_for_copies<0>();
    __syncthreads();
  }
}

}  // namespace contcore::nearest_gpu
