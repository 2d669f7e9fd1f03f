// How much is kept of a memory's lessons and versions: options of the commands that change one.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "contcore/history.h"

namespace contcore::app {

class KeptVersions {
 public:
  void add_to(CLI::App& command);
  /// Throws Error (kUsage) for a size that is none.
  HistoryLimits limits() const;

 private:
  std::size_t versions_ = HistoryLimits().versions;
  std::string size_ = "1G";
  const CLI::App* command_ = nullptr;
};

/// Who runs this command, for the list of lessons; perhaps empty.
std::string user_name();

}  // namespace contcore::app
