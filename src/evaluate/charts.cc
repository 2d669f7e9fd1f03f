#include "evaluate/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "evaluate/text.h"

namespace contcore {
namespace {

// Narrow, so that its text can still be read on a telephone.
constexpr double kWidth = 440, kHeight = 270;
constexpr double kLeft = 58, kRight = 12, kTop = 10, kBottom = 46;
constexpr std::size_t kStyles = 8;

constexpr std::array<const char*, kStyles> kDashes = {"none", "7 3",         "2 3", "9 3 2 3",
                                                      "12 4", "5 2 1 2 1 2", "4 4", "1 2"};

// A marker around (x, y), its shape by style.
std::string marker(std::size_t style, double x, double y) {
  const auto path = [&](const char* shape) {
    return fmt::format("<path transform=\"translate({:.1f} {:.1f})\" d=\"{}\"/>", x, y, shape);
  };
  switch (style % kStyles) {
    case 0:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.6\"/>", x, y);
    case 1:
      return path("M-3.4-3.4H3.4V3.4H-3.4Z");
    case 2:
      return path("M0-4.6L4.4 3.4H-4.4Z");
    case 3:
      return path("M0-5L5 0L0 5L-5 0Z");
    case 4:
      return path("M0 4.6L4.4-3.4H-4.4Z");
    case 5:
      return path("M-4.5-1.4H-1.4V-4.5H1.4V-1.4H4.5V1.4H1.4V4.5H-1.4V1.4H-4.5Z");
    case 6:
      return path(
          "M-4.4-2.8L-2.8-4.4L0-1.6L2.8-4.4L4.4-2.8L1.6 0L4.4 2.8L2.8 4.4L0 1.6L-2.8 4.4"
          "L-4.4 2.8L-1.6 0Z");
    default:
      return path("M0-5L2.9 4.1L-4.8-1.6H4.8L-2.9 4.1Z");
  }
}

// Beyond the eighth a dash and marker come again in another colour.
std::size_t colour_of(std::size_t style) { return (style + style / kStyles * 3) % kStyles; }

std::string stroke(std::size_t style) {
  return fmt::format("fill=\"none\" stroke-width=\"2\" stroke-dasharray=\"{}\"",
                     kDashes[style % kStyles]);
}

struct Frame {
  Axis axis;
  std::size_t ticks = 1;

  double x(std::size_t tick) const {
    const double width = kWidth - kLeft - kRight;
    // Half a step is left free at both ends.
    return kLeft + width * (static_cast<double>(tick) + 0.5) / static_cast<double>(ticks);
  }
  double y(double value) const {
    const double part = (value - axis.low) / (axis.high - axis.low);
    return kHeight - kBottom - (kHeight - kTop - kBottom) * part;
  }
};

Frame frame_of(const Chart& chart) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const ChartLine& line : chart.lines) {
    for (std::size_t i = 0; i < line.y.size(); ++i) {
      if (!line.y[i]) continue;
      const double up = i < line.up.size() ? line.up[i].value_or(0) : 0;
      low = std::min(low, *line.y[i] - up);
      high = std::max(high, *line.y[i] + up);
    }
  }
  return {round_axis(low, high), std::max<std::size_t>(chart.ticks.size(), 1)};
}

std::string y_axis(const Frame& frame, const std::string& title) {
  std::string out;
  const Axis& axis = frame.axis;
  const auto steps = static_cast<int>(std::lround((axis.high - axis.low) / axis.step));
  for (int i = 0; i <= steps; ++i) {
    const double value = axis.low + i * axis.step;
    const double y = frame.y(value);
    out += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>", kLeft, y, kWidth - kRight);
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.{}f}</text>", kLeft - 6,
                       y + 4, std::abs(value) < axis.step / 1e6 ? 0.0 : value, axis.decimals);
  }
  const double middle = (kTop + kHeight - kBottom) / 2;
  out += fmt::format(
      "<text transform=\"translate(13 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
      middle, escape_html(title));
  return out;
}

// Characters of UTF-8.
std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string shortened(const std::string& text, std::size_t most) {
  if (characters(text) <= most) return text;
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end) {
    if ((text[end] & 0xc0) != 0x80 && seen++ == most - 1) break;
  }
  return text.substr(0, end) + "…";
}

