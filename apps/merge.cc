// contcore merge: one memory out of several.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/lock.h"
#include "commands.h"
#include "common.h"
#include "contcore/error.h"
#include "contcore/memory.h"

namespace contcore::app {
namespace {

constexpr char kFooter[] =
    "Example:\n"
    "  contcore merge all.ccm line1.ccm line2.ccm\n"
    "The memories must have been made with the same backbone and preprocessing. Tasks of the same\n"
    "name become one.\n";

struct MergeCommand {
  std::string out;
  std::vector<std::string> memories;
  std::size_t capacity = 0;
  CommonOptions common;
};

void run(const MergeCommand& command) {
  if (command.memories.size() < 2) {
    throw Error(Error::Kind::kUsage, "name the new memory and at least two to merge");
  }
  check_writable(command.out);
  const FileLock lock(command.out);
  Threads threads(command.common.threads);
  std::vector<Memory> parts;
  std::size_t capacity = command.capacity;
  for (const std::string& path : command.memories) {
    parts.push_back(Memory::open(path));
    if (command.capacity == 0) capacity = std::max(capacity, parts.back().capacity());
  }
  Memory merged = std::move(parts[0]);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    try {
      merged = Memory::merge(merged, parts[i], capacity, threads);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", command.memories[i], error.what()));
    }
    stop_if_asked();
  }
  merged.save(command.out);
  print_result(command.common.json
                   ? json_line({{"vectors", merged.size()},
                                {"capacity", merged.capacity()},
                                {"tasks", merged.tasks().size()},
                                {"certificate", merged.certificate()}})
                   : fmt::format("merged {} memories: {} in {} of {} vectors, certificate {:.4g}\n",
                                 parts.size(), counted(merged.tasks().size(), "task"),
                                 merged.size(), merged.capacity(), merged.certificate()));
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
      ->check(whole_number())
      ->type_name("M");
  command->common.add_to(*sub);
  sub->footer(kFooter);
  sub->callback([command] { run(*command); });
}

}  // namespace contcore::app
