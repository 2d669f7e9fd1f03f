// contcore lessons, forget, versions, rename: what a memory was taught, and how that is taken back.
// In: a memory's file and what is beside it. Out: lists, or the file as it would be without. Fails
// with the error's kind as exit code; the file is then as before.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "commands.h"
#include "common.h"
#include "contcore/detector.h"
#include "contcore/error.h"
#include "detector/relearn.h"
#include "kept_versions.h"
#include "memory/history.h"
#include "memory/memory_file.h"
#include "progress_line.h"

namespace contcore::app {
namespace {

// To look at; somebody else may write it meanwhile.
struct Listed {
  explicit Listed(const std::string& path)
      : saved(open_saved(path)),
        history(path, {}),
        lessons(history.opened(saved.checksum, saved.memory)) {
    if (!history.remark().empty()) note(history.remark());
  }
  SavedMemory saved;
  History history;
  LessonSet lessons;
};

Detector open_to_change(const std::string& memory, const std::string& backbone,
                        const KeptVersions& kept, const Device& device = {}) {
  if (!MemoryFile(memory).exists()) {
    throw Error(Error::Kind::kInput, fmt::format("{}: there is no such memory", memory));
  }
  std::size_t lessons = 0;
  Detector detector = Detector::open_to_learn(
      memory, [] { return DetectorOptions(); }, backbone, &lessons, kept.limits(), device);
  note_lessons(lessons);
  note_remark(detector);
  return detector;
}

// ---- lessons -----------------------------------------------------------------------------------

struct LessonsCommand {
  std::string memory;
  bool json = false;
};

nlohmann::json as_json(const TaughtLesson& lesson) {
  return {{"id", lesson.id},         {"kind", lesson.kind},   {"task", lesson.task},
          {"images", lesson.images}, {"time", lesson.time},   {"who", lesson.who},
          {"taken", lesson.taken},   {"exact", lesson.exact}, {"why", lesson.why},
          {"from", lesson.from},     {"to", lesson.to}};
}

std::string as_text(const TaughtLesson& lesson) {
  const char* state = lesson.exact                          ? "exactly"
                      : !lesson.taken && lesson.why.empty() ? "was taken back"
                      : !lesson.taken                       ? "not known"
                      : lesson.kind == "found"              ? "no"
                                                            : "not exactly any more";
  const std::string task =
      lesson.to.empty() ? printable_name(lesson.task)
                        : printable_name(lesson.from) + " \u2192 " + printable_name(lesson.to);
  return fmt::format("{:>6}  {:<10} {:<20}  {:<10} {:>7}  {:<20} {}\n", lesson.id, lesson.kind,
                     lesson.time, printable_name(lesson.who), lesson.images, task, state);
}

void list_lessons(const LessonsCommand& command) {
  const Listed listed(command.memory);
  const std::vector<TaughtLesson> lessons =
      taught_lessons(listed.history, listed.saved.memory, listed.lessons);
  if (command.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const TaughtLesson& lesson : lessons) list.push_back(as_json(lesson));
    return print_result(
        json_line({{"lessons", list}, {"in_journal", listed.saved.records.size()}}));
  }
  if (lessons.empty()) note("no lessons are written down beside this memory");
  std::string text;
  if (!lessons.empty()) {
    text = fmt::format("{:>6}  {:<10} {:<20}  {:<10} {:>7}  {:<20} {}\n", "lesson", "kind", "time",
                       "who", "images", "task", "can be taken back");
  }
  for (const TaughtLesson& lesson : lessons) text += as_text(lesson);
  print_result(text);
  if (!listed.saved.records.empty()) {
    note(fmt::format("{} more in its journal", counted(listed.saved.records.size(), "lesson")));
  }
}

// ---- forget ------------------------------------------------------------------------------------

struct ForgetCommand {
  std::string memory;
  std::vector<std::string> lessons;  // numbers and ranges
  Forget what;
  bool exact = false;
  std::string backbone;
  KeptVersions kept;
  CommonOptions common;
};

constexpr std::size_t kMostNamed = 100000;  // more than a list holds

std::vector<std::uint64_t> numbers_in(const std::vector<std::string>& texts) {
  std::vector<std::uint64_t> ids;
  for (const std::string& text : texts) {
    try {
      const LessonSet set = LessonSet::parse(text);
      if (set.size() > kMostNamed) throw Error(Error::Kind::kUsage, "too many");
      const std::vector<std::uint64_t> some = set.ids();
      ids.insert(ids.end(), some.begin(), some.end());
    } catch (const Error&) {
      throw Error(Error::Kind::kUsage,
                  fmt::format("--lesson {}: is not a lesson's number, nor several as in 3-5,8",
                              printable_name(text)));
    }
  }
  return ids;
}

void forget(ForgetCommand& command) {
  command.what.lessons = numbers_in(command.lessons);
  command.what.exact = command.exact;
  if (command.what.lessons.empty() && command.what.tasks.empty()) {
    throw Error(Error::Kind::kUsage,
                "say what to forget: --lesson N (contcore lessons lists them) or --task NAME");
  }
  Compute compute = command.common.compute();
  Detector detector =
      open_to_change(command.memory, command.backbone, command.kept, compute.device());
  Forgotten done;
  {
    ProgressLine progress("taking back");
    done = detector.forget(command.what, compute, progress.callback());
  }
  stop_if_asked();
  detector.save(command.memory);
  const Memory& memory = detector.memory();
  if (command.common.json) {
    return print_result(json_line({{"forgotten", done.lessons},
                                   {"exact", done.exact},
                                   {"note", done.note},
                                   {"tasks", memory.tasks().size()},
                                   {"vectors", memory.size()},
                                   {"capacity", memory.capacity()}}));
  }
  if (!done.note.empty()) note(done.note);
  print_result(fmt::format("took back {}{}; memory: {} in {} of {} vectors\n",
                           counted(done.lessons.size(), "lesson"), done.exact ? ", exactly" : "",
                           counted(memory.tasks().size(), "task"), memory.size(),
                           memory.capacity()));
}

// ---- versions ----------------------------------------------------------------------------------

struct VersionsCommand {
  std::string memory;
  std::uint64_t restore = 0;
  std::vector<std::uint64_t> compare;
  std::string backbone;
  KeptVersions kept;
  bool json = false;
};

nlohmann::json as_json(const MemoryVersion& version) {
  return {{"id", version.id},          {"time", version.time},       {"lessons", version.lessons},
          {"tasks", version.tasks},    {"vectors", version.vectors}, {"bytes", version.bytes},
          {"current", version.current}};
}

void list_versions(const VersionsCommand& command) {
  const Listed listed(command.memory);
  const std::vector<MemoryVersion> versions = versions_of(listed.history, listed.lessons);
  if (command.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const MemoryVersion& version : versions) list.push_back(as_json(version));
    return print_result(json_line({{"versions", list}}));
  }
  if (versions.empty()) return note("no versions are kept beside this memory");
  std::string text = fmt::format("{:>7}  {:<20}  {:>7} {:>6} {:>8} {:>9}\n", "version", "time",
                                 "lessons", "tasks", "vectors", "MiB");
  for (const MemoryVersion& version : versions) {
    text += fmt::format("{:>7}  {:<20}  {:>7} {:>6} {:>8} {:>9.2f}{}\n", version.id, version.time,
                        version.lessons, version.tasks, version.vectors,
                        static_cast<double>(version.bytes) / (1 << 20),
                        version.current ? "  the same lessons as now" : "");
  }
  print_result(text);
}

