// The hot loops, each compiled for every SIMD target of the machine's family and chosen at run
// time. The canonical ones give the same bits on every target; the sketch ones only feed bounds
// whose margins cover their rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace contcore::kernels {

/// Canonical squared distances of na vectors to nb vectors: out[i * nb + j] = |a[i] − b[j]|².
void squared_distances(const float* const* a, std::size_t na, const float* const* b, std::size_t nb,
                       std::size_t d, float* out);

/// The same of bytes.
void squared_distances(const std::uint8_t* const* a, std::size_t na, const std::uint8_t* const* b,
                       std::size_t nb, std::size_t d, float* out);

/// Products of byte vectors, less 128 Σ b: out[i * nb + j] = Σ b[j] (a[i] − 128). For d up to
/// kMostExactBytes; with the norms below they make distances: |a − b|² = a.squares − 2 out +
/// b.squares − 256 b.sum, all of it below 2³¹.
inline constexpr std::size_t kMostExactBytes = 32768;
void byte_products(const std::uint8_t* const* a, std::size_t na, const std::uint8_t* const* b,
                   std::size_t nb, std::size_t d, std::int32_t* out);
struct ByteNorm {
  std::int32_t squares = 0;  ///< Σ a²
  std::int32_t sum = 0;      ///< Σ a
};
ByteNorm byte_norm(const std::uint8_t* a, std::size_t d);

/// out = row − centre, and the canonical squared distance of the two.
float subtract(const float* row, const float* centre, std::size_t d, float* out);

/// sums[j] += row 0's j-th value, then row 1's, … in that order, in float64.
void add_columns(const float* const* rows, std::size_t n, std::size_t d, double* sums);

/// Dot product of float32 vectors in float64, for margins.
double dot64(const float* a, const float* b, std::size_t d);

/// Matrix product of `rows` (up to kProjectRows, each `d` long) with a d × width matrix packed in
/// panels of kPanel columns, each d × kPanel: out[i * stride + j] for j < width, a multiple of
/// kPanel. Each number is summed in segments of kProjectSegment by fused multiply-add, segments
/// added in order.
inline constexpr std::size_t kPanel = 32;
inline constexpr std::size_t kProjectRows = 32;
inline constexpr std::size_t kProjectSegment = 128;
void project(const float* const* rows, std::size_t n, std::size_t d, const float* panels,
             std::size_t width, float* out, std::size_t stride);

/// Vectors stand in tiles of kTile, and are scanned by up to kScanPoints points at a time.
inline constexpr std::size_t kTile = 64;
inline constexpr std::size_t kScanPoints = 4;

/// Sketches in whole steps k of −127 … 127 (coreset/step_sketch.h), kept as bytes k + 128. A tile
/// has width / 4 rows of kTile times four bytes k (signed, without the 128), and a row of kTile
/// int32 h. For each of n ≤ kScanPoints points and each tile, the bits of those of the tile's
/// vectors b with Σ (k_a + 128) k_b + h_b ≥ g_a: the ones that may be near. masks[i * tiles + t].
inline constexpr std::size_t step_tile_bytes(std::size_t width) { return (width + 4) * kTile; }
void scan_steps(const std::uint8_t* const* a, const std::int32_t* gates, std::size_t n,
                const std::uint8_t* tile, std::size_t tiles, std::size_t width,
                std::uint64_t* masks);

/// One vector b against one tile of points a (whose h are not read), each with its own g: the bits
/// of those with Σ (k_b + 128) k_a + h ≥ g_a.
std::uint64_t scan_step_tile(const std::uint8_t* b, std::int32_t h, const std::uint8_t* tile,
                             const std::int32_t* gates, std::size_t width);

/// dots[i] = Σ k_a k_b[i].
void step_dots(const std::uint8_t* a, const std::uint8_t* const* b, std::size_t n,
               std::size_t width, std::int32_t* dots);

