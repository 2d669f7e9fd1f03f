// Cameras: a frame that is asked for, and how they are, for machines and in words. In: the cameras
// as they are, and their frames. Out: verdicts, JSON, metrics, warnings.
#include <fmt/format.h>

#include "contcore/error.h"
#include "serve/api_common.h"
#include "serve/cameras.h"
#include "serve/service.h"

namespace contcore {

// It is kept as PNG: what is called good later is learned as it was inspected.
StoredInspection Api::inspect_shot(const Frame& frame, const std::string& asked,
                                   const std::string& station, Compute& compute,
                                   Turns::Turn* turn) {
  const auto start = std::chrono::steady_clock::now();
  const std::string task = product_of(station, asked);
  Image picture;
  try {
    picture = image_of(frame);
  } catch (const Error& error) {
    throw Refusal{422, error.what()};
  }
  StoredInspection row;
  row.source = fmt::format("frame {}", frame.id);
  row.station = station;
  std::vector<std::uint8_t> png;
  const auto bytes = [&]() -> std::string_view {
    png = png_of(frame, picture);
    return {reinterpret_cast<const char*>(png.data()), png.size()};
  };
  return inspect_picture(picture, task, bytes, std::move(row), start, compute, turn);
}

bool Api::inspect_frame(const std::string& station, Frame&& frame, CameraFeed::Done done) {
  if (live_.memory()->size() == 0) return false;
  const auto kept = std::make_shared<const Frame>(std::move(frame));
  std::shared_ptr<Turns::Turn> turn;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    turn = frame_turns_[station].take();
  }
  return inspectors_->submit([this, station, kept, turn, done = std::move(done)](Compute& compute) {
    std::string trouble;
    try {
      inspect_shot(*kept, "", station, compute, turn.get());
    } catch (const Refusal& refused) {
      trouble = refused.detail;
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    if (!trouble.empty()) note_frame(fmt::format("station {}: {}", station, trouble));
    done(trouble.empty());
  });
}

// Not each: there may be as many as there are frames.
void Api::note_frame(const std::string& trouble) {
  constexpr std::chrono::seconds kBetween{10};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now - noted_frame_ < kBetween) return;
    noted_frame_ = now;
  }
  if (options_.note) options_.note(trouble);
}

// Answers as an inspection by HTTP does.
HttpResponse Api::trigger(const HttpRequest& request, const Params& params, Compute& compute) {
  const auto given = request.query.find("task");
  const std::string task = given == request.query.end() ? "" : given->second;
  CameraFeed* camera = cameras_.of(params[0]);
  if (camera == nullptr) {
    throw Refusal{404, fmt::format("no camera is of station '{}'", params[0])};
  }
  if (live_.memory()->size() == 0) {
    throw Refusal{409, "the memory is empty; learn good images first"};
  }
  // What cannot be is to cost no frame.
  if (!task.empty() && !live_.memory()->find_task(task)) {
    throw Refusal{400, fmt::format("there is no task '{}'", task)};
  }
  product_of(params[0], task);
  std::pair<Frame, CameraFeed::Done> shot;
  try {
    shot = camera->trigger();
  } catch (const Error& error) {
    throw Refusal{error.kind() == Error::Kind::kUsage ? 409 : 503, error.what()};
  }
  StoredInspection row;
  try {
    row = inspect_shot(shot.first, task, params[0], compute);
  } catch (...) {
    shot.second(false);
    throw;
  }
  shot.second(true);
  return created(row);
}

Json cameras_json(const Cameras& cameras) {
  Json list = Json::array();
  for (const CameraState& camera : cameras.states()) {
    list.push_back({{"id", camera.id},
                    {"station", camera.station},
                    {"trigger", camera.trigger},
                    {"up", camera.up},
                    {"vendor", camera.info.vendor},
                    {"model", camera.info.model},
                    {"serial", camera.info.serial},
                    {"frames", camera.frames},
                    {"inspected", camera.inspected},
                    {"unreadable", camera.unreadable},
                    {"dropped", camera.dropped},
                    {"damaged", camera.damaged},
                    {"waiting", camera.waiting},
                    {"lost", camera.lost},
                    {"opened", camera.opened},
                    {"error", camera.error}});
  }
  return list;
}

void warn_of_cameras(const Cameras& cameras, Json& warnings) {
  for (const CameraState& camera : cameras.states()) {
    if (!camera.up) {
      warnings.push_back(
          fmt::format("station {}: {}; it is tried again", camera.station, camera.error));
    }
    if (!camera.losses.empty()) {
      warnings.push_back(
          fmt::format("station {}: camera {}: {}", camera.station, camera.id, camera.losses));
    }
  }
}

void show_cameras(const Cameras& cameras, Metrics& metrics) {
  for (const CameraState& camera : cameras.states()) {
    const MetricLabels station = {{"station", camera.station}};
    metrics.gauge("contcore_camera_up", "1 while a station's camera is open", station)
        .set(camera.up ? 1 : 0);
    metrics.gauge("contcore_camera_waiting", "Frames that are being inspected", station)
        .set(static_cast<double>(camera.waiting));
    metrics.counter("contcore_camera_opened_total", "How often a camera was opened", station)
        .add(camera.opened);
    const std::pair<const char*, std::uint64_t> results[] = {{"inspected", camera.inspected},
                                                             {"unreadable", camera.unreadable},
                                                             {"dropped", camera.dropped},
                                                             {"damaged", camera.damaged},
                                                             {"lost", camera.lost}};
    for (const auto& [result, frames] : results) {
      metrics
          .counter("contcore_camera_frames_total", "What became of a camera's frames",
                   {{"station", camera.station}, {"result", result}})
          .add(frames);
    }
  }
}

}  // namespace contcore
