#include "serve/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "contcore/error.h"
#include "serve/flush_hook.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr char kTime[] = "2024-05-31T23:59:59.999Z";

StoredInspection inspection(const std::string& verdict = "good", float score = 1.5f) {
  StoredInspection made;
  made.time = kTime;
  made.task = "bottle";
  made.source = "line 1";
  made.score = score;
  made.verdict = verdict;
  made.latency_ms = 12.25;
  made.width = 640;
  made.height = 480;
  return made;
}

// The moment is what a test says it is.
struct TestClock {
  std::chrono::steady_clock::time_point now{};
  Store::Clock clock() {
    return [this] { return now; };
  }
};

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "contcore_store_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = (folder_ / "line.db").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  // All that is on disk, with the log.
  std::uintmax_t bytes_on_disk() const {
    std::uintmax_t total = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) total += entry.file_size();
    return total;
  }
  std::string refusal(Error::Kind kind) const {
    try {
      Store store(path_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << error.what();
      return error.what();
    }
    return "taken";
  }
  // Runs SQL on the file as another program would.
  std::int64_t elsewhere(const std::string& sql) const {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db);
    const std::int64_t value =
        sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : -1;
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
  }

  // As the first version would have left the file.
  void put_back_to_first_version() const {
    for (const char* column : {"alarms", "good"}) {
      elsewhere(fmt::format("ALTER TABLE sample DROP COLUMN {}", column));
    }
    elsewhere("DROP TABLE hour_total");
    elsewhere("DROP INDEX inspection_time");
    elsewhere("ALTER TABLE reserved DROP COLUMN totals");
    elsewhere("DROP INDEX inspection_task");
    elsewhere("CREATE INDEX inspection_task ON inspection(task, id)");
    elsewhere("DROP TABLE output");
    elsewhere("DROP TABLE series");
    elsewhere("DROP INDEX inspection_station");
    for (const char* column : {"station", "reason", "regions"}) {
      elsewhere(fmt::format("ALTER TABLE inspection DROP COLUMN {}", column));
    }
    elsewhere("PRAGMA user_version = 1");
  }

  fs::path folder_;
  std::string path_;
};

std::int64_t add(Store& store, const StoredInspection& made, std::string_view image = {}) {
  return store.add(made, image, "image/png", {}, 0, 0);
}

std::vector<std::int64_t> ids(const std::vector<StoredInspection>& list) {
  std::vector<std::int64_t> ids;
  for (const StoredInspection& one : list) ids.push_back(one.id);
  return ids;
}

std::string kind_of_refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind() == Error::Kind::kInput ? "input" : error.what();
  }
  return "taken";
}

TEST_F(StoreTest, GivesBackWhatItWasGiven) {
  StoredInspection made = inspection("defect", 0.1f);
  made.threshold = 0.3f;
  made.feedback = "good";
  made.feedback_time = kTime;
  made.learned = true;
  const std::string image("\x89PNG\0\xff", 6);
  const std::vector<float> patches = {1, -2, std::nanf(""), 4, 5, 6};
  std::int64_t id = 0;
  {
    Store store(path_);
    id = store.add(made, image, "image/png", patches, 3, 2);
  }
  Store store(path_);
  const auto found = store.find(id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->time, kTime);
  EXPECT_EQ(found->task, "bottle");
  EXPECT_EQ(found->source, "line 1");
  EXPECT_EQ(found->score, 0.1f);
  EXPECT_EQ(found->threshold, 0.3f);
  EXPECT_EQ(found->verdict, "defect");
  EXPECT_EQ(found->latency_ms, 12.25);
  EXPECT_EQ(found->width, 640u);
  EXPECT_EQ(found->height, 480u);
  EXPECT_EQ(found->feedback, "good");
  EXPECT_EQ(found->feedback_time, kTime);
  EXPECT_TRUE(found->learned);
  EXPECT_TRUE(found->has_image);
  EXPECT_EQ(store.image(id)->bytes, image);
  EXPECT_EQ(store.image(id)->type, "image/png");
  const auto map = store.map(id);
  ASSERT_TRUE(map);
  EXPECT_EQ(map->grid_w, 3u);
  EXPECT_EQ(map->grid_h, 2u);
  ASSERT_EQ(map->patches.size(), 6u);
  EXPECT_EQ(map->patches[1], -2);
  EXPECT_TRUE(std::isnan(map->patches[2]));
  EXPECT_FALSE(store.find(id + 1));
  EXPECT_FALSE(store.image(id + 1));
  EXPECT_FALSE(store.map(-1));
  EXPECT_FALSE(store.find(add(store, inspection()))->threshold);
}

// Texts that would do harm if they ever became part of a statement, or of a comparison.
const std::vector<std::string> kHostile = {
    "'; DROP TABLE inspection; --",
    "\" OR 1=1",
    "%",
    "_",
    "?1",
    ":name",
    "NULL",
    "",
    "😀 é",
    std::string("a\0b", 3),
    std::string("a\0c", 3),
    "\n\r\t\x01\x7f",
    "line 1 ",
};

TEST_F(StoreTest, HostileTextsAreTexts) {
  Store store(path_);
  for (const std::string& text : kHostile) {
    StoredInspection made = inspection();
    made.task = made.source = text;
    const std::int64_t id = store.add(made, "x", text, {}, 0, 0);
    EXPECT_EQ(store.find(id)->task, text);
    EXPECT_EQ(store.find(id)->source, text);
    EXPECT_EQ(store.image(id)->type, text);
    store.set(text, text);
    EXPECT_EQ(store.get(text), text);
    const std::vector<TaskSample> sample = {{text, 1, 2, 3}};
    store.sample(kTime, sample);
    EXPECT_EQ(store.samples("", 1000).back().sample.task, text);
  }
  for (const std::string& text : kHostile) {
    InspectionFilter by_task;
    by_task.task = text;
    InspectionFilter by_source;
    by_source.source = text;
    EXPECT_EQ(store.list(by_task).size(), 1u) << text;
    EXPECT_EQ(store.list(by_source).size(), 1u) << text;
    EXPECT_EQ(store.scores(text, "good", 10).size(), 1u) << text;
    InspectionFilter by_verdict;
    by_verdict.verdict = text;
    EXPECT_TRUE(store.list(by_verdict).empty()) << text;
  }
  EXPECT_EQ(store.counts().inspections, kHostile.size());
  EXPECT_EQ(store.settings().size(), kHostile.size());
}

