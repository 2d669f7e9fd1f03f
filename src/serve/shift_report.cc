// In: what a stretch of time adds up to, its worst parts and a picture of one. Out: a page.
#include "serve/shift_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "base/base64.h"
#include "base/utf8.h"

namespace contcore {
namespace {

constexpr std::size_t kMostRowsShown = 8;  // of a table of names, the largest
constexpr std::size_t kMostWarnings = 4;

constexpr char kReportStyle[] = R"css(
@page{size:A4;margin:11mm}
*{box-sizing:border-box;print-color-adjust:exact;-webkit-print-color-adjust:exact}
body{margin:0 auto;max-width:190mm;padding:4mm;background:#fff;color:#17212a;font:12px/1.35 system-ui,-apple-system,
"Segoe UI",Roboto,"Noto Sans",sans-serif;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
@media print{body{padding:0}}
h1{font-size:20px;margin:0}h2{font-size:13px;margin:10px 0 3px;border-bottom:1px solid #c4ccd3}p{margin:2px 0}
.soft,caption,figcaption,dt,.worst{color:#4d5a66}
dl{display:flex;flex-wrap:wrap;gap:4px 26px;margin:8px 0}dt{font-size:11px}dd{margin:0;font-size:22px;font-weight:700;line-height:1.1}
.good{color:#11713c}.defect{color:#b3231c}.unknown{color:#6a5600}
svg{display:block;width:100%;height:auto}svg text{font-size:10px;fill:#4d5a66}
.two{display:grid;grid-template-columns:1fr 1fr;gap:0 18px}
table{width:100%;border-collapse:collapse}th,td{text-align:right;padding:1px 4px;border-bottom:1px solid #dfe4e8;font-weight:400}
th,td{overflow-wrap:normal}th:first-child{text-align:left;overflow-wrap:anywhere}thead th{color:#4d5a66}
figure{margin:0;break-inside:avoid}.place{max-width:64mm}.place img{width:100%}
.worst{display:grid;grid-template-columns:repeat(6,1fr);gap:8px;font-size:10px}
.worst img,.blank{width:100%;height:24mm;object-fit:contain;background:#0a0d10;display:block;margin-bottom:2px}
.worst b{color:#17212a}ul{margin:0;padding-left:16px}footer{margin-top:10px;font-size:10px;color:#4d5a66}
)css";

std::string html(std::string_view text) {
  std::string out;
  for (const char c : valid_utf8(text)) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += static_cast<unsigned char>(c) < 32 || c == 127 ? ' ' : c;
    }
  }
  return out;
}

std::tm local_time(std::time_t time) {
  std::tm shown{};
  ::localtime_r(&time, &shown);
  return shown;
}

std::string on_clock(std::time_t time) { return fmt::format("{:%H:%M}", local_time(time)); }

std::string day_of(std::time_t time) { return fmt::format("{:%Y-%m-%d}", local_time(time)); }

std::string on_date(std::time_t time) { return fmt::format("{:%a %Y-%m-%d}", local_time(time)); }

// "Fri 2024-05-31, 06:00 to 14:00"; with both days where they differ.
std::string times(std::time_t since, std::time_t until) {
  const std::string first = on_date(since);
  const std::string last = on_date(until);
  return fmt::format("{}, {} to {}{}", first, on_clock(since), first == last ? "" : last + ", ",
                     on_clock(until));
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f} %", *share * 100) : "–";
}

std::string image_tag(const std::string& jpeg, std::string_view alt) {
  const std::span<const char> bytes(jpeg);
  return fmt::format("<img alt=\"{}\" src=\"data:image/jpeg;base64,{}\">", html(alt),
                     base64({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}));
}

std::string_view title_of(const std::optional<Period>& span) {
  if (!span) return "Report";
  constexpr std::string_view kTitles[] = {"Report of an hour", "Shift report", "Report of a day",
                                          "Report of a week"};
  return kTitles[static_cast<std::size_t>(*span)];
}

std::string head(const ShiftReport& report) {
  const StatisticsQuery& query = report.query;
  std::string about = times(query.since, query.until);
  about += fmt::format(" (UTC{:%z})", local_time(query.since));
  const std::string station = !query.station           ? "all stations"
                              : query.station->empty() ? "without a station"
                                                       : "station " + *query.station;
  const std::string task = query.task ? "task " + *query.task : "all tasks";
  return fmt::format("<h1>{}</h1>\n<p>{} · {} · {}</p>\n", title_of(report.span), html(about),
                     html(station), html(task));
}

std::string figure_of(std::string_view name, const std::string& value, std::string_view kind = "") {
  return fmt::format("<div><dt>{}</dt><dd class=\"{}\">{}</dd></div>", name, kind, value);
}

std::string figures(const PartCounts& parts) {
  std::string out = "<dl>" + figure_of("inspected", std::to_string(parts.inspected())) +
                    figure_of("yield", percent(parts.yield())) +
                    figure_of("good", std::to_string(parts.good), "good") +
                    figure_of("defect", std::to_string(parts.defect), "defect") +
                    figure_of("unknown", std::to_string(parts.unknown), "unknown");
  if (parts.uncalibrated > 0) out += figure_of("uncalibrated", std::to_string(parts.uncalibrated));
  return out + "</dl>\n<p class=\"soft\">Yield: good of good, defect and unknown." +
         (parts.called_good + parts.called_defect == 0
              ? "</p>\n"
              : fmt::format(" A person called {} of the parts good and {} defect.</p>\n",
                            parts.called_good, parts.called_defect));
}

// A bar for each step: good below, then unknown, and defects on top, in figures above it.
std::string bars(const ShiftReport& report) {
  constexpr double kWidth = 700, kHeight = 130, kLeft = 34, kBottom = 16, kTop = 12;
  const std::vector<Statistics::Step>& steps = report.statistics.steps;
  std::uint64_t most = 1;
  for (const Statistics::Step& step : steps) most = std::max(most, step.parts.inspected());
  const double wide =
      (kWidth - kLeft) / static_cast<double>(std::max<std::size_t>(1, steps.size()));
  const double tall = (kHeight - kTop - kBottom) / static_cast<double>(most);
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Parts over time\"><text x=\"{}\" "
      "y=\"{}\" text-anchor=\"end\">{}</text><path stroke=\"#c4ccd3\" d=\"M{} {}H{}\"/>\n",
      kWidth, kHeight, kLeft - 4, kTop + 4, most, kLeft, kHeight - kBottom, kWidth);
  const std::size_t every = steps.size() / 12 + 1;
  const bool of_days = report.query.by != Period::kHour;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const PartCounts& parts = steps[i].parts;
    const double x = kLeft + wide * static_cast<double>(i);
    double y = kHeight - kBottom;
    const std::pair<std::uint64_t, const char*> stack[] = {{parts.uncalibrated, "#9aa5ae"},
                                                           {parts.good, "#8fc7a6"},
                                                           {parts.unknown, "#e0b92f"},
                                                           {parts.defect, "#b3231c"}};
    for (const auto& [n, colour] : stack) {
      if (n == 0) continue;
      const double height = tall * static_cast<double>(n);
      y -= height;
      out += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>",
          x + wide * 0.08, y, wide * 0.84, height, colour);
    }
    const double middle = x + wide / 2;
    if (parts.defect > 0 && steps.size() <= 31) {
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", middle,
                         y - 2, parts.defect);
    }
    if (i % every == 0) {
      out += fmt::format(
          "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", middle, kHeight - 4,
          of_days ? fmt::format("{:%m-%d}", local_time(steps[i].begin)) : on_clock(steps[i].begin));
    }
  }
  return out + "</svg>\n";
}

// The picture of a part below cells that are the darker the more defects touched them.
std::string places(const ShiftReport& report) {
  const auto& counts = report.statistics.places;
  const std::uint64_t most = *std::max_element(counts.begin(), counts.end());
  if (most == 0) return "<p>No defect had a place.</p>\n";
  std::string cells;
  for (int i = 0; i < kPlaces; ++i) {
    const std::uint64_t n = counts[static_cast<std::size_t>(i)];
    if (n == 0) continue;
    cells += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"1\" height=\"1\" fill=\"#e5140a\" "
        "fill-opacity=\"{:.2f}\"/>",
        i % kPlacesAcross, i / kPlacesAcross,
        0.15 + 0.7 * static_cast<double>(n) / static_cast<double>(most));
  }
  const std::string layer = fmt::format(
      "<svg viewBox=\"0 0 {0} {0}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Where "
      "defects happen\" style=\"{1}\">{2}</svg>",
      kPlacesAcross,
      report.picture.empty() ? "border:1px solid #c4ccd3"
                             : "position:absolute;inset:0;width:100%;height:100%",
      cells);
  const std::string picture = report.picture.empty()
                                  ? ""
                                  : "<div style=\"filter:grayscale(1);display:grid\">" +
                                        image_tag(report.picture, "A part of this time") + "</div>";
  return fmt::format(
      "<figure class=\"place\"><div style=\"position:relative\">{}{}</div><figcaption>darkest: {} "
      "defect{}</figcaption></figure>\n",
      picture, layer, most, most == 1 ? "" : "s");
}

std::string latencies(const Latencies& found) {
  const auto shown = [&](double share) {
    const auto value = found.quantile(share);
    return value ? fmt::format("{:.3g} ms", *value) : std::string("–");
  };
  return fmt::format("<p>Latency: median {}, 95 % within {}, 99 % within {}.</p>\n", shown(0.5),
                     shown(0.95), shown(0.99));
}

std::string table(std::string_view what, std::string_view nameless,
                  const std::map<std::string, PartCounts>& counts) {
  std::vector<std::pair<std::string, PartCounts>> rows(counts.begin(), counts.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.inspected() > b.second.inspected();
  });
  const std::size_t left_out = rows.size() - std::min(rows.size(), kMostRowsShown);
  rows.resize(rows.size() - left_out);
  std::string out = fmt::format(
      "<div><h2>By {0}</h2><table><thead><tr><th scope=\"col\">{0}</th><th "
      "scope=\"col\">inspected</th><th scope=\"col\">defect</th><th scope=\"col\">unknown</th><th "
      "scope=\"col\">yield</th></tr></thead><tbody>\n",
      what);
  for (const auto& [name, parts] : rows) {
    out += fmt::format(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        html(name.empty() ? nameless : name), parts.inspected(), parts.defect, parts.unknown,
        percent(parts.yield()));
  }
  out += "</tbody></table>";
  return out + (left_out == 0 ? "" : fmt::format("<p class=\"soft\">and {} more</p>", left_out)) +
         "</div>\n";
}

std::string worst(const std::vector<ShiftReport::Part>& parts) {
  if (parts.empty()) return "";
  std::string out = "<h2>The worst parts</h2><div class=\"worst\">\n";
  for (const auto& [row, picture] : parts) {
    out += "<figure>";
    out += picture.empty() ? "<div class=\"blank\"></div>"
                           : image_tag(picture, fmt::format("Inspection {}", row.id));
    const std::string over = row.threshold && *row.threshold > 0
                                 ? fmt::format(", {:.2f} × threshold", row.score / *row.threshold)
                                 : "";
    out += fmt::format("<b>{}</b>, {} {}<br>score {:.4g}{}<br>{}{}</figure>\n", row.id,
                       day_of(seconds_of(row.time)), on_clock(seconds_of(row.time)), row.score,
                       over, html(row.task),
                       row.source.empty() ? "" : "<br>" + html(row.source.substr(0, 60)));
  }
  return out + "</div>\n";
}

std::string warning_list(std::vector<std::string> warnings) {
  if (warnings.empty()) return "";
  warnings.resize(std::min(warnings.size(), kMostWarnings));
  std::string out = "<h2>Warnings of the whole service</h2><ul>";
  for (const std::string& text : warnings) out += "<li>" + html(text) + "</li>";
  return out + "</ul>\n";
}

}  // namespace

std::string shift_report_html(const ShiftReport& report) {
  const Statistics& found = report.statistics;
  const StatisticsQuery& query = report.query;
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{} {}</title><style>{}</style></head><body>\n",
      title_of(report.span), html(times(query.since, query.until)), kReportStyle);
  out += head(report) + figures(found.parts) + latencies(found.latencies);
  out += "<h2>Over time</h2>" + bars(report);
  out += "<p class=\"soft\">From below: good, unknown, defect (in figures).</p>\n";
  out += "<div class=\"two\"><div><h2>Where defects happen</h2>" + places(report) + "</div><div>" +
         table("task", "no known product", found.tasks) +
         table("station", "without a station", found.stations) + "</div></div>\n";
  out += worst(report.worst) + warning_list(report.warnings);
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return out + fmt::format("<footer>contcore {}, made {} {}</footer></body></html>\n",
                           html(report.version), on_date(now), on_clock(now));
}

}  // namespace contcore
