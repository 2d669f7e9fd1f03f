#include "evaluate/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <limits>
#include <system_error>

#include "base/file.h"
#include "contcore/error.h"
#include "evaluate/charts.h"
#include "evaluate/report_figures.h"
#include "evaluate/results.h"
#include "evaluate/text.h"

namespace contcore {
namespace {

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{}-{:02}-{:02} {:02}:{:02} UTC", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min);
}

std::string csv_rows(const RunResult& result) {
  const Setting& setting = result.setting;
  const std::string run =
      fmt::format("{},{},{},{},{},{},{}", escape_csv(setting.method),
                  escape_csv(parameter_text(setting, kBackbone)), setting.m, setting.p, setting.q,
                  setting.seed, escape_csv(setting.order));
  std::string out;
  for (std::size_t s = 0; s < result.steps.size(); ++s) {
    std::size_t c = 0;
    for (std::size_t t = 0; t < result.tasks.size(); ++t) {
      for (const std::string& name : result.tasks[t]) {
        if (c == result.steps[s].size()) break;
        out += fmt::format("{},{},{},{}", run, s + 1, t + 1, escape_csv(name));
        for (const std::optional<double>& value : result.steps[s][c]) {
          out += value ? fmt::format(",{}", *value) : ",";
        }
        out += "\r\n";
        ++c;
      }
    }
  }
  return out;
}

std::string report_csv(const Report& report) {
  std::string out = "method,backbone,m,p,q,seed,order,step,task,class";
  for (int i = 0; i < kMeasures; ++i) {
    out += fmt::format(",{}", measure_key(static_cast<Measure>(i)));
  }
  out += "\r\n";
  for (const RunResult& result : report.results) out += csv_rows(result);
  return out;
}

std::string report_json(const Report& report) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const RunResult& result : report.results) {
    nlohmann::ordered_json run = result_json(result);
    run["setting"]["backbone"] = parameter_text(result.setting, kBackbone);
    run["summary"] = summary_json(summarise(result));
    runs.push_back(std::move(run));
  }
  return json_text({{"title", report.options.title},
                    {"dataset", report.options.dataset},
                    {"schedule", report.options.schedule},
                    {"command", report.options.command},
                    {"runs", runs}},
                   1) +
         "\n";
}

std::string rule(std::size_t names, std::size_t numbers) {
  std::string out = "|";
  for (std::size_t i = 0; i < names; ++i) out += "---|";
  for (std::size_t i = 0; i < numbers; ++i) out += "---:|";
  return out + "\n";
}

std::string main_markdown(const Report& report) {
  std::string out = "| method | setting |";
  for (const Column& column : kMainColumns) {
    out += fmt::format(" {} {} |", column.forgetting ? "FM" : "R_T", measure_name(column.measure));
  }
  out += fmt::format("\n{}", rule(2, kMainColumns.size()));
  for (std::size_t g = 0; g < report.groups.size(); ++g) {
    const Group& group = report.groups[g];
    out += fmt::format("| {} | {} |", escape_markdown(group.setting.method),
                       escape_markdown(settings_text(group)));
    for (const Column& column : kMainColumns) {
      const std::optional<Statistic>& value = value_of(group, column);
      const bool best = value && percent(value->mean) == best_text(report.groups, column);
      out += fmt::format(" {0}{1}{0} |", best ? "**" : "", percent(value));
    }
    out += "\n";
    for (const Published& line : paper_below(report, g)) {
      out += fmt::format("| paper: {} | {} |", escape_markdown(line.name),
                         escape_markdown(settings_text(line)));
      for (const Column& column : kMainColumns) {
        out += fmt::format(" {} |", percent(value_of(line, column)));
      }
      out += "\n";
    }
  }
  return out;
}

std::string class_markdown(const Report& report) {
  std::string out = "| class |";
  for (const Group& group : report.groups)
    out += fmt::format(" {} |", escape_markdown(group.label));
  out += fmt::format("\n{}", rule(1, report.groups.size()));
  for (const ClassKey& key : class_keys(report.results.front())) {
    out += fmt::format("| {} |", escape_markdown(key.first));
    for (const Group& group : report.groups) {
      const Statistics values = class_statistics(group, key);
      out += fmt::format(" {} / {} |", percent(values[kImageAuroc]), percent(values[kPixelAuroc]));
    }
    out += "\n";
  }
  return out;
}

