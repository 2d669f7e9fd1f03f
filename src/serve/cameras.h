// The service's cameras: one for a station.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "camera/feed.h"

namespace contcore {

class Cameras {
 public:
  using Take = std::function<bool(const std::string& station, Frame&&, CameraFeed::Done)>;

  /// Throws Error: kUsage for a camera or a station that is named twice, kInput where Aravis is
  /// missing. A camera that is not there is waited for.
  Cameras(const std::vector<CameraSettings>& cameras, std::size_t at_once,
          const CameraFeed::Note& note);

  /// From now on frames are taken.
  void start(const Take& take);
  void stop();

  bool empty() const { return feeds_.empty(); }
  /// Those whose cameras are triggered by software.
  std::vector<std::string> stations_that_ask() const;
  std::vector<CameraState> states() const;
  /// The camera of a station; null: it has none.
  CameraFeed* of(const std::string& station) const;

 private:
  std::vector<std::unique_ptr<CameraFeed>> feeds_;
};

}  // namespace contcore
