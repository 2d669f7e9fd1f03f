#include "detector/learning.h"

#include <optional>
#include <utility>

#include "detector/hold_out.h"

namespace contcore {

TrainingSetBuilder::TrainingSetBuilder(std::size_t dimension, std::size_t memory,
                                       std::size_t held_memory,
                                       const std::shared_ptr<FeatureRoom>& room)
    : features_(dimension, memory, room), held_(dimension, held_memory, room) {}

void TrainingSetBuilder::learn(VectorView patches) {
  features_.append(patches);
  ++images_;
}

void TrainingSetBuilder::hold_out(VectorView patches) {
  held_.append(patches);
  held_ends_.push_back(held_.rows());
}

TrainingSet TrainingSetBuilder::view() {
  return {features_.view(), images_, held_.view(), held_ends_};
}

void learn_task(Memory& memory, const TrainingSet& set, LearnHow how, Compute& compute) {
  how.images = set.images;
  memory.learn(set.features, how, compute);
  calibrate(memory, set, how.task, compute);
}

void calibrate(Memory& memory, const TrainingSet& set, const std::string& task, Compute& compute) {
  memory.hold_out(set.held, set.held_ends, task, compute);
  memory.recalibrate(compute);
}

bool learn_next(Memory& memory, VectorView patches, const LearnHow& how, bool may_hold_out,
                Compute& compute) {
  const std::optional<std::size_t> task = may_hold_out ? memory.find_task(how.task) : std::nullopt;
  if (task) {
    // All that were ever held out: of many tasks each keeps fewer.
    const TaskRecord& record = memory.tasks()[*task];
    if (is_next_held_out(record.images + record.held, memory.held_out_scores(*task).size())) {
      const std::size_t end = patches.rows;
      memory.hold_out(patches, {&end, 1}, how.task, compute);
      return true;
    }
  }
  memory.learn_online(patches, how, compute);
  return false;
}

}  // namespace contcore