/// n numbers (a multiple of 16) times `scale`, cut to −127 … 127 and rounded to bytes k + 128. Adds
/// to the sums.
struct StepSums {
  double squared = 0;     ///< Σ y²
  double error = 0;       ///< Σ (what rounding took)², in steps; cutting does not count
  std::int32_t norm = 0;  ///< Σ k²
  bool clipped = false;   ///< whether something was cut
};
void to_steps(const float* y, std::size_t n, float scale, std::uint8_t* out, StepSums* sums);

/// Products of byte vectors with a matrix of signed bytes, less `offset`: out[i * stride + j],
/// exact below 2²⁴. `panels` holds for every four dimensions `width` (a multiple of 16) times four
/// bytes.
void project_bytes(const std::uint8_t* const* rows, std::size_t n, std::size_t d,
                   const std::int8_t* panels, std::size_t width, const std::int32_t* offset,
                   float* out, std::size_t stride);

/// sums[j] += row 0's j-th value, row 1's, …
void add_byte_columns(const std::uint8_t* const* rows, std::size_t n, std::size_t d,
                      std::uint64_t* sums);

/// dots[i] += Σ a_j b[i]_j over j in [from, to), a multiple of 16 long.
void add_dots(const float* a, const float* const* b, std::size_t n, std::size_t from,
              std::size_t to, float* dots);

/// The same with whole numbers (coreset/bytes.h): for each of n ≤ kScanPoints points the values
///   s_a s_b (k_a·k_b) + r_a r_b + h_b
/// of a tile's vectors, into values[i * kTile + lane] unless that is null, and the largest of them
/// into most[i]. A tile has width / 4 rows of kTile times four bytes k_b, and four rows of floats:
/// the bits of −kByteOffset·Σ k_b, s_b, r_b, h_b.
inline constexpr int kByteOffset = 64;
inline constexpr std::size_t kMostByteWidth = 64;
struct BytePoint {
  std::uint8_t bytes[kMostByteWidth];  ///< k_a + kByteOffset, at most 127
  float scale = 0;
  float r = 0;
};
inline constexpr std::size_t byte_tile_floats(std::size_t width) { return (width / 4 + 4) * kTile; }
void scan_bytes(const BytePoint* const* points, std::size_t n, const float* tile, std::size_t width,
                float* values, float* most);

/// A tile of kTile vectors of `width` signed bytes, to be multiplied with vectors of bytes: a row
/// of kTile times four bytes for every four numbers, the last filled up with zeros, then a row of
/// starts.
struct alignas(64) TileRow {
  std::int32_t lanes[kTile];
};
inline constexpr std::size_t tile_rows(std::size_t width) { return (width + 3) / 4 + 1; }

/// values[i * kTile + lane] = start + Σ a[i] b, for n ≤ kScanPoints vectors a.
void tile_products(const std::uint8_t* const* a, std::size_t n, const TileRow* tile,
                   std::size_t width, std::int32_t* values);
/// The same, and the bits of the lanes whose value is at least gates[i]; values of an a without
/// such lanes are not written.
void tile_scan(const std::uint8_t* const* a, std::size_t n, const TileRow* tile, std::size_t width,
               const std::int32_t* gates, std::int32_t* values, std::uint64_t* lanes);
/// The largest values of many tiles: most[t * kScanPoints + i]. Takes kScanPoints vectors a.
void tile_maxima(const std::uint8_t* const* a, const TileRow* tile, std::size_t tiles,
                 std::size_t width, std::int32_t* most);
/// The largest of those for each a, and the tiles in which one is at least its gate, in order;
/// returns how many. Gates above all find none.
void largest_of_tiles(const std::int32_t* most, std::size_t tiles, std::int32_t* largest);
std::size_t tiles_at_least(const std::int32_t* most, std::size_t tiles, const std::int32_t* gates,
                           std::uint32_t* found);

/// Writes the indices of the values that are at least `bound`, in order, and returns how many.
std::size_t not_below(const float* values, std::size_t n, float bound, std::uint32_t* indices);

/// The names of the SIMD targets this machine can run, best first; and a way for tests to force
/// one of them (an empty name: the best again). Not to be called while work is running.
std::vector<std::string> targets();
void force_target(const std::string& name);

}  // namespace contcore::kernels
