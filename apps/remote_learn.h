// Learning by a service (contcore serve).
#pragma once

#include <string>
#include <vector>

namespace contcore::app {

struct RemoteLearn {
  std::string server;
  std::vector<std::string> images;
  std::string task;
  bool online = false;
  bool strict = false;
  bool json = false;
};

/// Sends the images and has them learned: as one job that is followed to its end, or (online) one
/// after the other. Ctrl-C cancels the job.
void learn_remotely(const RemoteLearn& command);

}  // namespace contcore::app
