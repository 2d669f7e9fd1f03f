// Known defects: where a person sees one in an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/extractor.h"
#include "contcore/image.h"
#include "contcore/memory.h"
#include "contcore/score.h"

namespace contcore {

/// A part of an image, in its pixels.
struct DefectBox {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;

  bool operator==(const DefectBox&) const = default;
};

/// Where a defect is: in a box, under a mask, or, where neither is given, in what the memory
/// outlines itself.
struct DefectMark {
  std::optional<DefectBox> box;
  /// Of the image's size; what is brighter than half is the defect.
  const Image* mask = nullptr;
  /// Of the outline: the map's value that it is drawn at. Not given: the task's threshold at a rate
  /// of false alarms of 5 %.
  std::optional<float> level;
};

/// The largest value of the anomaly map in the cell of each patch.
std::vector<float> cell_values(std::span<const float> distances, const PatchGrid& grid);

/// The patches of an image that show the marked defect: of those whose cell the box, the mask or
/// the outline touches, the ones that are stranger to the memory than 99 of 100 patches beside the
/// mark, since around a defect much looks as it does elsewhere. Throws Error: kUsage for a task
/// that is not there or has no threshold, kInput when there are no such patches, when the mark is
/// most of the image, or when the mask has another size.
std::vector<std::uint32_t> defect_patches(const Memory& memory, const std::string& task,
                                          const Patches& patches, const DefectMark& mark,
                                          Compute& compute);

/// Shows the memory these patches (Memory::learn_defect). Throws as both.
void learn_defect(Memory& memory, const std::string& task, const Patches& patches,
                  const DefectMark& mark, Compute& compute);

}  // namespace contcore