// What a task is in one of two memories.
struct Side {
  std::size_t vectors = 0;
  std::uint64_t images = 0;
  std::optional<float> threshold;
};

Side side_of(const Memory& memory, const std::string& name) {
  const auto task = memory.find_task(name);
  if (!task) return {};
  const auto threshold = memory.threshold(*task, kFalseAlarms);
  return {memory.states()[*task].vectors, memory.tasks()[*task].images,
          threshold ? std::optional(threshold->score) : std::nullopt};
}

nlohmann::json as_json(const Side& side) {
  return {{"images", side.images},
          {"vectors", side.vectors},
          {"threshold", side.threshold ? nlohmann::json(*side.threshold) : nlohmann::json()}};
}

std::string as_text(const Side& side) {
  return fmt::format("{:>7} {:>8} {:>10}", side.images, side.vectors,
                     side.threshold ? fmt::format("{:.3f}", *side.threshold) : "–");
}

// A version, or (0) the memory as it is.
Taught version_or_now(Listed& listed, std::uint64_t id) {
  if (id == 0) return {listed.saved.memory.copy(), listed.lessons};
  return open_version(listed.history, id, listed.saved.memory);
}

void compare_versions(const VersionsCommand& command) {
  Listed listed(command.memory);
  const Taught a = version_or_now(listed, command.compare[0]);
  const Taught b = version_or_now(listed, command.compare[1]);
  std::vector<std::string> names;
  for (const Memory* memory : {&a.memory, &b.memory}) {
    for (const TaskRecord& task : memory->tasks()) {
      if (std::find(names.begin(), names.end(), task.name) == names.end()) {
        names.push_back(task.name);
      }
    }
  }
  const std::string left = a.lessons.without(b.lessons).text();
  const std::string right = b.lessons.without(a.lessons).text();
  if (command.json) {
    nlohmann::json tasks = nlohmann::json::array();
    for (const std::string& name : names) {
      tasks.push_back({{"task", name},
                       {"first", as_json(side_of(a.memory, name))},
                       {"second", as_json(side_of(b.memory, name))}});
    }
    return print_result(json_line(
        {{"tasks", tasks}, {"lessons_of_first_alone", left}, {"lessons_of_second_alone", right}}));
  }
  std::string text = fmt::format("{:>7} {:>8} {:>10}  | {:>7} {:>8} {:>10}  task\n", "images",
                                 "vectors", "threshold", "images", "vectors", "threshold");
  for (const std::string& name : names) {
    text += fmt::format("{}  | {}  {}\n", as_text(side_of(a.memory, name)),
                        as_text(side_of(b.memory, name)), printable_name(name));
  }
  text += fmt::format("lessons of the first alone: {}; of the second alone: {}\n",
                      left.empty() ? "none" : left, right.empty() ? "none" : right);
  print_result(text);
}

