// What stands behind the public Memory.
#pragma once

#include <memory>
#include <utility>

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
};

}  // namespace contcore
