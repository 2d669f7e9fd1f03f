// The report's page: one file that needs nothing else, not even a script.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evaluate/charts.h"
#include "evaluate/report.h"
#include "evaluate/report_figures.h"
#include "evaluate/report_style.h"
#include "evaluate/text.h"

namespace contcore {
namespace {

// "98.9 ± 0.1", with <strong> when it is the best.
std::string cell(const std::optional<Statistic>& value, const std::string& best) {
  if (!value) return "<td>-</td>";
  std::string text = percent(value->mean);
  if (text == best) text = "<strong>" + text + "</strong>";
  if (value->count > 1) text += fmt::format(" <small>± {:.1f}</small>", value->deviation * 100);
  return "<td>" + text + "</td>";
}

std::string opened(bool open, const std::string& summary) {
  return fmt::format("<details{}><summary>{}</summary>\n", open ? " open" : "", summary);
}

std::string method_cell(const std::string& name, const std::string& settings) {
  return fmt::format("<th scope=\"row\">{} <small>{}</small></th>", escape_html(name),
                     escape_html(settings));
}

template <typename Columns>
std::string group_row(const Report& report, const Group& group, const Columns& columns) {
  std::string out = "<tr>" + method_cell(group.setting.method, settings_text(group));
  for (const Column& column : columns) {
    out += cell(value_of(group, column), best_text(report.groups, column));
  }
  return out + "</tr>\n";
}

template <typename Columns>
std::string paper_row(const Published& line, const Columns& columns) {
  std::string out =
      "<tr class=\"paper\">" + method_cell("paper: " + line.name, settings_text(line));
  for (const Column& column : columns) {
    out += fmt::format("<td>{}</td>", percent(value_of(line, column)));
  }
  return out + "</tr>\n";
}

template <typename Columns>
std::string group_rows(const Report& report, const Columns& columns) {
  std::string out = "<tbody>\n";
  for (std::size_t g = 0; g < report.groups.size(); ++g) {
    out += group_row(report, report.groups[g], columns);
    for (const Published& line : paper_below(report, g)) out += paper_row(line, columns);
  }
  return out + "</tbody></table></div>\n";
}

std::string main_head() {
  return "<thead><tr><th rowspan=\"2\" scope=\"col\">method</th>"
         "<th class=\"group\" colspan=\"2\" scope=\"colgroup\">R<sub>T</sub>, AUROC</th>"
         "<th class=\"group\" colspan=\"2\" scope=\"colgroup\">FM, AUROC</th>"
         "<th class=\"group\" colspan=\"2\" scope=\"colgroup\">R<sub>T</sub>, image</th>"
         "<th class=\"group\" colspan=\"3\" scope=\"colgroup\">R<sub>T</sub>, pixel</th></tr>\n"
         "<tr><th scope=\"col\">image</th><th scope=\"col\">pixel</th>"
         "<th scope=\"col\">image</th><th scope=\"col\">pixel</th>"
         "<th scope=\"col\">AP</th><th scope=\"col\">F1-max</th>"
         "<th scope=\"col\">AP</th><th scope=\"col\">F1-max</th><th scope=\"col\">AUPRO</th>"
         "</tr></thead>\n";
}

std::string main_notes(const Report& report) {
  std::string out =
      "<p class=\"note\">In percent. R<sub>T</sub> is the mean over the tasks after the last task; "
      "FM, "
      "the forgetting, is the mean over all tasks but the last of the largest drop from an earlier "
      "step; less is better.";
  const auto repeated = [](const Group& group) { return group.runs.size() > 1; };
  if (std::any_of(report.groups.begin(), report.groups.end(), repeated)) {
    out += " Behind ± is the standard deviation over seeds and orders.";
  }
  if (report.groups.size() > 1) out += " The best is bold.";
  if (!report.paper.empty()) {
    out +=
        " Lines in italics are figures that the paper prints for this data set, with its own "
        "backbone and m and the classes in alphabetical order; they were not measured here.";
  }
  const auto doubtful = [](const Published& line) { return line.repeats_itself(); };
  if (std::any_of(report.paper.begin(), report.paper.end(), doubtful)) {
    out +=
        " The paper prints the same figures for ContCore's AP and AUPRO here: one of them must be "
        "a "
        "misprint.";
  }
  return out + "</p>\n";
}

std::vector<Column> forgetting_columns() {
  std::vector<Column> columns;
  for (int i = 0; i < kMeasures; ++i) columns.push_back({static_cast<Measure>(i), true});
  return columns;
}

std::string forgetting_table(const Report& report) {
  std::string out = opened(false, "Forgetting in all measures") +
                    "<div class=\"box\" tabindex=\"0\"><table class=\"main\"><caption>FM of all "
                    "measures, in percent</caption>\n<thead><tr><th scope=\"col\">method</th>";
  const std::vector<Column> columns = forgetting_columns();
  for (const Column& column : columns) {
    out += fmt::format("<th scope=\"col\">{}</th>", measure_name(column.measure));
  }
  return out + "</tr></thead>\n" + group_rows(report, columns) + "</details>\n";
}

std::string paper_table(const Report& report) {
  if (report.paper.empty()) return "";
  std::string rows;
  for (const Published& line : report.paper) rows += paper_row(line, kMainColumns);
  return opened(false, "Everything the paper prints for this data set and schedule") +
         "<div class=\"box\" tabindex=\"0\"><table class=\"main\"><caption>Figures of the paper, "
         "with its "
         "own backbones, in percent</caption>\n" +
         main_head() + "<tbody>\n" + rows + "</tbody></table></div></details>\n";
}

std::string results_section(const Report& report) {
  return "<div class=\"box\" tabindex=\"0\"><table class=\"main\"><caption>After the last "
         "task</caption>\n" +
         main_head() + group_rows(report, kMainColumns) + main_notes(report) +
         forgetting_table(report) + paper_table(report);
}

std::string curves_section(const Report& report) {
  if (report.results.front().tasks.size() < 2) return "";
  std::string first, rest;
  for (int i = 0; i < kMeasures; ++i) {
    const auto measure = static_cast<Measure>(i);
    const Chart chart = curve_chart(report, measure);
    if (!has_values(chart)) continue;
    (measure == kImageAuroc || measure == kPixelAuroc ? first : rest) += line_chart(chart);
  }
  const std::string key = legend(curve_chart(report, kImageAuroc).lines);
  const bool all = drawn_groups(report).size() == report.groups.size();
  std::string out = "<p class=\"note\">The mean over the tasks learned so far, after each.";
  out += all ? "" : " Of each method the first setting is drawn.";
  out += "</p>\n" + key + "<div class=\"charts\">" + first + "</div>\n";
  if (!rest.empty()) {
    out += opened(false, "Other measures") + "<div class=\"charts\">" + rest + "</div>" + key +
           "</details>\n";
  }
  return out;
}

std::string sweeps_section(const Report& report) {
  if (report.sweeps.empty()) return "";
  std::string out =
      "<p class=\"note\">All else is the same along a line. Values stand at equal "
      "distances.</p>\n";
  for (const Sweep& sweep : report.sweeps) {
    out += fmt::format("<h3>{}</h3>\n<div class=\"charts\">", parameter_name(sweep.parameter));
    const std::vector<Chart> charts = sweep_charts(sweep);
    for (const Chart& chart : charts) out += line_chart(chart);
    out += "</div>" + (charts.empty() ? "" : legend(charts.front().lines));
  }
  return out;
}

// What a run is called: its group's label, and what tells it from the others of the group.
std::string run_name(const Group& group, const RunResult& run) {
  const Setting& first = group.setting;
  const auto other_seed = [&](const RunResult* r) { return r->setting.seed != first.seed; };
  const auto other_order = [&](const RunResult* r) { return r->setting.order != first.order; };
  std::string name = group.label;
  if (std::any_of(group.runs.begin(), group.runs.end(), other_seed)) {
    name += fmt::format(", seed {}", run.setting.seed);
  }
  if (std::any_of(group.runs.begin(), group.runs.end(), other_order)) {
    name += ", order " + run.setting.order;
  }
  return name;
}

std::string task_list(const RunResult& run) {
  std::string out = "<ol class=\"note\">";
  for (const std::vector<std::string>& task : run.tasks) {
    std::string names;
    for (const std::string& name : task) names += (names.empty() ? "" : ", ") + escape_html(name);
    out += fmt::format("<li>{}</li>", names);
  }
  return out + "</ol>\n";
}

std::string matrices_section(const Report& report) {
  std::string out =
      "<p class=\"note\">R<sub>s,t</sub>: the row is the task that was learned last, the "
      "column the task that is tested. In percent.</p>\n";
  bool first = true;
  for (const Group& group : report.groups) {
    for (const RunResult* run : group.runs) {
      out += opened(first, escape_html(run_name(group, *run)));
      const std::string tables = matrix_table(*run, kImageAuroc) + matrix_table(*run, kPixelAuroc);
      out += "<div class=\"pair\">" + (tables.empty() ? "<p>Nothing is defined.</p>" : tables) +
             "</div>" + "<p class=\"note\">Tasks</p>" + task_list(*run) + "</details>\n";
      first = false;
    }
  }
  return out;
}

std::string class_row(const Report& report, const ClassKey& key, Measure measure) {
  std::vector<std::optional<Statistic>> values;
  for (const Group& group : report.groups) values.push_back(class_statistics(group, key)[measure]);
  const std::string best = best_text(values, false);
  std::string out = fmt::format("<tr><th scope=\"row\">{}</th>", escape_html(key.first));
  for (const std::optional<Statistic>& value : values) out += cell(value, best);
  return out + "</tr>\n";
}

std::string class_table(const Report& report, Measure measure) {
  std::string out = fmt::format(
      "<div class=\"box\" tabindex=\"0\"><table class=\"names\"><caption>{}, in percent</caption>\n"
      "<thead><tr><th scope=\"col\">class</th>",
      measure_name(measure));
  for (const Group& group : report.groups) {
    out += fmt::format("<th scope=\"col\">{}</th>", escape_html(group.label));
  }
  out += "</tr></thead>\n<tbody>";
  for (const ClassKey& key : class_keys(report.results.front())) {
    out += class_row(report, key, measure);
  }
  out += "</tbody>\n<tfoot><tr><th scope=\"row\">mean of the classes</th>";
  std::vector<std::optional<Statistic>> means;
  for (const Group& group : report.groups) means.push_back(group.classes[measure]);
  for (const auto& mean : means) out += cell(mean, best_text(means, false));
  return out + "</tr></tfoot></table></div>\n";
}

std::string classes_section(const Report& report) {
  std::string out =
      "<p class=\"note\">After the last task.</p>\n" + class_table(report, kImageAuroc);
  for (int i = 0; i < kMeasures; ++i) {
    const auto measure = static_cast<Measure>(i);
    if (measure == kImageAuroc) continue;
    out += opened(false, measure_name(measure)) + class_table(report, measure) + "</details>\n";
  }
  return out;
}

std::string or_dash(double value, const std::string& text) { return value > 0 ? text : "-"; }

std::string seconds_text(double seconds) {
  return or_dash(seconds, fmt::format("{:.{}f}", seconds, seconds < 100 ? 1 : 0));
}

std::string millions(double count) { return or_dash(count, fmt::format("{:.1f} M", count / 1e6)); }

std::string bytes_text(double bytes) {
  constexpr double kGiB = 1 << 30, kMiB = 1 << 20;
  return or_dash(bytes, bytes >= kGiB ? fmt::format("{:.2f} GiB", bytes / kGiB)
                                      : fmt::format("{:.0f} MiB", bytes / kMiB));
}

std::string efficiency_row(const Group& group) {
  double test = 0, train = 0, peak = 0, numbers = 0, vectors = 0;
  const auto runs = static_cast<double>(group.runs.size());
  for (const RunResult* run : group.runs) {
    test += run->test_seconds / runs;
    train += run->train_seconds / runs;
    numbers += static_cast<double>(run->numbers) / runs;
    vectors += static_cast<double>(run->vectors) / runs;
    peak = std::max(peak, static_cast<double>(run->peak_bytes));
  }
  const RunResult& first = *group.runs.front();
  const auto parameters = static_cast<double>(first.parameters);
  return "<tr>" + method_cell(group.setting.method, settings_text(group)) +
         fmt::format(
             "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
             "<td>{}</td></tr>\n",
             or_dash(first.gflops, fmt::format("{:.2f}", first.gflops)), millions(parameters),
             millions(numbers), millions(parameters + numbers),
             grouped(static_cast<std::uint64_t>(std::llround(vectors))),
             or_dash(test, fmt::format("{:.1f}", test * 1000)), seconds_text(train),
             bytes_text(peak));
}

std::string efficiency_section(const Report& report) {
  std::string out =
      "<div class=\"box\" tabindex=\"0\"><table class=\"main\"><caption>Computation, size and "
      "time</caption>\n<thead><tr><th scope=\"col\" rowspan=\"2\">method</th>"
      "<th scope=\"col\" rowspan=\"2\">GFLOPs<br>an image</th>"
      "<th scope=\"colgroup\" class=\"group\" colspan=\"3\">parameters</th>"
      "<th scope=\"col\" rowspan=\"2\">vectors<br>held</th><th scope=\"col\" "
      "rowspan=\"2\">test,<br>ms an "
      "image</th><th scope=\"col\" rowspan=\"2\">train,<br>s</th><th scope=\"col\" "
      "rowspan=\"2\">peak<br>memory</th></tr>\n<tr><th scope=\"col\">backbone</th>"
      "<th scope=\"col\">memory</th><th scope=\"col\">together</th></tr></thead>\n<tbody>\n";
  for (std::size_t g = 0; g < report.groups.size(); ++g) {
    out += efficiency_row(report.groups[g]);
    const std::vector<Published> lines = paper_below(report, g);
    // The paper measures ContCore with m = 20,000: on MVTec AD.
    const PublishedEfficiency paper;
    if (lines.empty() || lines.front().method != "contcore" || lines.front().m != paper.m) continue;
    out += "<tr class=\"paper\">" +
           method_cell("paper: ContCore", "WideResNet-50, m=20,000, on an RTX 3090") +
           fmt::format(
               "<td>{:.2f}</td><td></td><td></td><td>{}</td><td></td><td>{:.1f}</td>"
               "<td>{:.0f}</td><td></td></tr>\n",
               paper.gflops, millions(paper.parameters), paper.test_seconds * 1000,
               paper.train_seconds);
  }
  return out +
         "</tbody></table></div>\n<p class=\"note\">The memory counts every number a method keeps. "
         "Peak memory is the most the process took during the run, mapped files not counted. Times "
         "are the mean of the runs.</p>\n";
}

// Of repeated runs, the first one's.
std::string gallery_section(const Report& report) {
  std::string out;
  for (const Group& group : report.groups) {
    const RunResult& run = *group.runs.front();
    if (run.gallery.empty()) continue;
    out += opened(out.empty(), escape_html(run_name(group, run))) + gallery_html(run.gallery) +
           "</details>\n";
  }
  if (out.empty()) return "";
  return "<p class=\"note\">Test images after the last task. A score above the level, which is the "
         "class's threshold of largest F1, is called a defect.</p>\n" +
         out;
}

std::string head(const Report& report) {
  const ReportOptions& options = report.options;
  const RunResult& first = report.results.front();
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<title>{0}</title>\n<style>{1}</style>"
      "</head>\n<body><header><h1>{0}</h1>\n<dl>",
      escape_html(options.title.empty() ? "contcore evaluate" : options.title), kStyle);
  const auto entry = [&](const char* name, const std::string& html) {
    if (!html.empty()) out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, html);
  };
  const std::size_t classes = class_keys(first).size();
  entry("data set", escape_html(options.dataset));
  entry("schedule", escape_html(options.schedule));
  entry("tasks", fmt::format("{} with {} classes", first.tasks.size(), classes));
  entry("runs", std::to_string(report.results.size()));
  entry("date", escape_html(report.date));
  if (!options.command.empty()) {
    entry("command", "<code>" + escape_html(options.command) + "</code>");
  }
  return out + "</dl></header>\n";
}

struct Section {
  const char* id;
  const char* title;
  std::string html;
};

std::string contents(const std::vector<Section>& sections) {
  std::string out = "<nav aria-label=\"Contents\"><ul>";
  for (const Section& section : sections) {
    if (section.html.empty()) continue;
    out += fmt::format("<li><a href=\"#{}\">{}</a></li>", section.id, section.title);
  }
  return out + "</ul></nav>\n";
}

}  // namespace

std::string report_html(const Report& report) {
  const std::vector<Section> sections = {
      {"results", "Results", results_section(report)},
      {"curves", "Task by task", curves_section(report)},
      {"sweeps", "One setting varied", sweeps_section(report)},
      {"matrices", "Every task after every task", matrices_section(report)},
      {"classes", "Class by class", classes_section(report)},
      {"efficiency", "Cost", efficiency_section(report)},
      {"gallery", "Verdicts", gallery_section(report)}};
  std::string out = head(report) + contents(sections) + "<main>\n";
  for (const Section& section : sections) {
    if (section.html.empty()) continue;
    out += fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", section.id, section.title,
                       section.html);
  }
  return out + "</main></body></html>\n";
}

}  // namespace contcore
