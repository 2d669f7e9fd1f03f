// contcore extract: images to patch vectors in a file.
#include "contcore/extract.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "commands.h"
#include "common.h"
#include "contcore/compute.h"
#include "extractor_settings.h"
#include "progress_line.h"

namespace contcore::app {
namespace {

constexpr char kFooter[] =
    "Example: the vectors that learn would see, and which of them are whose\n"
    "  contcore extract good/ --out features.npy --index features.json\n"
    "  contcore sample features.npy --ratio 0.01 --out picks.npy\n";

struct ExtractCommand {
  std::vector<std::string> images;
  std::string out;
  std::string index;
  bool strict = false;
  ExtractorSettings settings;
  CommonOptions common;
};

nlohmann::json vectors_json(const Extractor& extractor, const ExtractReport& report) {
  return {{"rows", report.rows},
          {"dimension", extractor.embedding().dimension},
          {"dtype", extractor.byte_scale() ? "uint8" : "float32"}};
}

nlohmann::json skipped_json(const ExtractReport& report) {
  nlohmann::json skipped = nlohmann::json::array();
  for (const SkippedImage& image : report.skipped) {
    skipped.push_back({{"file", image.file}, {"reason", image.reason}});
  }
  return skipped;
}

nlohmann::json index_json(const Extractor& extractor, const ExtractReport& report) {
  nlohmann::json images = nlohmann::json::array();
  for (const ExtractedImage& image : report.images) {
    images.push_back({{"file", image.file},
                      {"first", image.first},
                      {"rows", image.rows},
                      {"grid", {image.grid_height, image.grid_width}},
                      {"seen",
                       {{"left", image.left},
                        {"top", image.top},
                        {"right", image.right},
                        {"bottom", image.bottom}}},
                      {"width", image.image_width},
                      {"height", image.image_height}});
  }
  return {{"vectors", vectors_json(extractor, report)},
          {"source", extractor.source()},
          {"images", images},
          {"skipped", skipped_json(report)}};
}

std::string as_json(const Extractor& extractor, const ExtractReport& report) {
  nlohmann::json object = vectors_json(extractor, report);
  object["images"] = report.images.size();
  object["skipped"] = skipped_json(report);
  object["seconds"] = report.seconds;
  return json_line(object);
}

std::string as_text(const Extractor& extractor, const ExtractReport& report) {
  return fmt::format("{} of {} {} of {} in {:.3g} s\n", counted(report.rows, "vector"),
                     extractor.embedding().dimension, extractor.byte_scale() ? "bytes" : "floats",
                     counted(report.images.size(), "image"), report.seconds);
}

void run(const ExtractCommand& command) {
  ExtractorOptions options;
  command.settings.set(options);
  const std::vector<std::string> files = find_and_note(command.images);
  Outputs outputs(files);
  outputs.plan("--out", command.out);
  outputs.plan("--index", command.index);
  const Extractor extractor(options);
  Compute compute = command.common.compute();
  ExtractReport report;
  outputs.write(command.out, [&](const std::string& path) {
    ProgressLine progress(fmt::format("extracting {}", counted(files.size(), "image")));
    report = extract_to_npy(extractor, files, path, command.strict, compute, progress.callback());
  });
  for (const SkippedImage& image : report.skipped) note("left out: " + image.reason);
  outputs.write(command.index, [&](const std::string& path) {
    const std::string text = json_line(index_json(extractor, report));
    const std::array parts = {std::as_bytes(std::span(text))};
    write_whole(path, parts);
  });
  outputs.finish(command.common.json ? as_json(extractor, report) : as_text(extractor, report));
}

}  // namespace

void add_extract(CLI::App& app) {
  auto command = std::make_shared<ExtractCommand>();
  CLI::App* sub = app.add_subcommand("extract", "Write the patch vectors of images to a file");
  sub->add_option("images", command->images, "Images: files and folders")
      ->required()
      ->type_name("IMAGES");
  sub->add_option("--out", command->out, "Write the vectors here (.npy: uint8, or float32)")
      ->required()
      ->type_name("Z.npy");
  sub->add_option("--index", command->index,
                  "Write here which rows are which image and place, as JSON")
      ->type_name("Z.json");
  sub->add_flag("--strict", command->strict,
                "Stop at an image that cannot be read, instead of leaving it out");
  command->settings.add_to(*sub);
  command->common.add_to(*sub);
  sub->footer(kFooter);
  sub->callback([command] { run(*command); });
}

}  // namespace contcore::app
