// contcore learn: good images into a memory. In: options, image files. Out: the memory's file, and
// what was learned on the output. Fails with the error's kind as exit code; the file is then as
// before.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/peak_memory.h"
#include "base/utf8.h"
#include "commands.h"
#include "common.h"
#include "contcore/detector.h"
#include "contcore/error.h"
#include "progress_line.h"
#include "remote.h"
#include "remote_learn.h"

namespace contcore::app {
namespace {

constexpr char kFooter[] =
    "Examples:\n"
    "  contcore learn line.ccm bottles/good --task bottle\n"
    "  contcore learn line.ccm screws/ --task screw          (the same memory learns on)\n"
    "  contcore learn line.ccm today/*.png --task bottle --online\n"
    "  contcore learn --server http://127.0.0.1:8080 bottles/good --task bottle\n"
    "The settings of a memory (backbone, layers, resize, crop, capacity, rule, q, score) are "
    "chosen when\n"
    "it is made and kept in it. Ctrl-C leaves it as it was. With --server a running contcore\n"
    "serve learns; a token is taken from the environment's CONTCORE_TOKEN.\n";

struct LearnCommand {
  std::string server;
  std::string memory;
  std::vector<std::string> images;
  LearnOptions options;
  std::string memory_limit;
  std::string hold_out;
  // Of a new memory.
  std::string backbone;
  std::string layers;
  std::string resize;
  std::string crop;
  std::optional<std::size_t> capacity;
  std::string consolidate;
  std::optional<double> q;
  std::string score;
  CommonOptions common;
};

void check_part(const char* option, double value) {
  if (value > 0 && value <= 1) return;
  throw Error(Error::Kind::kUsage,
              fmt::format("{} {} is not a part; it must be above 0 and at most 1", option, value));
}

DetectorOptions settings(const LearnCommand& command) {
  DetectorOptions options;
  options.backbone = command.backbone;
  options.layers = split_names(command.layers);
  options.geometry = Geometry::parse(command.resize.empty() ? "256" : command.resize,
                                     command.crop.empty() ? "none" : command.crop);
  if (command.capacity) options.capacity = *command.capacity;
  if (!command.consolidate.empty()) {
    options.consolidate.rule = Consolidate::parse(command.consolidate);
  }
  if (command.q) options.consolidate.q = *command.q;
  if (!command.score.empty()) options.score = parse_score(command.score);
  return options;
}

// Settings that are named again must be those the memory has.
void check_settings(const LearnCommand& command, const Detector& detector) {
  const Memory& memory = detector.memory();
  const auto same = [&](const std::string& option, const std::string& asked,
                        const std::string& has) {
    if (asked.empty() || asked == has) return;
    throw Error(
        Error::Kind::kInput,
        fmt::format("{}: was made with {} {}, not {}; leave the option out, or learn into a "
                    "new memory",
                    command.memory, option, has, asked));
  };
  if (!command.resize.empty() || !command.crop.empty()) {
    const Geometry asked =
        Geometry::parse(command.resize.empty() ? memory.source.at("resize") : command.resize,
                        command.crop.empty() ? memory.source.at("crop") : command.crop);
    same("--resize", asked.resize_text(), memory.source.at("resize"));
    same("--crop", asked.crop_text(), memory.source.at("crop"));
  }
  same("--layers", command.layers, memory.source.at("layers"));
  if (command.capacity) {
    same("--capacity", fmt::format("{}", *command.capacity), fmt::format("{}", memory.capacity()));
  }
  const Consolidate& has = memory.consolidation();
  same("--consolidate", command.consolidate, has.name());
  same("--score", command.score, score_name(score_of(memory.source)));
  if (command.q) same("--q", fmt::format("{}", *command.q), fmt::format("{}", has.q));
}

// Images that the task's threshold rests on.
std::size_t calibrated(const LearnCommand& command, const Memory& memory) {
  const auto task = memory.find_task(command.options.task);
  return task ? memory.states()[*task].calibrated : 0;
}

nlohmann::json as_json(const LearnCommand& command, const LearnReport& report, const Memory& memory,
                       double seconds, std::size_t peak) {
  nlohmann::json skipped = nlohmann::json::array();
  for (const SkippedImage& image : report.skipped) {
    skipped.push_back({{"file", image.file}, {"reason", image.reason}});
  }
  return {{"task", command.options.task},
          {"learned", report.learned},
          {"calibrated", calibrated(command, memory)},
          {"skipped", skipped},
          {"patches", report.patches},
          {"vectors", memory.size()},
          {"capacity", memory.capacity()},
          {"certificate", memory.certificate()},
          {"extract_seconds", report.extract_seconds},
          {"sample_seconds", report.sample_seconds},
          {"seconds", seconds},
          {"features_on_disk", report.on_disk},
          {"peak_memory", peak}};
}

std::string as_text(const LearnCommand& command, const LearnReport& report, const Memory& memory,
                    double seconds, std::size_t peak) {
  std::string text =
      fmt::format("learned {} of {} in {:.1f} s: {} patches\n", counted(report.learned, "image"),
                  printable_name(command.options.task), seconds, report.patches);
  text += fmt::format("memory: {} of {} vectors, every patch learned lies within {:.4g} of one\n",
                      memory.size(), memory.capacity(), memory.certificate());
  if (const auto task = memory.find_task(command.options.task)) {
    const auto threshold = memory.threshold(*task, kFalseAlarms);
    text += threshold ? threshold_text(*threshold) + "\n"
                      : "no threshold yet: too few images; learn more of them\n";
  }
  text += fmt::format("peak memory {:.2f} GiB{}\n",
                      static_cast<double>(peak) / static_cast<double>(1U << 30),
                      report.on_disk ? ", features on disk" : "");
  return text;
}

void run(LearnCommand& command) {
  check_part("--ratio", command.options.p == 0 ? 1 : command.options.p);
  if (!command.hold_out.empty()) {
    throw Error(Error::Kind::kUsage,
                "--hold-out is not needed any more: every image is learned, and the threshold is "
                "calibrated all the same; leave it out");
  }
  if (!command.memory_limit.empty()) {
    command.options.memory_limit = parse_size(command.memory_limit);
  }
  check_writable(command.memory);
  const std::vector<std::string> files = find_images(command.images);
  std::size_t lessons = 0;
  Detector detector = Detector::open_to_learn(
      command.memory, [&] { return settings(command); }, command.backbone, &lessons);
  note_lessons(lessons);
  if (detector.is_new()) {
    note(fmt::format("new memory, backbone {}", backbone_text(detector.memory().source)));
  } else {
    check_settings(command, detector);
  }

  Compute compute(command.common.threads);
  const Stopwatch watch;
  const PeakMemory peak;
  LearnReport report;
  {
    ProgressLine progress(fmt::format("learning {}", counted(files.size(), "image")));
    command.options.progress = progress.callback();
    report = detector.learn(files, command.options, compute);
  }
  for (const SkippedImage& image : report.skipped) note("left out: " + image.reason);
  stop_if_asked();
  detector.save(command.memory);
  const double seconds = watch.seconds();
  print_result(command.common.json
                   ? json_line(as_json(command, report, detector.memory(), seconds, peak.bytes()))
                   : as_text(command, report, detector.memory(), seconds, peak.bytes()));
}

void run_remote(const LearnCommand& command) {
  learn_remotely({command.server, command.images, command.options.task, command.options.online,
                  command.options.strict, command.common.json});
}

}  // namespace

void add_learn(CLI::App& app) {
  auto command = std::make_shared<LearnCommand>();
  CLI::App* sub = app.add_subcommand("learn", "Learn good images of a product");
  sub->add_option("memory", command->memory,
                  "The memory's file; made if it is not there; left out with --server")
      ->type_name("MEMORY.ccm");
  sub->add_option("images", command->images, "Good images: files and folders")->type_name("IMAGES");
  sub->add_option("--server", command->server, "Have the contcore serve at this address learn")
      ->type_name("URL");
  sub->add_option("--task", command->options.task, "The product's name")
      ->required()
      ->type_name("NAME");
  sub->add_flag("--online", command->options.online,
                "One image at a time, each seen once, as a line would");
  sub->add_option("--ratio", command->options.p,
                  "Part p of the patches that is taken (default: 0.01; online 0.1)")
      ->type_name("p");
  sub->add_option("--hold-out", command->hold_out)->group("");  // to say that it is gone
  sub->add_flag("--strict", command->options.strict,
                "Stop at an image that cannot be read, instead of leaving it out");
  sub->add_option("--memory-limit", command->memory_limit,
                  "Memory to stay within, such as 3G (default: half of the machine's)")
      ->type_name("SIZE");
  sub->add_option("--backbone", command->backbone,
                  "New memory: an ONNX file, resnet50 or builtin (default: resnet50 if it was "
                  "fetched). Known memory: where its backbone is now")
      ->type_name("FILE");
  sub->add_option("--layers", command->layers, "New memory: default layer2,layer3")
      ->type_name("A,B");
  sub->add_option("--resize", command->resize,
                  "New memory: 256 squares the image, short:256 keeps its shape (default: 256)")
      ->type_name("N|short:N");
  sub->add_option("--crop", command->crop, "New memory: side of the centre crop (default: none)")
      ->type_name("N|none");
  sub->add_option("--capacity", command->capacity,
                  "New memory: most vectors it may hold, m (default: 20000)")
      ->check(whole_number())
      ->type_name("M");
  sub->add_option(
         "--consolidate", command->consolidate,
         "New memory: share gives every task an equal part of it, paper samples again from "
         "all (default: share)")
      ->check(CLI::IsMember({"share", "paper"}))
      ->type_name("RULE");
  sub->add_option("--q", command->q,
                  "New memory, paper's rule: part kept by nearest neighbours alone (default: 0.75)")
      ->type_name("q");
  sub->add_option("--score", command->score,
                  "New memory: an image's score is the largest value of its anomaly map, or of its "
                  "patches' distances (default: patch)")
      ->check(CLI::IsMember({"map", "patch"}))
      ->type_name("map|patch");
  command->common.add_to(*sub);
  sub->footer(kFooter);
  sub->callback([command, sub] {
    sort_positionals(*sub, command->server, command->memory, command->images);
    if (command->server.empty()) return run(*command);
    refuse_local_options(
        *sub, {"--ratio", "--hold-out", "--memory-limit", "--backbone", "--layers", "--resize",
               "--crop", "--capacity", "--consolidate", "--q", "--score", "--threads"});
    run_remote(*command);
  });
}

}  // namespace contcore::app