TEST_F(StoreTest, WhatIsNotUtf8IsReplacedAndStillFound) {
  Store store(path_);
  StoredInspection made = inspection();
  made.task = "caf\xe9";
  made.source = std::string(200, '\xff');
  const std::int64_t id = add(store, made);
  EXPECT_EQ(store.find(id)->task, "caf\xEF\xBF\xBD");
  EXPECT_EQ(store.find(id)->source.size(), 600u);
  InspectionFilter filter;
  filter.task = "caf\xe9";
  filter.source = made.source;
  EXPECT_EQ(store.list(filter).size(), 1u);
  EXPECT_EQ(store.scores("caf\xe9", "good", 1).size(), 1u);
  store.set("\xff", "\xfe");
  EXPECT_EQ(store.get("\xff"), "\xEF\xBF\xBD");
}

TEST_F(StoreTest, RefusesWhatIsNotAllowed) {
  Store store(":memory:");
  const auto refused = [&](const auto& change) {
    StoredInspection made = inspection();
    change(made);
    return kind_of_refusal([&] { add(store, made); });
  };
  const float nan = std::nanf("");
  EXPECT_EQ(refused([](auto& i) { i.source = std::string(201, 'x'); }), "input");
  EXPECT_EQ(refused([](auto& i) { i.task = std::string(1001, 'x'); }), "input");
  EXPECT_EQ(refused([&](auto& i) { i.score = nan; }), "input");
  EXPECT_EQ(refused([&](auto& i) { i.threshold = nan; }), "input");
  EXPECT_EQ(refused([&](auto& i) { i.latency_ms = std::nan(""); }), "input");
  EXPECT_EQ(refused([](auto& i) { i.verdict = "bad"; }), "input");
  EXPECT_EQ(refused([](auto& i) { i.feedback = "perhaps"; }), "input");
  for (const char* time :
       {"", "now", "2024-05-31T23:59:59Z", "2024-13-31T23:59:59.999Z", "2024-05-31T24:59:59.999Z",
        "2024-05-31 23:59:59.999Z", "2024-05-31T23:59:59.999+", "-024-05-31T23:59:59.999Z"}) {
    EXPECT_EQ(refused([&](auto& i) { i.time = time; }), "input") << time;
    EXPECT_EQ(kind_of_refusal([&] { store.feedback(1, "good", time); }), "input") << time;
  }
  const std::vector<float> five(5);
  EXPECT_EQ(kind_of_refusal([&] { store.add(inspection(), "", "", five, 2, 2); }), "input");
  EXPECT_EQ(kind_of_refusal([&] { store.add(inspection(), "", "", five, 0x80000001, 10); }),
            "input");
  EXPECT_EQ(kind_of_refusal([&] { store.add(inspection(), "", std::string(101, 't'), {}, 0, 0); }),
            "input");
  EXPECT_EQ(kind_of_refusal([&] { store.set(std::string(1201, 'k'), ""); }), "input");
  EXPECT_EQ(kind_of_refusal([&] { store.set("k", std::string(4001, 'v')); }), "input");
  EXPECT_EQ(kind_of_refusal([&] { store.samples("yesterday", 5); }), "input");
  EXPECT_EQ(store.counts().inspections, 0u);
  EXPECT_EQ(add(store, inspection()), 1);
}

TEST_F(StoreTest, ListsNewestFirstByEveryFilter) {
  Store store(":memory:");
  std::mt19937 random(3);
  std::vector<StoredInspection> all;  // oldest first
  const char* verdicts[] = {"good", "defect", "unknown", "uncalibrated"};
  const char* labels[] = {"", "good", "defect"};
  for (int i = 0; i < 300; ++i) {
    StoredInspection made = inspection(verdicts[random() % 4]);
    made.task = std::string(1, static_cast<char>('a' + random() % 3));
    made.source = std::string(1, static_cast<char>('x' + random() % 2));
    made.id = add(store, made);
    const char* label = labels[random() % 3];
    EXPECT_TRUE(store.feedback(made.id, label, kTime));
    made.feedback = label;
    all.push_back(made);
  }
  for (int round = 0; round < 300; ++round) {
    InspectionFilter filter;
    if (random() % 2) filter.verdict = verdicts[random() % 4];
    if (random() % 2) filter.task = std::string(1, static_cast<char>('a' + random() % 4));
    if (random() % 2) filter.source = "x";
    if (random() % 2) filter.feedback = labels[random() % 3];
    if (random() % 2) filter.before = static_cast<std::int64_t>(random() % 310);
    if (random() % 2) filter.after = static_cast<std::int64_t>(random() % 310);
    filter.limit = random() % 40;
    std::vector<std::int64_t> expected;
    for (auto one = all.rbegin(); one != all.rend() && expected.size() < filter.limit; ++one) {
      const bool taken = (!filter.verdict || one->verdict == *filter.verdict) &&
                         (!filter.task || one->task == *filter.task) &&
                         (!filter.source || one->source == *filter.source) &&
                         (!filter.feedback || one->feedback == *filter.feedback) &&
                         (!filter.before || one->id < *filter.before) &&
                         (!filter.after || one->id > *filter.after);
      if (taken) expected.push_back(one->id);
    }
    ASSERT_EQ(ids(store.list(filter)), expected);
  }
  for (int i = 0; i < 300; ++i) add(store, inspection());
  InspectionFilter many;
  many.limit = SIZE_MAX;
  EXPECT_EQ(store.list(many).size(), 500u);
}

// What agrees in several texts may be rare, and far apart.
TEST_F(StoreTest, ListsAcrossThousandsThatDoNotAgree) {
  Store store(":memory:");
  std::vector<std::int64_t> rare;
  for (int i = 0; i < 7000; ++i) {
    StoredInspection made = inspection(i % 2 ? "good" : "defect");
    made.task = i % 2 ? "b" : "a";
    if (i % 2500 == 100) made.task = "b";
    const std::int64_t id = add(store, made);
    if (i % 2500 == 100) rare.insert(rare.begin(), id);
  }
  InspectionFilter filter;
  filter.verdict = "defect";
  filter.task = "b";
  EXPECT_EQ(ids(store.list(filter)), rare);
  filter.limit = 2;
  EXPECT_EQ(ids(store.list(filter)), std::vector(rare.begin(), rare.begin() + 2));
  filter.before = rare[1];
  filter.after = rare[2];
  EXPECT_TRUE(store.list(filter).empty());
  filter.after = rare[2] - 1;
  EXPECT_EQ(ids(store.list(filter)), std::vector(rare.begin() + 2, rare.end()));
}

TEST_F(StoreTest, PagesStayWhileRowsAreAdded) {
  Store store(":memory:");
  for (int i = 0; i < 95; ++i) add(store, inspection());
  std::vector<std::int64_t> seen;
  InspectionFilter page;
  page.limit = 10;
  for (;;) {
    const auto list = ids(store.list(page));
    if (list.empty()) break;
    seen.insert(seen.end(), list.begin(), list.end());
    page.before = list.back();
    for (int i = 0; i < 7; ++i) add(store, inspection());
  }
  ASSERT_EQ(seen.size(), 95u);
  EXPECT_TRUE(std::is_sorted(seen.rbegin(), seen.rend()));
  InspectionFilter news;
  news.after = seen.front();
  news.limit = 500;
  EXPECT_EQ(store.list(news).size(), 70u);
}

