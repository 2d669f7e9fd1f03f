// contcore evaluate: methods that learn a schedule of tasks, measured after each.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "common.h"
#include "contcore/detector.h"
#include "contcore/error.h"
#include "contcore/evaluate.h"
#include "contcore/memory.h"
#include "coreset/points.h"
#include "evaluate/results.h"
#include "evaluate/runs.h"
#include "evaluate/text.h"
#include "evaluate_options.h"
#include "progress_line.h"
#include "ranks.h"

namespace contcore::app {
namespace {

constexpr const char* kFooter =
    "Schedules: 1x15, 3x5, 10-1x5, 10-5, 14-1 and so on; names of data sets joined by '>'.\n"
    "Examples:\n"
    "  contcore evaluate mvtec --schedule 10-1x5 --report report\n"
    "  contcore evaluate products --method all -m 2000\n"
    "  contcore evaluate mvtec --sweep m=10000,20000,50000 --report sweep\n"
    "  contcore evaluate mvtec,visa --schedule 'mvtec>visa'\n"
    "Features are extracted once and kept in the cache, as are finished runs: the same command\n"
    "goes on where it was stopped.\n";

struct EvaluateCommand {
  DataOptions data;
  std::vector<std::string> methods = {"contcore"};
  std::vector<std::string> orders;
  std::optional<std::size_t> m;
  std::string memory;
  bool paper = false;
  std::optional<double> p;
  double q = 0.75;
  std::size_t seeds = 1;
  std::vector<std::string> sweeps;
  std::string consolidate = "share";
  bool online = false;
  std::string report;
  CommonOptions common;
  std::string line;  // the command as it was given, without the folders of others
};

// The values of one parameter.
struct Sweep {
  std::vector<std::string> m, p, q, backbone;
};

double number(const std::string& what, const std::string& text) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size()) {
    throw Error(Error::Kind::kUsage, fmt::format("--sweep {}: '{}' is not a number", what, text));
  }
  return value;
}

std::size_t whole(const std::string& what, const std::string& text) {
  const double value = number(what, text);
  if (!(value >= 1 && value <= 1e12 &&
        value == static_cast<double>(static_cast<std::size_t>(value)))) {
    throw Error(Error::Kind::kUsage,
                fmt::format("--sweep {}: '{}' is not a whole number from 1 on", what, text));
  }
  return static_cast<std::size_t>(value);
}

Sweep parse_sweeps(const std::vector<std::string>& texts) {
  Sweep sweep;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    std::vector<std::string>* values = name == "m"          ? &sweep.m
                                       : name == "p"        ? &sweep.p
                                       : name == "q"        ? &sweep.q
                                       : name == "backbone" ? &sweep.backbone
                                                            : nullptr;
    if (values == nullptr || equals == std::string::npos || equals + 1 == text.size()) {
      throw Error(Error::Kind::kUsage,
                  fmt::format("--sweep {}: give m, p, q or backbone and its values, such as "
                              "m=10000,20000",
                              text));
    }
    *values = split_names(text.substr(equals + 1));
  }
  return sweep;
}

// m of the paper for a data set.
std::size_t paper_m(const std::vector<Dataset>& datasets) {
  std::size_t m = 20000;
  for (const Dataset& dataset : datasets) {
    if (dataset.layout == "visa") m = std::max<std::size_t>(m, 40000);
    if (dataset.layout == "real-iad") m = std::max<std::size_t>(m, 250000);
  }
  return m;
}

// m as it was asked for, in vectors or in bytes.
std::size_t memory_of(const EvaluateCommand& command) {
  const EvaluationOptions& options = command.data.evaluation;
  if (command.memory.empty()) return command.m ? *command.m : paper_m(options.datasets);
  const std::size_t each = options.dimension * (options.precision == Precision::k8Bit ? 1 : 4);
  const std::size_t m = parse_size(command.memory) / each;
  if (m > 0) return m;
  throw Error(Error::Kind::kUsage,
              fmt::format("--memory {} has no room for a vector, which takes {}", command.memory,
                          counted(each, "byte")));
}

