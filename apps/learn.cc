// contcore learn: good images into a memory. In: options, image files. Out: the memory's file, and
// what was learned on the output. Fails with the error's kind as exit code; the file is then as
// before.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
#include "coreset/points.h"
#include "detector/eight_bit.h"
#include "kept_versions.h"
#include "learn_defects.h"
#include "memory_settings.h"
#include "progress_line.h"
#include "ranks.h"
#include "remote.h"
#include "remote_learn.h"
#include "review_report.h"

namespace contcore::app {
namespace {

constexpr char kFooter[] =
    "Examples:\n"
    "  contcore learn line.ccm bottles/good --task bottle\n"
    "  contcore learn line.ccm screws/ --task screw          (the same memory learns on)\n"
    "  contcore learn line.ccm new/ --task part --strict --review strange.png\n"
    "  contcore learn line.ccm casts/ --task cast --region mask.png   (nothing else is looked at)\n"
    "  contcore learn line.ccm today/*.png --task bottle --online\n"
    "  contcore learn line.ccm bad/ --task bottle --defects --masks masks/\n"
    "  contcore learn --server http://127.0.0.1:8080 bottles/good --task bottle\n"
    "The settings of a memory (those of a \"new memory\") are chosen when it is made and kept in\n"
    "it. Before anything is learned the images are looked at: strangers among them, images "
    "learned\n"
    "before, masks, another product that is known, too few. Ctrl-C leaves it as it was. With "
    "--server a running contcore\n"
    "serve learns; a token is taken from the environment's CONTCORE_TOKEN.\n";

struct LearnCommand {
  std::string server;
  std::string memory;
  std::vector<std::string> images;
  LearnOptions options;
  std::string memory_limit;
  std::string hold_out;
  bool defects = false;
  std::string masks;
  std::string review;  // the contact sheet's file
  std::string region;  // the file of what is looked at
  std::optional<double> ratio;
  MemorySettings settings;
  KeptVersions kept;
  CommonOptions common;
};

void check_part(const char* option, double value) {
  if (value > 0 && value <= 1) return;
  throw Error(Error::Kind::kUsage,
              fmt::format("{} {} is not a part; it must be above 0 and at most 1", option, value));
}

// Images that the task's threshold rests on.
std::size_t calibrated(const LearnCommand& command, const Memory& memory) {
  const auto task = memory.find_task(command.options.task);
  return task ? memory.states()[*task].calibrated : 0;
}

nlohmann::json as_json(const LearnCommand& command, const LearnReport& report,
                       const std::vector<std::string>& files, const Memory& memory, double seconds,
                       std::size_t peak) {
  nlohmann::json skipped = nlohmann::json::array();
  for (const SkippedImage& image : report.skipped) {
    skipped.push_back({{"file", image.file}, {"reason", image.reason}});
  }
  nlohmann::json object = {{"task", command.options.task},
                           {"learned", report.learned},
                           {"calibrated", calibrated(command, memory)},
                           {"skipped", skipped},
                           {"review", review_json(report.review, files)},
                           {"patches", report.patches},
                           {"vectors", memory.size()},
                           {"capacity", memory.capacity()},
                           {"certificate", memory.certificate()},
                           {"extract_seconds", report.extract_seconds},
                           {"sample_seconds", report.sample_seconds},
                           {"seconds", seconds},
                           {"features_on_disk", report.on_disk},
                           {"peak_memory", peak}};
  if (ranks() != nullptr) object["ranks"] = ranks_json();
  return object;
}

std::string why_no_threshold(const LearnReport& report, const Memory& memory, std::size_t task) {
  if (memory.states()[task].vectors == 0) {
    return fmt::format(
        "no threshold: the task has no vector, since a memory of {} has too few for {}; learn into "
        "a larger one (--memory)",
        counted(memory.capacity(), "vector"), counted(memory.tasks().size(), "task"));
  }
  if (report.learned > 1 && report.different == 1) {
    return fmt::format(
        "no threshold: the backbone's features are the same for all {}; learn different images, "
        "or, if they are, choose another backbone or other --layers",
        counted(report.learned, "image"));
  }
  return "no threshold yet: too few different images; learn more of them";
}

std::string as_text(const LearnCommand& command, const LearnReport& report, const Memory& memory,
                    double seconds, std::size_t peak) {
  std::string text =
      fmt::format("learned {} of {} in {:.1f} s: {} patches\n", counted(report.learned, "image"),
                  printable_name(command.options.task), seconds, report.patches);
  const double certificate = memory.certificate();
  text +=
      fmt::format("memory: {} of {} vectors, {}\n", memory.size(), memory.capacity(),
                  std::isfinite(certificate)
                      ? fmt::format("every patch learned lies within {:.4g} of one", certificate)
                      : "no certificate: a task has none of them");
  if (const auto task = memory.find_task(command.options.task)) {
    const auto threshold = memory.threshold(*task, kFalseAlarms);
    text += threshold ? threshold_text(*threshold) : why_no_threshold(report, memory, *task);
    text += "\n";
  }
  text += fmt::format("peak memory {:.2f} GiB{}\n",
                      static_cast<double>(peak) / static_cast<double>(1U << 30),
                      report.on_disk ? ", features on disk" : "");
  return text;
}

// How far the features of the images at hand are from those of the float network, if it is there.
void note_precision(const Extractor& extractor, const std::vector<std::string>& files) {
  constexpr std::size_t kCompared = 4;
  if (extractor.precision() != Precision::k8Bit) return;
  const std::string& named = extractor.source().at("backbone");
  try {
    if (kept_eight_bit_form(named).itself) return;
    const Backbone in_float =
        Backbone::of_bytes(named, model_bytes(named), extractor.backbone().layers());
    const CalibrationImages images = images_of(files);
    const FeatureError error = feature_error(in_float, extractor.backbone(), extractor.embedding(),
                                             images, kCompared, extractor.byte_scale());
    std::string text = error_text(error, std::min(images.count, kCompared));
    text.pop_back();
    note("8 bits: " + text);
  } catch (const Error& error) {
    // An image that learning will name, or a float network that is not there.
    if (error.kind() != Error::Kind::kInput) throw;
  }
}

Detector open_first(LearnCommand& command, const std::vector<std::string>& files,
                    const Device& device) {
  std::size_t lessons = 0;
  Detector detector = Detector::open_to_learn(
      command.memory, [&] { return command.settings.options(); }, command.settings.backbone(),
      &lessons, command.kept.limits(), device);
  note_lessons(lessons);
  note_remark(detector);
  if (detector.is_new()) {
    note(fmt::format("new memory, backbone {}", backbone_text(detector.memory().source)));
    note_precision(detector.extractor(), files);
  } else {
    command.settings.check(detector.memory(), command.memory);
  }
  return detector;
}

// What tells a memory as it lies on disk, and its backbone, from others.
std::string fingerprint(const LearnCommand& command, const Detector& detector, bool is_new) {
  std::string text;
  for (const auto& [key, value] : detector.memory().source) text += key + '=' + value + '\n';
  return is_new ? text : text + file_hash(command.memory) + file_hash(command.memory + ".journal");
}

// The other ranks open what the first one has opened: the same files, and the same memory.
void open_others(const LearnCommand& command, std::vector<std::string>& files,
                 std::optional<Detector>& opened, const Device& device) {
  if (ranks() == nullptr) return;
  std::string names;
  for (const std::string& file : files) names += file + '\0';
  names = said_by_first(names);
  if (!is_first()) {
    for (std::size_t at = 0; at < names.size(); at = names.find('\0', at) + 1) {
      files.emplace_back(names.c_str() + at);
    }
  }
  const bool is_new = !said_by_first(is_first() && opened->is_new() ? "new" : "").empty();
  do_on_all(ranks(), [&] {
    if (is_first()) return;
    opened = is_new ? Detector(command.settings.options())
                    : Detector::open(command.memory, command.settings.backbone(), nullptr, device);
  });
  check_same(fingerprint(command, *opened, is_new),
             fmt::format("another {} or another backbone than rank 0; put both where all machines "
                         "see them under the same name",
                         command.memory));
}

void take_options(LearnCommand& command) {
  if (command.ratio) {
    check_part("--ratio", *command.ratio);
    command.options.p = *command.ratio;
  }
  if (!command.hold_out.empty()) {
    throw Error(Error::Kind::kUsage,
                "--hold-out is not needed any more: every image is learned, and the threshold is "
                "calibrated all the same; leave it out");
  }
  if (!command.memory_limit.empty()) {
    command.options.memory_limit = parse_size(command.memory_limit);
  }
  if (command.options.task.empty()) {
    throw Error(Error::Kind::kUsage, "a task needs a name; give it one, such as bottle");
  }
  if (!command.region.empty()) command.options.region = read_region(command.region);
  command.options.who = user_name();
}

void run(LearnCommand& command) {
  do_on_all(ranks(), [&] { take_options(command); });
  if (command.options.region) {
    check_same(region_text(*command.options.region),
               fmt::format("another {} than rank 0; put it where all machines see it under the "
                           "same name",
                           command.region));
  }
  command.options.ranks = ranks();
  Compute compute = command.common.compute();
  FoundImages chosen;
  std::optional<Detector> opened;
  // The first rank opens it to write, and makes what the others then find made.
  do_on_all(ranks(), [&] {
    if (!is_first()) return;
    check_writable(command.memory);
    if (!command.review.empty()) check_writable(command.review);
    chosen = find_good_images(command.images);
    note_remarks(chosen.remarks, chosen.files);
    if (command.options.strict) refuse_if_any(chosen.remarks);
    opened = open_first(command, chosen.files, compute.device());
  });
  open_others(command, chosen.files, opened, compute.device());
  Detector& detector = *opened;
  const std::vector<std::string>& files = chosen.files;
  const std::vector<Remark>& found = chosen.remarks;

  const Stopwatch watch;
  const PeakMemory peak;
  LearnReport report;
  {
    const std::string what = fmt::format("learning {}", counted(files.size(), "image"));
    std::optional<ProgressLine> progress(what);
    command.options.progress = [&](double done) { return progress->update(done); };
    command.options.reviewed = [&](const Review& review) {
      if (!is_first()) return;
      progress.reset();  // it must not stand on the same line
      report_review(review,
                    {command.options.task, files, command.review, command.memory + ".review.png"});
      progress.emplace(what);
      if (command.options.strict) refuse_if_any(review.remarks);
    };
    report = detector.learn(files, command.options, compute);
  }
  report.review.remarks.insert(report.review.remarks.begin(), found.begin(), found.end());
  for (const SkippedImage& image : report.skipped) note("left out: " + image.reason);
  do_on_all(ranks(), [&] {
    if (!is_first()) return;
    stop_if_asked();
    detector.save(command.memory);
  });
  const double seconds = watch.seconds();
  print_result(
      command.common.json
          ? json_line(as_json(command, report, files, detector.memory(), seconds, peak.bytes()))
          : as_text(command, report, detector.memory(), seconds, peak.bytes()));
}

// Settings are of a memory that is made: this one must be there.
void run_defects(const CLI::App& sub, const LearnCommand& command) {
  std::vector<std::string> of_good = {"--online", "--ratio", "--hold-out", "--memory-limit",
                                      "--region"};
  of_good.insert(of_good.end(), MemorySettings::names().begin(), MemorySettings::names().end());
  for (const std::string& option : of_good) {
    if (option == "--backbone" || sub.get_option(option)->count() == 0) continue;
    throw Error(Error::Kind::kUsage,
                fmt::format("{} is of good images and cannot be given with --defects; leave it out",
                            option));
  }
  check_writable(command.memory);
  learn_defects({command.memory, command.images, command.masks, command.settings.backbone(),
                 command.options, command.kept.limits(), command.common});
}

void run_remote(const LearnCommand& command) {
  learn_remotely({command.server, command.images, command.options.task, command.options.online,
                  command.options.strict, command.common.json, command.review,
                  command.region.empty() ? nullptr : read_region(command.region)});
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
  sub->add_option(
         "--region", command->region,
         "What of the images is looked at: a mask (not black: inside), or polygons as JSON; "
         "of a new task, which keeps it (default: all)")
      ->check(some_text())
      ->type_name("FILE");
  sub->add_flag("--online", command->options.online,
                "One image at a time, each seen once, as a line would");
  sub->add_option("--ratio", command->ratio,
                  "Part p of the patches that is taken (default: 0.01; online 0.1)")
      ->type_name("p");
  sub->add_option("--hold-out", command->hold_out)->group("");  // to say that it is gone
  sub->add_flag("--defects", command->defects,
                "The images show defects: what is like them will score higher");
  sub->add_option("--masks", command->masks,
                  "Where in them: a folder of NAME_mask.png (default: what is outlined)")
      ->type_name("DIR");
  sub->add_option("--review", command->review,
                  "Write a picture of the ten strangest images (default: MEMORY.review.png, where "
                  "something is said about them)")
      ->type_name("SHEET.png");
  sub->add_flag("--strict", command->options.strict,
                "Learn nothing if an image cannot be read, or if the review has remarks");
  sub->add_option("--memory-limit", command->memory_limit,
                  "Memory to stay within, such as 3G (default: half of the machine's)")
      ->type_name("SIZE");
  command->settings.add_to(*sub);
  command->kept.add_to(*sub);
  command->common.add_to(*sub);
  sub->footer(kFooter);
  sub->callback([command, sub] {
    check_paper(*sub);
    sort_positionals(*sub, command->server, command->memory, command->images);
    if (ranks() != nullptr && (command->defects || !command->server.empty())) {
      throw RanksError(Error::Kind::kUsage,
                       "--defects and --server are for one process; leave out mpirun");
    }
    if (command->defects && command->server.empty()) return run_defects(*sub, *command);
    if (!command->masks.empty() && !command->defects) {
      throw Error(Error::Kind::kUsage, "--masks are of defects; give --defects too");
    }
    if (command->server.empty()) return run(*command);
    std::vector<std::string> local = {"--ratio",    "--hold-out",      "--memory-limit",
                                      "--threads",  "--defects",       "--masks",
                                      "--versions", "--versions-size", "--device"};
    local.insert(local.end(), MemorySettings::names().begin(), MemorySettings::names().end());
    refuse_local_options(*sub, local);
    if (command->options.online && !command->region.empty()) {
      throw Error(Error::Kind::kUsage,
                  "a service learns a new task's region with a job; leave out --online");
    }
    run_remote(*command);
  });
}

}  // namespace contcore::app
