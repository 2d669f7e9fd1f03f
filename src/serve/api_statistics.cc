// What a shift, a day or a week adds up to, as JSON and as a page to print.
#include <fmt/format.h>

#include <algorithm>

#include "contcore/error.h"
#include "serve/api_common.h"
#include "serve/clock.h"
#include "serve/service.h"
#include "serve/shift_report.h"
#include "serve/store_checks.h"
#include "serve/thumbnail.h"

namespace contcore {
namespace {

// Whole years that a time given may lie in.
constexpr std::string_view kFirstYear = "1970";
constexpr std::string_view kLastYear = "9990";

// Of the defects of a report, those looked at, and those shown.
constexpr std::size_t kMostDefectsCompared = 20000;
constexpr std::size_t kMostWorst = 6;
constexpr std::size_t kWorstSide = 200;
constexpr std::size_t kReportPictureSide = 480;
constexpr std::size_t kPartsWithoutPicture = 20;  // passed over to find one that has a picture

std::time_t time_given(const std::string& text) {
  const std::string time = with_milliseconds(text);
  if (!is_stored_time(time) || time < kFirstYear || time > kLastYear) {
    throw Refusal{400, fmt::format("'{:.40}' is no time; write it in UTC like "
                                   "2024-05-31T23:59:59Z",
                                   text)};
  }
  return seconds_of(time);
}

Period period_given(const std::string& name, const std::string& value) {
  constexpr std::pair<std::string_view, Period> kKnown[] = {{"hour", Period::kHour},
                                                            {"shift", Period::kShift},
                                                            {"day", Period::kDay},
                                                            {"week", Period::kWeek}};
  for (const auto& [word, period] : kKnown) {
    if (word == value) return period;
  }
  throw Refusal{400, fmt::format("{} is hour, shift, day or week", name)};
}

std::string_view period_name(Period period) {
  constexpr std::string_view kNames[] = {"hour", "shift", "day", "week"};
  return kNames[static_cast<std::size_t>(period)];
}

// The times of a query: those given, rounded outwards to slots, or the period that a moment is in.
struct AskedFor {
  StatisticsQuery query;
  std::optional<Period> span;
};

AskedFor asked_for(const HttpRequest& request, const Calendar& calendar) {
  AskedFor asked;
  StatisticsQuery& query = asked.query;
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::optional<std::time_t> since, until, at;
  std::optional<Period> by;
  for (const auto& [name, value] : request.query) {
    if (name == "station") {
      query.station = value;
    } else if (name == "task") {
      query.task = value;
    } else if (name == "since") {
      since = time_given(value);
    } else if (name == "until") {
      until = time_given(value);
    } else if (name == "at") {
      at = time_given(value);
    } else if (name == "span") {
      asked.span = period_given(name, value);
    } else if (name == "by") {
      by = period_given(name, value);
    } else {
      throw Refusal{400, fmt::format("there is no '{:.40}' here", name)};
    }
  }
  if (since) {
    if (at || asked.span) throw Refusal{400, "give since and until, or span and at"};
    query.since = calendar.slot_begin(*since);
    query.until = until.value_or(std::max(now, *since) + 1);
    if (query.until <= *since) throw Refusal{400, "since is not before until"};
    query.until = calendar.slot_end(query.until - 1);
  } else {
    if (until) throw Refusal{400, "until needs since"};
    if (!asked.span) asked.span = Period::kShift;
    query.since = calendar.begin(*asked.span, at.value_or(now));
    query.until = calendar.end(*asked.span, at.value_or(now));
  }
  query.by = by.value_or(asked.span == Period::kWeek ? Period::kDay : Period::kHour);
  return asked;
}

Json counts_json(const PartCounts& parts) {
  const auto yield = parts.yield();
  return {{"inspected", parts.inspected()},
          {"good", parts.good},
          {"defect", parts.defect},
          {"unknown", parts.unknown},
          {"uncalibrated", parts.uncalibrated},
          {"yield", yield ? Json(*yield) : Json(nullptr)},
          {"called_good", parts.called_good},
          {"called_defect", parts.called_defect}};
}

Json named_json(const char* key, const std::map<std::string, PartCounts>& counts) {
  Json list = Json::array();
  for (const auto& [name, parts] : counts) {
    Json one = counts_json(parts);
    one[key] = name;
    list.push_back(std::move(one));
  }
  return list;
}

Json statistics_json(const StatisticsQuery& query, const Statistics& found) {
  Json series = Json::array();
  for (const Statistics::Step& step : found.steps) {
    Json one = counts_json(step.parts);
    one["begin"] = stored_time(step.begin);
    one["end"] = stored_time(step.end);
    series.push_back(std::move(one));
  }
  const auto latency = [&](double share) {
    const auto value = found.latencies.quantile(share);
    return value ? finite(*value) : Json(nullptr);
  };
  return {
      {"since", stored_time(query.since)},
      {"until", stored_time(query.until)},
      {"by", period_name(query.by)},
      {"station", query.station ? Json(*query.station) : Json(nullptr)},
      {"task", query.task ? Json(*query.task) : Json(nullptr)},
      {"parts", counts_json(found.parts)},
      {"latency_ms", {{"median", latency(0.5)}, {"p95", latency(0.95)}, {"p99", latency(0.99)}}},
      {"places", {{"columns", kPlacesAcross}, {"rows", kPlacesAcross}, {"defects", found.places}}},
      {"stations", named_json("station", found.stations)},
      {"tasks", named_json("task", found.tasks)},
      {"series", std::move(series)}};
}

InspectionFilter filter_for(const StatisticsQuery& query) {
  InspectionFilter filter;
  filter.station = query.station;
  filter.task = query.task;
  filter.since = stored_time(query.since);
  filter.until = stored_time(query.until);
  return filter;
}

// How far beyond its threshold.
float badness(const StoredInspection& row) {
  return row.threshold && *row.threshold > 0 ? row.score / *row.threshold : 0;
}

std::vector<StoredInspection> worst_of(Store& store, InspectionFilter filter) {
  filter.verdict = "defect";
  filter.limit = 500;
  std::vector<StoredInspection> worst;
  std::size_t compared = 0;
  for (std::optional<std::int64_t> next = filter.before; next && compared < kMostDefectsCompared;) {
    filter.before = next;
    StoredPage page = store.page(filter);
    compared += page.inspections.size();
    std::move(page.inspections.begin(), page.inspections.end(), std::back_inserter(worst));
    std::stable_sort(worst.begin(), worst.end(),
                     [](const auto& a, const auto& b) { return badness(a) > badness(b); });
    worst.resize(std::min(worst.size(), kMostWorst));
    next = page.next;
  }
  return worst;
}

}  // namespace

HttpResponse Api::statistics(const HttpRequest& request, const Params& /*params*/,
                             Compute& /*compute*/) {
  const AskedFor asked = asked_for(request, calendar_);
  Json json = statistics_json(asked.query, statistics_of(store_, calendar_, asked.query));
  json["span"] = asked.span ? Json(period_name(*asked.span)) : Json(nullptr);
  return json_response(200, json);
}

// A picture that is not kept, or cannot be read any more, is left out.
std::string Api::small_picture(const StoredInspection& row, std::size_t side) {
  try {
    const auto kept = row.has_image ? store_.image(row.id) : std::nullopt;
    return kept ? thumbnail(kept->bytes, side) : "";
  } catch (const Refusal&) {
    return "";
  }
}

HttpResponse Api::report(const HttpRequest& request, const Params& /*params*/,
                         Compute& /*compute*/) {
  const AskedFor asked = asked_for(request, calendar_);
  const Statistics found = statistics_of(store_, calendar_, asked.query);
  ShiftReport report{asked.query, asked.span, found, {}, {}, {}, options_.version};
  InspectionFilter filter = filter_for(asked.query);
  store_.narrow(filter);
  for (StoredInspection& row : worst_of(store_, filter)) {
    std::string picture = small_picture(row, kWorstSide);
    report.worst.push_back({std::move(row), std::move(picture)});
  }
  filter.limit = kPartsWithoutPicture;
  // Places of several products are of no picture.
  const bool is_one = asked.query.task || found.tasks.size() == 1;
  for (const StoredInspection& row :
       is_one ? store_.list(filter) : std::vector<StoredInspection>()) {
    report.picture = small_picture(row, kReportPictureSide);
    if (!report.picture.empty()) break;
  }
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  if (asked.query.since <= now && now < asked.query.until) {
    for (const Json& warning : warnings(*live_.memory())) {
      report.warnings.push_back(warning.is_string() ? warning.get<std::string>() : warning.dump());
    }
  }
  HttpResponse response;
  response.type = "text/html; charset=utf-8";
  response.body = shift_report_html(report);
  response.headers = {
      {"Content-Security-Policy",
       "default-src 'none'; img-src data:; style-src 'unsafe-inline'; sandbox"},
      {"Content-Disposition",
       fmt::format("inline; filename=\"report{}.html\"",
                   file_label({asked.query.station.value_or(""), asked.query.task.value_or(""),
                               stored_time(asked.query.since).substr(0, 16)}))}};
  return response;
}

}  // namespace contcore
