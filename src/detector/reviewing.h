// Images looked at before they are learned.
//
// In: the images of a task, what they score by folds, and the memory that is to learn them. Out:
// what is questionable about them. Nothing is changed. Fails as sampling does.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/memory.h"
#include "contcore/review.h"
#include "detector/calibration_scores.h"
#include "detector/image_look.h"
#include "detector/learning.h"

namespace contcore {

/// Of all ranks, where the set has any. `looks` is of each image of all, or of none. `false_alarms`
/// is the rate that thresholds are wanted for.
Review review_images(const Memory& memory, const TrainingSet& set, std::span<const ImageLook> looks,
                     const FoldScores& folds, const LearnHow& how, double false_alarms,
                     Compute& compute);

/// The numbers in a review are those of set's images; afterwards they are those of `files`.
void renumber(Review& review, std::span<const std::size_t> files);

}  // namespace contcore