// A clock that is put back leaves times out of order, and many may be the same; they are looked at
// some thousands at a time.
TEST_F(StoreTest, TimesAreNarrowedToIds) {
  Store store(path_);
  struct Seen {
    std::int64_t id;
    std::string time;
  };
  std::vector<Seen> all;
  std::mt19937 numbers(3);
  for (int i = 0; i < 12000; ++i) {
    StoredInspection row;
    // Half of them in the one second.
    const auto second = numbers() % 60;
    row.time = fmt::format("2024-05-31T00:{:02}:{:02}.000Z", i / 1000, second);
    if (i % 2 == 0) row.time = "2024-05-31T00:05:30.000Z";
    row.verdict = "good";
    all.push_back({store.add(row, {}, "", {}, 0, 0), row.time});
  }
  const std::vector<std::string> times = {"2024-05-31T00:00:00.000Z", "2024-05-31T00:05:30.000Z",
                                          "2024-05-31T00:05:30.001Z", "2024-05-31T00:07:00.000Z",
                                          "2024-06-30T00:00:00.000Z"};
  for (const auto& since : times) {
    for (const auto& until : times) {
      if (!(since < until)) continue;
      std::int64_t first = 0;
      std::int64_t last = 0;
      for (const Seen& one : all) {
        if (one.time < since || !(one.time < until)) continue;
        if (first == 0) first = one.id;
        last = one.id;
      }
      InspectionFilter filter;
      filter.since = since;
      filter.until = until;
      store.narrow(filter);
      if (first == 0) {
        EXPECT_TRUE(store.list(filter).empty());
        continue;
      }
      EXPECT_EQ(filter.after, first - 1) << since << ' ' << until;
      EXPECT_EQ(filter.before, last + 1) << since << ' ' << until;
    }
  }
}

// The row and the image are, the map is not.
TEST_F(StoreTest, AMapThatIsTooLargeIsNotKept) {
  Store store(path_);
  const std::vector<float> patches((std::size_t{1} << 22) + 2048, 1.0F);
  StoredInspection row;
  row.time = "2024-05-31T23:59:59.999Z";
  row.verdict = "good";
  const auto height = static_cast<std::uint32_t>(patches.size() / 2048);
  const std::int64_t id = store.add(row, "an image", "image/png", patches, 2048, height);
  EXPECT_TRUE(store.image(id));
  EXPECT_FALSE(store.map(id));
}

TEST_F(StoreTest, ScoresAreOfTheTasksLatest) {
  Store store(":memory:");
  for (int i = 0; i < 20; ++i) {
    StoredInspection made = inspection(i % 2 ? "defect" : "good", static_cast<float>(i));
    made.task = i < 10 ? "old" : "new";
    add(store, made);
  }
  EXPECT_EQ(store.scores("new", "good", 3), (std::vector<float>{18, 16, 14}));
  EXPECT_EQ(store.scores("old", "defect", 100), (std::vector<float>{9, 7, 5, 3, 1}));
  EXPECT_TRUE(store.scores("none", "good", 100).empty());
  EXPECT_TRUE(store.scores("new", "good", 0).empty());
}

TEST_F(StoreTest, FeedbackIsWrittenAtOnceAndOthersAreNot) {
  TestClock clock;
  Store store(path_, {}, clock.clock());
  const std::int64_t id = add(store, inspection());
  EXPECT_EQ(elsewhere("SELECT count(*) FROM inspection"), 0);
  EXPECT_TRUE(store.feedback(id, "defect", kTime));
  EXPECT_EQ(elsewhere("SELECT count(*) FROM inspection WHERE feedback = 'defect'"), 1);
  EXPECT_EQ(store.find(id)->feedback, "defect");
  EXPECT_TRUE(store.feedback(id, "", ""));
  EXPECT_EQ(store.find(id)->feedback, "");
  EXPECT_FALSE(store.feedback(id + 1, "good", kTime));
  store.called_good({{id, {kTime, 7}}, {id + 1, {kTime, 8}}});  // there is no other
  EXPECT_EQ(elsewhere("SELECT count(*) FROM inspection WHERE learned AND feedback = 'good'"), 1);
  EXPECT_TRUE(store.feedback(id, "defect", kTime));
  store.called_good({{id, {kTime, 7}}});  // what a person said since stays
  EXPECT_EQ(store.find(id)->feedback, "defect");
  store.learned_up_to(7);
  EXPECT_TRUE(store.find(id)->learned);
  store.learned_up_to(6);  // an older copy of the memory
  EXPECT_FALSE(store.find(id)->learned);
}

