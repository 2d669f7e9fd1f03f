// contcore inspect: score, verdict and map of images.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/utf8.h"
#include "commands.h"
#include "common.h"
#include "contcore/detector.h"
#include "contcore/error.h"
#include "contcore/npy.h"
#include "fewer_vectors.h"
#include "picture_places.h"
#include "progress_line.h"
#include "remote.h"

namespace contcore::app {
namespace {

namespace fs = std::filesystem;

constexpr char kFooter[] =
    "Examples:\n"
    "  contcore inspect line.ccm camera/ --heatmaps heatmaps/\n"
    "  contcore inspect line.ccm part.png --json\n"
    "  contcore inspect --server http://127.0.0.1:8080 camera/\n"
    "A line for each image: verdict, score, threshold, product, file. The product is recognised "
    "by\n"
    "its looks unless it is named with --task; then another product is a defect. What is no known\n"
    "product is unknown. With --fail-on-defect the exit code is 5 when an image is anything but "
    "good\n(3 when one could not be read). With --server a running contcore serve inspects; a\n"
    "token is taken from the environment's CONTCORE_TOKEN.\n";

struct InspectCommand {
  std::string server;
  std::string memory;
  std::vector<std::string> images;
  std::string backbone;
  std::string heatmaps;
  std::string maps;
  std::size_t use = 0;
  bool fail_on_defect = false;
  InspectOptions options;
  CommonOptions common;
};

std::size_t shown_regions(const Inspection& seen) {
  return std::min(seen.regions.size(), kMostRegions);
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
    if (!seen.threshold->by_hand) object["false_alarms"] = seen.threshold->false_alarms;
  }
  if (seen.task) object["task"] = memory.tasks()[*seen.task].name;
  object["reason"] = seen.reason;
  object["regions"] = nlohmann::json::array();
  for (const Region& region : std::span(seen.regions).first(shown_regions(seen))) {
    object["regions"].push_back({{"x", region.x},
                                 {"y", region.y},
                                 {"width", region.width},
                                 {"height", region.height},
                                 {"area", region.area},
                                 {"score", region.score}});
  }
  object["peak"] = {{"x", seen.peak_x}, {"y", seen.peak_y}};
  object["width"] = item.image.width;
  object["height"] = item.image.height;
  object["seconds"] = item.seconds;
  if (!picture.empty()) object["heatmap"] = picture;
  return object;
}

// The reason stands behind the file where it says more than the numbers do.
std::string text_line(const std::string& verdict, double score, std::optional<double> threshold,
                      const std::string& task, const std::string& file, const std::string& reason) {
  const std::string known = verdict + ": ";
  const bool says_more = verdict != "good" && reason.starts_with(known);
  return fmt::format("{:<7} {:9.3f} {:>9} {:<16} {}{}\n", verdict, score,
                     threshold ? fmt::format("{:.3f}", *threshold) : "-",
                     task.empty() ? "-" : printable_name(task), printable_name(file),
                     says_more ? "  " + printable_name(reason.substr(known.size())) : "");
}

std::string as_text(const Detector::Inspected& item, const Memory& memory) {
  if (!item.error.empty()) return fmt::format("error    {}\n", printable_name(item.error));
  const Inspection& seen = item.seen;
  return text_line(verdict(seen), static_cast<double>(seen.score),
                   seen.threshold
                       ? std::optional<double>(static_cast<double>(seen.threshold->score))
                       : std::nullopt,
                   seen.task ? memory.tasks()[*seen.task].name : "", item.file, seen.reason);
}

struct Count {
  std::size_t good = 0;
  std::size_t defect = 0;
  std::size_t unknown = 0;
  std::size_t uncalibrated = 0;
  std::size_t unreadable = 0;

