#include "evaluate/report_figures.h"

#include <fmt/format.h>

#include <array>

namespace contcore {
namespace {

void add_point(ChartLine& line, const std::optional<Statistic>& value, double scale) {
  line.y.push_back(value ? std::optional(value->mean * scale) : std::nullopt);
  const bool several = value && value->count > 1;
  line.up.push_back(several ? std::optional(value->deviation * scale) : std::nullopt);
}

struct Panel {
  const char* title;
  const char* unit;
  std::optional<Statistic> (*value)(const Group&);
  double scale;
};

std::optional<Statistic> mean_train_seconds(const Group& group) {
  std::vector<std::optional<double>> seconds;
  for (const RunResult* run : group.runs) {
    seconds.push_back(run->train_seconds > 0 ? std::optional(run->train_seconds) : std::nullopt);
  }
  return statistic(seconds);
}

constexpr std::array<Panel, 4> kPanels = {
    {{"Task average, image AUROC", "%",
      [](const Group& group) { return group.average[kImageAuroc]; }, 100},
     {"Task average, pixel AUROC", "%",
      [](const Group& group) { return group.average[kPixelAuroc]; }, 100},
     {"Forgetting, image AUROC", "%",
      [](const Group& group) { return group.forgetting[kImageAuroc]; }, 100},
     {"Time to learn", "s", mean_train_seconds, 1}}};

Chart sweep_chart(const Sweep& sweep, const Panel& panel) {
  Chart chart{panel.title, parameter_name(sweep.parameter), panel.unit, sweep.values, {}};
  for (const Sweep::Line& line : sweep.lines) {
    ChartLine& drawn = chart.lines.emplace_back();
    drawn.label = line.label;
    drawn.style = chart.lines.size() - 1;
    for (const Group* group : line.groups) {
      add_point(drawn, group == nullptr ? std::nullopt : panel.value(*group), panel.scale);
    }
  }
  return chart;
}

}  // namespace

std::vector<const Group*> drawn_groups(const Report& report) {
  constexpr std::size_t kMost = 8;
  std::vector<const Group*> drawn;
  for (const Group& group : report.groups) {
    const bool first = drawn.empty() || drawn.back()->setting.method != group.setting.method;
    if (first || report.groups.size() <= kMost) drawn.push_back(&group);
  }
  return drawn;
}

Chart curve_chart(const Report& report, Measure measure) {
  Chart chart{measure_name(measure), "after task", "mean of the tasks so far, %", {}, {}};
  for (const Group* group : drawn_groups(report)) {
    ChartLine& line = chart.lines.emplace_back();
    line.label = group->label;
    line.style = chart.lines.size() - 1;
    for (const Statistics& step : group->curve) add_point(line, step[measure], 100);
    while (chart.ticks.size() < group->curve.size()) {
      chart.ticks.push_back(std::to_string(chart.ticks.size() + 1));
    }
  }
  return chart;
}

std::vector<Chart> sweep_charts(const Sweep& sweep) {
  std::vector<Chart> charts;
  for (const Panel& panel : kPanels) {
    Chart chart = sweep_chart(sweep, panel);
    if (has_values(chart)) charts.push_back(std::move(chart));
  }
  return charts;
}

std::vector<FigureFile> report_figures(const Report& report) {
  std::vector<FigureFile> figures;
  for (int i = 0; i < kMeasures && report.results.front().tasks.size() > 1; ++i) {
    const auto measure = static_cast<Measure>(i);
    Chart chart = curve_chart(report, measure);
    if (!has_values(chart)) continue;
    figures.push_back({fmt::format("figures/{}.svg", measure_key(measure)), std::move(chart)});
  }
  for (const Sweep& sweep : report.sweeps) {
    std::size_t number = 0;
    for (Chart& chart : sweep_charts(sweep)) {
      figures.push_back(
          {fmt::format("figures/sweep_{}_{}.svg", parameter_name(sweep.parameter), ++number),
           std::move(chart)});
    }
  }
  return figures;
}

}  // namespace contcore
