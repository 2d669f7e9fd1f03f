// contcore merge: one memory out of several.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "commands.h"
#include "common.h"
#include "contcore/error.h"
#include "contcore/memory.h"
#include "contcore/score.h"
#include "memory/memory_file.h"

namespace contcore::app {
namespace {

constexpr char kFooter[] =
    "Example:\n"
    "  contcore merge all.ccm line1.ccm line2.ccm\n"
    "The memories must have been made with the same backbone and preprocessing. Tasks of the same\n"
    "name become one.\n";

// A memory that says nothing of its score has one all the same.
void check_scores(const Memory& a, const Memory& b) {
  const std::string scores[] = {score_name(score_of(a.source)), score_name(score_of(b.source))};
  if (scores[0] == scores[1]) return;
  throw Error(Error::Kind::kInput,
              fmt::format("the memories differ in their score ({} and {}) and cannot be merged; "
                          "learn one of them again with the other's --score",
                          scores[0], scores[1]));
}

struct MergeCommand {
  std::string out;
  std::vector<std::string> memories;
  std::size_t capacity = 0;
  std::string backbone;
  CommonOptions common;
};

void run(const MergeCommand& command) {
  if (command.memories.size() < 2) {
    throw Error(Error::Kind::kUsage, "name the new memory and at least two to merge");
  }
  check_writable(command.out);
  MemoryFile file(command.out);
  Compute compute(command.common.threads);
  std::vector<Memory> parts;
  std::size_t capacity = command.capacity;
  const std::string& out = file.path();
  std::optional<JournalMark> applied;  // of the journal beside the new memory
  bool is_merged = false;
  for (const std::string& path : command.memories) {
    SavedMemory saved = open_saved(path);
    if (real_path(path) == out) {
      is_merged = true;
      applied = saved.applied;
    }
    parts.push_back(saved.records.empty() ? std::move(saved.memory)
                                          : open_detector(path, command.backbone).memory().copy());
    if (command.capacity == 0) capacity = std::max(capacity, parts.back().capacity());
  }
  if (!is_merged && file.exists()) {
    const SavedMemory replaced = open_saved(out);
    if (!replaced.records.empty()) {
      throw Error(
          Error::Kind::kInput,
          fmt::format("{}: a service has taught it what is in its journal alone, and would be "
                      "lost; merge it as well, or name another file",
                      command.out));
    }
    applied = replaced.applied;
  }
  Memory merged = std::move(parts[0]);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    try {
      if (merged.scalar() == parts[i].scalar()) check_scores(merged, parts[i]);
      merged = Memory::merge(merged, parts[i], capacity, compute);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", command.memories[i], error.what()));
    }
    stop_if_asked();
  }
  file.save(merged, applied);
  print_result(command.common.json
                   ? json_line({{"vectors", merged.size()},
                                {"capacity", merged.capacity()},
                                {"tasks", merged.tasks().size()},
                                {"certificate", merged.certificate()}})
                   : fmt::format("merged {} memories: {} in {} of {} vectors, certificate {}\n",
                                 parts.size(), counted(merged.tasks().size(), "task"),
                                 merged.size(), merged.capacity(),
                                 certificate_text(merged.certificate(), merged.size())));
}

}  // namespace

void add_merge(CLI::App& app) {
  auto command = std::make_shared<MergeCommand>();
  CLI::App* sub = app.add_subcommand("merge", "Make one memory out of several");
  sub->add_option("out", command->out, "The new memory's file")->required()->type_name("OUT.ccm");
  sub->add_option("memories", command->memories, "The memories to merge")
      ->required()
      ->type_name("MEMORY.ccm");
  sub->add_option("--capacity", command->capacity,
                  "Most vectors it may hold (default: the largest of theirs)")
      ->check(whole_number(1))
      ->type_name("M");
  sub->add_option("--backbone", command->backbone,
                  "Where their backbone is now; needed only for lessons of a service that are not "
                  "in a memory's file yet")
      ->type_name("FILE");
  command->common.add_to(*sub);
  sub->footer(kFooter);
  sub->callback([command] { run(*command); });
}

}  // namespace contcore::app