void set_paper(EvaluateCommand& command) {
  const DetectorOptions paper = DetectorOptions::paper();
  DataOptions& data = command.data;
  data.resize = paper.geometry.resize_text();
  data.crop = paper.geometry.crop_text();
  data.precision = precision_word(paper.precision);
  data.score = score_name(paper.score);
  data.evaluation.dimension = paper.dimension;
  command.consolidate = paper.consolidate.name();
  command.q = paper.consolidate.q;
}

const MethodInfo& info_of(const std::string& name) {
  std::string names;
  for (const MethodInfo& info : methods()) {
    if (info.name == name) return info;
    names += (names.empty() ? "" : ", ") + info.name;
  }
  throw Error(Error::Kind::kUsage,
              fmt::format("there is no method '{}'; there are {} (and all)", name, names));
}

bool is_method(const std::string& name) {
  return std::any_of(methods().begin(), methods().end(),
                     [&](const MethodInfo& info) { return info.name == name; });
}

// Where a rule other than the usual one has a method of its own, that one.
std::string by_rule(const std::string& name, const std::string& rule) {
  if (!name.starts_with("contcore")) return name;
  const std::string own = "contcore-" + rule + name.substr(std::string("contcore").size());
  return is_method(own) ? own : name;
}

std::vector<std::string> chosen_methods(const EvaluateCommand& command) {
  const std::string rule = Consolidate{Consolidate::parse(command.consolidate)}.name();
  std::vector<std::string> chosen;
  for (std::string name : command.methods) {
    name = by_rule(name, rule);
    if (name == "all") {
      for (const MethodInfo& info : methods()) chosen.push_back(info.name);
    } else {
      const bool exists = is_method(name + "-online");
      chosen.push_back(command.online && exists ? name + "-online" : name);
      info_of(chosen.back());
    }
  }
  return chosen;
}

// Every setting for one backbone and order, parameters that a method does not have left at one
// value.
std::vector<Setting> settings_of(const EvaluateCommand& command, const Sweep& sweep,
                                 std::size_t m) {
  const auto or_else = [](const std::vector<std::string>& values, const std::string& value) {
    return values.empty() ? std::vector<std::string>{value} : values;
  };
  std::vector<Setting> settings;
  for (const std::string& name : chosen_methods(command)) {
    const double p = command.p ? *command.p : info_of(name).online ? 0.1 : 0.01;
    for (const std::string& m_text : or_else(sweep.m, fmt::format("{}", m))) {
      for (const std::string& p_text : or_else(sweep.p, fmt::format("{}", p))) {
        for (const std::string& q_text : or_else(sweep.q, fmt::format("{}", command.q))) {
          for (std::size_t seed = 0; seed < command.seeds; ++seed) {
            Setting setting;
            setting.method = name;
            setting.m = whole("m", m_text);
            setting.p = number("p", p_text);
            setting.q = number("q", q_text);
            setting.seed = seed;
            settings.push_back(setting);
          }
        }
      }
    }
  }
  return settings;
}

std::string percent(const std::optional<double>& value) {
  return value ? fmt::format("{:.1f}", 100 * *value) : "-";
}

std::string pair_of(const Measures& measures, Measure a, Measure b) {
  return percent(measures[a]) + " / " + percent(measures[b]);
}

std::string table_head() {
  return fmt::format("{:<24} {:>7} {:>6} {:>5} {:>4}  {:>13}  {:>13}  {:>13}  {:>7}  {:>9}\n",
                     "method", "m", "p", "q", "seed", "AUROC im/px", "FM im/px", "AP / AUPRO",
                     "vectors", "ms/image");
}

std::string table_row(const RunResult& result) {
  const Summary summary = summarise(result);
  const Setting& s = result.setting;
  return fmt::format(
      "{:<24} {:>7} {:>6} {:>5} {:>4}  {:>13}  {:>13}  {:>13}  {:>7}  {:>9.1f}\n", s.method, s.m,
      s.p, s.q, s.seed, pair_of(summary.average, kImageAuroc, kPixelAuroc),
      pair_of(summary.forgetting, kImageAuroc, kPixelAuroc),
      pair_of(summary.average, kImageAp, kAupro), result.vectors, 1000 * result.test_seconds);
}