void restore_version(const VersionsCommand& command) {
  Detector detector = open_to_change(command.memory, command.backbone, command.kept);
  detector.restore(command.restore);
  detector.save(command.memory);
  const Memory& memory = detector.memory();
  print_result(command.json ? json_line({{"restored", command.restore},
                                         {"tasks", memory.tasks().size()},
                                         {"vectors", memory.size()}})
                            : fmt::format("restored version {}: {}, {}\n", command.restore,
                                          counted(memory.tasks().size(), "task"),
                                          counted(memory.size(), "vector")));
}

// ---- rename ------------------------------------------------------------------------------------

struct RenameCommand {
  std::string memory;
  std::string from;
  std::string to;
  std::string backbone;
  KeptVersions kept;
};

void rename(const RenameCommand& command) {
  Detector detector = open_to_change(command.memory, command.backbone, command.kept);
  detector.rename_task(command.from, command.to, user_name());
  detector.save(command.memory);
  print_result(fmt::format("{} is now called {}\n", printable_name(command.from),
                           printable_name(command.to)));
}

void add_memory(CLI::App& sub, std::string& memory) {
  sub.add_option("memory", memory, "The memory's file")->required()->type_name("MEMORY.ccm");
}

void add_backbone_file(CLI::App& sub, std::string& backbone) {
  sub.add_option("--backbone", backbone, "Where the memory's backbone is now")->type_name("FILE");
}

}  // namespace

void add_lessons(CLI::App& app) {
  auto command = std::make_shared<LessonsCommand>();
  CLI::App* sub = app.add_subcommand("lessons", "List what a memory was taught, by whom and when");
  add_memory(*sub, command->memory);
  sub->add_flag("--json", command->json, "Print the list as one line of JSON");
  sub->footer("Example:\n  contcore lessons line.ccm\n");
  sub->callback([command] { list_lessons(*command); });
}

void add_forget(CLI::App& app) {
  auto command = std::make_shared<ForgetCommand>();
  CLI::App* sub = app.add_subcommand("forget", "Take back lessons, or a task");
  add_memory(*sub, command->memory);
  sub->add_option("--lesson", command->lessons, "Lessons to take back, by number: 7, or 3-5,8")
      ->type_name("N");
  sub->add_option("--task", command->what.tasks, "Tasks to forget, with all their lessons")
      ->type_name("NAME");
  sub->add_flag("--exact", command->exact,
                "Refuse where the memory would not be exactly what it would be without them");
  add_backbone_file(*sub, command->backbone);
  command->kept.add_to(*sub);
  command->common.add_to(*sub);
  sub->footer(
      "Examples:\n"
      "  contcore forget line.ccm --lesson 7\n"
      "  contcore forget line.ccm --task bottle\n"
      "The memory is then what it would be had these never been taught: it goes back to a version\n"
      "from before, and the lessons that came later are taken again. Where their images are not\n"
      "kept any more, a lesson cannot be taken back; of a task the vectors alone are taken out, "
      "and\nthis is said (with --exact: refused).\n");
  sub->callback([command] { forget(*command); });
}

void add_versions(CLI::App& app) {
  auto command = std::make_shared<VersionsCommand>();
  CLI::App* sub = app.add_subcommand("versions", "List, compare and restore versions of a memory");
  add_memory(*sub, command->memory);
  auto* restore = sub->add_option("--restore", command->restore, "Go back to this version")
                      ->check(whole_number(1))
                      ->type_name("N");
  sub->add_option("--compare", command->compare,
                  "What two versions know of each task; 0 is the memory as it is")
      ->expected(2)
      ->check(whole_number())
      ->excludes(restore)
      ->type_name("N N");
  add_backbone_file(*sub, command->backbone);
  command->kept.add_to(*sub);
  sub->add_flag("--json", command->json, "Print the result as one line of JSON");
  sub->footer(
      "Examples:\n"
      "  contcore versions line.ccm\n"
      "  contcore versions line.ccm --compare 3 0\n"
      "  contcore versions line.ccm --restore 3\n"
      "A version is the memory's file as it was before a lesson.\n");
  sub->callback([command] {
    if (command->restore != 0) return restore_version(*command);
    command->compare.empty() ? list_versions(*command) : compare_versions(*command);
  });
}

void add_rename(CLI::App& app) {
  auto command = std::make_shared<RenameCommand>();
  CLI::App* sub = app.add_subcommand("rename", "Give a task another name");
  add_memory(*sub, command->memory);
  sub->add_option("from", command->from, "The task's name")->required()->type_name("OLD");
  sub->add_option("to", command->to, "Its new name")->required()->type_name("NEW");
  add_backbone_file(*sub, command->backbone);
  command->kept.add_to(*sub);
  sub->footer("Example:\n  contcore rename line.ccm bottel bottle\n");
  sub->callback([command] { rename(*command); });
}

}  // namespace contcore::app
