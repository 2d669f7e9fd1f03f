#include "serve/api_common.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/task_name.h"
#include "contcore/error.h"
#include "serve/multipart.h"

namespace contcore {

std::string_view reason_of(int status) {
  switch (status) {
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 503:
      return "Service Unavailable";
    case 507:
      return "Insufficient Storage";
    default:
      return "Internal Server Error";
  }
}

HttpResponse json_response(int status, const Json& body) {
  HttpResponse response;
  response.status = status;
  response.body = body.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  return response;
}

Json object_of(const HttpRequest& request) {
  Json body = Json::parse(request.body, nullptr, false);
  if (!body.is_object()) throw Refusal{400, "the body is not a JSON object"};
  return body;
}

std::string_view image_of(const HttpRequest& request) {
  const std::string_view type = request.header("content-type");
  if (is_form(type)) {
    std::vector<FormPart> parts;
    try {
      parts = parse_form(type, request.body);
    } catch (const Error& error) {
      throw Refusal{400, error.what()};
    }
    const auto found = std::find_if(parts.begin(), parts.end(),
                                    [](const FormPart& part) { return part.name == "image"; });
    if (found == parts.end()) throw Refusal{400, "the form has no file named 'image'"};
    if (parts.size() > 1) throw Refusal{400, "send one image at a time"};
    if (found->bytes.empty()) throw Refusal{400, "the form's image is empty"};
    return found->bytes;
  }
  if (!type.empty() && !type.starts_with("image/") &&
      !type.starts_with("application/octet-stream") &&
      // What curl --data-binary calls everything. An image is told by its bytes, and another site's
      // form by its Origin.
      !type.starts_with("application/x-www-form-urlencoded")) {
    throw Refusal{415, "send the bytes of an image, or a form with a file named 'image'"};
  }
  if (request.body.empty()) throw Refusal{400, "the body is empty; send the bytes of an image"};
  return request.body;
}

Image decode(std::string_view bytes) {
  try {
    return decode_image({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()},
                        "the image");
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    throw Refusal{422, error.what()};
  }
}

std::string_view image_type(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG")) return "image/png";
  if (bytes.starts_with("\xff\xd8\xff")) return "image/jpeg";
  if (bytes.starts_with("BM")) return "image/bmp";
  if (bytes.starts_with("II*") || bytes.starts_with("MM")) return "image/tiff";
  if (bytes.starts_with("RIFF")) return "image/webp";
  return "application/octet-stream";
}

const std::string& task_name(const std::string& name, const Memory& memory) {
  try {
    memory.check_task(name);
  } catch (const Error& error) {
    throw Refusal{400, error.what()};
  }
  return name;
}

void check_station(const std::string& name) {
  if (const std::string fault = task_name_fault(name, "station"); !fault.empty()) {
    throw Refusal{400, fault};
  }
}

std::uint64_t images_in(const Memory& memory) {
  std::uint64_t images = 0;
  for (const TaskRecord& task : memory.tasks()) images += task.images;
  return images;
}

std::int64_t number_of(const std::string& text, int status) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < 0) {
    throw Refusal{status, fmt::format("'{:.40}' is not a number that could be meant", text)};
  }
  return value;
}

std::string file_label(std::initializer_list<std::string> parts) {
  std::string label;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    label += '-';
    for (const char c : part) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '.' || c == '-';
      if (plain || label.back() != '_') label += plain ? c : '_';
    }
  }
  return label;
}

Json as_json(const Region& region) {
  return {{"x", region.x},           {"y", region.y},       {"width", region.width},
          {"height", region.height}, {"area", region.area}, {"score", region.score}};
}

Json as_json(const StoredInspection& row) {
  Json regions = Json::array();
  for (const Region& region : row.regions) regions.push_back(as_json(region));
  return {{"id", row.id == 0 ? Json(nullptr) : Json(row.id)},
          {"time", row.time},
          {"task", row.task.empty() ? Json(nullptr) : Json(row.task)},
          {"source", row.source},
          {"station", row.station},
          {"score", row.score},
          {"threshold", row.threshold ? Json(*row.threshold) : Json(nullptr)},
          {"verdict", row.verdict},
          {"reason", row.reason.empty() ? row.verdict : row.reason},
          {"regions", std::move(regions)},
          {"latency_ms", row.latency_ms},
          {"width", row.width},
          {"height", row.height},
          {"feedback", row.feedback},
          {"feedback_time", row.feedback_time},
          {"learned", row.learned},
          {"has_image", row.has_image}};
}

Json as_json(const JobState& job) {
  Json skipped = Json::array();
  for (const JobState::Skipped& image : job.skipped_images) {
    skipped.push_back({{"name", image.name}, {"reason", image.reason}});
  }
  return {{"id", std::to_string(job.id)},
          {"task", job.task},
          {"state", job.state},
          {"received", job.received},
          {"skipped", job.skipped},
          {"skipped_images", std::move(skipped)},
          {"left_out", job.left_out},
          {"progress", job.progress},
          {"error", job.error},
          {"created", job.created},
          {"finished", job.finished},
          {"review", job.review ? as_json(*job.review, job.strangest_names) : Json(nullptr)}};
}

Json as_json(const Review& review, const std::vector<std::string>& strangest_names) {
  Json remarks = Json::array();
  for (const Remark& remark : review.remarks) {
    remarks.push_back({{"kind", remark.kind}, {"text", remark.text}, {"images", remark.images}});
  }
  Json strangest = Json::array();
  for (std::size_t i = 0; i < review.strangest.size(); ++i) {
    const StrangeImage& image = review.strangest[i];
    strangest.push_back({{"image", image.image},
                         {"name", strangest_names[i]},
                         {"score", image.score},
                         {"usual", image.usual}});
  }
  return {{"images", review.images},
          {"scored", review.scored},
          {"remarks", std::move(remarks)},
          {"strangest", std::move(strangest)}};
}

}  // namespace contcore
