// Statistics against a twin that goes through all inspections there ever were.
#include "serve/statistics.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "contcore/error.h"
#include "serve/shifts.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

// As std::mt19937, whose numbers are of 64 bits.
using Random = std::mersenne_twister_engine<unsigned, 32, 624, 397, 31, 0x9908b0df, 11, 0xffffffff,
                                            7, 0x9d2c5680, 15, 0xefc60000, 18, 1812433253>;
using Kept = std::map<std::int64_t, StoredInspection>;

class StatisticsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "contcore_statistics_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = (folder_ / "line.db").string();
    if (const char* zone = std::getenv("TZ")) before_ = zone;
    ::setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    ::tzset();
  }
  void TearDown() override {
    fs::remove_all(folder_);
    if (before_.empty()) {
      ::unsetenv("TZ");
    } else {
      ::setenv("TZ", before_.c_str(), 1);
    }
    ::tzset();
  }

  const std::vector<std::chrono::minutes> shifts_ = parse_shifts("06:10,14:00,22:30");
  const Calendar calendar_{shifts_};
  fs::path folder_;
  std::string path_;

 private:
  std::string before_;
};

std::string text(const PartCounts& parts) {
  return fmt::format("{}/{}/{}/{} {}/{}", parts.good, parts.defect, parts.unknown,
                     parts.uncalibrated, parts.called_good, parts.called_defect);
}

void count_naively(PartCounts& parts, const StoredInspection& row) {
  if (row.verdict == "good") ++parts.good;
  if (row.verdict == "defect") ++parts.defect;
  if (row.verdict == "unknown") ++parts.unknown;
  if (row.verdict == "uncalibrated") ++parts.uncalibrated;
  if (row.feedback == "good") ++parts.called_good;
  if (row.feedback == "defect") ++parts.called_defect;
}

bool touches(const StoredInspection& row, int column, int across) {
  // In sixteenths of a pixel all is whole.
  return std::any_of(row.regions.begin(), row.regions.end(), [&](const Region& region) {
    const std::size_t last_x = std::min<std::size_t>(region.x + region.width - 1, row.width - 1);
    const std::size_t last_y = std::min<std::size_t>(region.y + region.height - 1, row.height - 1);
    const auto c = static_cast<std::size_t>(column), r = static_cast<std::size_t>(across);
    return region.x * 16 / row.width <= c && c <= last_x * 16 / row.width &&
           region.y * 16 / row.height <= r && r <= last_y * 16 / row.height;
  });
}

double naive_quantile(std::vector<double> latencies, double share) {
  std::sort(latencies.begin(), latencies.end());
  const auto rank = std::ceil(share * static_cast<double>(latencies.size()));
  return latencies[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
}

void compare(Store& store, const Calendar& calendar, const Kept& all, StatisticsQuery query) {
  const Statistics found = statistics_of(store, calendar, query);
  PartCounts parts;
  std::map<std::string, PartCounts> stations, tasks;
  std::vector<PartCounts> steps(found.steps.size());
  std::vector<double> latencies;
  std::array<std::uint64_t, kPlaces> places{};
  for (const auto& [id, row] : all) {
    const std::time_t time = seconds_of(row.time);
    if (time < query.since || time >= query.until) continue;
    if (query.station && row.station != *query.station) continue;
    if (query.task && row.task != *query.task) continue;
    count_naively(parts, row);
    count_naively(stations[row.station], row);
    count_naively(tasks[row.task], row);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (time >= found.steps[i].begin && time < found.steps[i].end) count_naively(steps[i], row);
    }
    latencies.push_back(row.latency_ms);
    for (int place = 0; place < kPlaces && row.verdict == "defect"; ++place) {
      if (touches(row, place % 16, place / 16)) ++places[static_cast<std::size_t>(place)];
    }
  }
  ASSERT_EQ(text(found.parts), text(parts));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    ASSERT_EQ(text(found.steps[i].parts), text(steps[i])) << stored_time(found.steps[i].begin);
  }
  for (const auto& [counts, expected] :
       {std::pair(found.stations, stations), {found.tasks, tasks}}) {
    for (const auto& [name, one] : counts) {
      const auto twin = expected.find(name);
      ASSERT_EQ(text(one), twin == expected.end() ? text({}) : text(twin->second)) << name;
    }
    for (const auto& [name, one] : expected) ASSERT_TRUE(counts.contains(name)) << name;
  }
  ASSERT_EQ(found.places, places);
  for (const double share : {0.5, 0.95, 0.99}) {
    const auto quantile = found.latencies.quantile(share);
    ASSERT_EQ(quantile.has_value(), !latencies.empty());
    if (!quantile) continue;
    const double exact = naive_quantile(latencies, share);
    ASSERT_NEAR(*quantile, exact, 0.0451 * exact);
  }
}

