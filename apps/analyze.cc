// contcore analyze: the theorem measured, and coresets side by side.
#include "contcore/analyze.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "common.h"
#include "evaluate_options.h"
#include "progress_line.h"

namespace contcore::app {
namespace {

struct BoundCommand {
  DataOptions data;
  BoundOptions options;
  CommonOptions common;
};

void run(BoundCommand& command) {
  command.data.open();
  Compute compute = command.common.compute();
  std::vector<Bound> bounds;
  {
    ProgressLine progress("measuring the bound");
    bounds = analyze_bound(command.data.evaluation, command.options, compute, progress.callback());
  }
  if (command.common.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Bound& b : bounds) {
      list.push_back({{"tasks", b.tasks},
                      {"distance", b.distance},
                      {"epsilon_o", b.epsilon_o},
                      {"epsilon", b.epsilon},
                      {"epsilon_hat", b.epsilon_hat},
                      {"continued", b.continued},
                      {"bound", b.bound()},
                      {"holds", b.distance <= b.bound()},
                      {"covering", b.covering},
                      {"certificate", b.certificate}});
    }
    return print_result(json_line(list));
  }
  std::string text =
      fmt::format("{:>3} {:>10} {:>10} {:>26} {:>10} {:>6}  {:>9} {:>12}\n", "T", "H(O, M_T)",
                  "eps_o", "max(eps_k + sum eps^_j)", "bound", "holds", "covering", "certificate");
  for (const Bound& b : bounds) {
    text += fmt::format("{:>3} {:>10.3f} {:>10.3f} {:>26.3f} {:>10.3f} {:>6}  {:>9.3f} {:>12.3f}\n",
                        b.tasks, b.distance, b.epsilon_o, b.continued, b.bound(),
                        b.distance <= b.bound() ? "yes" : "NO", b.covering, b.certificate);
  }
  print_result(text);
}

struct CompareCommand {
  DataOptions data;
  std::vector<std::string> methods = {"contcore", "contcore-paper", "random"};
  std::string reference = "patchcore-oracle";
  Setting setting;
  CommonOptions common;
};

void run(CompareCommand& command) {
  command.data.open();
  Compute compute = command.common.compute();
  const auto with = [&](const std::string& method) {
    Setting setting = command.setting;
    setting.method = method;
    return setting;
  };
  std::vector<Setting> settings;
  for (const std::string& method : command.methods) settings.push_back(with(method));
  std::vector<Likeness> rows;
  {
    ProgressLine progress("comparing coresets");
    rows = analyze_compare(command.data.evaluation, settings, with(command.reference), compute,
                           progress.callback());
  }
  if (command.common.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Likeness& r : rows) {
      list.push_back({{"method", r.method},
                      {"reference", command.reference},
                      {"vectors", r.vectors},
                      {"overlap", r.overlap},
                      {"average_minimum", r.average_minimum},
                      {"sliced_wasserstein", r.sliced_wasserstein},
                      {"hausdorff", r.hausdorff}});
    }
    return print_result(json_line(list));
  }
  std::string text = fmt::format("against {}, m = {}\n{:<24} {:>8} {:>8} {:>16} {:>19} {:>10}\n",
                                 command.reference, command.setting.m, "method", "vectors",
                                 "overlap", "average minimum", "sliced Wasserstein", "Hausdorff");
  for (const Likeness& r : rows) {
    text += fmt::format("{:<24} {:>8} {:>8} {:>16.3f} {:>19.4f} {:>10.3f}\n", r.method, r.vectors,
                        r.overlap, r.average_minimum, r.sliced_wasserstein, r.hausdorff);
  }
  print_result(text);
}

void add_bound(CLI::App& analyze) {
  auto command = std::make_shared<BoundCommand>();
  CLI::App* sub = analyze.add_subcommand("bound", "Every term of the theorem, for T = 2, 3, ...");
  command->data.add_to(*sub);
  sub->add_option("--images", command->options.images, "Images of each class")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  sub->add_option("--per-task", command->options.per_task, "m = N * T")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  sub->add_option("--tasks", command->options.most_tasks, "T at the most")
      ->capture_default_str()
      ->check(CLI::Range(2, 1000))
      ->type_name("N");
  sub->add_option("--ratio", command->options.p, "Part p of the patches")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("p");
  sub->add_option("--q", command->options.q, "Paper's rule: part kept by nearest neighbours alone")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("q");
  command->common.add_to(*sub);
  sub->callback([command] { run(*command); });
}

void add_compare(CLI::App& analyze) {
  auto command = std::make_shared<CompareCommand>();
  CLI::App* sub = analyze.add_subcommand("compare", "Coresets of methods against a reference's");
  command->data.add_to(*sub);
  sub->add_option("--schedule", command->data.evaluation.schedule,
                  "Classes in each task (default: one class a task)")
      ->type_name("SCHEDULE");
  sub->add_option("--method", command->methods, "Methods to compare")
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("A,B");
  sub->add_option("--reference", command->reference, "What they are compared with")
      ->capture_default_str()
      ->type_name("METHOD");
  sub->add_option("-m,--capacity", command->setting.m, "Vectors in the memory")
      ->capture_default_str()
      ->check(whole_number())
      ->type_name("M");
  sub->add_option("--ratio", command->setting.p, "Part p of the patches")
      ->capture_default_str()
      ->type_name("p");
  sub->add_option("--q", command->setting.q, "Paper's rule: part kept by nearest neighbours alone")
      ->capture_default_str()
      ->type_name("q");
  sub->add_option("--seed", command->setting.seed, "Of the methods that draw")
      ->capture_default_str()
      ->check(whole_number())
      ->type_name("N");
  command->common.add_to(*sub);
  sub->callback([command] { run(*command); });
}

}  // namespace

void add_analyze(CLI::App& app) {
  CLI::App* analyze = app.add_subcommand("analyze", "The theorem measured, coresets compared");
  analyze->require_subcommand(1);
  add_bound(*analyze);
  add_compare(*analyze);
  analyze->footer(
      "Examples:\n"
      "  contcore analyze bound mvtec\n"
      "  contcore analyze compare mvtec -m 20000 --method contcore,random\n");
}

}  // namespace contcore::app
