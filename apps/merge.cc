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
#include "coreset/points.h"
#include "device/packing.h"
#include "fewer_vectors.h"
#include "memory/merge_on_ranks.h"
#include "output_memory.h"
#include "ranks.h"

namespace contcore::app {
namespace {

constexpr char kFooter[] =
    "Example:\n"
    "  contcore merge all.ccm line1.ccm line2.ccm\n"
    "The memories must have been made with the same backbone and preprocessing. Tasks of the same\n"
    "name become one.\n";

std::string scores_differ(Score a, Score b) {
  return fmt::format(
      "the memories differ in their score ({} and {}) and cannot be merged; learn "
      "one of them again with the other's --score",
      score_name(a), score_name(b));
}

// A memory that says nothing of its score has one all the same.
void check_scores(const Memory& a, const Memory& b) {
  const Score of_a = score_of(a.source);
  const Score of_b = score_of(b.source);
  if (of_a != of_b) throw Error(Error::Kind::kInput, scores_differ(of_a, of_b));
}

// What decides whether memories can be merged, as far as it is told first.
struct Kind {
  Scalar scalar;
  Score score;
};

struct MergeCommand {
  std::string out;
  std::vector<std::string> memories;
  std::size_t capacity = 0;
  std::string backbone;
  bool force = false;
  CommonOptions common;
};

std::size_t capacity_of(const MergeCommand& command, const std::vector<Memory>& parts) {
  std::size_t capacity = command.capacity;
  for (const Memory& part : parts) {
    if (command.capacity == 0) capacity = std::max(capacity, part.capacity());
  }
  return capacity;
}

Memory merge_here(const MergeCommand& command, const std::vector<Memory>& parts, Compute& compute) {
  const std::size_t capacity = capacity_of(command, parts);
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
  return merged;
}

// As merge_here has it, memory by memory of all ranks.
void check_scores_of_all(const MergeCommand& command, const std::vector<Memory>& parts) {
  std::vector<Kind> mine;
  for (const Memory& part : parts) mine.push_back({part.scalar(), score_of(part.source)});
  const std::vector<Kind> all = all_of(ranks(), std::move(mine));
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].scalar != all[0].scalar || all[i].score == all[0].score) continue;
    throw RanksError(Error::Kind::kInput, fmt::format("{}: {}", command.memories[i],
                                                      scores_differ(all[0].score, all[i].score)));
  }
}

// Each rank opens and merges its part of them.
Memory merge_together(const MergeCommand& command, const std::vector<Memory>& parts,
                      Compute& compute) {
  std::size_t capacity = 0;
  for (const std::size_t largest : all_of<std::size_t>(ranks(), {capacity_of(command, parts)})) {
    capacity = std::max(capacity, largest);
  }
  check_scores_of_all(command, parts);
  std::vector<Memory> mine;
  for (const Memory& part : parts) mine.push_back(part.copy());
  return merge_on_ranks(std::move(mine), capacity, *ranks(), compute);
}

// Another rank may have it open while it is replaced.
void refuse_input_as_output(const MergeCommand& command) {
  for (const std::string& input : command.memories) {
    if (real_path(input) != real_path(command.out)) continue;
    throw Error(Error::Kind::kUsage,
                fmt::format("{}: is one of the memories to merge, which only one process can "
                            "replace; name another file, or leave out mpirun",
                            command.out));
  }
}

// The memories that this rank opens, of all.
std::vector<std::string> memories_of_rank(const MergeCommand& command) {
  if (ranks() == nullptr) return command.memories;
  const Ranks::Part mine = ranks()->part_of(command.memories.size());
  const auto begin = command.memories.begin();
  return {begin + static_cast<std::ptrdiff_t>(mine.first),
          begin + static_cast<std::ptrdiff_t>(mine.end)};
}

void run(const MergeCommand& command) {
  do_on_all(ranks(), [&] {
    if (command.memories.size() >= 2) return;
    throw Error(Error::Kind::kUsage, "name the new memory and at least two to merge");
  });
  Compute compute = command.common.compute();
  std::optional<OutputMemory> output;
  std::vector<Memory> others;
  do_on_all(ranks(), [&] {
    const std::vector<std::string> mine = memories_of_rank(command);
    if (is_first()) {
      if (ranks() != nullptr) refuse_input_as_output(command);
      output.emplace(command.out, command.force, mine, command.backbone, compute.device());
    } else {
      others = open_memories(mine, command.backbone, compute.device());
    }
  });
  const std::vector<Memory>& parts = is_first() ? output->memories : others;
  const Memory merged = ranks() == nullptr ? merge_here(command, parts, compute)
                                           : merge_together(command, parts, compute);
  std::string remarks;
  for (const Memory& part : parts) {
    remarks += text_of(fewer_vectors(part, merged, kFalseAlarms, "", compute));
  }
  note_lines(said_by_all(remarks));
  do_on_all(ranks(), [&] {
    stop_if_asked();
    if (output) output->save(merged);
  });
  print_result(command.common.json
                   ? json_line({{"vectors", merged.size()},
                                {"capacity", merged.capacity()},
                                {"tasks", merged.tasks().size()},
                                {"certificate", merged.certificate()}})
                   : fmt::format("merged {} memories: {} in {} of {} vectors, certificate {}\n",
                                 command.memories.size(), counted(merged.tasks().size(), "task"),
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