StoredInspection random_inspection(Random& random, std::time_t begin, std::time_t end) {
  const auto one_of = [&](std::initializer_list<const char*> list) {
    return std::string(list.begin()[random() % list.size()]);
  };
  StoredInspection row;
  const auto time = begin + static_cast<std::time_t>(random() % static_cast<unsigned>(end - begin));
  row.time = stored_time(time).replace(20, 3, fmt::format("{:03}", random() % 1000));
  row.station = one_of({"", "press 4", "é"});
  row.task = one_of({"", "bottle", "screw"});
  row.verdict = one_of({"good", "good", "good", "defect", "unknown", "uncalibrated"});
  row.latency_ms = std::exp(static_cast<double>(random() % 1000) / 100 - 3);
  row.width = 1 + random() % 700;
  row.height = 1 + random() % 90;
  for (unsigned i = random() % 3; i > 0; --i) {
    const std::size_t x = random() % row.width, y = random() % row.height;
    row.regions.push_back(
        {x, y, 1 + random() % (row.width - x), 1 + random() % (row.height - y), 1, 2});
  }
  if (random() % 20 == 0) row.feedback = one_of({"good", "defect"});
  if (!row.feedback.empty()) row.feedback_time = row.time;
  return row;
}

StatisticsQuery random_query(Random& random, const Calendar& calendar, std::time_t begin,
                             std::time_t end) {
  StatisticsQuery query;
  const auto moment = [&] {
    return calendar.slot_begin(
        begin + static_cast<std::time_t>(random() % static_cast<unsigned>(end - begin)));
  };
  query.since = moment();
  query.until = moment();
  if (query.since > query.until) std::swap(query.since, query.until);
  query.by = static_cast<Period>(random() % 4);
  if (random() % 2 == 0) query.station = random() % 2 == 0 ? "press 4" : "";
  if (random() % 2 == 0) query.task = random() % 2 == 0 ? "bottle" : "nobody";
  return query;
}

// Over the nights in which the clock is changed, while old rows go, people say what parts were,
// take it back, and tasks are renamed and come together.
TEST_F(StatisticsTest, AreThoseOfANaiveTwin) {
  for (const char* around : {"2024-03-31T01:00:00.000Z", "2024-10-27T01:00:00.000Z"}) {
    fs::remove(path_);
    Random random(5);
    const std::time_t begin = seconds_of(around) - 3 * 86400, end = begin + 6 * 86400;
    Retention retention;
    retention.inspections = 300;
    std::optional<Store> store(std::in_place, path_, retention, std::chrono::steady_clock::now,
                               shifts_);
    Kept all;
    for (int step = 0; step < 2500; ++step) {
      const unsigned what = random() % 100;
      if (what < 85) {
        StoredInspection row = random_inspection(random, begin, end);
        row.id = store->add(row, "", "", {}, 0, 0);
        all[row.id] = row;
      } else if (what < 97) {
        const auto id = static_cast<std::int64_t>(1 + random() % (all.size() + 1));
        const std::string label = std::vector{"", "good", "defect"}[random() % 3];
        if (store->feedback(id, label, stored_time(begin))) all.at(id).feedback = label;
      } else if (what < 98) {
        const std::string from = random() % 2 == 0 ? "bottle" : "screw";
        const std::string to = random() % 2 == 0 ? "screw" : "new";
        store->rename_task(from, to);
        for (auto& [id, row] : all) {
          if (row.task == from) row.task = to;
        }
      } else if (what == 98 && step % 5 == 0) {
        store.reset();
        store.emplace(path_, retention, std::chrono::steady_clock::now, shifts_);
      }
      if (step % 250 == 249) {
        for (int i = 0; i < 8; ++i) {
          compare(*store, calendar_, all, random_query(random, calendar_, begin, end));
          ASSERT_FALSE(HasFatalFailure()) << around << " step " << step;
        }
      }
    }
    EXPECT_LE(store->counts().inspections, 300u);
    StatisticsQuery whole{calendar_.slot_begin(begin), end, Period::kDay, {}, {}};
    compare(*store, calendar_, all, whole);
    EXPECT_EQ(statistics_of(*store, calendar_, whole).parts.inspected(), all.size());
  }
}

