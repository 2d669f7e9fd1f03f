// contcore inspect: score, verdict and map of images.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "common.h"
#include "contcore/detector.h"
#include "contcore/error.h"
#include "contcore/npy.h"
#include "progress_line.h"

namespace contcore::app {
namespace {

namespace fs = std::filesystem;

constexpr char kFooter[] =
    "Examples:\n"
    "  contcore inspect line.ccm camera/ --heatmaps heatmaps/\n"
    "  contcore inspect line.ccm part.png --json\n"
    "A line for each image: verdict, score, threshold, product, file. The product is recognised "
    "by\n"
    "its looks unless it is named with --task.\n";

struct InspectCommand {
  std::string memory;
  std::vector<std::string> images;
  std::string backbone;
  std::string heatmaps;
  std::string maps;
  std::size_t use = 0;
  InspectOptions options;
  CommonOptions common;
};

// The folder that all files have in common.
fs::path common_folder(const std::vector<std::string>& files) {
  fs::path common = fs::path(files[0]).parent_path();
  for (const std::string& file : files) {
    const fs::path folder = fs::path(file).parent_path();
    fs::path same;
    for (auto a = common.begin(), b = folder.begin();
         a != common.end() && b != folder.end() && *a == *b; ++a, ++b) {
      same /= *a;
    }
    common = same;
  }
  return common;
}

// Where the picture of an image goes: the same path under `folder`, with an ending added.
std::string place_of(const std::string& folder, const fs::path& common, const std::string& file,
                     const char* ending) {
  fs::path inside;
  for (const fs::path& part : fs::path(file).lexically_relative(common)) {
    if (part != ".." && part != "/") inside /= part;
  }
  const fs::path place = fs::path(folder) / (inside.string() + ending);
  std::error_code error;
  fs::create_directories(place.parent_path(), error);
  if (error) {
    throw Error(Error::Kind::kInput, fmt::format("{}: cannot be made: {}",
                                                 place.parent_path().string(), error.message()));
  }
  return place.string();
}

nlohmann::json as_json(const Detector::Inspected& item, const Memory& memory,
                       const std::string& picture) {
  nlohmann::json object = {{"file", item.file}};
  if (!item.error.empty()) {
    object["verdict"] = "error";
    object["error"] = item.error;
    return object;
  }
  const Inspection& seen = item.seen;
  object["verdict"] = verdict(seen);
  object["score"] = seen.score;
  if (seen.threshold) {
    object["threshold"] = seen.threshold->score;
    object["false_alarms"] = seen.threshold->false_alarms;
  }
  if (seen.task) object["task"] = memory.tasks()[*seen.task].name;
  object["peak"] = {{"x", seen.peak_x}, {"y", seen.peak_y}};
  object["width"] = item.image.width;
  object["height"] = item.image.height;
  object["seconds"] = item.seconds;
  if (!picture.empty()) object["heatmap"] = picture;
  return object;
}

std::string as_text(const Detector::Inspected& item, const Memory& memory) {
  if (!item.error.empty()) return fmt::format("error    {}\n", item.error);
  const Inspection& seen = item.seen;
  return fmt::format("{:<7} {:9.3f} {:>9} {:<16} {}\n", verdict(seen), seen.score,
                     seen.threshold ? fmt::format("{:.3f}", seen.threshold->score) : "-",
                     seen.task ? memory.tasks()[*seen.task].name : "-", item.file);
}

struct Count {
  std::size_t good = 0;
  std::size_t defect = 0;
  std::size_t unknown = 0;
  std::size_t unreadable = 0;

  void add(const Detector::Inspected& item) {
    if (!item.error.empty()) {
      ++unreadable;
    } else if (!item.seen.threshold) {
      ++unknown;
    } else {
      ++(item.seen.rejected ? defect : good);
    }
  }
};

void run(const InspectCommand& command) {
  if (!(command.options.false_alarms > 0 && command.options.false_alarms < 1)) {
    throw Error(Error::Kind::kUsage, "--false-alarms must be above 0 and below 1, such as 0.05");
  }
  const std::vector<std::string> files = find_images(command.images);
  Detector detector = Detector::open(command.memory, command.backbone);
  Threads threads(command.common.threads);
  if (command.use != 0) detector.shrink(command.use, threads);
  const fs::path common = common_folder(files);
  Count count;
  std::size_t done = 0;
  const Stopwatch watch;
  ProgressLine progress(fmt::format("inspecting {}", counted(files.size(), "image")));
  detector.inspect(files, command.options, threads, [&](Detector::Inspected& item) {
    std::string picture;
    if (item.error.empty() && !command.heatmaps.empty()) {
      picture = place_of(command.heatmaps, common, item.file, ".png");
      write_image(picture, draw_inspection(item.image, item.seen));
    }
    if (item.error.empty() && !command.maps.empty()) {
      write_npy(place_of(command.maps, common, item.file, ".npy"),
                std::span<const float>(item.seen.map.values), item.seen.map.width);
    }
    count.add(item);
    print_result(command.common.json ? json_line(as_json(item, detector.memory(), picture))
                                     : as_text(item, detector.memory()));
    ++done;
    return progress.update(static_cast<double>(done) / static_cast<double>(files.size()));
  });
  stop_if_asked();
  note(fmt::format("{}: {} good, {} defect{}{}; {:.1f} ms an image", counted(files.size(), "image"),
                   count.good, count.defect,
                   count.unknown != 0 ? fmt::format(", {} without a threshold", count.unknown) : "",
                   count.unreadable != 0 ? fmt::format(", {} unreadable", count.unreadable) : "",
                   1000 * watch.seconds() / static_cast<double>(files.size())));
  if (count.unreadable != 0) {
    throw Error(Error::Kind::kInput, fmt::format("{} of {} could not be inspected",
                                                 count.unreadable, counted(files.size(), "image")));
  }
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto command = std::make_shared<InspectCommand>();
  CLI::App* sub = app.add_subcommand("inspect", "Find defects in images");
  sub->add_option("memory", command->memory, "The memory's file")
      ->required()
      ->type_name("MEMORY.ccm");
  sub->add_option("images", command->images, "Images: files and folders")
      ->required()
      ->type_name("IMAGES");
  sub->add_option("--heatmaps", command->heatmaps,
                  "Write a picture of each image here: heat, outline, verdict")
      ->type_name("DIR");
  sub->add_option("--maps", command->maps,
                  "Write each anomaly map here, as float32 .npy in the image's pixels")
      ->type_name("DIR");
  sub->add_option("--task", command->options.task, "The product, if it is known")
      ->type_name("NAME");
  sub->add_option("--false-alarms", command->options.false_alarms,
                  "Part of the good images that may be rejected (default: 0.05)")
      ->type_name("RATE");
  sub->add_option("--use", command->use, "Use a smaller memory of this many vectors")
      ->check(whole_number())
      ->type_name("K");
  sub->add_option("--backbone", command->backbone, "Where the memory's backbone is now")
      ->type_name("FILE");
  command->common.add_to(*sub);
  sub->footer(kFooter);
  sub->callback([command] { run(*command); });
}

}  // namespace contcore::app
