#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/utf8.h"
#include "contcore/error.h"

namespace contcore {
namespace {

[[noreturn]] void misuse(std::string_view name, const std::string& what) {
  throw Error(Error::Kind::kUsage, fmt::format("metric \"{}\": {}", name, what));
}

// Letters, digits and underscores, for a metric also colons; no digit first.
bool is_name(std::string_view name, bool colons) {
  const auto allowed = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (c == ':' && colons);
  };
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') &&
         std::all_of(name.begin(), name.end(), allowed);
}

std::string escape(std::string_view text, bool quotes) {
  std::string escaped;
  for (const char c : valid_utf8(text)) {
    if (c == '\n') {
      escaped += "\\n";
    } else {
      if (c == '\\' || (c == '"' && quotes)) escaped += '\\';
      escaped += c;
    }
  }
  return escaped;
}

// A label is a name, not a text; a client's may be as long as a request.
constexpr std::size_t kMostLabelBytes = 200;

// `a="1",b="2"`, in the order of the names so that the order given makes no difference.
std::string label_text(MetricLabels labels) {
  std::sort(labels.begin(), labels.end());
  std::string text;
  for (const auto& [name, value] : labels) {
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name,
                        escape(std::string_view(value).substr(0, kMostLabelBytes), true));
  }
  return text;
}

void check_labels(std::string_view metric, const MetricLabels& labels, bool histogram) {
  for (const auto& [name, value] : labels) {
    const bool reserved = name.starts_with("__") || (histogram && name == "le");
    if (!is_name(name, false) || reserved) {
      misuse(metric, fmt::format("\"{}\" cannot be the name of a label", name));
    }
    const auto same = [&, &wanted = name](const auto& label) { return label.first == wanted; };
    if (std::count_if(labels.begin(), labels.end(), same) > 1) {
      misuse(metric, fmt::format("has the label \"{}\" twice", name));
    }
  }
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

void add_line(std::string& text, std::string_view name, std::string_view labels,
              std::string_view value) {
  const bool bare = labels.empty();
  fmt::format_to(std::back_inserter(text), "{}{}{}{} {}\n", name, bare ? "" : "{", labels,
                 bare ? "" : "}", value);
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds.begin(), bounds.end()),
      counts_(std::make_unique<std::atomic<std::uint64_t>[]>(bounds.size() + 1)) {}

void Histogram::observe(double value) {
  if (std::isnan(value)) return;
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  counts_[static_cast<std::size_t>(bound - bounds_.begin())].fetch_add(1,
                                                                       std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

Metrics::Series& Metrics::find(Kind kind, std::string_view name, std::string_view help,
                               std::span<const double> bounds, const MetricLabels& labels) {
  if (!is_name(name, true)) misuse(name, "is no name for a metric");
  check_labels(name, labels, kind == Kind::kHistogram);
  std::string key = label_text(labels);
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = families_.try_emplace(std::string(name));
  Family& family = place->second;
  if (is_new) {
    family.kind = kind;
    family.help = escape(help, false);
    family.bounds.assign(bounds.begin(), bounds.end());
  }
  if (family.kind != kind ||
      !std::equal(bounds.begin(), bounds.end(), family.bounds.begin(), family.bounds.end())) {
    misuse(name, "is already used for a metric of another kind or with other bounds");
  }
  if (!family.series.contains(key) && family.series.size() >= most_series_) {
    // Counts add up; the last of several values set is nobody's.
    if (kind == Kind::kGauge) return family.unshown;
    MetricLabels other = labels;
    for (auto& [label, value] : other) value = "other";
    key = label_text(std::move(other));
  }
  return family.series[key];
}

Counter& Metrics::counter(std::string_view name, std::string_view help,
                          const MetricLabels& labels) {
  Series& series = find(Kind::kCounter, name, help, {}, labels);
  const std::lock_guard lock(mutex_);
  if (!series.counter) series.counter = std::make_unique<Counter>();
  return *series.counter;
}

Gauge& Metrics::gauge(std::string_view name, std::string_view help, const MetricLabels& labels) {
  Series& series = find(Kind::kGauge, name, help, {}, labels);
  const std::lock_guard lock(mutex_);
  if (!series.gauge) series.gauge = std::make_unique<Gauge>();
  return *series.gauge;
}

Histogram& Metrics::histogram(std::string_view name, std::string_view help,
                              std::span<const double> bounds, const MetricLabels& labels) {
  const auto finite = [](double bound) { return std::isfinite(bound); };
  const bool increase =
      std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) == bounds.end();
  if (bounds.empty() || !std::all_of(bounds.begin(), bounds.end(), finite) || !increase) {
    misuse(name, "the bounds of its buckets must be finite and increase");
  }
  Series& series = find(Kind::kHistogram, name, help, bounds, labels);
  const std::lock_guard lock(mutex_);
  if (!series.histogram) series.histogram = std::make_unique<Histogram>(bounds);
  return *series.histogram;
}

void Metrics::write(std::string& text, const std::string& name, const std::string& labels,
                    const Series& series) {
  if (series.counter) add_line(text, name, labels, std::to_string(series.counter->value()));
  if (series.gauge) add_line(text, name, labels, number(series.gauge->value()));
  if (!series.histogram) return;
  const Histogram& histogram = *series.histogram;
  const std::string comma = labels.empty() ? "" : ",";
  std::uint64_t below = 0;
  // The count is the last bucket's by making, so that both agree while others observe.
  for (std::size_t i = 0; i <= histogram.bounds_.size(); ++i) {
    below += histogram.counts_[i].load(std::memory_order_relaxed);
    const bool last = i == histogram.bounds_.size();
    const std::string bound = last ? "+Inf" : number(histogram.bounds_[i]);
    add_line(text, name + "_bucket", fmt::format("{}{}le=\"{}\"", labels, comma, bound),
             std::to_string(below));
  }
  add_line(text, name + "_sum", labels, number(histogram.sum_.load(std::memory_order_relaxed)));
  add_line(text, name + "_count", labels, std::to_string(below));
}

std::string Metrics::text() const {
  constexpr std::string_view kKinds[] = {"counter", "gauge", "histogram"};
  std::string text;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, family] : families_) {
    fmt::format_to(std::back_inserter(text), "# HELP {} {}\n# TYPE {} {}\n", name, family.help,
                   name, kKinds[static_cast<std::size_t>(family.kind)]);
    for (const auto& [labels, series] : family.series) write(text, name, labels, series);
  }
  return text;
}

}  // namespace contcore
