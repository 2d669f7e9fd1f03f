// How well scores tell defects from good: the measures of the field, exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "contcore/compute.h"
#include "contcore/image.h"

namespace contcore {

/// Of scores of good and of defective things, in any order; the larger, the more a defect. Nothing
/// when there are none of one kind: the measure is undefined then, not zero. All are exact, ties
/// included; 0 and −0 are equal, and scores may be infinite. Throws Error (kUsage) for a NaN.
struct Ranking {
  std::optional<double> auroc;  ///< area under the ROC curve: P(defect > good) + ½ P(equal)
  /// Average precision: Σ (recall_i − recall_{i−1}) · precision_i over the distinct thresholds,
  /// from the highest.
  std::optional<double> ap;
  std::optional<double> f1_max;  ///< the largest F1 over all thresholds
};
Ranking rank(std::span<const float> good, std::span<const float> defect, Compute& compute);

/// A mask of defects: one byte for each pixel, row after row, not 0 where there is a defect.
struct Mask {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<std::uint8_t> values;
};

/// The pixels of many images together.
class PixelScores {
 public:
  /// An image without a defect; then one with a mask of the map's size. Throws Error (kUsage) when
  /// the sizes differ or a value is NaN, and has added nothing then.
  void add(const Map& map);
  void add(const Map& map, const Mask& mask);

  struct Measures {
    Ranking pixels;
    /// Area under the per-region-overlap curve up to a false-positive rate of 0.3, divided by 0.3.
    /// A region is an 8-connected component of a mask. For a threshold τ, the overlap is the mean
    /// over the regions of all images of the part of the region with values ≥ τ, the rate is the
    /// part of the defect-free pixels of all images with values ≥ τ; points at the distinct
    /// thresholds, from (0, 0), are joined by straight lines, and the last piece is cut at 0.3.
    std::optional<double> aupro;
  };
  /// Sorts the defective pixels alone and counts the others between them: for n pixels, d of them
  /// defective, O(n log d) at worst and O(n) in practice, in O(d) memory. The same for any number
  /// of threads. Nothing of what needs both kinds of pixels when there is but one.
  Measures measure(Compute& compute) const;

 private:
  void add_good(std::span<const float> values);

  std::vector<std::vector<float>> good_;  // values of defect-free pixels, in blocks: growing one
                                          // vector would need several times the memory
  std::vector<float> defect_;             // values of the others
  std::vector<std::uint32_t> region_;     // of each of those
  std::vector<std::uint64_t> region_pixels_;
};

}  // namespace contcore
