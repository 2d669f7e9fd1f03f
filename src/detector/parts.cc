#include "detector/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::size_t kMostHeldOut = 64;   // images of a task
constexpr std::size_t kOnlineHeldOut = 5;  // every so many online images, one is held out
// Heat begins and is full at these parts of the threshold.
constexpr float kCold = 0.6F;
constexpr float kHot = 1.6F;

std::size_t task_named(const Memory& memory, const std::string& name) {
  const auto& tasks = memory.tasks();
  std::string known;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (tasks[t].name == name) return t;
    known += (t == 0 ? "" : ", ") + tasks[t].name;
  }
  throw Error(Error::Kind::kUsage,
              fmt::format("there is no task '{}' in this memory; it knows {}", name, known));
}

}  // namespace

std::string backbone_text(const Memory& memory) {
  const auto& source = memory.source;
  const std::string& crop = source.at("crop");
  return fmt::format("{} ({}), images resized to {}{}", source.at("backbone"), source.at("layers"),
                     source.at("resize"), crop == "none" ? "" : ", cropped to " + crop);
}

Inspection judge(const Memory& memory, VectorView patches, const std::vector<float>& distances,
                 const InspectOptions& options) {
  Inspection seen;
  seen.score = *std::max_element(distances.begin(), distances.end());
  seen.task = options.task.empty() ? memory.recognise(patches) : task_named(memory, options.task);
  if (seen.task) seen.threshold = memory.threshold(*seen.task, options.false_alarms);
  seen.rejected = seen.threshold && seen.score > seen.threshold->score;
  return seen;
}

float outline_level(float score, std::optional<float> threshold, float peak) {
  if (!threshold || !(score > 0)) return std::numeric_limits<float>::infinity();
  return *threshold * (peak / score);
}

HeatRange heat_range(const Map& map, float level) {
  if (level < std::numeric_limits<float>::infinity()) return {level * kCold, level * kHot};
  const auto [low, high] = std::minmax_element(map.values.begin(), map.values.end());
  return {*low, *high};
}

bool learn_patches(Memory& memory, VectorView patches, const LearnOptions& options,
                   const std::string& time, Compute& compute) {
  const auto& tasks = memory.tasks();
  const auto known = std::find_if(tasks.begin(), tasks.end(), [&](const TaskRecord& record) {
    return record.name == options.task;
  });
  if (known != tasks.end() && options.hold_out > 0) {
    const auto task = static_cast<std::size_t>(known - tasks.begin());
    // All that were ever held out: of many tasks each keeps fewer.
    const std::uint64_t seen = known->images + known->held;
    if (memory.held_out_scores(task).size() < kMostHeldOut &&
        seen % kOnlineHeldOut == kOnlineHeldOut - 1) {
      const std::size_t end = patches.rows;
      memory.hold_out(patches, {&end, 1}, options.task, compute);
      return true;
    }
  }
  LearnHow how;
  how.task = options.task;
  how.p = options.p != 0 ? options.p : kOnlineRatio;
  how.time = time;
  memory.learn_online(patches, how, compute);
  return false;
}

bool is_held_out(std::size_t i, std::size_t n, double part) {
  if (n < 2 || part <= 0) return false;
  const auto wanted = static_cast<std::size_t>(part * static_cast<double>(n) + 0.5);
  const std::size_t held = std::clamp<std::size_t>(wanted, 1, std::min(kMostHeldOut, n - 1));
  return (i + 1) * held / n > i * held / n;
}

}  // namespace contcore
