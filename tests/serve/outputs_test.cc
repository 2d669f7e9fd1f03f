// What the store counts for the outputs, against a naive account; and how many verdicts go out.
#include "serve/outputs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "contcore/error.h"
#include "serve/http.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

class OutputsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "contcore_outputs_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = (folder_ / "line.db").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::int64_t add(Store& store, const std::string& feedback = "") {
    StoredInspection row;
    row.time = "2024-05-31T23:59:59.999Z";
    row.task = "bottle";
    row.score = 1.5F;
    row.verdict = "good";
    row.feedback = feedback;
    if (!feedback.empty()) row.feedback_time = row.time;
    return store.add(row, "an image", "image/png", {}, 0, 0);
  }
  static StoredOutput counts_of(Store& store, const std::string& name) {
    for (StoredOutput& output : store.outputs()) {
      if (output.name == name) return output;
    }
    ADD_FAILURE() << name << " is not there";
    return {};
  }
  // What another process finds when this one is killed now.
  void copy_to(const std::string& path) const {
    for (const char* end : {"", "-wal"}) {
      fs::copy_file(path_ + end, path + end, fs::copy_options::overwrite_existing);
    }
  }

  fs::path folder_;
  std::string path_;
};

// Adds, takes, settles, ends and is killed, in any order; rows go for want of room and because too
// many wait. Each verdict is delivered or counted, in order, whatever happens.
TEST_F(OutputsTest, WhatIsAddedIsDeliveredOrDroppedOrWaits) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 numbers(seed);
    Retention retention;
    retention.inspections = 5 + numbers() % 40;
    const std::size_t most = 1 + numbers() % 40;
    const std::vector<std::string> names = {"a"};
    std::string path = (folder_ / fmt::format("{}-0.db", seed)).string();
    auto store = std::make_unique<Store>(path, retention);
    add(*store);  // before there was an output
    store->use_outputs(names, most);
    std::set<std::int64_t> added;
    std::set<std::int64_t> delivered;
    std::deque<std::int64_t> at_hand;
    std::int64_t latest = 0;  // that was taken since the start
    std::size_t refused = 0;
    std::size_t kills = 0;
    const auto settle = [&] {
      const std::int64_t id = at_hand.front();
      at_hand.pop_front();
      OutputReport report;
      report.last = id;
      report.rows = 1;
      if (numbers() % 10 == 0) {
        report.dropped = 1;
        ++refused;
      } else {
        report.delivered = 1;
        delivered.insert(id);
      }
      store->settle("a", report);
    };
    const auto take = [&](std::size_t n) {
      const auto rows = store->take("a", n, kAll);
      for (const StoredInspection& row : rows) {
        EXPECT_GT(row.id, latest);
        latest = row.id;
        EXPECT_TRUE(added.contains(row.id));
        at_hand.push_back(row.id);
      }
      return rows.size();
    };
    for (int step = 0; step < 400; ++step) {
      const auto what = numbers() % 100;
      if (what < 55) {
        added.insert(add(*store, numbers() % 8 == 0 ? "defect" : ""));
      } else if (what < 75) {
        take(1 + numbers() % 5);
      } else if (what < 96) {
        if (!at_hand.empty()) settle();
      } else {
        const bool killed = numbers() % 2 == 0;
        const std::string before = path;
        if (killed) {
          path = (folder_ / fmt::format("{}-{}.db", seed, ++kills)).string();
          path_ = before;
          copy_to(path);
        }
        store.reset();
        store = std::make_unique<Store>(path, retention);
        EXPECT_TRUE(store->use_outputs(names, most).empty());
        at_hand.clear();
        latest = 0;
      }
      const StoredOutput now = counts_of(*store, "a");
      ASSERT_EQ(now.waiting + now.delivered + now.dropped, added.size())
          << "seed " << seed << ", step " << step;
      ASSERT_LE(now.waiting, most + at_hand.size() + 1);
    }
    for (;;) {
      while (!at_hand.empty()) settle();
      if (take(3) == 0) break;
    }
    const StoredOutput end = counts_of(*store, "a");
    EXPECT_EQ(end.waiting, 0U) << "seed " << seed;
    EXPECT_GE(end.dropped + delivered.size(), added.size()) << "seed " << seed;
    EXPECT_GE(end.dropped, refused) << "seed " << seed;
  }
}

