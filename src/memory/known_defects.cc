// Defects that a person shows to a memory. In: the patches of an image that one covers. Out:
// distances that are raised near them, and thresholds to match. The memory is as before where
// something throws.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "contcore/error.h"
#include "contcore/memory.h"
#include "device/or_processor.h"
#include "memory/state.h"

namespace contcore {

void Memory::learn_defect(const std::string& task, VectorView patches, std::uint64_t image,
                          Compute& compute) {
  const std::optional<std::size_t> known = find_task(task);
  if (!known || size() == 0) {
    throw Error(Error::Kind::kUsage,
                fmt::format("task '{}': was not learned, so its defects cannot be told from what "
                            "is normal; learn good images of it first",
                            task));
  }
  if (patches.rows == 0) {
    throw Error(Error::Kind::kInput, fmt::format("task '{}': no patch of a defect", task));
  }
  if (patches.cols != dimension() || patches.scalar != scalar()) {
    throw Error(Error::Kind::kInput,
                fmt::format("task '{}': a defect's patches have {} numbers of another kind or "
                            "count than the memory's {}",
                            task, patches.cols, dimension()));
  }
  std::vector<std::size_t> rows(patches.rows);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  check_reach(patches, rows, fmt::format("task '{}'", task));
  if (state_->calibration.of(*known).defects.knows(image)) return;
  TaskCalibration& own = state_->calibration.of(*known);
  or_processor(compute, [&](Compute& with) {
    DefectBank next = own.defects.copy();
    next.add(patches, {image}, state_->contents->store, with);
    std::swap(own.defects, next);
    try {
      own.measure_suspects(true, with);
      state_->trim_defects(with);
    } catch (...) {  // there is too little memory
      std::swap(own.defects, next);
      for (CalibratedImage& each : own.images) each.to_defect.clear();
      throw;
    }
  });
}

void Memory::State::trim_defects(Compute& compute) {
  const Scalar kind = contents->store.scalar();
  calibration.trim_defects(calibration_budget(), bytes_of(kind), compute);
}

KnownDefects Memory::known_defects(std::size_t task) const {
  if (task >= state_->calibration.tasks.size()) return {};
  const TaskCalibration& own = state_->calibration.tasks[task];
  return {own.defects.images.size(), own.defects.patches.rows(),
          own.raises(vectors_of_tasks(*state_->contents)[task])};
}

bool Memory::was_shown_as_defect(std::size_t task, std::uint64_t image) const {
  return task < state_->calibration.tasks.size() &&
         state_->calibration.tasks[task].defects.knows(image);
}

void Memory::raise(std::size_t task, VectorView patches, std::span<float> distances,
                   Compute& compute) const {
  if (distances.size() != patches.rows || patches.cols != dimension() ||
      patches.scalar != scalar()) {
    throw Error(Error::Kind::kInternal, "distances to raise that are not those of the patches");
  }
  if (!known_defects(task).used) return;
  const DefectBank& defects = state_->calibration.tasks[task].defects;
  const std::vector<float> to_defect =
      or_processor(compute, [&](Compute& with) { return defects.distances(patches, with); });
  std::transform(distances.begin(), distances.end(), to_defect.begin(), distances.begin(),
                 raised_distance);
}

}  // namespace contcore
