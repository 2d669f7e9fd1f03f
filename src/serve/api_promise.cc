// What was promised and what was seen, for the page, for machines and in words. In: a task and its
// threshold. Out: JSON, metrics, warnings. What the store cannot tell is left out.
#include <fmt/format.h>

#include "contcore/error.h"
#include "serve/api_common.h"
#include "serve/service.h"

namespace contcore {
namespace {

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

}  // namespace

TaskPromise Api::promise_of(const std::string& task, const std::optional<Threshold>& threshold) {
  try {
    return promises_.of(task, threshold);
  } catch (const Error&) {
    return {};  // a disk that fails is no reason to withhold the rest
  }
}

// For an hour.
std::string Api::unread_files() {
  constexpr std::chrono::hours kShown{1};
  const std::lock_guard<std::mutex> lock(mutex_);
  if (unread_files_ == 0 || std::chrono::steady_clock::now() - unread_at_ >= kShown) return "";
  return fmt::format(
      "{} file{} of the watched folder could not be read and {} no verdict, the last: {}",
      unread_files_, unread_files_ == 1 ? "" : "s", unread_files_ == 1 ? "has" : "have",
      unread_file_);
}

Json Api::warnings(const Memory& memory) {
  Json list = Json::array();
  if (const std::string failure = gpu_failure(); !failure.empty()) {
    list.push_back("the GPU failed, and the processor goes on without it: " + failure);
  }
  if (watch_gone_) {
    list.push_back(
        fmt::format("{}: the watched folder is gone; its images are inspected when it is back",
                    options_.watch));
  }
  if (const std::string unread = unread_files(); !unread.empty()) list.push_back(unread);
  warn_of_outputs(outputs_, list);
  warn_of_cameras(cameras_, list);
  for (std::size_t t = 0; t < memory.tasks().size(); ++t) {
    const std::string& name = memory.tasks()[t].name;
    // Thresholds of hundreds of tasks take longer than to see that nobody inspects most of them.
    if (promise_of(name, std::nullopt).parts < Promises::kFewest) continue;
    const TaskPromise promise = promise_of(name, memory.threshold(t, options_.false_alarms));
    for (const std::string& text : {promise.warning, promise.good_warning}) {
      if (!text.empty()) list.push_back(fmt::format("{}: {}", name, text));
    }
  }
  return list;
}

Json alarms_json(const TaskPromise& promise) {
  return {{"rate", or_null(promise.rate)},
          {"parts", promise.parts},
          {"alarms", promise.alarms},
          {"warning", promise.warning}};
}

Json good_parts_json(const TaskPromise& promise) {
  return {{"parts", promise.good_parts},
          {"score", or_null(promise.good)},
          {"score_at_first", or_null(promise.good_at_first)},
          {"warning", promise.good_warning}};
}

void show(const TaskPromise& promise, const MetricLabels& task, Metrics& metrics) {
  const auto set = [&](const char* name, const char* help, const std::optional<double>& value) {
    if (value) metrics.gauge(name, help, task).set(*value);
  };
  set("contcore_task_promised_ratio", "Rate of false alarms that the threshold promises",
      promise.rate);
  set("contcore_task_alarms_ratio",
      "Part of the latest parts that was rejected, those called defect left out",
      promise.alarm_rate());
  set("contcore_task_promise_broken", "1 while alarms and promise differ by more than chance",
      promise.warning.empty() ? 0 : 1);
  set("contcore_task_good_score_ratio",
      "Median score of the latest parts called good, of their threshold", promise.good);
  set("contcore_task_good_score_moved", "1 while good parts score otherwise than the first ones",
      promise.good_warning.empty() ? 0 : 1);
}

}  // namespace contcore