TEST_F(OutputsTest, AnOutputThatIsNotNamedIsForgotten) {
  Store store(path_);
  store.use_outputs(std::vector<std::string>{"a", "b"}, 10);
  add(store);
  const auto gone = store.use_outputs(std::vector<std::string>{"b", "c"}, 10);
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].name, "a");
  EXPECT_EQ(gone[0].waiting, 1U);
  EXPECT_EQ(counts_of(store, "b").waiting, 1U);
  EXPECT_EQ(counts_of(store, "c").waiting, 0U);
  EXPECT_TRUE(store.take("c", 10, kAll).empty());
  EXPECT_EQ(store.take("b", 10, kAll).size(), 1U);
}

// Without an output it may wait in memory, with one it is the system's.
TEST_F(OutputsTest, WhatIsAcknowledgedOutlastsTheProcess) {
  Store store(path_);
  store.use_outputs(std::vector<std::string>{"a"}, 10);
  for (int i = 0; i < 5; ++i) {
    const std::int64_t id = add(store);
    const std::string copy = (folder_ / "copy.db").string();
    copy_to(copy);
    Store after(copy);
    EXPECT_TRUE(after.find(id));
  }
}

TEST_F(OutputsTest, StoresAreToldApart) {
  const std::vector<std::string> names = {"a"};
  const auto series_of = [&](const std::string& path) {
    Store store(path);
    store.use_outputs(names, 10);
    return store.series();
  };
  const std::string series = series_of(path_);
  EXPECT_EQ(series.size(), 16U);
  EXPECT_EQ(series_of(path_), series);
  EXPECT_NE(series_of((folder_ / "other.db").string()), series);
  // Both go on to give the same ids.
  const std::string copy = (folder_ / "copy.db").string();
  fs::copy_file(path_, copy);
  const std::string copys = series_of(copy);
  EXPECT_NE(copys, series);
  EXPECT_EQ(series_of(copy), copys);
  const std::string moved = (folder_ / "moved.db").string();
  fs::rename(path_, moved);
  EXPECT_EQ(series_of(moved), series);
}

// The file is the same one and its bytes are those of a copy: ids are given again.
TEST_F(OutputsTest, KeysAreOthersInADatabaseThatWasPutBack) {
  const std::vector<std::string> names = {"a"};
  { Store(path_).use_outputs(names, 10); }
  const std::string copy = (folder_ / "copy.db").string();
  fs::copy_file(path_, copy);
  std::set<std::string> keys;
  std::set<std::int64_t> ids;
  for (int round = 0; round < 2; ++round) {
    fs::copy_file(copy, path_, fs::copy_options::overwrite_existing);
    StoredInspection row;
    row.time = fmt::format("2024-05-31T23:59:59.00{}Z", round);
    row.verdict = "good";
    std::string key;
    for (int starts = 0; starts < 2; ++starts) {
      Store store(path_);
      store.use_outputs(names, 10);
      OutputQueue queue(store, "a", nullptr);
      if (starts == 0) ids.insert(store.add(row, "", "", {}, 0, 0));
      const auto taken = queue.take(10);  // and it ends before they are delivered
      ASSERT_EQ(taken.size(), 1U);
      if (starts == 0) key = taken[0].key;
      EXPECT_EQ(taken[0].key, key);
    }
    keys.insert(key);
  }
  EXPECT_EQ(ids.size(), 1U);
  EXPECT_EQ(keys.size(), 2U);
}