std::string report_markdown(const Report& report) {
  const ReportOptions& options = report.options;
  std::string out = fmt::format("# {}\n\n", escape_markdown(options.title));
  out +=
      fmt::format("Data set {}, schedule {}, {}. In percent.\n\n", escape_markdown(options.dataset),
                  escape_markdown(options.schedule), report.date);
  // Indented text is taken as it is, but must stay in one line.
  std::string command = options.command;
  std::replace_if(
      command.begin(), command.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  if (!command.empty()) out += fmt::format("    {}\n\n", command);
  out += "## Results\n\n" + main_markdown(report);
  out +=
      "\n## Classes after the last task\n\nimage AUROC / pixel AUROC\n\n" + class_markdown(report);
  return out;
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  const std::array parts = {std::as_bytes(std::span(text))};
  write_whole(path.string(), parts);
}

std::vector<std::size_t> task_sizes(const RunResult& result) {
  std::vector<std::size_t> sizes;
  for (const auto& task : result.tasks) sizes.push_back(task.size());
  return sizes;
}

}  // namespace

std::string best_text(const std::vector<std::optional<Statistic>>& values, bool smallest) {
  const double sign = smallest ? -1 : 1;
  double best = -std::numeric_limits<double>::infinity();
  for (const std::optional<Statistic>& value : values) {
    if (value) best = std::max(best, sign * value->mean);
  }
  return values.size() < 2 || !std::isfinite(best) ? "" : percent(sign * best);
}

std::string best_text(const std::vector<Group>& groups, const Column& column) {
  std::vector<std::optional<Statistic>> values;
  for (const Group& group : groups) values.push_back(value_of(group, column));
  return best_text(values, column.forgetting);
}

std::string settings_text(const Group& group) {
  const Setting& setting = group.setting;
  std::string out;
  for (const Parameter parameter : {kBackbone, kM, kP, kQ}) {
    const std::string text = parameter_text(setting, parameter);
    if (text.empty()) continue;
    out += out.empty() ? "" : ", ";
    out += parameter == kBackbone ? text : fmt::format("{}={}", parameter_name(parameter), text);
  }
  if (group.runs.size() > 1) out += fmt::format(", {} runs", group.runs.size());
  return out;
}

std::string settings_text(const Published& line) {
  std::string out = line.backbone;
  if (line.m != 0) out += fmt::format("{}m={}", out.empty() ? "" : ", ", grouped(line.m));
  const std::string remark = line.remark();
  return remark.empty() ? out : out + (out.empty() ? "" : "; ") + remark;
}

std::vector<Published> paper_below(const Report& report, std::size_t group) {
  const std::string& method = report.groups[group].setting.method;
  const bool last =
      group + 1 == report.groups.size() || report.groups[group + 1].setting.method != method;
  return last ? published_for(method, report.paper) : std::vector<Published>{};
}

void write_report(const std::string& folder, const std::vector<RunResult>& results,
                  const ReportOptions& options) {
  if (results.empty()) throw Error(Error::Kind::kUsage, "there are no results to report on");
  Report report{options, results, group_runs(results), {}, {}, now()};
  report.sweeps = find_sweeps(report.groups);
  report.paper = published(options.dataset, options.schedule, task_sizes(results.front()));

  // With the folder of the figures, if there are any.
  const std::vector<FigureFile> figures = report_figures(report);
  std::error_code error;
  std::filesystem::create_directories(
      figures.empty() ? std::filesystem::path(folder) : std::filesystem::path(folder) / "figures",
      error);
  if (error) {
    throw Error(
        Error::Kind::kInput,
        fmt::format("{}: the folder cannot be made: {}; choose another", folder, error.message()));
  }
  // The page last: where it is there, the rest is too.
  write_text(std::filesystem::path(folder) / "results.json", report_json(report));
  write_text(std::filesystem::path(folder) / "results.csv", report_csv(report));
  write_text(std::filesystem::path(folder) / "results.md", report_markdown(report));
  write_text(std::filesystem::path(folder) / "tables.tex", report_tables_latex(report));
  write_text(std::filesystem::path(folder) / "results.tex", report_latex());
  for (const FigureFile& figure : figures) {
    write_text(std::filesystem::path(folder) / figure.name, chart_svg(figure.chart));
  }
  write_text(std::filesystem::path(folder) / "index.html", report_html(report));
}

}  // namespace contcore
