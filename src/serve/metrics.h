// Counters, gauges and histograms, as Prometheus reads them (text format 0.0.4).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace contcore {

/// Only goes up.
class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// Goes up and down.
class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  void add(double difference) { value_.fetch_add(difference, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

/// How many values fell below each of some bounds, and their sum.
class Histogram {
 public:
  /// Bounds are finite and increase.
  explicit Histogram(std::span<const double> bounds);
  /// A NaN is no value and is passed over.
  void observe(double value);

 private:
  friend class Metrics;
  std::vector<double> bounds_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> counts_;  // for each bound, then for all beyond
  std::atomic<double> sum_{0};
};

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

/// All metrics of a service. What it hands out lives as long as it does: look a metric up once and
/// keep the reference, since a lookup takes a lock and an update takes none. Throws Error (kUsage)
/// for a name, label name or bounds that the format does not allow, and for a name that is already
/// used for another kind of metric.
///
/// A name has at most `most_series` sets of labels. Any further one is counted in a series of its
/// own whose label values are all "other", so that no client can fill the memory by making labels
/// up; further gauges are not shown, since several values make none. Label values may be any bytes;
/// what is not UTF-8 becomes U+FFFD, what is beyond 200 bytes is left out.
class Metrics {
 public:
  explicit Metrics(std::size_t most_series = 200) : most_series_(most_series) {}

  Counter& counter(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  Histogram& histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                       const MetricLabels& labels = {});

  /// For "Content-Type: text/plain; version=0.0.4; charset=utf-8".
  std::string text() const;

 private:
  enum class Kind { kCounter, kGauge, kHistogram };
  struct Series {
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
  };
  struct Family {
    Kind kind = Kind::kCounter;
    std::string help;
    std::vector<double> bounds;
    std::map<std::string, Series, std::less<>> series;  // by the text of the labels
    Series unshown;
  };

  Series& find(Kind kind, std::string_view name, std::string_view help,
               std::span<const double> bounds, const MetricLabels& labels);
  static void write(std::string& text, const std::string& name, const std::string& labels,
                    const Series& series);

  const std::size_t most_series_;
  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;
};

}  // namespace contcore
