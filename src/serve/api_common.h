// What the handlers share.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "serve/api.h"

namespace contcore {

using Json = nlohmann::json;

/// Thrown by a handler that will not do what it was asked.
struct Refusal {
  int status;
  std::string detail;
  bool confirm = false;  ///< it will, if it is told that this is meant
};

/// "Not Found" and so on.
std::string_view reason_of(int status);

HttpResponse json_response(int status, const Json& body);

/// JSON has no infinity and no NaN.
inline Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

/// The request's body as a JSON object. Throws Refusal (400).
Json object_of(const HttpRequest& request);

/// The image that a request bears: its body, or the part "image" of a form. Throws Refusal (400,
/// 415).
std::string_view image_of(const HttpRequest& request);

/// A decoded image. Throws Refusal (422).
Image decode(std::string_view bytes);

/// By its first bytes, never by what the client says.
std::string_view image_type(std::string_view bytes);

/// Throws Refusal (400) unless the memory knows the task or a task can have this name.
const std::string& task_name(const std::string& name, const Memory& memory);

/// Throws Refusal (400) unless a station can have this name.
void check_station(const std::string& name);

/// Images that all tasks have learned, ever.
std::uint64_t images_in(const Memory& memory);

/// A whole number from a path or query. Throws Refusal (`status`).
std::int64_t number_of(const std::string& text, int status);

/// What the query leaves of the inspections. Throws Refusal (400).
InspectionFilter filter_of(const HttpRequest& request);

/// Parts of a file's name that is sent: each behind a hyphen, with nothing but ASCII letters,
/// figures, dots and hyphens; empty ones are left out.
std::string file_label(std::initializer_list<std::string> parts);

/// An id of 0 is null: the inspection is not kept.
Json as_json(const StoredInspection& row);
Json as_json(const Region& region);
Json as_json(const JobState& job);
Json as_json(const Review& review, const std::vector<std::string>& strangest_names);

/// Of a task: alarms beside the promise, and how good parts score.
Json alarms_json(const TaskPromise& promise);
Json good_parts_json(const TaskPromise& promise);
void show(const TaskPromise& promise, const MetricLabels& task, Metrics& metrics);

/// Where verdicts are sent.
Json outputs_json(Outputs& outputs);
void warn_of_outputs(Outputs& outputs, Json& warnings);
void show_outputs(Outputs& outputs, Metrics& metrics);

/// Where frames come from.
Json cameras_json(const Cameras& cameras);
void warn_of_cameras(const Cameras& cameras, Json& warnings);
void show_cameras(const Cameras& cameras, Metrics& metrics);

}  // namespace contcore
