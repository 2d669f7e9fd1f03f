// What the memory knows, its thresholds, and the service's own state.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/crc32c.h"
#include "base/peak_memory.h"
#include "contcore/error.h"
#include "serve/api_common.h"
#include "serve/assets.h"
#include "serve/clock.h"
#include "serve/service.h"

namespace contcore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kHistogramScores = 5000;
constexpr std::size_t kMostPoints = 2000;
constexpr std::size_t kMostTaskSeries = 200;
constexpr char kPagePolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src "
    "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Json as_json(const std::optional<Threshold>& threshold) {
  if (!threshold) return nullptr;
  return {{"score", threshold->score},
          {"false_alarms", threshold->by_hand ? Json(nullptr) : Json(threshold->false_alarms)},
          {"images", threshold->images},
          {"manual", threshold->by_hand}};
}

// Another one where a task is new, gone, or has another name or region.
std::string mark_of(const std::vector<TaskRecord>& tasks) {
  std::uint32_t mark = 0;
  const auto add = [&](const auto& values) {
    const std::size_t n = values.size();
    const std::uint8_t* const bytes = reinterpret_cast<const std::uint8_t*>(values.data());
    mark = crc32c(mark, {reinterpret_cast<const std::uint8_t*>(&n), sizeof n});
    mark = crc32c(mark, {bytes, n * sizeof values[0]});
  };
  for (const TaskRecord& task : tasks) {
    add(task.name);
    if (!task.region) continue;
    add(std::array{task.region->width, task.region->height});
    add(task.region->counts);
    for (const RegionOfInterest::Polygon& polygon : task.region->polygons) add(polygon);
  }
  return fmt::format("{:08x}", mark);
}

std::size_t index_of(const Memory& memory, const std::string& name) {
  if (const auto task = memory.find_task(name)) return *task;
  throw Refusal{404, fmt::format("there is no task '{}'", name)};
}

}  // namespace

HttpResponse Api::health(const HttpRequest& /*request*/, const Params& /*params*/,
                         Compute& /*compute*/) {
  return json_response(200, {{"status", "ok"}});
}

HttpResponse Api::ready(const HttpRequest& /*request*/, const Params& /*params*/,
                        Compute& /*compute*/) {
  if (winding_down_) throw Refusal{503, "the service is stopping"};
  return json_response(200, {{"ready", true}});
}