  void add(const Detector::Inspected& item) {
    if (!item.error.empty()) {
      ++unreadable;
    } else {
      add(verdict(item.seen));
    }
  }
  void add(std::string_view verdict) {
    ++(verdict == "good"      ? good
       : verdict == "defect"  ? defect
       : verdict == "unknown" ? unknown
                              : uncalibrated);
  }
};

void finish(const Count& count, std::size_t files, double seconds, bool fail_on_defect) {
  note(fmt::format(
      "{}: {} good, {} defect{}{}{}; {:.1f} ms an image", counted(files, "image"), count.good,
      count.defect, count.unknown != 0 ? fmt::format(", {} unknown", count.unknown) : "",
      count.uncalibrated != 0 ? fmt::format(", {} without a threshold", count.uncalibrated) : "",
      count.unreadable != 0 ? fmt::format(", {} unreadable", count.unreadable) : "",
      1000 * seconds / static_cast<double>(files)));
  if (count.unreadable != 0) {
    throw Error(Error::Kind::kInput, fmt::format("{} of {} could not be inspected",
                                                 count.unreadable, counted(files, "image")));
  }
  if (fail_on_defect && count.good != files) throw CLI::RuntimeError(kNotGood);
}

// ---- by a service ------------------------------------------------------------------------------

// What the service said of an image, as the line that would be printed without one.
std::string as_line(const nlohmann::json& said, const std::string& file, bool json) {
  const std::string task = text_in(said, "task");
  const auto score = number_in(said, "score");
  const auto threshold = number_in(said, "threshold");
  if (!json) {
    return text_line(text_in(said, "verdict"), *score, threshold, task, file,
                     text_in(said, "reason"));
  }
  nlohmann::json object = {{"file", file}, {"verdict", said["verdict"]}, {"score", said["score"]}};
  if (threshold) object["threshold"] = *threshold;
  if (!task.empty()) object["task"] = task;
  for (const char* key : {"reason", "regions", "false_alarms", "peak", "width", "height"}) {
    if (said.contains(key) && !said[key].is_null()) object[key] = said[key];
  }
  if (const auto latency = number_in(said, "latency_ms")) object["seconds"] = *latency / 1000;
  return json_line(object);
}

std::string as_error_line(const std::string& error, const std::string& file, bool json) {
  if (!json) return fmt::format("error    {}\n", printable_name(error));
  return json_line({{"file", file}, {"verdict", "error"}, {"error", error}});
}

// The error that keeps this one image from being inspected; others are thrown.
std::string inspect_one(Remote& remote, const std::string& path, const std::string& file,
                        nlohmann::json& said) {
  std::vector<std::uint8_t> bytes;
  try {
    bytes = read_whole(file, "an image", ImageLimits().bytes);
  } catch (const Error& error) {
    return error.what();
  }
  try {
    said = remote.post(path, bytes);
  } catch (const RemoteRefusal& refusal) {
    if (!refusal.is_about_the_image()) throw;
    return fmt::format("{}: {}", file, refusal.reason());
  }
  const std::string verdict = text_in(said, "verdict");
  constexpr std::string_view kVerdicts[] = {"good", "defect", "unknown", "uncalibrated"};
  if (!number_in(said, "score") || std::ranges::find(kVerdicts, verdict) == std::end(kVerdicts)) {
    remote.throw_strange(path, "it has no score or verdict");
  }
  return "";
}

void run_remote(const InspectCommand& command) {
  Remote remote(command.server);
  const std::vector<std::string> files = find_and_note(command.images);
  Count count;
  std::size_t unkept = 0;
  const Stopwatch watch;
  ProgressLine progress(fmt::format("inspecting {}", counted(files.size(), "image")));
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string name = fs::path(files[i]).filename().string();
    std::string path = "/v1/inspections?source=" + percent_encoded(name);
    if (!command.options.task.empty()) path += "&task=" + percent_encoded(command.options.task);
    nlohmann::json said;
    const std::string error = inspect_one(remote, path, files[i], said);
    if (error.empty()) {
      count.add(text_in(said, "verdict"));
      if (said.contains("id") && said["id"].is_null()) ++unkept;
    } else {
      ++count.unreadable;
    }
    print_result(error.empty() ? as_line(said, files[i], command.common.json)
                               : as_error_line(error, files[i], command.common.json));
    progress.update(static_cast<double>(i + 1) / static_cast<double>(files.size()));
    stop_if_asked();
  }
  if (unkept > 0) {
    note(
        fmt::format("{} not kept by the service: its disk is full or failing",
                    unkept == 1 ? "1 inspection was" : fmt::format("{} inspections were", unkept)));
  }
  finish(count, files.size(), watch.seconds(), command.fail_on_defect);
}

// ---- by a memory -------------------------------------------------------------------------------

