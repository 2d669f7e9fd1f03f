#include "fewer_vectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common.h"

namespace contcore::app {
namespace {

constexpr std::size_t kMostLines = 10;
// Of a task. With fewer, thresholds have been far off whatever the scores say (docs/inspecting.md).
constexpr std::size_t kFewestVectors = 64;

float median_of(std::vector<float> scores) {
  const auto middle = scores.begin() + static_cast<std::ptrdiff_t>(scores.size() / 2);
  std::nth_element(scores.begin(), middle, scores.end());
  return *middle;
}

// A level of calibration down.
std::size_t next_fewer(std::size_t vectors) {
  return static_cast<std::size_t>(
      std::lround(static_cast<double>(vectors) / std::numbers::sqrt2_v<double>));
}

// Whether good images differ more among each other than the next fewer vectors move them.
bool is_sure(const Memory& memory, const Memory& fewer, std::size_t task, const Threshold& limit) {
  const std::vector<float> scores = memory.calibration_scores(task);
  const std::vector<float> next = fewer.calibration_scores(task);
  if (scores.empty() || next.empty()) return false;
  const float median = median_of(scores);
  return limit.score - median >= median_of(next) - median;
}

double part_above(const std::vector<float>& scores, float limit) {
  if (scores.empty()) return 0;
  const auto above =
      std::count_if(scores.begin(), scores.end(), [&](float s) { return s > limit; });
  return static_cast<double>(above) / static_cast<double>(scores.size());
}

// The fewest vectors for which all these tasks can be relied on; 0 when there is no such number.
std::size_t fewest(const Memory& memory, const std::vector<FewerVectors>& tasks,
                   double false_alarms, Compute& compute) {
  // By the paper's rule a smaller memory is sampled anew, which may take minutes.
  if (memory.consolidation().rule == Consolidate::Rule::kPaper) return 0;
  std::size_t good = 0;
  for (std::size_t count = memory.size(); count > 1; count = next_fewer(count)) {
    const Memory smaller = memory.shrink(count, compute);
    for (const FewerVectors& task : tasks) {
      const auto all = fewer_vectors(memory, smaller, false_alarms, task.task, compute);
      if (!all.empty() && !all[0].is_sure) return good;
    }
    good = count;
  }
  return good;
}

std::string line_of(const FewerVectors& task) {
  const std::string name =
      fmt::format("{}: {} of {} vectors", task.task, task.vectors, task.vectors_before);
  if (!task.threshold) return name + "; no threshold is known for so few, so there is no verdict";
  if (task.threshold->by_hand) {
    return fmt::format(
        "{}; its threshold {:.4g} was set by hand for more of them: {:.0f} % of the images that "
        "calibrate it score above that with so few",
        name, task.threshold->score, 100 * task.above);
  }
  const std::string was = task.before ? fmt::format(" instead of {:.4g}", task.before->score) : "";
  const std::string text = fmt::format("{}; threshold {:.4g}{}", name, task.threshold->score, was);
  if (task.is_sure) return text;
  return text +
         ", not to be relied on: with so few, good images score nearly alike, and which vectors "
         "are kept decides whether none or all of them are rejected";
}

}  // namespace

std::vector<FewerVectors> fewer_vectors(const Memory& memory, const Memory& smaller,
                                        double false_alarms, const std::string& only,
                                        Compute& compute) {
  const Memory next = smaller.shrink(std::max<std::size_t>(1, next_fewer(smaller.size())), compute);
  const std::vector<TaskState> before = memory.states();
  const std::vector<TaskState> after = smaller.states();
  std::vector<FewerVectors> tasks;
  for (std::size_t t = 0; t < before.size(); ++t) {
    const std::string& name = memory.tasks()[t].name;
    const std::size_t now = smaller.find_task(name).value();
    if (after[now].vectors >= before[t].vectors || !(only.empty() || only == name)) continue;
    FewerVectors& task = tasks.emplace_back();
    task.task = name;
    task.vectors_before = before[t].vectors;
    task.vectors = after[now].vectors;
    task.before = memory.threshold(t, false_alarms);
    task.threshold = smaller.threshold(now, false_alarms);
    if (!task.threshold) continue;
    task.is_sure = task.vectors >= kFewestVectors && is_sure(smaller, next, now, *task.threshold);
    task.above = part_above(smaller.calibration_scores(now), task.threshold->score);
  }
  return tasks;
}

std::string text_of(const std::vector<FewerVectors>& tasks) {
  std::string text;
  for (std::size_t i = 0; i < std::min(tasks.size(), kMostLines); ++i) {
    text += line_of(tasks[i]) + "\n";
  }
  if (tasks.size() > kMostLines) {
    text += fmt::format("and {} more tasks\n", tasks.size() - kMostLines);
  }
  return text;
}

void note_shrunk(const Memory& memory, const std::vector<FewerVectors>& tasks, double false_alarms,
                 Compute& compute) {
  note_lines(text_of(tasks));
  const bool sure = std::all_of(tasks.begin(), tasks.end(), [](const FewerVectors& task) {
    return task.is_sure || (task.threshold && task.threshold->by_hand);
  });
  const std::size_t enough = sure ? 0 : fewest(memory, tasks, false_alarms, compute);
  if (enough == 0) return;
  note(fmt::format("{} or more of the memory's {} can be relied on", enough,
                   counted(memory.size(), "vector")));
}

}  // namespace contcore::app
