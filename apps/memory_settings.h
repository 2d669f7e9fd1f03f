// The settings of a new memory, as options of the commands that make one. They are kept in it;
// named again for a memory that is there, they must be the ones it has.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "contcore/detector.h"
#include "contcore/memory.h"
#include "extractor_settings.h"

namespace contcore::app {

class MemorySettings {
 public:
  void add_to(CLI::App& command);

  /// Of a new memory. Throws Error (kUsage) for what cannot be.
  DetectorOptions options() const;

  /// Throws Error (kInput) if the memory `name` was made with others than those named.
  void check(const Memory& memory, const std::string& name) const;

  /// Whether one is named, other than the backbone.
  bool named() const;

  /// A file instead of the backbone that a memory names.
  const std::string& backbone() const { return images_.backbone; }

  /// The options' names.
  static const std::vector<std::string>& names();

 private:
  bool paper_ = false;
  ExtractorSettings images_;
  std::string score_;
  std::string memory_;
  std::optional<std::size_t> capacity_;
  std::string consolidate_;
  std::optional<double> q_;
};

}  // namespace contcore::app
