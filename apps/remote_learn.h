// Learning by a service (contcore serve).
#pragma once

#include <string>
#include <vector>

#include "contcore/region_of_interest.h"

namespace contcore::app {

struct RemoteLearn {
  std::string server;
  std::vector<std::string> images;
  std::string task;
  bool online = false;
  bool strict = false;
  bool json = false;
  std::string review;  ///< the contact sheet's file; empty: none
  SharedRegion region = {};
};

/// Sends the images and has them reviewed and learned: as one job that is followed to its end, or
/// (online) one after the other, which are then sent twice. Ctrl-C cancels the job.
void learn_remotely(const RemoteLearn& command);

}  // namespace contcore::app
