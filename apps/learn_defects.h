// contcore learn --defects: images of defects shown to a memory.
#pragma once

#include <string>
#include <vector>

#include "common.h"
#include "contcore/detector.h"

namespace contcore::app {

struct DefectsCommand {
  std::string memory;
  std::vector<std::string> images;
  std::string masks;  ///< the folder; empty: what is outlined
  std::string backbone;
  LearnOptions options;
  HistoryLimits kept;
  CommonOptions common;
};

/// Throws Error as Detector::learn_defects; the memory's file is then as before.
void learn_defects(const DefectsCommand& command);

}  // namespace contcore::app