std::string dataset_name(const EvaluationOptions& options) {
  std::string name;
  for (const Dataset& dataset : options.datasets) name += (name.empty() ? "" : ">") + dataset.name;
  return name;
}

// Every run: of each backbone and order all settings.
std::vector<Setting> all_settings(const EvaluateCommand& command) {
  const Sweep sweep = parse_sweeps(command.sweeps);
  const std::vector<Setting> each = settings_of(command, sweep, memory_of(command));
  const auto or_else = [](const std::vector<std::string>& values, const std::string& value) {
    return values.empty() ? std::vector<std::string>{value} : values;
  };
  std::vector<Setting> all;
  for (const std::string& backbone : or_else(sweep.backbone, command.data.evaluation.backbone)) {
    for (const std::string& order : or_else(command.orders, "")) {
      for (const Setting& setting : each) {
        all.push_back(setting);
        all.back().backbone = backbone;
        all.back().order = order;
      }
    }
  }
  return all;
}

// What is said while the runs go on.
class RunsOnScreen : public RunsListener {
 public:
  explicit RunsOnScreen(const std::vector<Setting>& settings) : settings_(settings) {}

  void opened(const Schedule& schedule, const std::vector<Product>& products) override {
    note("classes, task by task:");
    for (std::size_t t = 0; t < schedule.size(); ++t) {
      std::string names;
      for (const std::size_t c : schedule[t])
        names += (names.empty() ? "" : ", ") + products[c].name;
      note(fmt::format("  task {}: {}", t + 1, names));
    }
  }

  Progress extracting(const std::string& /*backbone*/) override {
    return begin("extracting features");
  }
  Progress running(std::size_t run) override { return begin(name_of(run)); }

  void finished(std::size_t run, const RunOutcome& outcome) override {
    line_.reset();
    from_cache_ += outcome.from_cache ? 1 : 0;
    const Measures average = summarise(outcome.result).average;
    note(fmt::format("{}: {} in {:.0f} s{}", name_of(run),
                     pair_of(average, kImageAuroc, kPixelAuroc), outcome.seconds,
                     outcome.from_cache ? " (from the cache)" : ""));
  }

  void end() {
    line_.reset();
    if (from_cache_ == 0) return;
    note(fmt::format("{} from the cache; --fresh runs them again", counted(from_cache_, "run")));
  }

 private:
  Progress begin(const std::string& what) {
    line_.reset();  // one at a time
    line_.emplace(what);
    return line_->callback();
  }
  std::string name_of(std::size_t run) const {
    return fmt::format("{} of {}: {}, m = {}", run + 1, settings_.size(), settings_[run].method,
                       settings_[run].m);
  }

  const std::vector<Setting>& settings_;
  std::optional<ProgressLine> line_;
  std::size_t from_cache_ = 0;
};

std::vector<RunResult> run_settings(const EvaluateCommand& command,
                                    const std::vector<Setting>& settings) {
  const EvaluationOptions& options = command.data.evaluation;
  Compute compute = command.common.compute();
  RunsOnScreen screen(settings);
  try {
    std::vector<RunResult> results = run_all(options, settings, compute, ranks(), screen);
    screen.end();
    return results;
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kCancelled && !options.cache.empty()) {
      note("finished runs are in the cache; the same command goes on from there");
    }
    throw;
  }
}

void leave_report(const EvaluateCommand& command, const std::vector<RunResult>& results) {
  const EvaluationOptions& options = command.data.evaluation;
  ReportOptions report;
  report.dataset = dataset_name(options);
  report.schedule = options.schedule.empty() ? fmt::format("1x{}", results[0].tasks.size())
                                             : without_folders(options.schedule);
  report.title = report.dataset + ", " + report.schedule;
  report.command = command.line;
  write_report(command.report, results, report);
  note("report: " + command.report + "/index.html");
}

