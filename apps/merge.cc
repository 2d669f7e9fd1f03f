// contcore merge: one memory out of several.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "common.h"
#include "contcore/error.h"
#include "contcore/memory.h"
#include "contcore/score.h"
#include "fewer_vectors.h"
#include "output_memory.h"

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
  bool force = false;
  CommonOptions common;
};

void run(const MergeCommand& command) {
  if (command.memories.size() < 2) {
    throw Error(Error::Kind::kUsage, "name the new memory and at least two to merge");
  }
  Compute compute = command.common.compute();
  OutputMemory output(command.out, command.force, command.memories, command.backbone,
                      compute.device());
  std::vector<Memory>& parts = output.memories;
  std::size_t capacity = command.capacity;
  if (capacity == 0) {
    for (const Memory& part : parts) capacity = std::max(capacity, part.capacity());
  }
  Memory merged = parts[0].copy();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    try {
      if (merged.scalar() == parts[i].scalar()) check_scores(merged, parts[i]);
      merged = Memory::merge(merged, parts[i], capacity, compute);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", command.memories[i], error.what()));
    }
    stop_if_asked();
  }
  for (const Memory& part : parts) {
    note_fewer_vectors(fewer_vectors(part, merged, kFalseAlarms, "", compute));
  }
  output.save(merged);
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
  sub->add_flag("--force", command->force, "Overwrite the new memory's file if it is there");
  command->common.add_to(*sub);
  sub->footer(kFooter);
  sub->callback([command] { run(*command); });
}

}  // namespace contcore::app
