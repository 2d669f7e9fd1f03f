// The drawn pieces of a report's page. Colours come from the page's style sheet; lines also differ
// in dashes and markers, so that they can be told apart in gray.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contcore/evaluate.h"

namespace contcore {

struct ChartLine {
  std::string label;
  std::size_t style = 0;                  ///< which colour, dash and marker
  std::vector<std::optional<double>> y;   ///< one for each tick; nothing leaves a gap
  std::vector<std::optional<double>> up;  ///< half the length of the error bar, or empty
};

struct Chart {
  std::string title;
  std::string x_title;
  std::string y_title;
  std::vector<std::string> ticks;  ///< along x, at equal distances
  std::vector<ChartLine> lines;
};

/// Whether there is a value to draw.
bool has_values(const Chart& chart);
/// A figure with its title and an SVG.
std::string line_chart(const Chart& chart);
/// The same as a file of its own: with its title, what each line stands for, and colours for white
/// paper.
std::string chart_svg(const Chart& chart);
/// What each style stands for.
std::string legend(const std::vector<ChartLine>& lines);

/// R_{s,t} as a table whose cells are coloured by value.
std::string matrix_table(const RunResult& result, Measure measure);

/// Round steps for an axis: at least two, that enclose low and high.
struct Axis {
  double low = 0;
  double high = 1;
  double step = 1;
  int decimals = 0;
};
Axis round_axis(double low, double high);

}  // namespace contcore
