// The charts of a report: the same ones stand in its page and in files of their own.
#pragma once

#include <string>
#include <vector>

#include "evaluate/charts.h"
#include "evaluate/report.h"

namespace contcore {

/// The groups that curves are drawn of: all, or if they are too many to tell apart the first of
/// each method.
std::vector<const Group*> drawn_groups(const Report& report);

/// A measure after each task.
Chart curve_chart(const Report& report, Measure measure);

/// What a sweep shows: measures, forgetting, time. Those without a value are left out.
std::vector<Chart> sweep_charts(const Sweep& sweep);

/// A chart and its file beside the page, such as "figures/image_auroc.svg".
struct FigureFile {
  std::string name;
  Chart chart;
};
std::vector<FigureFile> report_figures(const Report& report);

}  // namespace contcore
