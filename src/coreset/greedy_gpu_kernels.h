// The steps of greedy sampling on a GPU, each a kernel or two on the GPU's stream. All pointers are
// to the GPU's memory; floats that are not negative are ordered as their bits are, and are handed
// about as these.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contcore/vectors.h"
#include "device/gpu.h"

namespace contcore::greedy_gpu {

/// Vectors on the GPU. A row of codes is `stride` bytes, those behind d zeros. Of vectors of bytes
/// the codes are these; of floats they are (x − centre) / step, cut to ±127, rounded, plus 128.
struct RowSet {
  const float* rows = nullptr;           ///< null: vectors of bytes
  const std::uint8_t* codes = nullptr;   ///< null: none
  const std::uint32_t* norms = nullptr;  ///< Σ code²
  const float* errors = nullptr;         ///< what rounding moved each row by at most, in steps
  const std::uint32_t* ids = nullptr;    ///< which rows; null: from the first on
  const std::uint32_t* count = nullptr;  ///< how many, where the GPU alone knows
  std::uint32_t n = 0;                   ///< how many, at most
  std::uint32_t d = 0;
  std::uint32_t stride = 0;
};

/// Codes are in chunks of so many bytes; and products of longer ones would overflow.
inline constexpr std::size_t kCodeChunk = 64;
inline constexpr std::size_t kMostCodes = 32768;

/// How floats become codes.
struct Steps {
  const float* centre = nullptr;
  double inverse = 0;    ///< of a step; 0: there are no codes
  double canonical = 0;  ///< a canonical squared distance is off by so much of it, at most
  double underflow = 0;  ///< and by this
};

inline constexpr std::uint32_t kMostSurvivors = 4096;

/// What the host reads once a round.
struct Tally {
  std::uint32_t picks = 0;
  std::uint32_t survivors = 0;
  std::uint32_t finished = 0;       ///< all are picked that were asked for
  std::uint32_t covering = 0;       ///< then: the bits of the squared covering radius
  std::uint32_t bad = 0;            ///< whether a row is not finite or too large
  std::uint32_t largest_error = 0;  ///< the bits of the largest of RowSet::errors
  std::uint64_t farthest = 0;       ///< from the mean: the bits of the distance, and ~index
  std::uint32_t listed = 0;         ///< points that a batch of centres may be nearer to
  std::uint32_t pairs = 0;          ///< and the pairs with these that remain open
  std::uint64_t exact = 0;          ///< point-centre pairs measured
  std::uint64_t full = 0;           ///< and all pairs measured
};

/// The key of a point is the bits of its bound, then ~index: the largest is picked next. This finds
/// the least key of a round's survivors.
struct Selection {
  std::uint64_t threshold = 0;
  std::uint32_t rank = 0;
  std::uint32_t settled = 0;
  std::uint32_t ticket = 0;
  std::uint32_t unused = 0;
  std::uint32_t histogram[2048] = {};
};

// ---- preparing (greedy_gpu_prepare.cu)
// -----------------------------------------------------------

/// Row-wise copies: bytes to a longer stride, filled up with zeros; float16 widened.
void pad_rows(Gpu& gpu, const std::uint8_t* from, std::size_t n, std::size_t d, std::size_t stride,
              std::uint8_t* to);
void widen(Gpu& gpu, const void* halves, std::size_t n, float* to);

/// Looks at every row of floats and sets Tally::bad for one that is not finite or too far from the
/// centre; makes their codes, norms and errors where there are steps.
void sketch_rows(Gpu& gpu, const RowSet& set, const Steps& steps, std::uint8_t* codes,
                 std::uint32_t* norms, float* errors, Tally* tally);
/// The norms of the codes of vectors of bytes.
void code_norms(Gpu& gpu, const RowSet& set, std::uint32_t* norms);

/// The sums of every kMeanBlock rows, d each; then of all of them the mean of `rows` rows, as the
/// processor computes it.
void find_sums(Gpu& gpu, const RowSet& set, double* sums);
void find_mean(Gpu& gpu, const double* sums, std::size_t rows, std::size_t d, float* mean);
/// The point farthest from it into Tally::farthest, unless one there is farther. The set's first
/// has the number `first`.
void find_farthest(Gpu& gpu, const RowSet& set, std::size_t first, const float* from, Tally* tally);

void set_bounds(Gpu& gpu, std::uint32_t* bounds, std::size_t n, float value);

// ---- bringing points up to date (greedy_gpu_products.cu, greedy_gpu_update.cu)
// --------------------

/// Lowers the bounds of vectors of bytes by their distances to centres.
void lower_by_bytes(Gpu& gpu, const RowSet& points, const RowSet& centres, std::uint32_t* bounds);

/// What lowering the bounds of floats needs, beside the bounds: of each point
struct PairSearch {
  std::uint64_t* nearest = nullptr;  ///< the least distance of codes, squared, and whose it is
  std::uint32_t* gates = nullptr;    ///< codes farther apart than this, squared, do not matter
  std::uint32_t* list = nullptr;     ///< the points listed
  std::uint64_t* pairs = nullptr;    ///< the open pairs: point, centre
  std::uint32_t most_pairs = 0;
};
/// In this order: the nearest codes; measures the points whose nearest may be nearer than the bound
/// and lists them; finds the pairs that still may; measures these.
void find_nearest_codes(Gpu& gpu, const RowSet& points, const RowSet& centres, PairSearch search);
void measure_nearest(Gpu& gpu, const RowSet& points, const RowSet& centres, const Steps& steps,
                     PairSearch search, std::uint32_t* bounds, Tally* tally);
void find_pairs(Gpu& gpu, const RowSet& points, const RowSet& centres, PairSearch search,
                Tally* tally);
void measure_pairs(Gpu& gpu, const RowSet& points, const RowSet& centres, PairSearch search,
                   std::uint32_t* bounds, Tally* tally);
/// Measures every point with every centre; where there are codes, every point that was listed, and
/// only if there are more open pairs than there is room for.
void measure_all(Gpu& gpu, const RowSet& points, const RowSet& centres, PairSearch search,
                 std::uint32_t* bounds, Tally* tally);
/// Counts what was measured, and makes the tally ready for the next batch.
void count_batch(Gpu& gpu, const RowSet& points, const RowSet& centres, std::uint32_t most_pairs,
                 Tally* tally);

// ---- a round (greedy_gpu_round.cu) --------------------------------------------------------------

/// The `wanted` points with the largest keys, or as many as there are that are not at zero:
/// Tally::survivors and their ids, in any order.
void find_survivors(Gpu& gpu, const std::uint32_t* bounds, std::size_t n, std::uint32_t wanted,
                    Selection* selection, std::uint32_t* ids, Tally* tally);

/// Distances of all survivors to each other, as bits: matrix[i * stride + j]. The stride is a
/// multiple of 4.
void measure_float_survivors(Gpu& gpu, const RowSet& survivors, std::uint32_t* matrix,
                             std::uint32_t stride);
void measure_byte_survivors(Gpu& gpu, const RowSet& survivors, std::uint32_t* matrix,
                            std::uint32_t stride);

/// The plain loop on the survivors: picks, and the bits of their squared radii.
void pick(Gpu& gpu, const std::uint32_t* ids, const std::uint32_t* matrix, std::uint32_t stride,
          const Selection* selection, std::uint32_t most_picks, std::uint32_t* bounds,
          std::uint32_t* picks, std::uint32_t* radii, Tally* tally);

}  // namespace contcore::greedy_gpu