TEST_F(StatisticsTest, AShiftThatBeginsWithinAnHourHasItsOwn) {
  Store store(path_, {}, std::chrono::steady_clock::now, shifts_);
  StoredInspection row;
  row.verdict = "good";
  row.latency_ms = 1;
  for (const char* time : {"2024-01-10T05:09:59.999Z", "2024-01-10T05:10:00.000Z"}) {
    row.time = time;
    store.add(row, "", "", {}, 0, 0);
  }
  const std::time_t noon = seconds_of("2024-01-10T11:00:00.000Z");
  StatisticsQuery query{calendar_.begin(Period::kShift, noon),
                        calendar_.end(Period::kShift, noon),
                        Period::kHour,
                        {},
                        {}};
  const Statistics found = statistics_of(store, calendar_, query);
  EXPECT_EQ(found.parts.good, 1u);
  EXPECT_EQ(stored_time(found.steps[0].begin), "2024-01-10T05:10:00.000Z");
  EXPECT_EQ(stored_time(found.steps[0].end), "2024-01-10T06:00:00.000Z");
}

TEST_F(StatisticsTest, YieldIsGoodOfWhatIsJudged) {
  PartCounts parts;
  EXPECT_FALSE(parts.yield());
  parts.uncalibrated = 5;
  EXPECT_FALSE(parts.yield());
  parts.good = 6;
  parts.defect = 1;
  parts.unknown = 1;
  EXPECT_EQ(parts.yield(), 0.75);
  EXPECT_EQ(parts.inspected(), 13u);
}

TEST_F(StatisticsTest, LatenciesAreWithinTheirBucket) {
  Random random(1);
  for (int i = 0; i < 10000; ++i) {
    const double latency = std::exp(std::uniform_real_distribution(-4.6, 16.0)(random));
    EXPECT_NEAR(latency_of(latency_bucket(latency)), latency, 0.0451 * latency);
  }
  for (const double odd : {0.0, -3.0, 1e300}) EXPECT_GT(latency_of(latency_bucket(odd)), 0.0);
}

TEST_F(StatisticsTest, AnAnswerIsBounded) {
  Store store(path_);
  const Calendar calendar({});
  StatisticsQuery year{seconds_of("2024-01-01T00:00:00.000Z"),
                       seconds_of("2025-01-01T00:00:00.000Z"),
                       Period::kHour,
                       {},
                       {}};
  EXPECT_THROW(statistics_of(store, calendar, year), Error);  // it begins at 01:00 here
  year.by = Period::kDay;
  EXPECT_EQ(statistics_of(store, calendar, year).steps.size(), 367u);
  StoredInspection row;
  row.verdict = "good";
  row.time = "2024-05-01T00:00:00.000Z";
  for (int i = 0; i < 1500; ++i) {
    row.station = std::to_string(i);
    store.add(row, "", "", {}, 0, 0);
  }
  const Statistics found = statistics_of(store, calendar, year);
  EXPECT_EQ(found.parts.good, 1500u);
  EXPECT_EQ(found.stations.size(), 1000u);
}

