#include "evaluate_options.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "common.h"
#include "contcore/dataset.h"
#include "contcore/error.h"

namespace contcore::app {
namespace {

std::string default_cache() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/contcore/evaluate";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return std::string(home) + "/.cache/contcore/evaluate";
  return "";
}

}  // namespace

void DataOptions::add_to(CLI::App& command) {
  command
      .add_option("dataset", roots,
                  "The data set's folder; several, separated by commas, for schedules across them")
      ->required()
      ->delimiter(',')
      ->type_name("DATASET");
  command.add_option("--layout", layout, "mvtec, visa, real-iad (default: found by looking)")
      ->type_name("LAYOUT");
  command.add_option("--classes", classes, "Only these classes (default: all)")->type_name("A,B");
  command
      .add_option("--backbone", evaluation.backbone,
                  "An ONNX file, resnet50 or builtin (default: resnet50 if it was fetched)")
      ->type_name("FILE");
  command.add_option("--layers", layers, "Layers of features (default: layer2,layer3)")
      ->type_name("A,B");
  resize_option =
      command
          .add_option("--resize", resize,
                      "256 squares the image, short:256 keeps its shape; 50% is for tiles")
          ->capture_default_str()
          ->type_name("N|short:N|N%");
  crop_option = command.add_option("--crop", crop, "Side of the centre crop")
                    ->capture_default_str()
                    ->type_name("N|none");
  command
      .add_option("--tile", tile,
                  "See large images in overlapping tiles of this side, such as 384; --resize and "
                  "--crop are then 100% and none")
      ->type_name("N|none");
  command
      .add_option(
          "--overlap", overlap,
          fmt::format(
              "Pixels that neighbouring tiles have in common (default: {}, at most half a tile)",
              kTileOverlap))
      ->type_name("N");
  command.add_option("--precision", precision, "Network and patch vectors in 8bit or float")
      ->capture_default_str()
      ->check(CLI::IsMember({"8bit", "float"}))
      ->type_name("8bit|float");
  command.add_option("--dimension", evaluation.dimension, "Numbers of a patch vector")
      ->capture_default_str()
      ->check(vector_dimension())
      ->type_name("D");
  command
      .add_option(
          "--score", score,
          "An image's score: the largest value of its anomaly map, or of its patches' distances")
      ->capture_default_str()
      ->check(CLI::IsMember({"map", "patch"}))
      ->type_name("map|patch");
  command
      .add_option("--cache", cache,
                  "Folder for features and finished runs (default: ~/.cache/contcore/evaluate)")
      ->type_name("DIR");
  command.add_option("--cache-limit", cache_limit, "Most bytes of features to keep")
      ->capture_default_str()
      ->type_name("SIZE");
  command.add_flag("--no-cache", no_cache, "Keep nothing");
}

void DataOptions::open() {
  evaluation.classes = split_names(classes);
  evaluation.layers = split_names(layers);
  const bool tiled = !tile.empty() && tile != "none";
  const auto given = [&](const CLI::Option* option, const std::string& text) {
    return tiled && option->count() == 0 ? std::string() : text;
  };
  evaluation.geometry = Geometry::parse(
      {given(resize_option, resize), given(crop_option, crop), tile, overlap}, Geometry{});
  evaluation.precision = parse_precision(precision);
  evaluation.score = parse_score(score);
  evaluation.notice = note;
  evaluation.cache_limit = parse_size(cache_limit);
  evaluation.cache = no_cache ? "" : cache.empty() ? default_cache() : cache;
  for (const std::string& root : roots) {
    evaluation.datasets.push_back(open_dataset(root, layout));
    for (const std::string& text : evaluation.datasets.back().notes) note(text);
  }
}

}  // namespace contcore::app
