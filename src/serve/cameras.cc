#include "serve/cameras.h"

#include <fmt/format.h>

#include <algorithm>

#include "camera/aravis.h"
#include "contcore/error.h"

namespace contcore {

Cameras::Cameras(const std::vector<CameraSettings>& cameras, std::size_t at_once,
                 const CameraFeed::Note& note) {
  if (!cameras.empty()) libaravis();  // what is missing is to be told now
  CameraLimits limits;
  limits.at_once = at_once;
  for (const CameraSettings& settings : cameras) {
    for (const auto& other : feeds_) {
      if (other->settings().id != settings.id && other->settings().station != settings.station) {
        continue;
      }
      throw Error(
          Error::Kind::kUsage,
          fmt::format("--camera {}: the {} is named twice; a station has one camera", settings.id,
                      other->settings().id == settings.id ? "camera" : "station"));
    }
    feeds_.push_back(std::make_unique<CameraFeed>(settings, open_camera, note, limits));
  }
}

void Cameras::start(const Take& take) {
  try {
    for (const auto& feed : feeds_) {
      const std::string station = feed->settings().station;
      feed->start([take, station](Frame&& frame, CameraFeed::Done done) {
        return take(station, std::move(frame), std::move(done));
      });
    }
  } catch (...) {
    stop();  // what takes the frames may be gone soon
    throw;
  }
}

void Cameras::stop() {
  for (const auto& feed : feeds_) feed->end();
  for (const auto& feed : feeds_) feed->stop();
}

std::vector<std::string> Cameras::stations_that_ask() const {
  std::vector<std::string> stations;
  for (const auto& feed : feeds_) {
    if (feed->settings().trigger == "software") stations.push_back(feed->settings().station);
  }
  return stations;
}

std::vector<CameraState> Cameras::states() const {
  std::vector<CameraState> states;
  for (const auto& feed : feeds_) states.push_back(feed->state());
  return states;
}

CameraFeed* Cameras::of(const std::string& station) const {
  const auto found = std::ranges::find_if(
      feeds_, [&](const auto& feed) { return feed->settings().station == station; });
  return found == feeds_.end() ? nullptr : found->get();
}

}  // namespace contcore
