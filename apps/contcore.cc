// The command: contcore SUBCOMMAND …
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "commands.h"
#include "common.h"
#include "contcore/error.h"

#ifndef CONTCORE_VERSION
#define CONTCORE_VERSION "0.1.0"
#endif

namespace {

using contcore::Error;
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

int report(const Error& error) {
  // A service may have learned something by then; the message says so.
  if (error.kind() == Error::Kind::kCancelled && std::string_view(error.what()) == "stopped") {
    note("stopped; nothing was written");
  } else {
    note(error.what());
  }
  return exit_code(error.kind());
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
  note(fmt::format("{}; see {} --help", error.what(), name));
  return kUsage;
}

int run(int argc, char** argv) {
  CLI::App app("Visual anomaly detection that keeps learning in a fixed memory", "contcore");
  app.set_version_flag("--version", CONTCORE_VERSION, "Print the version and exit");
  app.require_subcommand(1);
  contcore::app::add_learn(app);
  contcore::app::add_inspect(app);
  contcore::app::add_info(app);
  contcore::app::add_merge(app);
  contcore::app::add_evaluate(app, {argv + 1, argv + argc});
  contcore::app::add_analyze(app);
  contcore::app::add_backbone(app);
  contcore::app::add_sample(app);
  contcore::app::add_nearest(app);
  contcore::app::add_serve(app);
  contcore::app::add_demo(app);
  app.footer(
      "Example:\n"
      "  contcore learn line.ccm good/ --task bottle\n"
      "  contcore inspect line.ccm camera/ --heatmaps heatmaps/\n"
      "Help on a subcommand: contcore learn --help\n"
      "Exit codes: 0 done, 1 internal error, 2 usage, 3 bad input, 4 damaged file, 130 stopped\n");
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return report_parsing(app, error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_streams();
  contcore::app::catch_interrupts();
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    return report(error);
  } catch (const std::bad_alloc&) {
    note("not enough memory; try --memory-limit, or fewer vectors at a time");
    return kInput;
  } catch (const std::length_error&) {
    note("not enough memory; ask for fewer vectors at a time");
    return kInput;
  } catch (const std::exception& error) {
    note(fmt::format("internal error: {}", error.what()));
    return kInternal;
  }
}