// What that costs is said before it happens.
void use_fewer(Detector& detector, const InspectCommand& command, Compute& compute) {
  const Memory whole = detector.memory().copy();
  detector.shrink(command.use, compute);
  const double rate = command.options.false_alarms;
  note_shrunk(whole, fewer_vectors(whole, detector.memory(), rate, command.options.task, compute),
              rate, compute);
}

void run(const InspectCommand& command) {
  if (!(command.options.false_alarms > 0 && command.options.false_alarms < 1)) {
    throw Error(Error::Kind::kUsage, "--false-alarms must be above 0 and below 1, such as 0.05");
  }
  const std::vector<std::string> files = find_and_note(command.images);
  const std::vector<std::string> pictures = command.heatmaps.empty()
                                                ? std::vector<std::string>(files.size())
                                                : picture_places(command.heatmaps, files);
  const std::vector<std::string> maps = command.maps.empty()
                                            ? std::vector<std::string>(files.size())
                                            : map_places(command.maps, files);
  Compute compute = command.common.compute();
  Detector detector = open_detector(command.memory, command.backbone, compute.device());
  if (command.use != 0) use_fewer(detector, command, compute);
  Count count;
  std::size_t done = 0;
  const Stopwatch watch;
  ProgressLine progress(fmt::format("inspecting {}", counted(files.size(), "image")));
  detector.inspect(files, command.options, compute, [&](Detector::Inspected& item) {
    const std::string& picture = pictures[done];
    if (item.error.empty() && !picture.empty()) {
      make_folder_of(picture);
      write_image(picture, draw_inspection(item.image, item.seen));
    }
    if (item.error.empty() && !maps[done].empty()) {
      make_folder_of(maps[done]);
      write_npy(maps[done], std::span<const float>(item.seen.map.values), item.seen.map.width);
    }
    count.add(item);
    print_result(command.common.json ? json_line(as_json(item, detector.memory(), picture))
                                     : as_text(item, detector.memory()));
    ++done;
    return progress.update(static_cast<double>(done) / static_cast<double>(files.size()));
  });
  stop_if_asked();
  finish(count, files.size(), watch.seconds(), command.fail_on_defect);
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto command = std::make_shared<InspectCommand>();
  CLI::App* sub = app.add_subcommand("inspect", "Find defects in images");
  sub->add_option("memory", command->memory, "The memory's file; left out with --server")
      ->type_name("MEMORY.ccm");
  sub->add_option("images", command->images, "Images: files and folders")->type_name("IMAGES");
  sub->add_option("--server", command->server, "Ask the contcore serve at this address")
      ->type_name("URL");
  sub->add_option("--heatmaps", command->heatmaps,
                  "Write a picture of each image here, as JPEG: heat, outline, verdict")
      ->type_name("DIR");
  sub->add_option("--maps", command->maps,
                  "Write each anomaly map here, as float32 .npy in the image's pixels")
      ->type_name("DIR");
  sub->add_option("--task", command->options.task, "The product, if it is known")
      ->check(some_text())
      ->type_name("NAME");
  sub->add_option(
         "--false-alarms", command->options.false_alarms,
         "Part of the good images that may be rejected, where no threshold was set by hand "
         "(default: 0.05)")
      ->type_name("RATE");
  sub->add_option("--strangers", command->options.strangers,
                  "Part of the good images that may be called unknown (default: 0.01); 0: none is")
      ->check(CLI::Range(0.0, 1 - 1e-6))
      ->type_name("RATE");
  sub->add_flag("--fail-on-defect", command->fail_on_defect,
                "Exit with code 5 unless every image is good");
  sub->add_option("--use", command->use, "Use a smaller memory of this many vectors")
      ->check(whole_number(1))
      ->type_name("K");
  sub->add_option("--backbone", command->backbone, "Where the memory's backbone is now")
      ->type_name("FILE");
  command->common.add_to(*sub);
  sub->footer(kFooter);
  sub->callback([command, sub] {
    sort_positionals(*sub, command->server, command->memory, command->images);
    if (command->server.empty()) return run(*command);
    refuse_local_options(*sub, {"--heatmaps", "--maps", "--false-alarms", "--strangers", "--use",
                                "--backbone", "--threads", "--device"});
    run_remote(*command);
  });
}

}  // namespace contcore::app