// A client may name another station with every image: the oldest totals go.
TEST_F(StatisticsTest, TotalsDoNotGrowWithoutBound) {
  Retention retention;
  retention.totals = 2000;
  for (int opened = 0; opened < 2; ++opened) {
    Store store(path_, retention);
    StoredInspection row;
    row.verdict = "good";
    for (int i = 0; i < 3000; ++i) {
      row.time = stored_time(1000000 * opened + 1000 * i);
      row.station = std::to_string(i);
      store.add(row, "", "", {}, 0, 0);
    }
    std::size_t kept = 0;
    std::int64_t last = 0;
    store.totals(0, 1LL << 40, [&](const StoredTotal& total) {
      ++kept;
      last = total.begin;
    });
    EXPECT_LE(kept, 2000u);
    EXPECT_GT(kept, 1400u);
    EXPECT_EQ(last / 3600, (1000000 * opened + 1000 * 2999) / 3600);
  }
}

// A slot goes whole: what is left of one would be counts of something else. And what a person says
// and takes back takes no room.
TEST_F(StatisticsTest, TotalsGoByWholeSlots) {
  Retention retention;
  retention.totals = 300;
  Store store(path_, retention);
  StoredInspection row;
  row.verdict = "good";
  std::map<std::int64_t, std::uint64_t> added;
  for (int i = 0; i < 400; ++i) {
    row.time = stored_time(3600 * (i / 20));
    row.station = std::to_string(i % 20);
    const std::int64_t id = store.add(row, "", "", {}, 0, 0);
    ++added[3600 * (i / 20)];
    store.feedback(id, "defect", row.time);
    store.feedback(id, "", row.time);
    std::map<std::int64_t, std::uint64_t> kept;
    std::size_t numbers = 0;
    store.totals(-100000, 1LL << 40, [&](const StoredTotal& total) {
      ++numbers;
      if (total.what == kCountedGood) kept[total.begin] += total.n;
    });
    ASSERT_LE(numbers, 300u);
    // 20 stations × (good, a latency, called defect) an hour: five hours fit.
    ASSERT_GE(kept.size(), std::min<std::size_t>(added.size(), 4));
    std::uint64_t sum = 0;
    for (const auto& [begin, n] : kept) sum += n;
    ASSERT_EQ(sum, static_cast<std::uint64_t>(i % 20 + 1) + 20 * (kept.size() - 1)) << "at " << i;
  }
}

// A station's totals of an hour are more than are read at once.
TEST_F(StatisticsTest, ManyTotalsAreReadOnce) {
  Store store(path_);
  StoredInspection row;
  row.verdict = "good";
  row.time = "2024-05-01T00:30:00.000Z";
  Random random(1);
  for (int i = 0; i < 9000; ++i) {
    row.station = std::to_string(i % 4500);
    row.latency_ms = random() % 2 == 0 ? 1 : 50;
    store.add(row, "", "", {}, 0, 0);
  }
  std::set<std::string> seen;
  std::uint64_t n = 0;
  store.totals(0, 1LL << 40, [&](const StoredTotal& total) {
    EXPECT_TRUE(seen.insert(fmt::format("{}/{}", total.station, total.what)).second);
    n += total.n;
  });
  EXPECT_EQ(n, 18000u);
}

// An inspection that is not kept is not counted.
TEST_F(StatisticsTest, WhatIsRefusedIsNotCounted) {
  Store store(path_);
  StoredInspection row;
  row.verdict = "defect";
  row.time = "2024-05-01T00:30:00.000Z";
  row.regions = {{0, 0, 1, 1, 1, NAN}};
  row.width = row.height = 10;
  EXPECT_THROW(store.add(row, "", "", {}, 0, 0), Error);
  row.regions[0] = {std::size_t{1} << 62, std::size_t{1} << 62, ~std::size_t{0}, 0, 1, 1};
  store.add(row, "", "", {}, 0, 0);
  std::vector<int> seen;
  store.totals(0, 1LL << 40, [&](const StoredTotal& total) { seen.push_back(total.what); });
  EXPECT_EQ(seen, (std::vector<int>{kCountedDefect, kFirstPlace + 255, kFirstLatency - 53}));
}

}  // namespace
}  // namespace contcore
