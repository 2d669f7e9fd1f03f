// A memory without a task, or with one that is called otherwise. In: a memory, and a task's name.
// Out: what is left. Fails where there is no such task, or the rule mixes them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "contcore/error.h"
#include "contcore/memory.h"
#include "memory/state.h"

namespace contcore {
namespace {

std::size_t known_task(const Memory& memory, const std::string& name) {
  if (const auto task = memory.find_task(name)) return *task;
  throw Error(Error::Kind::kUsage, fmt::format("there is no task '{}' in this memory", name));
}

}  // namespace

void Memory::rename_task(const std::string& from, const std::string& to) {
  const std::size_t task = known_task(*this, from);
  if (from == to) return;
  if (find_task(to)) {
    throw Error(Error::Kind::kInput,
                fmt::format("there is a task '{}' already; choose another name", to));
  }
  std::string name = to;
  check_task(name);
  state_->contents->tasks[task].name = std::move(name);
}

Memory Memory::fresh() const {
  Memory empty(dimension(), capacity(), state_->how, scalar());
  empty.source = source;
  return empty;
}

Memory Memory::without_task(const std::string& name) const {
  const std::size_t task = known_task(*this, name);
  if (!state_->rule->expands_on_own()) {
    throw Error(Error::Kind::kInput,
                fmt::format("task '{}' cannot be taken out: by the paper's rule its vectors stand "
                            "for other tasks too; go back to a version from before it",
                            name));
  }
  const auto number = static_cast<std::int32_t>(task);
  const Contents& now = *state_->contents;
  std::vector<std::uint32_t> stay = now.store.order();
  std::erase_if(stay, [&](std::uint32_t slot) { return now.store.origin()[slot] == number; });
  Entries entries = now.store.entries(stay);
  for (std::int32_t& origin : entries.origin) origin -= origin > number ? 1 : 0;
  Memory rest = fresh();
  Contents& next = *rest.state_->contents;
  next.tasks = now.tasks;
  next.tasks.erase(next.tasks.begin() + static_cast<std::ptrdiff_t>(task));
  next.greedy_order = now.greedy_order;
  next.store.assign(std::move(entries), now.store.parents_among(stay));
  rest.state_->calibration = state_->calibration.copy();
  auto& calibrated = rest.state_->calibration.tasks;
  if (task < calibrated.size()) {
    calibrated.erase(calibrated.begin() + static_cast<std::ptrdiff_t>(task));
  }
  return rest;
}

bool Memory::tasks_are_apart() const {
  const Contents& now = *state_->contents;
  if (!state_->rule->expands_on_own() || size() >= capacity()) return false;
  const std::vector<std::size_t> vectors = vectors_of_tasks(now);
  for (std::size_t t = 0; t < vectors.size(); ++t) {
    if (vectors[t] != now.tasks[t].picked) return false;
  }
  for (const TaskCalibration& task : state_->calibration.tasks) {
    if (!task.defects.images.empty()) return false;  // their budget is shared too
  }
  const std::size_t most = TaskCalibration::most_bytes(dimension(), bytes_of(scalar()));
  return most * now.tasks.size() <= state_->calibration_budget();
}

}  // namespace contcore