// What the store did not take waits in memory: it is sent, or counted as dropped at the end.
TEST_F(OutputsTest, WhatWasNotKeptIsCountedAtTheEnd) {
  const std::vector<std::string> names = {"a"};
  std::string notes;
  {
    Store store(path_);
    store.use_outputs(names, 10);
    OutputQueue queue(store, "a", [&](const std::string& text) { notes += text + "\n"; });
    StoredInspection row;
    row.verdict = "good";
    row.time = "2024-05-31T23:59:59.999Z";
    for (int i = 0; i < 1003; ++i) {
      row.source = std::to_string(i);
      queue.unkept(row, "key " + row.source);
    }
    EXPECT_EQ(queue.state().waiting, 1000U);
    EXPECT_EQ(queue.state().dropped, 3U);
    // The oldest went.
    const Delivery first = queue.take(1).at(0);
    EXPECT_EQ(nlohmann::json::parse(first.body)["source"], "3");
    EXPECT_EQ(nlohmann::json::parse(first.body)["delivery"], "key 3");
    EXPECT_EQ(queue.state().waiting, 1000U);
    queue.delivered(first);
    EXPECT_EQ(queue.state().waiting, 999U);
    EXPECT_EQ(queue.take(1).size(), 1U);  // at hand when it ends
    queue.close();
    EXPECT_EQ(queue.state().waiting, 0U);
    EXPECT_NE(notes.find("999 verdicts were dropped"), std::string::npos) << notes;
  }
  Store store(path_);
  store.use_outputs(names, 10);
  EXPECT_EQ(counts_of(store, "a").waiting, 0U);
  EXPECT_EQ(counts_of(store, "a").delivered, 1U);
  EXPECT_EQ(counts_of(store, "a").dropped, 1002U);
}

TEST_F(OutputsTest, ManyVerdictsGoOutInTheirOrder) {
  const char* asked = std::getenv("CONTCORE_TEST_VERDICTS");
  const std::size_t verdicts = asked != nullptr ? std::strtoul(asked, nullptr, 10) : 300;
  std::mutex mutex;
  std::condition_variable came;
  std::vector<std::int64_t> ids;
  HttpServer server(
      "127.0.0.1", std::uint16_t{0}, {}, [](const HttpRequest&) { return HttpAdmission{}; },
      [&](HttpRequest&& request, HttpReply reply) {
        {
          const std::lock_guard lock(mutex);
          ids.push_back(nlohmann::json::parse(request.body)["id"].get<std::int64_t>());
        }
        came.notify_one();
        HttpResponse response;
        response.status = 200;
        reply.send(std::move(response));
      });
  Store store(path_);
  OutputOptions options;
  options.addresses = {parse_webhook(fmt::format("http://127.0.0.1:{}/", server.port()))};
  options.webhook_secret = "a secret";
  Outputs outputs(options, store, {});
  const auto begun = std::chrono::steady_clock::now();
  std::vector<std::int64_t> added;
  for (std::size_t i = 0; i < verdicts; ++i) {
    StoredInspection row;
    row.time = "2024-05-31T23:59:59.999Z";
    row.score = 1.5F;
    row.verdict = "defect";
    row.reason = "defect: 1 region";
    row.regions = {Region{1, 2, 3, 4, 5, 6.5F}};
    row.id = store.add(row, "an image", "image/png", {}, 0, 0);
    added.push_back(row.id);
    outputs.came(row);
  }
  {
    std::unique_lock lock(mutex);
    came.wait_for(lock, 120s, [&] { return ids.size() >= verdicts; });
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  if (asked != nullptr) {
    fmt::print("{} verdicts in {:.2f} s: {:.0f} a minute\n", verdicts, seconds,
               60 * static_cast<double>(verdicts) / seconds);
  }
  outputs.stop();
  EXPECT_EQ(ids, added);
  const std::vector<OutputState> states = outputs.states();
  ASSERT_EQ(states.size(), 1U);
  EXPECT_EQ(states[0].delivered, verdicts);
  EXPECT_EQ(states[0].waiting, 0U);
}

}  // namespace
}  // namespace contcore
