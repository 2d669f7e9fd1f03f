// The command: contcore SUBCOMMAND …
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "common.h"
#include "contcore/device.h"
#include "contcore/error.h"
#include "devices.h"
#include "ranks.h"
#include "suggest.h"

#ifndef CONTCORE_VERSION
#define CONTCORE_VERSION "0.1.0"
#endif

namespace {

using contcore::Error;
using contcore::RanksError;
using contcore::app::note;

constexpr int kInternal = 1;
constexpr int kUsage = 2;
constexpr int kInput = 3;
constexpr int kStopped = 130;

// With a standard stream closed, the next file to be opened would take its number, and our
// messages.
void fill_standard_streams() {
  for (;;) {
    const int fd = ::open("/dev/null", O_RDWR);
    if (fd < 0) return;
    if (fd > STDERR_FILENO) {
      ::close(fd);
      return;
    }
  }
}

int exit_code(Error::Kind kind) {
  return kind == Error::Kind::kCancelled ? kStopped : static_cast<int>(kind);
}

// Says what went wrong on this rank, whichever it is. The others wait for it somewhere.
int end_all_ranks(const std::string& what, int code) {
  if (contcore::app::ranks() == nullptr) {
    note(what);
    return code;
  }
  std::fputs(fmt::format("contcore: rank {}: {}\n", contcore::app::ranks()->rank(), what).c_str(),
             stderr);
  contcore::app::abort_ranks(code);
}

int report(const Error& error) {
  if (contcore::app::ranks() != nullptr && dynamic_cast<const RanksError*>(&error) == nullptr) {
    return end_all_ranks(error.what(), exit_code(error.kind()));
  }
  // A service may have learned something by then; the message says so.
  if (error.kind() == Error::Kind::kCancelled && std::string_view(error.what()) == "stopped") {
    note("stopped; what was not finished was not written");
  } else {
    note(error.what());
  }
  return exit_code(error.kind());
}

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> names_of_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string meant(const std::string& word, const std::vector<std::string>& names) {
  const std::string name = contcore::app::nearest_name(word, names);
  return name.empty() ? "" : fmt::format("; did you mean {}?", name);
}

// What is wrong with a word that is no command or option, and what it may have been meant to be;
// empty when that is not what is wrong.
std::string unknown_word(const CLI::App& app, const std::string& command) {
  const std::vector<std::string> left = app.remaining();
  if (left.empty()) return "";
  const std::string word = left[0].substr(0, left[0].find('='));
  if (word.starts_with("-")) {
    return fmt::format("{} has no option {}{}", command, word, meant(word, names_of_options(app)));
  }
  if (names_of_commands(app).empty()) return "";
  return fmt::format("there is no command '{} {}'{}", command, word,
                     meant(word, names_of_commands(app)));
}

int report_parsing(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {  // help or version
    app.exit(error);
    std::fflush(stdout);
    return 0;
  }
  std::string name = "contcore";
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  const std::string unknown = unknown_word(*at, name);
  const std::string what = unknown.empty() ? error.what() : unknown;
  note(fmt::format("{}{} {} --help", what, what.ends_with('?') ? " See" : "; see", name));
  return kUsage;
}

// contcore help [COMMAND …]
void add_help(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("help", "Show how a command is used");
  auto words = std::make_shared<std::vector<std::string>>();
  sub->add_option("command", *words, "Which, such as learn, or backbone fetch")
      ->type_name("COMMAND");
  sub->callback([&app, words] {
    CLI::App* at = &app;
    std::string name = "contcore";
    for (const std::string& word : *words) {
      const std::vector<CLI::App*> found =
          at->get_subcommands([&](const CLI::App* command) { return command->get_name() == word; });
      if (found.empty()) {
        throw Error(Error::Kind::kUsage, fmt::format("there is no command '{} {}'{}", name, word,
                                                     meant(word, names_of_commands(*at))));
      }
      at = found[0];
      name += " " + word;
    }
    contcore::app::print_result(
        at->get_formatter()->make_help(at, name, CLI::AppFormatMode::Normal));
  });
}

// What took longer than with a GPU that can do it.
std::string gpu_remark() {
  const std::string failure = contcore::gpu_failure();
  if (!failure.empty()) return "the processor went on without the GPU: " + failure;
  const std::size_t times = contcore::gpu_fallbacks();
  if (times == 0) return "";
  return fmt::format("the GPU had not the memory for {} of work, which the processor did",
                     contcore::app::counted(times, "piece"));
}

// Of all ranks.
void note_gpu() {
  std::string remark = gpu_remark();
  if (!remark.empty()) {
    if (const contcore::Ranks* ranks = contcore::app::ranks()) {
      remark = fmt::format("rank {}: {}", ranks->rank(), remark);
    }
    remark += "\n";
  }
  contcore::app::note_lines(contcore::app::said_by_all(remark));
}

int run(int argc, char** argv) {
  CLI::App app("Visual anomaly detection that keeps learning in a fixed memory", "contcore");
  app.set_version_flag(
      "-V,--version", [] { return CONTCORE_VERSION "\ndevices: " + contcore::app::devices_text(); },
      "Print the version, and what there is to compute on, and exit");
  app.require_subcommand(1);
  contcore::app::add_learn(app);
  contcore::app::add_inspect(app);
  contcore::app::add_info(app);
  contcore::app::add_merge(app);
  contcore::app::add_shrink(app);
  contcore::app::add_lessons(app);
  contcore::app::add_forget(app);
  contcore::app::add_versions(app);
  contcore::app::add_rename(app);
  contcore::app::add_evaluate(app, {argv + 1, argv + argc});
  contcore::app::add_analyze(app);
  contcore::app::add_backbone(app);
  contcore::app::add_extract(app);
  contcore::app::add_sample(app);
  contcore::app::add_nearest(app);
  contcore::app::add_serve(app);
  contcore::app::add_camera(app);
  contcore::app::add_demo(app);
  add_help(app);
  app.footer(
      "Example:\n"
      "  contcore learn line.ccm good/ --task bottle\n"
      "  contcore inspect line.ccm camera/ --heatmaps heatmaps/\n"
      "Help on a command: contcore help learn, contcore learn --help, man contcore\n"
      "Exit codes: 0 done, 1 internal error, 2 usage, 3 bad input, 4 damaged file,\n"
      "5 an image is not good (inspect --fail-on-defect), 130 stopped\n");
  try {
    app.parse(argc, argv);
    note_gpu();
    return 0;
  } catch (const CLI::RuntimeError& end) {
    note_gpu();
    return end.get_exit_code();  // of work that is done
  } catch (const CLI::ParseError& error) {
    return report_parsing(app, error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_streams();
  contcore::app::catch_interrupts();
  std::unique_ptr<contcore::Ranks> together;  // until all is said
  try {
    together = contcore::app::start_ranks();
    contcore::app::set_ranks(together.get());
    contcore::app::check_ranks(argc, argv);
    return run(argc, argv);
  } catch (const Error& error) {
    return report(error);
  } catch (const std::bad_alloc&) {
    return end_all_ranks("not enough memory; try --memory-limit, or fewer vectors at a time",
                         kInput);
  } catch (const std::length_error&) {
    return end_all_ranks("not enough memory; ask for fewer vectors at a time", kInput);
  } catch (const std::exception& error) {
    return end_all_ranks(fmt::format("internal error: {}", error.what()), kInternal);
  }
}
