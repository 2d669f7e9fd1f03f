// How images become patch vectors, as options of the commands that decide it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <optional>
#include <string>

#include "contcore/extractor.h"

namespace contcore::app {

/// Each is as it was given; empty: the usual.
struct ExtractorSettings {
  std::string backbone;
  std::string layers;
  std::string precision;
  std::optional<std::size_t> dimension;
  std::string resize;
  std::string crop;
  std::string tile;
  std::string overlap;

  GeometryText geometry() const { return {resize, crop, tile, overlap}; }

  /// `of` stands before what the options mean, such as "New memory: "; `more` behind what is said
  /// of --backbone.
  void add_to(CLI::App& command, const std::string& of = "", const std::string& more = "");

  /// Sets what was given. Throws Error (kUsage) for what cannot be.
  void set(ExtractorOptions& options) const;
};

}  // namespace contcore::app
