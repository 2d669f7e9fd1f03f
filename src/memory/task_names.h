// Whether something can be learned under a name.
#pragma once

#include <algorithm>
#include <string>

#include "base/task_name.h"
#include "contcore/memory.h"

namespace contcore {

/// Why a memory cannot learn a task of this name; empty: it can. What it knows already it can learn
/// on, whatever its name.
inline std::string task_fault(const Memory& memory, const std::string& name) {
  const auto& tasks = memory.tasks();
  const bool known = std::any_of(tasks.begin(), tasks.end(),
                                 [&](const TaskRecord& task) { return task.name == name; });
  return known ? "" : task_name_fault(name);
}

}  // namespace contcore
