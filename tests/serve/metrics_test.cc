#include "serve/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr double kBounds[] = {0.1, 1, 10};

TEST(Metrics, AreWrittenAsPrometheusReadsThem) {
  Metrics metrics;
  metrics
      .counter("requests_total", "Requests \\ answered\nso far", {{"path", "/"}, {"code", "200"}})
      .add(3);
  metrics.counter("requests_total", "", {{"code", "200"}, {"path", "/"}}).add();
  metrics.gauge("vectors", "In the memory").set(0.25);
  Histogram& histogram = metrics.histogram("seconds", "Time", kBounds, {{"path", "/"}});
  for (const double value : {0.1, 0.5, 2.0, 100.0}) histogram.observe(value);
  EXPECT_EQ(metrics.text(),
            "# HELP requests_total Requests \\\\ answered\\nso far\n"
            "# TYPE requests_total counter\n"
            "requests_total{code=\"200\",path=\"/\"} 4\n"
            "# HELP seconds Time\n"
            "# TYPE seconds histogram\n"
            "seconds_bucket{path=\"/\",le=\"0.1\"} 1\n"
            "seconds_bucket{path=\"/\",le=\"1\"} 2\n"
            "seconds_bucket{path=\"/\",le=\"10\"} 3\n"
            "seconds_bucket{path=\"/\",le=\"+Inf\"} 4\n"
            "seconds_sum{path=\"/\"} 102.6\n"
            "seconds_count{path=\"/\"} 4\n"
            "# HELP vectors In the memory\n"
            "# TYPE vectors gauge\n"
            "vectors 0.25\n");
}

TEST(Metrics, NumbersThatAreNoneHaveTheirNames) {
  Metrics metrics;
  const double infinity = std::numeric_limits<double>::infinity();
  metrics.gauge("a", "").set(std::nan(""));
  metrics.gauge("b", "").set(infinity);
  metrics.gauge("c", "").set(-infinity);
  Histogram& histogram = metrics.histogram("d", "", kBounds);
  histogram.observe(std::nan(""));
  histogram.observe(-infinity);
  const std::string text = metrics.text();
  for (const char* line : {"\na NaN\n", "\nb +Inf\n", "\nc -Inf\n", "\nd_sum -Inf\n",
                           "\nd_count 1\n", "\nd_bucket{le=\"0.1\"} 1\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

// A label value from a client must not be able to end its line or its quotes.
TEST(Metrics, LabelValuesCannotBreakOut) {
  Metrics metrics;
  metrics.counter("n", "", {{"x", "a\"} 1\nfake{y=\"\\"}}).add();
  metrics.counter("n", "", {{"x", std::string("\xff\0", 2)}}).add();
  metrics.counter("n", "", {{"x", std::string(100000, 'y')}}).add();
  const std::string text = metrics.text();
  EXPECT_NE(text.find("n{x=\"a\\\"} 1\\nfake{y=\\\"\\\\\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find(std::string("n{x=\"\xEF\xBF\xBD\0\"} 1\n", 14)), std::string::npos);
  EXPECT_LT(text.size(), 500u);
}

TEST(Metrics, MadeUpLabelsDoNotFillTheMemory) {
  Metrics metrics(10);
  for (int i = 0; i < 1000; ++i) {
    metrics.counter("n", "", {{"client", std::to_string(i)}, {"code", "200"}}).add();
  }
  const std::string text = metrics.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2 + 11);
  EXPECT_NE(text.find("n{client=\"other\",code=\"other\"} 990\n"), std::string::npos) << text;
  EXPECT_EQ(metrics.counter("n", "", {{"client", "3"}, {"code", "200"}}).value(), 1u);
}

// Several values make no other: "other" would be the last that was set.
TEST(Metrics, GaugesBeyondTheLimitAreNotShown) {
  Metrics metrics;
  for (int i = 0; i < 205; ++i) metrics.gauge("g", "", {{"task", std::to_string(i)}}).set(i);
  const std::string text = metrics.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2 + 200);
  EXPECT_EQ(text.find("other"), std::string::npos) << text;
  EXPECT_NE(text.find("g{task=\"199\"} 199\n"), std::string::npos);
  EXPECT_EQ(text.find("g{task=\"200\"}"), std::string::npos);
}

TEST(Metrics, RefusesWhatTheFormatCannotSay) {
  Metrics metrics;
  metrics.counter("taken", "");
  const std::vector<double> falling = {2, 1};
  const std::vector<double> equal = {1, 1};
  const std::vector<double> endless = {1, std::numeric_limits<double>::infinity()};
  EXPECT_THROW(metrics.counter("", ""), Error);
  EXPECT_THROW(metrics.counter("1a", ""), Error);
  EXPECT_THROW(metrics.counter("a b", ""), Error);
  EXPECT_THROW(metrics.counter("a\n", ""), Error);
  EXPECT_THROW(metrics.gauge("taken", ""), Error);
  EXPECT_THROW(metrics.counter("a", "", {{"b c", ""}}), Error);
  EXPECT_THROW(metrics.counter("a", "", {{"__b", ""}}), Error);
  EXPECT_THROW(metrics.counter("a", "", {{"b", "1"}, {"b", "2"}}), Error);
  EXPECT_THROW(metrics.histogram("a", "", kBounds, {{"le", "1"}}), Error);
  EXPECT_THROW(metrics.histogram("a", "", {}), Error);
  for (const auto& bounds : {falling, equal, endless}) {
    EXPECT_THROW(metrics.histogram("a", "", bounds), Error);
  }
  metrics.histogram("h", "", kBounds);
  EXPECT_THROW(metrics.histogram("h", "", std::span(kBounds).first(2)), Error);
}

TEST(Metrics, CountEveryThing) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) {
        metrics.counter("n", "", {{"thread", std::to_string(t % 2)}}).add();
        metrics.histogram("h", "", kBounds).observe(1);
        metrics.gauge("g", "").add(1);
        if (i % 100 == 0) {
          EXPECT_FALSE(metrics.text().empty());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = metrics.text();
  for (const char* line : {"n{thread=\"0\"} 2000\n", "n{thread=\"1\"} 2000\n", "h_sum 4000\n",
                           "h_count 4000\n", "g 4000\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

}  // namespace
}  // namespace contcore
