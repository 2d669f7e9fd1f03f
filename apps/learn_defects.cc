// In: image files that show defects, and a folder of masks. Out: the memory's file, which knows
// them, and what was learned on the output. Fails with the error's kind as exit code.
#include "learn_defects.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/utf8.h"
#include "contcore/error.h"
#include "kept_versions.h"
#include "memory/memory_file.h"
#include "progress_line.h"

namespace contcore::app {
namespace {

namespace fs = std::filesystem;

// As data sets have them: MASKS/000_mask.png or MASKS/000.png of an image 000.png, or the same in a
// folder there that is named as the image's is.
std::string mask_of(const fs::path& masks, const fs::path& image) {
  const fs::path folder = fs::absolute(image).parent_path().filename();
  for (const fs::path& in : {masks, masks / folder}) {
    for (const char* ending : {"_mask.png", ".png"}) {
      fs::path mask = in / image.stem();
      mask += ending;
      if (fs::is_regular_file(mask)) return mask.string();
    }
  }
  throw Error(
      Error::Kind::kInput,
      fmt::format("has no mask in {}, neither {}_mask.png nor {}/{}_mask.png", masks.string(),
                  image.stem().string(), folder.string(), image.stem().string()));
}

std::string as_text(const DefectsCommand& command, const LearnReport& report,
                    const KnownDefects& known) {
  std::string text =
      fmt::format("{} showed a defect of {}: {} known, {} kept\n", counted(report.learned, "image"),
                  printable_name(command.options.task), counted(known.images, "image"),
                  fmt::format("{} patches", known.patches));
  if (known.used) return text + "they count: what is near them scores higher\n";
  if (known.images < KnownDefects::kLeast) {
    return text + fmt::format("they will count when {} are known\n", KnownDefects::kLeast);
  }
  return text +
         "they do not count: too few good images can say what that would do to false alarms; "
         "learn more of them\n";
}

nlohmann::json as_json(const DefectsCommand& command, const LearnReport& report,
                       const KnownDefects& known) {
  nlohmann::json skipped = nlohmann::json::array();
  for (const SkippedImage& image : report.skipped) {
    skipped.push_back({{"file", image.file}, {"reason", image.reason}});
  }
  return {{"task", command.options.task},
          {"learned", report.learned},
          {"skipped", skipped},
          {"known_defects", known.images},
          {"known_defect_patches", known.patches},
          {"known_defects_used", known.used}};
}

}  // namespace

void learn_defects(const DefectsCommand& command) {
  if (!command.masks.empty() && !fs::is_directory(command.masks)) {
    throw Error(Error::Kind::kInput, fmt::format("{}: is no folder of masks", command.masks));
  }
  const std::vector<std::string> files = find_and_note(command.images);
  if (!fs::exists(command.memory)) {
    throw Error(
        Error::Kind::kInput,
        fmt::format("{}: there is no such memory; learn good images first", command.memory));
  }
  Compute compute = command.common.compute();
  std::size_t lessons = 0;
  Detector detector = Detector::open_to_learn(
      command.memory, [] { return DetectorOptions{}; }, command.backbone, &lessons, command.kept,
      compute.device());
  note_lessons(lessons);
  note_remark(detector);
  LearnReport report;
  {
    ProgressLine progress(fmt::format("learning {} of defects", counted(files.size(), "image")));
    LearnOptions options = command.options;
    options.progress = progress.callback();
    options.who = user_name();
    const auto mask = [&](const std::string& file) {
      return command.masks.empty() ? "" : mask_of(command.masks, file);
    };
    report = detector.learn_defects(files, mask, options, compute);
  }
  for (const SkippedImage& image : report.skipped) note("left out: " + image.reason);
  stop_if_asked();
  detector.save(command.memory);
  const Memory& memory = detector.memory();
  const KnownDefects known = memory.known_defects(memory.find_task(command.options.task).value());
  print_result(command.common.json ? json_line(as_json(command, report, known))
                                   : as_text(command, report, known));
}

}  // namespace contcore::app
