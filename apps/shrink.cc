// contcore shrink: a smaller memory out of a larger one.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "commands.h"
#include "common.h"
#include "contcore/error.h"
#include "contcore/memory.h"
#include "fewer_vectors.h"
#include "output_memory.h"

namespace contcore::app {
namespace {

constexpr char kFooter[] =
    "Examples:\n"
    "  contcore shrink big.ccm small.ccm --memory 2M\n"
    "  contcore shrink big.ccm small.ccm --capacity 4096\n"
    "Every task keeps its most different vectors. What that costs is said: the certificate, and "
    "how\n"
    "the thresholds move; contcore inspect --use K tries it without a file.\n";

struct ShrinkCommand {
  std::string memory;
  std::string out;
  std::string bytes;
  std::size_t capacity = 0;
  double false_alarms = kFalseAlarms;
  std::string backbone;
  bool force = false;
  CommonOptions common;
};

std::size_t wanted(const ShrinkCommand& command, const Memory& memory) {
  if (command.bytes.empty() && command.capacity == 0) {
    throw Error(Error::Kind::kUsage, "say how small it is to be: --memory 2M, or --capacity 4096");
  }
  const std::size_t each = memory.dimension() * bytes_of(memory.scalar());
  const std::size_t count =
      command.bytes.empty() ? command.capacity : parse_size(command.bytes) / each;
  if (count == 0) {
    throw Error(Error::Kind::kUsage,
                fmt::format("--memory {}: a vector of this memory has {} bytes; give it more",
                            command.bytes, each));
  }
  if (count >= memory.capacity()) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: has room for {} vectors, which is not more than {}; give a "
                            "smaller size",
                            command.memory, memory.capacity(), count));
  }
  return count;
}

std::string as_json(const Memory& memory, const Memory& smaller,
                    const std::vector<FewerVectors>& tasks) {
  nlohmann::json object = {{"vectors", smaller.size()},
                           {"capacity", smaller.capacity()},
                           {"certificate", smaller.certificate()},
                           {"certificate_before", memory.certificate()},
                           {"tasks", nlohmann::json::array()}};
  for (const FewerVectors& task : tasks) {
    nlohmann::json entry = {{"name", task.task},
                            {"vectors", task.vectors},
                            {"vectors_before", task.vectors_before},
                            {"sure", task.is_sure}};
    if (task.threshold) entry["threshold"] = task.threshold->score;
    if (task.before) entry["threshold_before"] = task.before->score;
    object["tasks"].push_back(std::move(entry));
  }
  return json_line(object);
}

void run(const ShrinkCommand& command) {
  Compute compute = command.common.compute();
  OutputMemory output(command.out, command.force, {command.memory}, command.backbone,
                      compute.device());
  const Memory& memory = output.memories[0];
  const std::size_t count = wanted(command, memory);
  const Memory smaller = memory.shrink(count, compute);
  stop_if_asked();
  const auto tasks = fewer_vectors(memory, smaller, command.false_alarms, "", compute);
  note_shrunk(memory, tasks, command.false_alarms, compute);
  output.save(smaller);
  print_result(command.common.json
                   ? as_json(memory, smaller, tasks)
                   : fmt::format("{} of {} vectors, room for {}; certificate {}, before {}\n",
                                 smaller.size(), memory.size(), smaller.capacity(),
                                 certificate_text(smaller.certificate(), smaller.size()),
                                 certificate_text(memory.certificate(), memory.size())));
}

}  // namespace

void add_shrink(CLI::App& app) {
  auto command = std::make_shared<ShrinkCommand>();
  CLI::App* sub = app.add_subcommand("shrink", "Make a smaller memory out of a larger one");
  sub->add_option("memory", command->memory, "The memory's file")
      ->required()
      ->type_name("MEMORY.ccm");
  sub->add_option("out", command->out, "The smaller memory's file")
      ->required()
      ->type_name("OUT.ccm");
  auto* bytes = sub->add_option("--memory", command->bytes, "Most bytes of its vectors, such as 2M")
                    ->check(size_text())
                    ->type_name("SIZE");
  sub->add_option("--capacity", command->capacity, "The same in vectors, m")
      ->check(whole_number(1))
      ->excludes(bytes)
      ->type_name("M");
  sub->add_option("--false-alarms", command->false_alarms,
                  "Rate that the thresholds are shown for (default: 0.05)")
      ->check(CLI::Range(1e-6, 1 - 1e-6))
      ->type_name("RATE");
  sub->add_option("--backbone", command->backbone,
                  "Where its backbone is now; needed only for lessons of a service that are not in "
                  "the memory's file yet")
      ->type_name("FILE");
  sub->add_flag("--force", command->force, "Overwrite the smaller memory's file if it is there");
  command->common.add_to(*sub);
  sub->footer(kFooter);
  sub->callback([command] { run(*command); });
}

}  // namespace contcore::app