std::string as_json(const std::vector<RunResult>& results) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const RunResult& result : results) {
    list.push_back(result_json(result));
    list.back()["summary"] = summary_json(summarise(result));
  }
  return json_text(list, -1) + "\n";
}

std::string as_table(const std::vector<RunResult>& results) {
  std::string text = table_head();
  for (const RunResult& result : results) text += table_row(result);
  return text;
}

void run(EvaluateCommand& command) {
  if (command.paper) set_paper(command);
  std::vector<Setting> settings;
  do_on_all(ranks(), [&] {
    command.data.open();
    settings = all_settings(command);
  });
  const std::vector<RunResult> results = run_settings(command, settings);
  do_on_all(ranks(), [&] {
    if (is_first() && !command.report.empty()) leave_report(command, results);
  });
  if (is_first()) print_result(command.common.json ? as_json(results) : as_table(results));
}

std::string quoted(const std::string& word) {
  const bool plain =
      !word.empty() &&
      word.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%") ==
          std::string::npos;
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

void add_evaluate(CLI::App& app, const std::vector<std::string>& words) {
  auto command = std::make_shared<EvaluateCommand>();
  command->line = "contcore";
  for (const std::string& word : words) command->line += " " + quoted(without_folders(word));
  CLI::App* sub = app.add_subcommand("evaluate", "Measure methods on a schedule of tasks");
  command->data.add_to(*sub);
  sub->add_option("--schedule", command->data.evaluation.schedule,
                  "Classes in each task, such as 10-1x5 (default: one class a task)")
      ->type_name("SCHEDULE");
  sub->add_option("--order", command->orders,
                  "alphabetical, shuffle:SEED, or all names; again for another order")
      ->take_all()
      ->type_name("ORDER");
  std::string names;
  for (const MethodInfo& info : methods()) names += "\n" + info.name + ": " + info.about;
  sub->add_option("--method", command->methods, "Methods, or all:" + names)
      ->delimiter(',')
      ->type_name("A,B");
  sub->add_option("--consolidate", command->consolidate,
                  "Rule of contcore: share, or paper for the paper's (contcore-paper)")
      ->capture_default_str()
      ->check(CLI::IsMember({"share", "paper"}))
      ->type_name("RULE");
  sub->add_flag("--online", command->online,
                "The online protocol: contcore and patchcore-oracle one image at a time");
  auto* vectors = sub->add_option("-m,--capacity", command->m,
                                  "Vectors in the memory (default: 20000; VisA 40000, Real-IAD "
                                  "250000)")
                      ->check(whole_number(1))
                      ->type_name("M");
  sub->add_option("--memory", command->memory, "The same in bytes, such as 8M")
      ->excludes(vectors)
      ->check(size_text())
      ->type_name("SIZE");
  sub->add_flag("--paper", command->paper,
                "All as in the paper: its rule and q, float, 1024 numbers, resized to 256, cropped "
                "to 224, the largest patch");
  sub->add_option("--ratio", command->p, "Part p of the patches (default: 0.01; online 0.1)")
      ->type_name("p");
  sub->add_option("--q", command->q, "Paper's rule: part kept by nearest neighbours alone")
      ->capture_default_str()
      ->type_name("q");
  sub->add_option("--seeds", command->seeds, "How many seeds, from 0 on")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  sub->add_option("--sweep", command->sweeps,
                  "m=…, p=…, q=… or backbone=…, values separated by commas; again for another")
      ->take_all()
      ->type_name("NAME=V,V");
  sub->add_flag("--fresh", command->data.evaluation.fresh,
                "Run again what an earlier run finished");
  sub->add_option(
         "--report", command->report,
         "Leave a page with tables, curves and pictures there, and JSON, CSV, Markdown, LaTeX, SVG")
      ->type_name("DIR");
  command->common.add_to(*sub);
  sub->footer(kFooter);
  sub->callback([command, sub] {
    check_paper(*sub);
    run(*command);
  });
}

}  // namespace contcore::app