TEST_F(StoreTest, IdsThatTheJournalKnowsAreNotGivenAgain) {
  std::int64_t given = 0;
  {
    Store store(path_);
    store.pass_over(41);
    given = add(store, inspection());
    EXPECT_EQ(given, 42);
    store.pass_over(7);
    store.pass_over(std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(add(store, inspection()), 43);
  }
  Store again(path_);
  EXPECT_GT(add(again, inspection()), 43);
}

TEST_F(StoreTest, AFileThatIsGoneKeepsNothing) {
  Store store(path_);
  add(store, inspection());
  fs::rename(path_, path_ + ".away");
  EXPECT_EQ(kind_of_refusal([&] { add(store, inspection()); }), "input");
  EXPECT_EQ(kind_of_refusal([&] { store.feedback(1, "good", kTime); }), "input");
  EXPECT_EQ(kind_of_refusal([&] { store.called_good({{1, {kTime, 1}}}); }), "input");
  fs::rename(path_ + ".away", path_);
  EXPECT_GT(add(store, inspection()), 1);
}

TEST_F(StoreTest, RowsAreWrittenByNumberByTimeAndByFlush) {
  TestClock clock;
  Store store(path_, {}, clock.clock());
  const auto written = [&] { return elsewhere("SELECT count(*) FROM inspection"); };
  for (int i = 0; i < 63; ++i) add(store, inspection());
  EXPECT_EQ(written(), 0);
  EXPECT_EQ(store.counts().pending, 63u);
  EXPECT_EQ(store.list({}).size(), 50u);  // found all the same
  add(store, inspection());
  EXPECT_EQ(written(), 64);
  add(store, inspection());
  clock.now += 199ms;
  store.find(1);
  EXPECT_EQ(written(), 64);
  clock.now += 1ms;
  store.find(1);  // the next call, whatever it is
  EXPECT_EQ(written(), 65);
  add(store, inspection());
  store.flush();
  EXPECT_EQ(written(), 66);
  EXPECT_EQ(store.counts().pending, 0u);
  add(store, inspection(), std::string(5 << 20, 'i'));  // bytes count as well
  EXPECT_EQ(written(), 67);
}

TEST_F(StoreTest, TheOldestImagesGoFirstAndEvidenceLast) {
  Store store(":memory:", {100, 1000, 100});
  for (int i = 1; i <= 10; ++i) ASSERT_EQ(add(store, inspection(), std::string(100, 'i')), i);
  store.feedback(1, "defect", kTime);
  store.feedback(3, "good", kTime);
  EXPECT_EQ(store.counts().evidence_bytes, 100u);
  for (int i = 11; i <= 13; ++i) add(store, inspection(), std::string(100, 'i'));
  const auto kept = [&](std::int64_t id) {
    EXPECT_EQ(store.image(id).has_value(), store.find(id)->has_image);
    return store.find(id)->has_image;
  };
  EXPECT_TRUE(kept(1));
  for (const std::int64_t gone : {2, 3, 4}) EXPECT_FALSE(kept(gone)) << gone;
  for (std::int64_t id = 5; id <= 13; ++id) EXPECT_TRUE(kept(id)) << id;
  EXPECT_EQ(store.counts().inspections, 13u);
  EXPECT_EQ(store.counts().kept_bytes, 1000u);
  // Taken back, it is the oldest.
  store.feedback(1, "good", kTime);
  EXPECT_EQ(store.counts().evidence, 0u);
  add(store, inspection(), std::string(100, 'i'));
  EXPECT_FALSE(kept(1));
  EXPECT_TRUE(kept(5));
  // Larger than all that may be kept: left out, and nothing goes for it.
  EXPECT_FALSE(kept(add(store, inspection(), std::string(1001, 'i'))));
  EXPECT_TRUE(kept(5));
}

TEST_F(StoreTest, EvidenceLeavesRoomForWhatComes) {
  Store store(":memory:", {100, 1000, 100});
  for (int i = 1; i <= 30; ++i) {
    const std::int64_t id = add(store, inspection(), std::string(100, 'i'));
    EXPECT_TRUE(store.find(id)->has_image) << id;
    store.feedback(id, "defect", kTime);
    EXPECT_LE(store.counts().kept_bytes, 1000u);
  }
  EXPECT_GE(store.counts().evidence, 9u);
  Store rows(":memory:", {10, 100000, 100});
  for (int i = 1; i <= 50; ++i) {
    const std::int64_t id = add(rows, inspection(), "image");
    EXPECT_TRUE(rows.find(id)) << id;
    rows.feedback(id, "defect", kTime);
  }
  EXPECT_EQ(rows.counts().inspections, 10u);
}

TEST_F(StoreTest, TheOldestRowsGoWithAllThatIsTheirs) {
  Store store(path_, {20, 1 << 20, 100});
  const std::vector<float> patches(4, 1.0f);
  for (int i = 1; i <= 50; ++i) {  // with both, one or neither
    const auto map = std::span(patches).first(i % 3 == 0 ? 4 : 0);
    store.add(inspection(), i % 2 ? "image" : "", "image/png", map, 2, 2);
    if (i == 3) store.feedback(3, "defect", kTime);
  }
  store.flush();
  EXPECT_EQ(store.counts().inspections, 20u);
  EXPECT_TRUE(store.image(3));
  for (std::int64_t id = 4; id <= 31; ++id) EXPECT_FALSE(store.find(id)) << id;
  for (std::int64_t id = 32; id <= 50; ++id) EXPECT_TRUE(store.find(id)) << id;
  EXPECT_EQ(elsewhere("SELECT count(*) FROM map"), 7);
  EXPECT_EQ(elsewhere("SELECT count(*) FROM image"), 10);
  EXPECT_EQ(elsewhere("SELECT sum(kept_bytes) FROM inspection"),
            static_cast<std::int64_t>(store.counts().kept_bytes));
}

// Whatever happens, the sums that are kept are those of the rows.
TEST_F(StoreTest, TheTallyIsRightAfterAnything) {
  std::mt19937 random(9);
  const char* labels[] = {"", "good", "defect"};
  for (int round = 0; round < 3; ++round) {
    Store store(path_, {50, 4000, 100});
    for (int i = 0; i < 150; ++i) {
      const std::int64_t id = add(store, inspection(), std::string(random() % 400, 'i'));
      if (random() % 3 == 0) {
        store.feedback(id - static_cast<std::int64_t>(random() % 40), labels[random() % 3], kTime);
      }
    }
    store.flush();
    const StoreCounts counts = store.counts();
    EXPECT_LE(counts.inspections, 50u);
    EXPECT_LE(counts.kept_bytes, 4000u);
    const auto same = [&](const std::string& sql, std::size_t value) {
      EXPECT_EQ(elsewhere(sql), static_cast<std::int64_t>(value)) << sql;
    };
    same("SELECT count(*) FROM inspection", counts.inspections);
    same("SELECT sum(length(bytes)) FROM image", counts.kept_bytes);
    same("SELECT sum(kept_bytes) FROM inspection", counts.kept_bytes);
    same("SELECT count(*) FROM inspection WHERE feedback = 'defect' AND has_image",
         counts.evidence);
    same("SELECT total(kept_bytes) FROM inspection WHERE feedback = 'defect'",
         counts.evidence_bytes);
  }
}

TEST_F(StoreTest, TheFileDoesNotGrowWithoutBound) {
  const Retention retention{200, 2 << 20, 64};
  std::mt19937 random(1);
  std::uintmax_t most = 0;
  {
    Store store(path_, retention);
    const std::vector<float> patches(196, 0.5f);
    const std::vector<TaskSample> tasks = {{"a", 1, 2, 3}, {"b", 1, 2, 3}};
    for (int i = 0; i < 2000; ++i) {
      store.add(inspection(), std::string(random() % 20000, 'i'), "image/jpeg", patches, 14, 14);
      store.sample(kTime, tasks);
      most = std::max(most, bytes_on_disk());
    }
    EXPECT_EQ(store.counts().inspections, 200u);
  }
  EXPECT_LT(most, std::uintmax_t{24} << 20);  // the log alone may be 16 MiB
  EXPECT_LT(bytes_on_disk(), std::uintmax_t{4} << 20);
  // Keeping less gives space back, a little with every write.
  Store store(path_, {10, 1 << 10, 64});
  for (int i = 0; i < 100; ++i) {
    add(store, inspection());
    store.flush();
  }
  EXPECT_EQ(store.counts().inspections, 10u);
  EXPECT_LE(store.counts().kept_bytes, 1024u);
}

TEST_F(StoreTest, SpaceIsGivenBack) {
  {
    Store store(path_);
    for (int i = 0; i < 100; ++i) add(store, inspection(), std::string(100000, 'i'));
  }
  EXPECT_GT(bytes_on_disk(), std::uintmax_t{10000000});
  {
    Store store(path_, {100000, 1000, 64});
    for (int i = 0; i < 100; ++i) {
      add(store, inspection());
      store.flush();
    }
  }
  EXPECT_LT(bytes_on_disk(), std::uintmax_t{6000000});
}

TEST_F(StoreTest, SamplesThinOutWithAgeAndAreSpreadEvenly) {
  Store store(":memory:", {10, 10, 16});
  const double nan = std::nan("");
  for (int i = 1; i <= 4096; ++i) {
    const std::string time = "2024-01-01T00:" + std::string(i < 2048 ? "00" : "01") + ":00.000Z";
    const std::vector<TaskSample> tasks = {
        {"a", static_cast<std::uint64_t>(i), i % 2 ? nan : 0.5, 1, nan, 0.25}, {"b", 7, 0, -1}};
    store.sample(time, tasks);
  }
  const auto all = store.samples("", 10000);
  // 8 steps for each doubling, of two tasks.
  EXPECT_LE(all.size(), 2u * 8 * 12);
  EXPECT_GE(all.size(), 2u * 8 * 7);
  std::vector<std::uint64_t> steps;
  for (const auto& one : all) {
    if (one.sample.task != "a") continue;
    steps.push_back(one.sample.vectors);
    EXPECT_EQ(std::isnan(one.sample.certificate), one.sample.vectors % 2 == 1);
    EXPECT_TRUE(std::isnan(one.sample.alarms));
    EXPECT_EQ(one.sample.good, 0.25);
  }
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
  for (std::uint64_t recent = 4096 - 15; recent <= 4096; ++recent) {
    EXPECT_TRUE(std::binary_search(steps.begin(), steps.end(), recent)) << recent;
  }
  for (std::size_t i = 1; i < steps.size(); ++i) {  // no gap is large for its age
    EXPECT_LE(steps[i] - steps[i - 1], 1 + (4096 - steps[i - 1]) / 8) << steps[i];
  }
  const auto some = store.samples("2024-01-01T00:01:00.000Z", 5);
  ASSERT_EQ(some.size(), 10u);
  EXPECT_GE(some.front().sample.vectors, 2048u);
  EXPECT_EQ(some[8].sample.vectors, 4096u);
  EXPECT_EQ(store.samples("", 1)[0].sample.vectors, 4096u);
  EXPECT_TRUE(store.samples("", 0).empty());
  EXPECT_TRUE(store.samples("2025-01-01T00:00:00.000Z", 5).empty());
  EXPECT_THROW(store.sample(kTime, std::vector<TaskSample>(1001)), Error);
}

TEST_F(StoreTest, SettingsStayUntilTheyAreErased) {
  {
    Store store(path_);
    store.set("threshold/bottle", "0.5");
    store.set("threshold/bottle", "0.75");
    store.set("threshold/cable", "1");
    store.erase("threshold/cable");
    store.erase("threshold/none");
  }
  Store store(path_);
  EXPECT_EQ(store.get("threshold/bottle"), "0.75");
  EXPECT_FALSE(store.get("threshold/cable"));
  EXPECT_EQ(store.settings(),
            (std::vector<std::pair<std::string, std::string>>{{"threshold/bottle", "0.75"}}));
}

// Feedback for an inspection that was lost must not reach the next one that gets its number.
TEST_F(StoreTest, AnIdIsNeverGivenTwice) {
  std::int64_t last = 0;
  {
    Store store(path_, {5, 100, 10});
    for (int i = 0; i < 20; ++i) last = add(store, inspection());
  }
  EXPECT_EQ(last, 20);
  {
    Store store(path_);
    EXPECT_EQ(add(store, inspection()), 21);  // closed in good order: no gap
    // What is on disk now is what a power cut would leave.
    fs::copy_file(path_, path_ + ".cut");
    fs::copy_file(path_ + "-wal", path_ + ".cut-wal");
    for (int i = 0; i < 30; ++i) last = add(store, inspection());
  }
  EXPECT_EQ(last, 51);
  Store after(path_ + ".cut");
  EXPECT_GT(add(after, inspection()), last);
}

// Makes the system calls of SQLite fail, as SQLite's own tests do.
class FailingDisk {
 public:
  FailingDisk() {
    sqlite3_vfs* vfs = sqlite3_vfs_find(nullptr);
    real_pwrite = reinterpret_cast<Pwrite>(vfs->xGetSystemCall(vfs, "pwrite"));
    real_pwrite64 = reinterpret_cast<Pwrite>(vfs->xGetSystemCall(vfs, "pwrite64"));
    vfs->xSetSystemCall(vfs, "pwrite", reinterpret_cast<sqlite3_syscall_ptr>(write));
    vfs->xSetSystemCall(vfs, "pwrite64", reinterpret_cast<sqlite3_syscall_ptr>(write64));
    heal();
  }
  ~FailingDisk() {
    sqlite3_vfs* vfs = sqlite3_vfs_find(nullptr);
    vfs->xSetSystemCall(vfs, nullptr, nullptr);
  }
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;

  static void fail_after(int writes) { left = writes; }
  static void heal() { left = -1; }
  static bool failed() { return left == 0; }

 private:
  using Pwrite = ssize_t (*)(int, const void*, size_t, off_t);
  static ssize_t write(int fd, const void* data, size_t bytes, off_t at) {
    return full() ? -1 : real_pwrite(fd, data, bytes, at);
  }
  static ssize_t write64(int fd, const void* data, size_t bytes, off_t at) {
    return full() ? -1 : real_pwrite64(fd, data, bytes, at);
  }
  static bool full() {
    if (left > 0) --left;
    if (left == 0) errno = ENOSPC;
    return left == 0;
  }
  static inline int left = -1;
  static inline Pwrite real_pwrite = nullptr;
  static inline Pwrite real_pwrite64 = nullptr;
};

// The disk fills up at any write there is. Whoever is told that it worked, it did, unless it is
// counted as lost; whatever failed left nothing; and with room again the store goes on.
TEST_F(StoreTest, AFullDiskAtAnyWrite) {
  FailingDisk disk;
  bool reached_end = false;
  for (int writes = 1; !reached_end; writes += 1 + writes / 4) {
    ASSERT_LT(writes, 5000);
    for (const auto& entry : fs::directory_iterator(folder_)) fs::remove(entry);
    Store store(path_, {60, 300000, 100});
    FailingDisk::fail_after(writes);
    std::set<std::int64_t> added;
    std::int64_t labelled = 0;
    std::size_t refused = 0;
    for (int i = 0; i < 150; ++i) {
      try {
        added.insert(add(store, inspection(), std::string(i % 5 == 0 ? 20000 : 0, 'i')));
      } catch (const Error& error) {
        ASSERT_EQ(error.kind(), Error::Kind::kInput) << error.what();
        ASSERT_NE(std::string(error.what()).find("disk is full"), std::string::npos);
        ++refused;
      }
      if (i % 70 == 69 && !added.empty()) {
        try {
          if (store.feedback(*added.rbegin(), "defect", kTime)) labelled = *added.rbegin();
        } catch (const Error& error) {
          ASSERT_EQ(error.kind(), Error::Kind::kInput) << error.what();
        }
      }
    }
    reached_end = !FailingDisk::failed();
    FailingDisk::heal();
    ASSERT_GT(add(store, inspection()), added.empty() ? 0 : *added.rbegin());
    store.flush();
    const StoreCounts counts = store.counts();
    ASSERT_EQ(elsewhere("SELECT count(*) FROM inspection"),
              static_cast<std::int64_t>(counts.inspections));
    ASSERT_EQ(elsewhere("SELECT total(length(bytes)) FROM image"),
              static_cast<std::int64_t>(counts.kept_bytes));
    ASSERT_GE(counts.inspections + counts.lost, std::min<std::size_t>(added.size() + 1, 60));
    ASSERT_EQ(elsewhere("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"),
              1);
    ASSERT_EQ(counts.lost + refused == 0, reached_end);
    if (labelled != 0 && store.find(labelled)) {
      ASSERT_EQ(store.find(labelled)->feedback, "defect");
    }
  }
}

// Those who were told before the disk failed are lost and counted; after that nobody is told that
// an inspection is kept unless it is.
TEST_F(StoreTest, AfterAFailureEachIsToldWhetherItIsKept) {
  FailingDisk disk;
  TestClock clock;
  Store store(path_, {}, clock.clock());
  const auto written = [&] { return elsewhere("SELECT count(*) FROM inspection"); };
  for (int i = 0; i < 3; ++i) add(store, inspection());
  FailingDisk::fail_after(1);
  clock.now += 200ms;
  EXPECT_EQ(kind_of_refusal([&] { store.flush(); }), "input");
  EXPECT_EQ(store.counts().lost, 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(kind_of_refusal([&] { add(store, inspection()); }), "input");
    EXPECT_TRUE(store.list({}).empty());
  }
  EXPECT_EQ(store.counts().lost, 3u);  // the others were told
  FailingDisk::heal();
  EXPECT_EQ(add(store, inspection()), 7);
  EXPECT_EQ(written(), 1);
  add(store, inspection());  // and then in batches again
  EXPECT_EQ(written(), 1);
  EXPECT_EQ(store.counts().pending, 1u);
  // The batch is lost by the add() that would have written it; its own row is not counted.
  FailingDisk::fail_after(1);
  clock.now += 200ms;
  EXPECT_EQ(kind_of_refusal([&] { add(store, inspection()); }), "input");
  EXPECT_EQ(store.counts().lost, 4u);
}

// What the files hold at the moment they are flushed is what a power cut leaves.
TEST_F(StoreTest, APowerCutLeavesWhatWasFlushed) {
  TestClock clock;
  Store store(path_, {}, clock.clock());
  const std::string log = path_ + "-wal";
  int flushes = 0;
  const FlushHook hook([&](const std::string& file) {
    if (file != log) return;
    ++flushes;
    fs::copy_file(path_, path_ + ".cut", fs::copy_options::overwrite_existing);
    fs::copy_file(log, path_ + ".cut-wal", fs::copy_options::overwrite_existing);
  });
  const auto left = [&](std::int64_t id) { return Store(path_ + ".cut").find(id); };
  const std::int64_t first = add(store, inspection());
  store.flush();
  EXPECT_TRUE(left(first));
  const std::int64_t second = add(store, inspection());
  clock.now += 200ms;
  EXPECT_TRUE(store.find(second));  // handed to the system, but not flushed
  EXPECT_FALSE(left(second));
  store.flush();
  EXPECT_TRUE(left(second));
  EXPECT_TRUE(store.feedback(first, "good", kTime));
  EXPECT_EQ(left(first)->feedback, "good");
  const int before = flushes;
  store.flush();  // nothing new
  EXPECT_EQ(flushes, before);
}

// A disk that takes its time holds up those who wait for it, and nobody else.
TEST_F(StoreTest, InspectionsGoOnDuringAFlush) {
  Store store(path_);
  const std::int64_t first = add(store, inspection());
  std::promise<void> began;
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::atomic<bool> once = false;
  const FlushHook hook([&](const std::string&) {
    if (once.exchange(true)) return;
    began.set_value();
    ended.wait();
  });
  auto flushing = std::async(std::launch::async, [&] { store.flush(); });
  began.get_future().wait();
  auto others = std::async(std::launch::async, [&] {
    for (int i = 0; i < 100; ++i) add(store, inspection());
    return store.list({}).size();
  });
  EXPECT_EQ(others.wait_for(20s), std::future_status::ready);
  EXPECT_EQ(flushing.wait_for(0s), std::future_status::timeout);
  end.set_value();
  flushing.get();
  EXPECT_EQ(others.get(), 50u);
  EXPECT_TRUE(store.find(first));
}

TEST_F(StoreTest, WhatIsAddedIsWholeOrNotThere) {
  Store store(path_);
  add(store, inspection());
  // The row fits, its image is more than a row may hold.
  const std::string image((std::size_t{128} << 20) + 1, 'i');
  EXPECT_EQ(kind_of_refusal([&] { add(store, inspection(), image); }), "input");
  EXPECT_FALSE(store.find(2));
  add(store, inspection());
  store.flush();
  EXPECT_EQ(store.counts().inspections, 2u);
  EXPECT_EQ(store.counts().kept_bytes, 0u);
  EXPECT_EQ(store.counts().lost, 0u);
  EXPECT_EQ(elsewhere("SELECT count(*) FROM inspection"), 2);
}

// Rights do not stop the superuser, so the system call has to.
int open_to_read_only(const char* path, int flags, int mode) {
  if ((flags & O_ACCMODE) == O_RDONLY) return ::open(path, flags, mode);
  errno = EACCES;
  return -1;
}

TEST_F(StoreTest, AFileThatMayNotBeWrittenIsRefused) {
  Store(path_).set("a", "b");
  sqlite3_vfs* vfs = sqlite3_vfs_find(nullptr);
  ASSERT_EQ(
      vfs->xSetSystemCall(vfs, "open", reinterpret_cast<sqlite3_syscall_ptr>(open_to_read_only)),
      SQLITE_OK);
  const std::string said = refusal(Error::Kind::kInput);
  vfs->xSetSystemCall(vfs, "open", nullptr);
  EXPECT_NE(said.find("may not be written"), std::string::npos) << said;
  EXPECT_EQ(Store(path_).get("a"), "b");
}

TEST_F(StoreTest, AnotherProgramsLockIsAnErrorThatPasses) {
  Store store(path_);
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_EQ(kind_of_refusal([&] { add(store, inspection()); }), "input");
  EXPECT_TRUE(store.list({}).empty());  // reading goes on
  ASSERT_EQ(sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  EXPECT_TRUE(store.find(add(store, inspection())));
}

TEST_F(StoreTest, KeepsTheReasonAndTheRegions) {
  Store store(path_);
  StoredInspection made = inspection("defect");
  made.reason = "defect: 2 regions, largest 41 × 22 px at (120, 88)";
  made.regions = {{120, 88, 41, 22, 640, 25.5f}, {0, 0, 1, 1, 1, 22.25f}};
  const std::int64_t id = add(store, made);
  const std::int64_t plain = add(store, inspection());
  EXPECT_EQ(store.find(id)->reason, made.reason);
  EXPECT_EQ(store.find(id)->regions, made.regions);
  EXPECT_TRUE(store.find(plain)->regions.empty());
  made.regions.resize(17);
  EXPECT_THROW(add(store, made), Error);
  made.regions.resize(16, {1u << 31, 1u << 31, 1u << 31, 1u << 31, std::size_t{1} << 62, 1e-30f});
  EXPECT_EQ(store.find(add(store, made))->regions, made.regions);
  made.regions = {{0, 0, 1, 1, 1, std::numeric_limits<float>::infinity()}};
  EXPECT_THROW(add(store, made), Error);
  made.regions.clear();
  made.reason.assign(1001, 'x');
  EXPECT_THROW(add(store, made), Error);
}

// Whatever a file says of regions, an inspection can be read.
TEST_F(StoreTest, RegionsThatAreNoneAreLeftOut) {
  std::int64_t id = 0;
  {
    Store store(path_);
    id = add(store, inspection());
  }
  for (const char* text :
       {"x", "{}", "[1]", "[[1,2,3,4,5]]", "[[1,2,3,4,-5,6]]", "[[1,2,3,4,5,\"6\"]]", "[[[[[["}) {
    elsewhere(fmt::format("UPDATE inspection SET regions = '{}'", text));
    EXPECT_TRUE(Store(path_).find(id)->regions.empty()) << text;
  }
  elsewhere("UPDATE inspection SET regions = '[[1,2,3,4,5,6.5]]'");
  EXPECT_EQ(Store(path_).find(id)->regions, (std::vector<Region>{{1, 2, 3, 4, 5, 6.5f}}));
}

// The first version had neither reasons nor regions, nor alarms in its samples, and said "unknown"
// where there was no threshold.
TEST_F(StoreTest, BringsTheFirstVersionUpToDate) {
  std::int64_t id = 0;
  {
    Store store(path_);
    id = add(store, inspection("uncalibrated"));
    add(store, inspection("defect"));
    store.sample(kTime, std::vector<TaskSample>{{"bottle", 1, 2, 3}});
  }
  put_back_to_first_version();
  elsewhere("UPDATE inspection SET verdict = 'unknown' WHERE verdict = 'uncalibrated'");
  for (int again = 0; again < 2; ++again) {
    Store store(path_);
    EXPECT_EQ(store.find(id)->verdict, "uncalibrated");
    EXPECT_EQ(store.find(id + 1)->verdict, "defect");
    EXPECT_EQ(store.find(id)->reason, "");
    EXPECT_EQ(store.samples("", 10)[0].sample.drift, 3);
    EXPECT_TRUE(std::isnan(store.samples("", 10)[0].sample.alarms));
    EXPECT_EQ(store.find(add(store, inspection("unknown")))->verdict, "unknown");
  }
}

TEST_F(StoreTest, RefusesOtherFiles) {
  std::ofstream(path_) << std::string(5000, 'x');
  EXPECT_NE(refusal(Error::Kind::kDamaged).find("not a database"), std::string::npos);
  EXPECT_EQ(fs::file_size(path_), 5000u);
  fs::remove(path_);
  elsewhere("CREATE TABLE theirs(x)");
  EXPECT_NE(refusal(Error::Kind::kInput).find("another program"), std::string::npos);
  fs::remove(path_);
  Store(path_).set("a", "b");
  const std::int64_t version = elsewhere("PRAGMA user_version");
  elsewhere(fmt::format("PRAGMA user_version = {}", version + 1));
  EXPECT_NE(refusal(Error::Kind::kInput).find("newer"), std::string::npos);
  elsewhere("PRAGMA user_version = 0");
  EXPECT_NE(refusal(Error::Kind::kDamaged).find("never was"), std::string::npos);
  elsewhere(fmt::format("PRAGMA user_version = {}", version));
  EXPECT_EQ(Store(path_).get("a"), "b");
  elsewhere("ALTER TABLE inspection DROP COLUMN width");
  EXPECT_NE(refusal(Error::Kind::kDamaged).find("width"), std::string::npos);
  fs::remove(path_);
  fs::create_directory(path_);
  EXPECT_NE(refusal(Error::Kind::kInput), "taken");
  EXPECT_THROW(Store("/nowhere/at/all/store.db"), Error);
  EXPECT_THROW(Store(""), Error);
  EXPECT_THROW(Store(std::string("a\0b", 3)), Error);
}

TEST_F(StoreTest, AnEarlierVersionHasNoStations) {
  {
    Store store(path_);
    add(store, inspection("uncalibrated"), "image");
    add(store, inspection("defect"));
    store.feedback(2, "defect", kTime);
    store.set("a", "b");
  }
  put_back_to_first_version();
  for (int opened = 0; opened < 2; ++opened) {
    Store store(path_);
    ASSERT_EQ(store.list({}).size(), 2u);
    EXPECT_EQ(store.find(1)->verdict, "uncalibrated");
    EXPECT_EQ(store.find(2)->feedback, "defect");
    EXPECT_EQ(store.find(1)->station, "");
    EXPECT_EQ(store.image(1)->bytes, "image");
    EXPECT_EQ(store.get("a"), "b");
  }
  Store store(path_);
  StoredInspection made = inspection();
  made.station = "press 4";
  EXPECT_EQ(store.find(add(store, made))->station, "press 4");
}

// A disk that fails in the middle of it must not leave half a version.
TEST_F(StoreTest, AnUpgradeThatFailsLeavesTheEarlierVersion) {
  {
    Store store(path_);
    add(store, inspection());
  }
  put_back_to_first_version();
  elsewhere("DROP INDEX inspection_verdict");
  elsewhere("DROP INDEX inspection_score");
  elsewhere("ALTER TABLE inspection DROP COLUMN verdict");  // the second step needs it
  EXPECT_THROW(Store{path_}, Error);
  EXPECT_EQ(elsewhere("PRAGMA user_version"), 1);
  EXPECT_EQ(elsewhere("SELECT count(*) FROM pragma_table_info('inspection') WHERE name = "
                      "'reason'"),
            0);
}

StoredInspection at(const std::string& station, const std::string& time,
                    const std::string& verdict = "good") {
  StoredInspection made = inspection(verdict);
  made.station = station;
  made.time = time;
  return made;
}

std::string counted(Store& store, const std::string& since) {
  std::string text;
  for (const StationCounts& one : store.stations(since)) {
    text += fmt::format("{}:{}/{}/{}/{}@{} ", one.name, one.good, one.defect, one.unknown,
                        one.uncalibrated, one.latest);
  }
  return text;
}

TEST_F(StoreTest, StationsAreCountedSinceTheShiftBegan) {
  constexpr char kShift[] = "2024-05-31T06:00:00.000Z";
  {
    Store store(path_);
    EXPECT_EQ(counted(store, kShift), "");
    add(store, at("é 4", "2024-05-31T05:59:59.999Z"));
    add(store, at("é 4", kShift, "defect"));
    add(store, at("", "2024-05-31T06:00:00.001Z"));
    add(store, at("b", "2024-05-31T05:00:00.000Z"));
    EXPECT_EQ(counted(store, kShift), ":1/0/0/0@3 b:0/0/0/0@4 é 4:0/1/0/0@2 ");
    add(store, at("b", "2024-05-31T07:00:00.000Z", "unknown"));
    add(store, at("b", "2024-05-31T07:00:00.000Z", "uncalibrated"));
    EXPECT_EQ(counted(store, kShift), ":1/0/0/0@3 b:0/0/1/1@6 é 4:0/1/0/0@2 ");
    // Another shift begins anew; the same counts come from the rows.
    EXPECT_EQ(counted(store, "2024-05-31T06:30:00.000Z"), ":0/0/0/0@3 b:0/0/1/1@6 é 4:0/0/0/0@2 ");
    InspectionFilter filter;
    filter.station = "b";
    EXPECT_EQ(ids(store.list(filter)), (std::vector<std::int64_t>{6, 5, 4}));
  }
  Store store(path_);
  EXPECT_EQ(counted(store, kShift), ":1/0/0/0@3 b:0/0/1/1@6 é 4:0/1/0/0@2 ");
  EXPECT_EQ(kind_of_refusal([&] { store.stations("yesterday"); }), "input");
  EXPECT_EQ(kind_of_refusal([&] { add(store, at(std::string(201, 'x'), kShift)); }), "input");
}

// The rows of a long shift may be gone before it ends.
TEST_F(StoreTest, StationsCountWhatIsNotKeptAnyMore) {
  Store store(path_, {5, 1 << 20, 10});
  EXPECT_EQ(counted(store, "2024-01-01T00:00:00.000Z"), "");
  for (int i = 0; i < 12; ++i) add(store, at("a", kTime));
  EXPECT_EQ(store.list({}).size(), 5u);
  EXPECT_EQ(counted(store, "2024-01-01T00:00:00.000Z"), "a:12/0/0/0@12 ");
}

// A client may name another with every image.
TEST_F(StoreTest, OnlyTheLatestThousandStationsAreListed) {
  Store store(path_);
  for (int i = 0; i < 500; ++i) add(store, at(fmt::format("before {:04}", i), kTime));
  EXPECT_EQ(store.stations(kTime).size(), 500u);
  for (int i = 0; i < 700; ++i) add(store, at(fmt::format("{:04}", i), kTime));
  const auto list = store.stations(kTime);
  EXPECT_EQ(list.size(), 1000u);
  EXPECT_EQ(list.front().name, "0000");
  EXPECT_EQ(list.back().name, "before 0499");
  EXPECT_EQ(list[700].name, "before 0200");
  EXPECT_EQ(store.stations("2024-01-01T00:00:00.000Z").size(), 1000u);
}

TEST_F(StoreTest, ANameIsNeverAUrl) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  {
    Store store("file:x.db?mode=memory");
    store.set("a", "b");
  }
  fs::current_path(before);
  EXPECT_TRUE(fs::exists(folder_ / "file:x.db?mode=memory"));
}

// Triggers in the file are code that somebody else wrote.
TEST_F(StoreTest, TriggersInTheFileDoNotRun) {
  { Store store(path_); }
  elsewhere("CREATE TRIGGER t AFTER INSERT ON inspection BEGIN DELETE FROM inspection; END");
  Store store(path_);
  EXPECT_TRUE(store.find(add(store, inspection())));
}

TEST_F(StoreTest, AnyFileGivesAnAnswer) {
  {
    Store store(path_, {100, 1 << 20, 10});
    const std::vector<float> patches(16, 1.0f);
    for (int i = 0; i < 20; ++i) {
      store.add(inspection(), std::string(3000, 'i'), "image/png", patches, 4, 4);
    }
    store.set("a", "b");
  }
  std::ifstream file(path_, std::ios::binary);
  const std::string original{std::istreambuf_iterator<char>(file), {}};
  std::mt19937 random(17);
  for (int round = 0; round < 50; ++round) {
    std::string bytes = original;
    for (unsigned change = 1 + random() % 8; change-- > 0;) {
      // Mostly in the heads of pages, where the structure is.
      const std::size_t page = random() % (bytes.size() / 4096) * 4096;
      const std::size_t at = page + random() % (random() % 2 ? 4096 : 64);
      bytes[at] = static_cast<char>(random());
    }
    if (random() % 10 == 0) bytes.resize(random() % bytes.size());
    for (const auto& entry : fs::directory_iterator(folder_)) fs::remove(entry);
    std::ofstream(path_, std::ios::binary) << bytes;
    try {
      Store store(path_, {10, 1 << 14, 10});
      for (std::int64_t id = 1; id <= 20; ++id) {
        store.image(id);
        store.map(id);
      }
      store.list({});
      add(store, inspection(), "image");
      store.feedback(3, "defect", kTime);
      store.flush();
    } catch (const Error&) {
    }
  }
}

TEST_F(StoreTest, AnyThreadMayCall) {
  Store store(path_, {500, 1 << 16, 20});
  std::atomic<int> missing{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<TaskSample> sample = {{"a", 1, 2, 3}};
      for (int i = 0; i < 100; ++i) {
        const std::int64_t id = add(store, inspection(), t == 0 ? "image" : "");
        if (!store.find(id)) ++missing;
        store.list({});
        if (i % 20 == 0) store.feedback(id, "good", kTime);
        if (i % 30 == 0) store.flush();
        store.sample(kTime, sample);
        store.counts();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(missing, 0);
  EXPECT_EQ(store.counts().inspections, 400u);
  EXPECT_EQ(store.counts().lost, 0u);
}

}  // namespace
}  // namespace contcore
