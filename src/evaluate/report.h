// What the files of a report have in common.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "contcore/evaluate.h"
#include "evaluate/aggregate.h"
#include "evaluate/published.h"

namespace contcore {

struct Report {
  const ReportOptions& options;
  const std::vector<RunResult>& results;  ///< one at least
  std::vector<Group> groups;
  std::vector<Sweep> sweeps;
  std::vector<Published> paper;
  std::string date;
};

/// A column of the main table: R_T or FM of a measure.
struct Column {
  Measure measure;
  bool forgetting;
};
constexpr std::array<Column, 9> kMainColumns = {{{kImageAuroc, false},
                                                 {kPixelAuroc, false},
                                                 {kImageAuroc, true},
                                                 {kPixelAuroc, true},
                                                 {kImageAp, false},
                                                 {kImageF1, false},
                                                 {kPixelAp, false},
                                                 {kPixelF1, false},
                                                 {kAupro, false}}};

inline const std::optional<Statistic>& value_of(const Group& group, const Column& column) {
  return (column.forgetting ? group.forgetting : group.average)[column.measure];
}
inline const std::optional<double>& value_of(const Published& line, const Column& column) {
  return (column.forgetting ? line.forgetting : line.average)[column.measure];
}

/// The largest of the values, or the smallest, as it is shown; empty when it stands alone or
/// nothing is defined.
std::string best_text(const std::vector<std::optional<Statistic>>& values, bool smallest);
std::string best_text(const std::vector<Group>& groups, const Column& column);

/// "resnet50, m=20,000, p=0.01, q=0.75, 3 runs".
std::string settings_text(const Group& group);
/// "WideResNet-50, m=20,000".
std::string settings_text(const Published& line);

/// The paper's lines to show below the groups of a method; nothing unless `group` is its last.
std::vector<Published> paper_below(const Report& report, std::size_t group);

/// Cards of the best, the worst and the borderline.
std::string gallery_html(const std::vector<Verdict>& gallery);

/// The tables in LaTeX, to be taken in by a paper; and a document that takes them in from
/// tables.tex.
std::string report_tables_latex(const Report& report);
std::string report_latex();

/// The whole page.
std::string report_html(const Report& report);

}  // namespace contcore
