// The subcommands: each adds its options and runs when it is called.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace contcore::app {

void add_learn(CLI::App& app);
void add_inspect(CLI::App& app);
void add_info(CLI::App& app);
void add_merge(CLI::App& app);
void add_shrink(CLI::App& app);
void add_lessons(CLI::App& app);
void add_forget(CLI::App& app);
void add_versions(CLI::App& app);
void add_rename(CLI::App& app);
/// `words` are the arguments as they were given, for the report.
void add_evaluate(CLI::App& app, const std::vector<std::string>& words);
void add_analyze(CLI::App& app);
void add_backbone(CLI::App& app);
void add_extract(CLI::App& app);
void add_sample(CLI::App& app);
void add_nearest(CLI::App& app);
void add_serve(CLI::App& app);
void add_camera(CLI::App& app);
void add_demo(CLI::App& app);

}  // namespace contcore::app
