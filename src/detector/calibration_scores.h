// Scores to calibrate a task with: of images, by memories that have not learned them.
#pragma once

#include <span>
#include <vector>

#include "contcore/compute.h"
#include "contcore/extractor.h"
#include "contcore/memory.h"
#include "contcore/score.h"
#include "detector/learning.h"

namespace contcore {

/// What images score before they are learned.
struct FoldScores {
  std::vector<std::uint64_t> hashes;  ///< of all images
  std::vector<std::size_t> images;    ///< those that were scored
  std::vector<ImageScores> scores;    ///< of these
};

/// Of images that are about to be learned at once, by five folds: each image is scored by the
/// coreset that the others without its fold give, on what the memory has of the task; and by the
/// first vectors of that coreset's order, which are its coresets of smaller sizes. At most a
/// hundred images are scored, evenly chosen. None of a first image alone. Throws as Memory::learn
/// does; the memory is not changed. Of all ranks, where the set has any, with the same result.
FoldScores fold_scores(const Memory& memory, const TrainingSet& set, const LearnHow& how,
                       Compute& compute);

/// Of some of the other images, by the coreset that those of the folds give: not for calibrating,
/// since it has fewer. None of those where memory is too tight. Of all ranks, as above.
std::vector<float> scores_by_others(const Memory& memory, const TrainingSet& set,
                                    const FoldScores& folds, const std::vector<std::size_t>& images,
                                    const LearnHow& how, Compute& compute);

/// Of an image that is about to be learned, given the distances of its patches to what its task
/// has.
ImageScores next_scores(const Memory& memory, const Patches& patches, const std::string& task,
                        std::span<const float> distances, Compute& compute);

}  // namespace contcore