HttpResponse Api::page(const HttpRequest& /*request*/, const Params& params, Compute& /*compute*/) {
  const std::string name = params.empty() ? "index.html" : params[0];
  const std::optional<Asset> found = asset(name);
  if (!found || (!params.empty() && name == "index.html")) {
    throw Refusal{404, "there is nothing of that name"};
  }
  HttpResponse response;
  response.type = found->type;
  response.body = found->bytes;
  response.headers = {{"Content-Security-Policy", kPagePolicy},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cache-Control", "no-cache"}};
  return response;
}

// The processor, since a GPU failed.
Device Api::device() const { return gpu_failure().empty() ? options_.device : Device(); }

void Api::show_device(Metrics& metrics) {
  const bool on_gpu = !device().is_cpu() && gpu_;
  metrics
      .gauge("contcore_device_info", "What inspects and learns",
             {{"device", device().text()}, {"name", on_gpu ? gpu_->name : "processor"}})
      .set(1);
  Counter& fallbacks = metrics_.counter("contcore_gpu_fallbacks_total",
                                        "Pieces of work that the processor took over from a GPU");
  fallbacks.add(gpu_fallbacks() - fallbacks.value());
  if (!on_gpu) return;
  metrics.gauge("contcore_device_memory_bytes", "Memory of the GPU")
      .set(static_cast<double>(gpu_->memory));
  metrics.gauge("contcore_device_memory_free_bytes", "Memory of the GPU that can be had")
      .set(static_cast<double>(free_memory(gpu_->device)));
}

HttpResponse Api::metrics(const HttpRequest& /*request*/, const Params& /*params*/,
                          Compute& /*compute*/) {
  Metrics of_tasks(kMostTaskSeries);  // made anew, so that a task that is gone is not shown
  show_device(of_tasks);
  {
    const auto memory = live_.memory();
    const std::vector<TaskState> states = memory->states();
    const std::size_t shown = std::min(states.size(), kMostTaskSeries);
    for (std::size_t t = 0; t < shown; ++t) {
      const MetricLabels task = {{"task", memory->tasks()[t].name}};
      of_tasks.gauge("contcore_task_vectors", "Vectors that a task holds", task)
          .set(static_cast<double>(states[t].vectors));
      of_tasks.gauge("contcore_task_certificate", "Certificate of a task", task)
          .set(states[t].certificate);
      of_tasks.gauge("contcore_task_drift", "Drift of a task", task).set(states[t].drift());
      show(promise_of(memory->tasks()[t].name, memory->threshold(t, options_.false_alarms)), task,
           of_tasks);
    }
    metrics_.gauge("contcore_tasks", "Tasks that the memory knows")
        .set(static_cast<double>(states.size()));
    metrics_.gauge("contcore_tasks_left_out", "Tasks that have no metrics of their own")
        .set(static_cast<double>(states.size() - shown));
    metrics_.gauge("contcore_memory_vectors", "Vectors in the memory")
        .set(static_cast<double>(memory->size()));
    metrics_.gauge("contcore_memory_capacity", "Vectors there is room for")
        .set(static_cast<double>(memory->capacity()));
  }
  const StoreCounts counts = store_.counts();
  metrics_.gauge("contcore_stored_inspections", "Inspections kept")
      .set(static_cast<double>(counts.inspections));
  metrics_.gauge("contcore_stored_bytes", "Bytes of images and maps kept")
      .set(static_cast<double>(counts.kept_bytes));
  metrics_.gauge("contcore_lost_inspections", "Inspections that were kept and lost to the disk")
      .set(static_cast<double>(counts.lost));
  metrics_.gauge("contcore_waiting", "Inspections that wait")
      .set(static_cast<double>(inspectors_->waiting()));
  metrics_.gauge("contcore_unsaved_images", "Images learned that are in the journal alone")
      .set(static_cast<double>(live_.unsaved()));
  metrics_.gauge("contcore_own_memory_bytes", "Memory the process has taken")
      .set(static_cast<double>(own_memory()));
  HttpResponse response;
  response.type = "text/plain; version=0.0.4; charset=utf-8";
  show_outputs(outputs_, of_tasks);
  show_cameras(cameras_, of_tasks);
  response.body = metrics_.text() + of_tasks.text();
  return response;
}

HttpResponse Api::status(const HttpRequest& request, const Params& /*params*/,
                         Compute& /*compute*/) {
  constexpr const char* kRoles[] = {"inspect", "learn", "admin"};
  const Role role =
      options_.tokens.empty()
          ? Role::kAdmin
          : options_.tokens.role(request.header("authorization")).value_or(Role::kInspect);
  std::string stopped;
  std::string unkept;
  bool learning = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped = stopped_;
    unkept = unkept_;
    learning = learning_;
  }
  const auto memory = live_.memory();
  return json_response(
      200, {{"version", options_.version},
            {"role", kRoles[static_cast<std::size_t>(role)]},
            {"memory",
             {{"vectors", memory->size()},
              {"capacity", memory->capacity()},
              {"dimension", memory->dimension()},
              {"rule", memory->consolidation().name()},
              {"certificate", memory->size() == 0 ? Json(nullptr) : finite(memory->certificate())},
              {"backbone", backbone_text(memory->source)}}},
            {"tasks", memory->tasks().size()},
            {"tasks_mark", mark_of(memory->tasks())},
            {"device",
             {{"name", device().text()},
              {"gpu", device().is_cpu() || !gpu_ ? "" : gpu_->name},
              {"failure", gpu_failure()}}},
            {"learning",
             {{"state", !stopped.empty() ? "stopped"
                        : learning       ? "learning"
                                         : "idle"},
              {"reason", stopped}}},
            {"queue", {{"waiting", inspectors_->waiting()}, {"limit", inspectors_->most()}}},
            {"inspections", store_.counts().inspections},
            {"unkept", unkept},
            {"outputs", outputs_json(outputs_)},
            {"cameras", cameras_json(cameras_)},
            {"warnings", warnings(*memory)},
            {"uptime_seconds", seconds_since(started_)}});
}

Json Api::task(const Memory& memory, std::size_t t, const TaskState& state) {
  const TaskRecord& task = memory.tasks()[t];
  const std::optional<Threshold> threshold = memory.threshold(t, options_.false_alarms);
  const TaskPromise promise = promise_of(task.name, threshold);
  const KnownDefects known = memory.known_defects(t);
  const auto all = static_cast<double>(std::max<std::size_t>(1, memory.size()));
  return {{"name", task.name},
          {"images", task.images},
          {"patches", task.patches},
          {"vectors", state.vectors},
          {"share", static_cast<double>(state.vectors) / all},
          {"why", state.why},
          {"certificate", finite(state.certificate)},
          {"calibrated", state.calibrated},
          {"drift", finite(state.drift())},
          {"learned", task.learned},
          {"promise", alarms_json(promise)},
          {"good_parts", good_parts_json(promise)},
          {"known_defects", known.images},
          {"known_defects_used", known.used},
          {"region", task.region ? Json::parse(region_text(*task.region)) : Json(nullptr)},
          {"threshold", as_json(threshold)}};
}

HttpResponse Api::tasks(const HttpRequest& /*request*/, const Params& /*params*/,
                        Compute& /*compute*/) {
  const auto memory = live_.memory();
  const std::vector<TaskState> states = memory->states();
  Json list = Json::array();
  for (std::size_t t = 0; t < states.size(); ++t) list.push_back(task(*memory, t, states[t]));
  return json_response(200, {{"tasks", std::move(list)}});
}

