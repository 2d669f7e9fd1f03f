// What `evaluate` and `analyze` have in common: the data, the backbone, the cache.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "contcore/evaluate.h"

namespace contcore::app {

struct DataOptions {
  std::vector<std::string> roots;
  std::string layout = "auto";
  std::string classes;
  std::string layers;
  std::string resize = "256";
  std::string crop = "224";
  std::string tile;
  std::string overlap;
  std::string precision = "float";
  std::string score = "patch";
  std::string cache;
  std::string cache_limit = "64G";
  bool no_cache = false;
  EvaluationOptions evaluation;          ///< schedule and backbone are set here
  CLI::Option* resize_option = nullptr;  ///< which tell whether they were given
  CLI::Option* crop_option = nullptr;

  void add_to(CLI::App& command);

  /// Opens the data sets and fills in `evaluation`; remarks go to stderr.
  void open();
};

}  // namespace contcore::app
