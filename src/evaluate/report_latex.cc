// The report's tables for a paper: tables.tex, which is taken in with \input, and a document around
// it that compiles as it is.
#include <fmt/format.h>

#include "evaluate/report.h"
#include "evaluate/text.h"

namespace contcore {
namespace {

// "98.9", with a minus that is one.
std::string latex_number(double part) {
  const std::string text = percent(part);
  return text.starts_with('-') ? "$-$" + text.substr(1) : text;
}

// "98.9 ± 0.1", bold when it is the best.
std::string latex_cell(const std::optional<Statistic>& value, const std::string& best) {
  if (!value) return "--";
  std::string text = latex_number(value->mean);
  if (percent(value->mean) == best) text = "\\textbf{" + text + "}";
  if (value->count > 1) text += fmt::format(" $\\pm$ {:.1f}", value->deviation * 100);
  return text;
}

std::string latex_cell(const std::optional<double>& value) {
  return value ? latex_number(*value) : "--";
}

std::string main_latex(const Report& report) {
  std::string out =
      "\\begin{tabular}{@{}ll*{9}{r}@{}}\n\\toprule\n"
      " & & \\multicolumn{2}{c}{$R_T$, AUROC} & \\multicolumn{2}{c}{FM, AUROC}"
      " & \\multicolumn{2}{c}{$R_T$, image} & \\multicolumn{3}{c}{$R_T$, pixel} \\\\\n"
      "\\cmidrule(lr){3-4}\\cmidrule(lr){5-6}\\cmidrule(lr){7-8}\\cmidrule(l){9-11}\n"
      "method & setting & image & pixel & image & pixel & AP & F1-max & AP & F1-max & AUPRO \\\\\n"
      "\\midrule\n";
  for (std::size_t g = 0; g < report.groups.size(); ++g) {
    const Group& group = report.groups[g];
    out += escape_latex(group.setting.method) + " & " + escape_latex(settings_text(group));
    for (const Column& column : kMainColumns) {
      out += " & " + latex_cell(value_of(group, column), best_text(report.groups, column));
    }
    out += " \\\\\n";
    for (const Published& line : paper_below(report, g)) {
      out += fmt::format("\\quad paper: {} & {}", escape_latex(line.name),
                         escape_latex(settings_text(line)));
      for (const Column& column : kMainColumns) {
        out += " & " + latex_cell(value_of(line, column));
      }
      out += " \\\\\n";
    }
  }
  return out + "\\bottomrule\n\\end{tabular}\n";
}

std::string class_latex(const Report& report) {
  std::string out = fmt::format("\\begin{{tabular}}{{@{{}}l*{{{}}}{{r}}@{{}}}}\n\\toprule\nclass",
                                report.groups.size());
  for (const Group& group : report.groups) out += " & " + escape_latex(group.label);
  out += " \\\\\n\\midrule\n";
  for (const ClassKey& key : class_keys(report.results.front())) {
    out += escape_latex(key.first);
    for (const Group& group : report.groups) {
      const Statistics values = class_statistics(group, key);
      out += fmt::format(" & {} / {}", latex_cell(values[kImageAuroc], ""),
                         latex_cell(values[kPixelAuroc], ""));
    }
    out += " \\\\\n";
  }
  return out + "\\bottomrule\n\\end{tabular}\n";
}

std::string floating(const std::string& caption, const char* label, const std::string& tabular) {
  return fmt::format(
      "\\begin{{table}}[htbp]\n\\centering\n\\caption{{{}}}\n\\label{{{}}}\n{}\\end{{table}}\n",
      caption, label, tabular);
}

}  // namespace

std::string report_tables_latex(const Report& report) {
  const ReportOptions& options = report.options;
  const std::string what = fmt::format("Data set {}, schedule {}", escape_latex(options.dataset),
                                       escape_latex(options.schedule));
  return "% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs}.\n" +
         floating(what +
                      ": after the last task, in percent. $R_T$ is the mean over the tasks, FM the "
                      "forgetting.",
                  "tab:results", main_latex(report)) +
         "\n" +
         floating(what + ": classes after the last task, image AUROC / pixel AUROC in percent.",
                  "tab:classes", class_latex(report));
}

std::string report_latex() {
  return "% The tables of this folder: pdflatex results.tex\n"
         "\\documentclass[landscape]{article}\n"
         "\\usepackage[T1]{fontenc}\n"
         "\\usepackage{booktabs}\n"
         "\\usepackage[margin=15mm]{geometry}\n"
         "\\begin{document}\n\\footnotesize\\setlength{\\tabcolsep}{4pt}\n\\input{tables}\n\\end{"
         "document}\n";
}

}  // namespace contcore
