// What the ranks of an evaluation share out: classes to measure, features to extract.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/progress.h"
#include "contcore/ranks.h"
#include "evaluate/evaluation.h"

namespace contcore {

/// Which rank does each of the pieces: the largest first, each by the one that has the least to do
/// so far. `loads` is what each has, and is added to. The same everywhere.
std::vector<std::size_t> share_out(const std::vector<std::size_t>& sizes,
                                   std::vector<std::size_t>& loads);

/// Which rank measures each class. It stays with its rank from task to task, so that where there is
/// no cache the features of its test images are extracted once.
std::vector<std::size_t> share_classes(const Evaluation::State& parts, std::size_t ranks);

/// Of all ranks. Throws RanksError (kInput) unless they have the same backbone and classes of the
/// same images, by their names in the data set.
void check_same_parts(const Evaluation::State& parts, Ranks& ranks);

/// Of all ranks. Extracts what none of them finds in its cache, each its share, so that where they
/// see the same folder nobody extracts what another does. Nothing without a folder.
void share_features(const Evaluation::State& parts, Ranks& ranks, Compute& compute,
                    const Progress& progress);

}  // namespace contcore
