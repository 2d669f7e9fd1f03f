// What stands behind the public Memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "contcore/memory.h"
#include "memory/calibration.h"
#include "memory/contents.h"
#include "memory/rule.h"

namespace contcore {

struct Memory::State {
  State(std::size_t dimension, std::size_t capacity, const Consolidate& by, Scalar scalar)
      : how(by),
        rule(make_rule(by)),
        contents(std::make_unique<Contents>(dimension, capacity, scalar)) {}

  Consolidate how;
  std::unique_ptr<const Rule> rule;
  std::unique_ptr<Contents> contents;
  Calibration calibration;

  /// Slots of what the expansion of a task starts from.
  std::vector<std::uint32_t> base_slots(const std::string& task) const;
  /// Those among them that are of other tasks.
  std::vector<std::uint32_t> slots_of_others(std::int32_t task) const;
  std::size_t calibration_budget() const;
  void trim_calibration();
  /// Bounds what is kept of known defects.
  void trim_defects(Compute& compute);
  /// Of a memory that an earlier version wrote; before a task is left with fewer vectors.
  void score_kept_patches(Compute& compute);
};

}  // namespace contcore
