// contcore info: what a memory knows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "base/utf8.h"
#include "commands.h"
#include "common.h"
#include "contcore/error.h"
#include "contcore/extractor.h"
#include "contcore/memory.h"
#include "contcore/score.h"
#include "contcore/verdict.h"
#include "devices.h"
#include "memory/memory_file.h"

namespace contcore::app {
namespace {

constexpr char kFooter[] =
    "Example:\n"
    "  contcore info line.ccm\n"
    "The certificate is proven: no patch of the task that was ever learned is farther from the\n"
    "memory. The drift says how much farther good images are now than at first.\n";

struct InfoCommand {
  std::string memory;
  double false_alarms = kFalseAlarms;
  bool json = false;
};

// An empty memory proves nothing.
double certificate_of(const Memory& memory) {
  return memory.size() > 0 ? memory.certificate() : std::numeric_limits<double>::infinity();
}

// JSON has no infinity: a task that has no vector left has no certificate.
nlohmann::json finite(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

std::size_t vector_bytes(const Memory& memory, std::size_t vectors) {
  return vectors * memory.dimension() * bytes_of(memory.scalar());
}

double mebi(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

std::string as_json(const InfoCommand& command, const Memory& memory, std::size_t lessons) {
  nlohmann::json object = {{"file", command.memory},
                           {"bytes", std::filesystem::file_size(command.memory)},
                           {"vectors", memory.size()},
                           {"capacity", memory.capacity()},
                           {"dimension", memory.dimension()},
                           {"consolidate", memory.consolidation().name()},
                           {"precision", memory.scalar() == Scalar::kUint8 ? "8bit" : "float"},
                           {"score", score_name(score_of(memory.source))},
                           {"memory", vector_bytes(memory, memory.size())},
                           {"most_memory", vector_bytes(memory, memory.capacity())},
                           {"q", memory.consolidation().q},
                           {"certificate", finite(certificate_of(memory))},
                           {"source", memory.source},
                           {"journal", lessons},
                           {"devices", devices_json()}};
  object["tasks"] = nlohmann::json::array();
  const std::vector<TaskState> states = memory.states();
  for (std::size_t t = 0; t < states.size(); ++t) {
    const TaskRecord& task = memory.tasks()[t];
    nlohmann::json entry = {{"name", task.name},
                            {"images", task.images},
                            {"patches", task.patches},
                            {"picked", task.picked},
                            {"vectors", states[t].vectors},
                            {"epsilon", task.epsilon},
                            {"epsilon_hat", task.epsilon_hat},
                            {"certificate", finite(states[t].certificate)},
                            {"why", states[t].why},
                            {"learned", task.learned},
                            {"calibrated", states[t].calibrated},
                            {"known_defects", memory.known_defects(t).images},
                            {"known_defects_used", memory.known_defects(t).used},
                            {"drift", finite(states[t].drift())}};
    if (const auto threshold = memory.threshold(t, command.false_alarms)) {
      entry["threshold"] = threshold->score;
      if (!threshold->by_hand) entry["false_alarms"] = threshold->false_alarms;
      entry["by_hand"] = threshold->by_hand;
    }
    if (task.region) entry["region"] = nlohmann::json::parse(region_text(*task.region));
    const auto strangers = memory.strangeness(t, {}, InspectOptions().strangers);
    entry["strangers"] = nullptr;
    if (strangers)
      entry["strangers"] = {{"limit", strangers->limit}, {"images", strangers->images}};
    object["tasks"].push_back(std::move(entry));
  }
  return json_line(object);
}

std::string alarms_text(const std::optional<Threshold>& threshold) {
  if (!threshold) return "-";
  return threshold->by_hand ? "by hand" : fmt::format("{:.1f}%", 100 * threshold->false_alarms);
}

std::string why_certificate(const Memory& memory, const std::vector<TaskState>& states) {
  if (memory.size() == 0) return "none: nothing is learned yet";
  const auto without = static_cast<std::size_t>(std::count_if(
      states.begin(), states.end(), [](const TaskState& state) { return state.vectors == 0; }));
  const double certificate = memory.certificate();
  if (std::isfinite(certificate)) {
    return fmt::format("{:.4g}: no patch ever learned is farther from the memory", certificate);
  }
  return fmt::format("none: {} no vector; a larger memory has room for all",
                     without == 1 ? "a task has" : fmt::format("{} tasks have", without));
}

// A line for each task that has some.
std::string defects_text(const Memory& memory) {
  std::string text;
  for (std::size_t t = 0; t < memory.tasks().size(); ++t) {
    const KnownDefects known = memory.known_defects(t);
    if (known.images == 0) continue;
    const std::string why = known.used ? "they count"
                            : known.images < KnownDefects::kLeast
                                ? fmt::format("they count from {} on", KnownDefects::kLeast)
                                : "they do not count: too few good images were learned since "
                                  "defects can be";
    text += fmt::format("{}known defects of {}: {}, {} patches; {}\n", text.empty() ? "\n" : "",
                        printable_name(memory.tasks()[t].name), counted(known.images, "image"),
                        known.patches, why);
  }
  return text;
}

// The same.
std::string regions_text(const Memory& memory) {
  std::string text;
  for (const TaskRecord& task : memory.tasks()) {
    if (!task.region) continue;
    const RegionOfInterest& region = *task.region;
    text +=
        fmt::format("{}region of {}: {} of images of {} × {}; nothing else is looked at\n",
                    text.empty() ? "\n" : "", printable_name(task.name),
                    region.counts.empty() ? counted(region.polygons.size(), "polygon") : "a mask",
                    region.width, region.height);
  }
  return text;
}

// Tasks for which no image is ever unknown, and what to do about it.
std::string cannot_tell_strangers(const Memory& memory) {
  std::string names;
  for (std::size_t t = 0; t < memory.tasks().size(); ++t) {
    if (memory.strangeness(t, {}, InspectOptions().strangers)) continue;
    names += (names.empty() ? "" : ", ") + printable_name(memory.tasks()[t].name);
  }
  if (names.empty()) return "";
  return fmt::format(
      "\nWhat is a stranger to {} cannot be told: that takes two images learned by this version, "
      "and "
      "room for them.\n",
      names);
}

std::string as_text(const InfoCommand& command, const Memory& memory, std::size_t lessons) {
  std::string text = fmt::format("{}  {:.1f} MiB\n", printable_name(command.memory),
                                 mebi(std::filesystem::file_size(command.memory)));
  text += fmt::format(
      "memory       {} of {} vectors of {} {}, {:.1f} of {:.1f} MiB\n", memory.size(),
      memory.capacity(), memory.dimension(), memory.scalar() == Scalar::kUint8 ? "bytes" : "floats",
      mebi(vector_bytes(memory, memory.size())), mebi(vector_bytes(memory, memory.capacity())));
  text += fmt::format("consolidate  {}\n", memory.consolidation().text());
  const auto& source = memory.source;
  const auto said = [&](const char* key) {
    const auto found = source.find(key);
    return found == source.end() ? std::string("?") : printable_name(found->second);
  };
  text += fmt::format("backbone     {} ({}), sha256 {:.12}\n", said("backbone"), said("layers"),
                      said("backbone.sha256"));
  text += fmt::format("precision    {}\n", memory.scalar() == Scalar::kUint8
                                               ? fmt::format("8bit, scale {}", said("scale"))
                                               : "float");
  text += source.contains("tile") ? fmt::format("images       resized to {}{}\n", said("resize"),
                                                printable_name(tiles_text(source)))
                                  : fmt::format("images       resized to {}, cropped to {}\n",
                                                said("resize"), said("crop"));
  text += fmt::format("score        {}\n", score_of(memory.source) == Score::kMap
                                               ? "map: the largest value of the anomaly map"
                                               : "patch: the largest distance of a patch");
  if (lessons != 0) {
    text +=
        fmt::format("journal      {} that a service was taught and that {} not in this file yet\n",
                    counted(lessons, "lesson"), lessons == 1 ? "is" : "are");
  }
  const std::vector<TaskState> states = memory.states();
  text += fmt::format("devices      {}\n", devices_text());
  text += fmt::format("certificate  {}\n\n", why_certificate(memory, states));
  std::size_t width = 4;
  for (const TaskRecord& task : memory.tasks()) {
    width = std::max(width, printable_name(task.name).size());
  }
  text += fmt::format("{:<{}} {:>7} {:>9} {:>8} {:>6}  {:<11} {:>11} {:>9} {:>9} {:>9} {:>7}  {}\n",
                      "task", width, "images", "patches", "vectors", "share", "why", "certificate",
                      "calibrated", "threshold", "alarms", "drift", "learned");
  for (std::size_t t = 0; t < states.size(); ++t) {
    const TaskRecord& task = memory.tasks()[t];
    const auto threshold = memory.threshold(t, command.false_alarms);
    const double share =
        100.0 * static_cast<double>(states[t].vectors) / static_cast<double>(memory.size());
    text += fmt::format(
        "{:<{}} {:>7} {:>9} {:>8} {:>5.1f}%  {:<11} {:>11} {:>9} {:>9} {:>9} {:>6}  {}\n",
        printable_name(task.name), width, task.images, task.patches, states[t].vectors, share,
        states[t].why, certificate_text(states[t].certificate, states[t].vectors),
        states[t].calibrated, threshold ? fmt::format("{:.3f}", threshold->score) : "-",
        alarms_text(threshold),
        states[t].calibrated != 0 ? fmt::format("{:.2f}", states[t].drift()) : "-", task.learned);
  }
  return text + regions_text(memory) + defects_text(memory) + cannot_tell_strangers(memory);
}

void check_score(const InfoCommand& command, const Memory& memory) {
  try {
    score_of(memory.source);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", command.memory, error.what()));
  }
}

void run(const InfoCommand& command) {
  const SavedMemory saved = open_saved(command.memory);
  check_score(command, saved.memory);
  const std::size_t lessons = saved.records.size();
  print_result(command.json ? as_json(command, saved.memory, lessons)
                            : as_text(command, saved.memory, lessons));
}

}  // namespace

void add_info(CLI::App& app) {
  auto command = std::make_shared<InfoCommand>();
  CLI::App* sub = app.add_subcommand("info", "Show what a memory knows");
  sub->add_option("memory", command->memory, "The memory's file")
      ->required()
      ->type_name("MEMORY.ccm");
  sub->add_option("--false-alarms", command->false_alarms,
                  "Rate that the thresholds are shown for (default: 0.05)")
      ->check(CLI::Range(1e-6, 1 - 1e-6))
      ->type_name("RATE");
  sub->add_flag("--json", command->json, "Print the result as one JSON object");
  sub->footer(kFooter);
  sub->callback([command] { run(*command); });
}

}  // namespace contcore::app