std::string x_axis(const Frame& frame, const Chart& chart) {
  std::size_t widest = 1;
  for (const std::string& tick : chart.ticks) widest = std::max(widest, characters(tick));
  // A digit is about 7 wide; every so many ticks there is room for the widest label.
  constexpr std::size_t kWidest = 18;
  const double room = frame.x(1) - frame.x(0);
  const double need = 7 * static_cast<double>(std::min(widest, kWidest)) + 8;
  const auto every = static_cast<std::size_t>(std::ceil(need / room));
  const double bottom = kHeight - kBottom;
  std::string out = fmt::format("<path class=\"axis\" d=\"M{} {}V{}H{}\"/>", kLeft, kTop, bottom,
                                kWidth - kRight);
  for (std::size_t i = 0; i < chart.ticks.size(); i += every) {
    const double x = frame.x(i);
    out += fmt::format("<path class=\"axis\" d=\"M{:.1f} {}v4\"/>", x, bottom);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>", x,
                       bottom + 18, escape_html(shortened(chart.ticks[i], kWidest)));
  }
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                     (kLeft + kWidth - kRight) / 2, kHeight - 8, escape_html(chart.x_title));
  return out;
}

std::string draw_line(const Frame& frame, const Chart& chart, const ChartLine& line) {
  std::string path, bars, markers;
  bool pen_down = false;
  for (std::size_t i = 0; i < line.y.size() && i < frame.ticks; ++i) {
    if (!line.y[i]) {
      pen_down = false;
      continue;
    }
    const double x = frame.x(i), y = frame.y(*line.y[i]);
    path += fmt::format("{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', x, y);
    pen_down = true;
    const double up = i < line.up.size() ? line.up[i].value_or(0) : 0;
    if (up > 0) {
      bars += fmt::format(
          "<path stroke-width=\"1\" d=\"M{0:.1f} {1:.1f}V{2:.1f}M{3:.1f} "
          "{1:.1f}h6M{3:.1f} {2:.1f}h6\"/>",
          x, frame.y(*line.y[i] - up), frame.y(*line.y[i] + up), x - 3);
    }
    markers += fmt::format("<g><title>{}, {} {}: {:.1f}</title>{}</g>", escape_html(line.label),
                           escape_html(chart.x_title), escape_html(chart.ticks[i]), *line.y[i],
                           marker(line.style, x, y));
  }
  return fmt::format("<g class=\"s{}\"><path {} d=\"{}\"/>{}<g class=\"m\">{}</g></g>",
                     colour_of(line.style), stroke(line.style), path, bars, markers);
}

std::string draw_plot(const Chart& chart) {
  const Frame frame = frame_of(chart);
  std::string out = y_axis(frame, chart.y_title) + x_axis(frame, chart);
  for (const ChartLine& line : chart.lines) out += draw_line(frame, chart, line);
  return out;
}

// A piece of a line as it is drawn, around (x, y).
std::string sample_of(std::size_t style, double x, double y) {
  return fmt::format("<g class=\"s{}\"><path {} d=\"M{} {}h42\"/><g class=\"m\">{}</g></g>",
                     colour_of(style), stroke(style), x - 21, y, marker(style, x, y));
}

// The page's colours in light, for viewers that know nothing of a page.
std::string file_style() {
  constexpr std::array<const char*, kStyles> kColours = {"#1f5fa8", "#c2410c", "#13783f", "#8b3fc0",
                                                         "#7a5a00", "#c0267e", "#0b7285", "#555"};
  std::string out =
      "text{font:13px sans-serif;fill:#1b1f24;stroke:none}.grid{stroke:#d0d7de}"
      ".axis{stroke:#57606a;fill:none}.m{stroke:none}";
  for (std::size_t i = 0; i < kStyles; ++i) {
    out += fmt::format(".s{0}{{stroke:{1}}}.s{0} .m{{fill:{1}}}", i, kColours[i]);
  }
  return out;
}

// From near white to dark blue; the text on it is whichever of black and white can be read.
std::string cell_style(double value, double low, double high) {
  const double part = high > low ? (value - low) / (high - low) : 0.5;
  constexpr std::array<double, 3> kFrom = {240, 246, 252}, kTo = {12, 52, 110};
  std::array<int, 3> colour{};
  for (std::size_t i = 0; i < 3; ++i) {
    colour[i] = static_cast<int>(std::lround(kFrom[i] + (kTo[i] - kFrom[i]) * part));
  }
  return fmt::format("background:#{:02x}{:02x}{:02x};color:{}", colour[0], colour[1], colour[2],
                     part > 0.64 ? "#fff" : "#000");
}

std::string task_name(const std::vector<std::string>& task) {
  std::string names;
  for (const std::string& name : task) names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::string matrix_row(const std::vector<std::optional<double>>& row, std::size_t s, double low,
                       double high) {
  std::string out = fmt::format("<tr><th scope=\"row\">{}</th>", s + 1);
  for (std::size_t t = 0; t < row.size(); ++t) {
    if (t > s) {
      out += "<td></td>";
    } else if (!row[t]) {
      out += "<td>-</td>";
    } else {
      out +=
          fmt::format("<td style=\"{}\">{}</td>", cell_style(*row[t], low, high), percent(row[t]));
    }
  }
  return out + "</tr>\n";
}

}  // namespace

Axis round_axis(double low, double high) {
  if (!(high >= low) || !std::isfinite(high - low)) return {};
  // Never finer than the tenth that is shown.
  const double span = std::max(high - low, 0.4);
  const double power = std::pow(10, std::floor(std::log10(span / 4)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (span / (factor * power) <= 5) step = factor * power;
  }
  Axis axis;
  axis.step = step;
  axis.low = std::floor(low / step + 1e-9) * step;
  axis.high = std::ceil(high / step - 1e-9) * step;
  if (axis.high - axis.low < 1.5 * step) axis.high = axis.low + 2 * step;
  axis.decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  return axis;
}

bool has_values(const Chart& chart) {
  return std::any_of(chart.lines.begin(), chart.lines.end(), [](const ChartLine& line) {
    return std::any_of(line.y.begin(), line.y.end(), [](const auto& y) { return y.has_value(); });
  });
}

std::string line_chart(const Chart& chart) {
  std::string out = fmt::format(
      "<figure><figcaption>{0}</figcaption><svg viewBox=\"0 0 {1} {2}\" role=\"img\" "
      "aria-label=\"{0}, {3} by {4}\">",
      escape_html(chart.title), kWidth, kHeight, escape_html(chart.y_title),
      escape_html(chart.x_title));
  return out + draw_plot(chart) + "</svg></figure>\n";
}

std::string chart_svg(const Chart& chart) {
  constexpr double kTitle = 26, kRow = 20;
  const double height = kTitle + kHeight + kRow * static_cast<double>(chart.lines.size()) + 6;
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
      "viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\">\n<title>{2}</title>\n"
      "<style>{3}</style>\n<path fill=\"#fff\" d=\"M0 0H{0}V{1}H0Z\"/>\n"
      "<text x=\"{4}\" y=\"18\" text-anchor=\"middle\" style=\"font-weight:bold\">{2}</text>\n"
      "<g transform=\"translate(0 {5})\">{6}</g>\n",
      kWidth, height, escape_html(chart.title), file_style(), kWidth / 2, kTitle, draw_plot(chart));
  double y = kTitle + kHeight + 8;
  for (const ChartLine& line : chart.lines) {
    out +=
        fmt::format("{}<text x=\"{}\" y=\"{}\">{}</text>\n", sample_of(line.style, kLeft + 21, y),
                    kLeft + 50, y + 4, escape_html(line.label));
    y += kRow;
  }
  return out + "</svg>\n";
}

std::string legend(const std::vector<ChartLine>& lines) {
  std::string out = "<ul class=\"legend\">";
  for (const ChartLine& line : lines) {
    out += fmt::format(
        "<li><svg viewBox=\"0 0 44 14\" width=\"44\" height=\"14\" aria-hidden=\"true\">"
        "{}</svg> {}</li>",
        sample_of(line.style, 22, 7), escape_html(line.label));
  }
  return out + "</ul>\n";
}

std::string matrix_table(const RunResult& result, Measure measure) {
  const std::size_t tasks = result.tasks.size();
  std::vector<std::vector<std::optional<double>>> r(result.steps.size());
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (std::size_t s = 0; s < r.size(); ++s) {
    for (std::size_t t = 0; t < tasks; ++t) {
      r[s].push_back(t <= s ? task_measures(result, s, t)[measure] : std::nullopt);
      if (!r[s][t]) continue;
      low = std::min(low, *r[s][t]);
      high = std::max(high, *r[s][t]);
    }
  }
  if (!(high >= low)) return "";
  std::string out = fmt::format(
      "<div class=\"box\" tabindex=\"0\"><table class=\"matrix\"><caption>{}, from {} (light) to "
      "{} "
      "(dark)</caption>\n<thead><tr><th scope=\"col\">after</th>",
      measure_name(measure), percent(low), percent(high));
  for (std::size_t t = 0; t < tasks; ++t) {
    out += fmt::format("<th scope=\"col\" title=\"{}\">{}</th>",
                       escape_html(task_name(result.tasks[t])), t + 1);
  }
  out += "</tr></thead>\n<tbody>";
  for (std::size_t s = 0; s < r.size(); ++s) out += matrix_row(r[s], s, low, high);
  return out + "</tbody></table></div>\n";
}

}  // namespace contcore
