// What a smaller memory costs, said before it is used.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/memory.h"

namespace contcore::app {

/// Of a task that is left with fewer vectors.
struct FewerVectors {
  std::string task;
  std::size_t vectors_before = 0;
  std::size_t vectors = 0;
  std::optional<Threshold> before;
  std::optional<Threshold> threshold;  ///< nothing: it is not calibrated for so few
  /// With few vectors the good images score nearly alike, and which vectors are kept moves all of
  /// them. Where it moves them by more than they differ, no calibration says which of them pass.
  bool is_sure = false;
  /// Part of the images that calibrate it that score above the threshold with so few.
  double above = 0;
};

/// For each task of `memory` that has fewer in `smaller`; or of one task alone. `false_alarms` is
/// the rate of the thresholds.
std::vector<FewerVectors> fewer_vectors(const Memory& memory, const Memory& smaller,
                                        double false_alarms, const std::string& only,
                                        Compute& compute);

/// What they cost, a line for each task.
std::string text_of(const std::vector<FewerVectors>& tasks);

/// The same of a memory that was shrunk, and how many vectors would do where these are too few.
void note_shrunk(const Memory& memory, const std::vector<FewerVectors>& tasks, double false_alarms,
                 Compute& compute);

}  // namespace contcore::app
