// A method of your own, judged by Evaluation like those of the library: it is given the same
// features, and its answers are measured by the same code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "contcore/image.h"
#include "contcore/progress.h"
#include "contcore/score.h"
#include "contcore/vectors.h"

namespace contcore {

/// The part of an image that the backbone saw, in the image's own pixels.
struct SeenPart {
  double left = 0, top = 0, right = 0, bottom = 0;
  std::size_t image_width = 0;
  std::size_t image_height = 0;
};

/// Images of one class as a method from outside is given them: files, and their patch vectors from
/// the cache. The vectors are there as long as the call they are handed to, or a copy of `owner`.
struct MethodImages {
  std::string product;   ///< the class
  std::size_t task = 0;  ///< the one that the class belongs to, counted from 0
  std::vector<std::string> files;
  std::vector<PatchGrid> grids;       ///< of each image
  std::vector<SeenPart> seen;         ///< of each image
  VectorView patches;                 ///< image after image, each row after row; bytes in 8 bits
  std::vector<std::size_t> ends;      ///< the row of `patches` behind each image
  std::shared_ptr<const void> owner;  ///< of what `patches` views

  /// Those of image i.
  VectorView patches_of(std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends[i - 1];
    return patches.part(begin, ends[i] - begin);
  }
};

/// The answer to one image.
struct MethodScore {
  /// The larger, the more a defect. It is taken as it is, never made of the map.
  float score = std::numeric_limits<float>::quiet_NaN();
  /// None (empty), or one of two sizes: a value for each patch (columns × rows of its grid), which
  /// is made an anomaly_map() of; or a value for each pixel that the backbone saw (the grid's
  /// width × height), which is taken as it is.
  Map map;
};

/// All of it is called from the thread that called Evaluation::run(). What it throws passes through
/// run() as it is.
class OutsideMethod {
 public:
  virtual ~OutsideMethod() = default;

  /// As it is to stand in reports; none of methods().
  virtual std::string name() const = 0;

  /// The next task, class after class. `progress` can always be called; where it says false, throw
  /// Error (kCancelled) or return.
  virtual void learn(std::size_t task, const std::vector<MethodImages>& classes,
                     const Progress& progress) = 0;

  /// As many answers as there are images, which are at most 32, in their order. The numbers must be
  /// finite.
  virtual std::vector<MethodScore> score(const MethodImages& images) = 0;

  /// For the report: vectors it holds, and numbers it keeps.
  virtual std::size_t vectors() const { return 0; }
  virtual std::uint64_t numbers() const { return 0; }
};

}  // namespace contcore
