// Stations: what each has inspected in this shift, and the product that it is for.
#include <fmt/format.h>

#include "contcore/error.h"
#include "serve/api_common.h"
#include "serve/service.h"
#include "serve/shifts.h"

namespace contcore {
namespace {

// Among the store's settings.
constexpr std::string_view kPin = "station/";
constexpr std::size_t kMostPins = 1000;

Json station_json(const StationCounts& station, const std::string& task, const std::string& since) {
  return {{"name", station.name},
          {"task", task.empty() ? Json(nullptr) : Json(task)},
          {"latest", station.latest == 0 ? Json(nullptr) : Json(station.latest)},
          {"shift",
           {{"since", since},
            {"inspected", station.good + station.defect + station.unknown + station.uncalibrated},
            {"good", station.good},
            {"defect", station.defect},
            {"unknown", station.unknown},
            {"uncalibrated", station.uncalibrated}}}};
}

}  // namespace

void Api::load_pins() {
  for (auto& [key, task] : store_.settings()) {
    if (key.starts_with(kPin)) pins_.emplace(key.substr(kPin.size()), std::move(task));
  }
}

std::string Api::pinned(const std::string& station) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = pins_.find(station);
  return found == pins_.end() ? "" : found->second;
}

// What an image is to be inspected as: a station that is for one product does not take another's
// name.
std::string Api::product_of(const std::string& station, const std::string& task) const {
  const std::string pin = pinned(station);
  if (!pin.empty() && !task.empty() && task != pin) {
    throw Refusal{409, fmt::format("station '{}' is for '{}', not for '{}'; leave the task out, or "
                                   "pin another product to the station",
                                   station, pin, task)};
  }
  if (!pin.empty() && !live_.memory()->find_task(pin)) {
    throw Refusal{409, fmt::format("station '{}' is for '{}', which is not learned any more; pin "
                                   "another product to the station, or none",
                                   station, pin)};
  }
  return pin.empty() ? task : pin;
}

// Stations that are for a task are for it under its new name.
void Api::rename_pins(const std::string& from, const std::string& to) {
  std::map<std::string, std::string> pins;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [station, task] : pins_) {
      if (task == from) task = to;
    }
    pins = pins_;
  }
  for (const auto& [station, task] : pins) {
    if (task == to) store_.set(std::string(kPin) + station, to);
  }
}

HttpResponse Api::stations(const HttpRequest& /*request*/, const Params& /*params*/,
                           Compute& /*compute*/) {
  const std::string since = shift_start(options_.shifts, std::chrono::system_clock::now());
  std::map<std::string, std::string> pins;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    pins = pins_;
  }
  std::map<std::string, StationCounts> all;
  for (const auto& [name, task] : pins) all[name].name = name;
  for (StationCounts& station : store_.stations(since)) all[station.name] = station;
  Json list = Json::array();
  for (const auto& [name, station] : all) list.push_back(station_json(station, pins[name], since));
  return json_response(200, {{"stations", std::move(list)}});
}

HttpResponse Api::pin_station(const HttpRequest& request, const Params& params,
                              Compute& /*compute*/) {
  const std::string& name = params[0];
  check_station(name);
  const Json body = object_of(request);
  if (!body.contains("task") || !(body["task"].is_string() || body["task"].is_null())) {
    throw Refusal{400, "give a task, or null for none"};
  }
  const std::string task = body["task"].is_null() ? "" : body["task"].get<std::string>();
  if (!task.empty() && !live_.memory()->find_task(task)) {
    throw Refusal{400, fmt::format("there is no task '{}'", task)};
  }
  const std::string key = std::string(kPin) + name;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!task.empty() && pins_.size() >= kMostPins && !pins_.contains(name)) {
      throw Refusal{
          400, fmt::format("{} stations have a product already; take one from another", kMostPins)};
    }
  }
  // On disk before it holds.
  if (task.empty()) {
    store_.erase(key);
  } else {
    store_.set(key, task);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    pins_.erase(name);
    if (!task.empty()) pins_.emplace(name, task);
  }
  return json_response(200, {{"name", name}, {"task", task.empty() ? Json(nullptr) : Json(task)}});
}

}  // namespace contcore