HttpResponse Api::scores(const HttpRequest& /*request*/, const Params& params,
                         Compute& /*compute*/) {
  const auto memory = live_.memory();
  const std::size_t task = index_of(*memory, params[0]);
  const auto threshold = memory->threshold(task, options_.false_alarms);
  return json_response(200, {{"task", params[0]},
                             {"calibration", memory->calibration_scores(task)},
                             {"good", store_.scores(params[0], "good", kHistogramScores)},
                             {"rejected", store_.scores(params[0], "defect", kHistogramScores)},
                             {"threshold", as_json(threshold)}});
}

HttpResponse Api::set_threshold(const HttpRequest& request, const Params& params,
                                Compute& compute) {
  const Json body = object_of(request);
  SetThreshold set;
  for (const auto& [key, value] : body.items()) {
    if (!value.is_number()) throw Refusal{400, "give numbers"};
    const double number = value.get<double>();
    if (key == "score" && number > 0 && number < 1e30) {
      set.score = static_cast<float>(number);
    } else if (key == "false_alarms" && number > 0 && number < 1) {
      set.false_alarms = number;
    } else {
      throw Refusal{400, "give a score above 0, or false_alarms between 0 and 1, or nothing"};
    }
  }
  if (set.score && set.false_alarms) throw Refusal{400, "give a score or a rate, not both"};
  index_of(*live_.memory(), params[0]);
  Lesson lesson;
  lesson.task = params[0];
  lesson.who = who(request);
  lesson.threshold = set;
  take(lesson, {}, compute);
  promises_.begin_anew(params[0]);
  const auto memory = live_.memory();
  const std::size_t task = index_of(*memory, params[0]);
  return json_response(200, this->task(*memory, task, memory->states()[task]));
}

// Earlier versions kept them in the store, where the memory's other readers do not look.
void Api::take_over_thresholds() {
  constexpr std::string_view kPrefix = "threshold/";
  Compute compute(0, options_.device);
  for (const auto& [key, value] : store_.settings()) {
    if (!key.starts_with(kPrefix)) continue;
    Lesson lesson;
    lesson.task = key.substr(kPrefix.size());
    SetThreshold& set = lesson.threshold.emplace();
    const Json kept = Json::parse(value, nullptr, false);
    if (kept.is_object() && kept.contains("score") && kept["score"].is_number()) {
      set.score = kept["score"].get<float>();
    } else if (kept.is_object() && kept.contains("false_alarms") &&
               kept["false_alarms"].is_number()) {
      set.false_alarms = kept["false_alarms"].get<double>();
    }
    try {
      live_.take(lesson, {}, compute);
      store_.erase(key);
    } catch (const Error& error) {
      // The task is not there, or the disk is full: the next start will try again.
      if (options_.note) options_.note(error.what());
    }
  }
}

HttpResponse Api::history(const HttpRequest& request, const Params& /*params*/,
                          Compute& /*compute*/) {
  const auto given = [&](const char* name) -> std::string {
    const auto found = request.query.find(name);
    return found == request.query.end() ? "" : found->second;
  };
  const std::string points = given("points");
  const std::size_t n = points.empty() ? 200 : static_cast<std::size_t>(number_of(points, 400));
  if (n < 1 || n > kMostPoints) throw Refusal{400, "points is from 1 to 2000"};
  Json list = Json::array();
  std::vector<StoredSample> samples;
  try {
    samples = store_.samples(with_milliseconds(given("since")), n);
  } catch (const Error& error) {
    throw Refusal{400, error.what()};
  }
  for (const StoredSample& sample : samples) {
    list.push_back({{"time", sample.time},
                    {"task", sample.sample.task},
                    {"vectors", sample.sample.vectors},
                    {"certificate", finite(sample.sample.certificate)},
                    {"drift", finite(sample.sample.drift)},
                    {"alarms", finite(sample.sample.alarms)},
                    {"good_score", finite(sample.sample.good)}});
  }
  return json_response(200, {{"samples", std::move(list)}});
}

void Api::sample() {
  const auto memory = live_.memory();
  const std::vector<TaskState> states = memory->states();
  std::vector<TaskSample> samples;
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t t = 0; t < std::min<std::size_t>(states.size(), 1000); ++t) {
    const std::string& name = memory->tasks()[t].name;
    const TaskPromise seen = promise_of(name, std::nullopt);
    samples.push_back({name, states[t].vectors, states[t].certificate, states[t].drift(),
                       seen.alarm_rate().value_or(kUnknown), seen.good.value_or(kUnknown)});
  }
  try {
    store_.sample(utc_now_ms(), samples);
  } catch (const Error&) {
    // A full disk: the next one will do.
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  sampled_ = Clock::now();
}

}  // namespace contcore
