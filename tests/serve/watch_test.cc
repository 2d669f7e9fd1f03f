#include "serve/watch.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "contcore/error.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kPatience = 120s;

// A folder that is watched; what is handed over is done at once unless it is held.
class WatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string made = (fs::temp_directory_path() / "contcore_watch_XXXXXX").string();
    ASSERT_NE(::mkdtemp(made.data()), nullptr);
    base_ = made;
    folder_ = base_ / "camera";
    fs::create_directory(folder_);
    limits_.unchanged = 30ms;
    limits_.rescan = 1h;  // so that nothing but what is tested finds a file
    limits_.retry = 20ms;
  }
  void TearDown() override {
    watch_.reset();
    fs::remove_all(base_);
  }

  void start() {
    WatchHooks hooks;
    hooks.inspect = [this](const std::string& path, const std::string& name,
                           const WatchHooks::Done& done) {
      std::unique_lock lock(mutex_);
      came_.notify_all();
      ++asked_;
      changed_.wait(lock, [&] { return !blocked_; });
      if (full_) return false;
      taken_.emplace_back(name);
      if (held_) {
        undone_ = [done, path] { done(mark_of(path)); };
      } else {
        done(mark_of(path));
      }
      came_.notify_all();
      return true;
    };
    hooks.flush = [] {};
    hooks.note = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      notes_.push_back(text);
      came_.notify_all();
    };
    hooks.report = [this](const WatchState& state) {
      const std::lock_guard lock(mutex_);
      state_ = state;
      ++turns_;
      came_.notify_all();
    };
    watch_ = std::make_unique<Watch>(folder_.string(), (base_ / "list").string(), hooks, limits_);
  }

  void put(const std::string& name, const std::string& text = "x") {
    std::ofstream(folder_ / name) << text;
  }

  template <typename Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return came_.wait_for(lock, kPatience, condition);
  }
  bool wait_taken(std::size_t n) {
    return wait([&] { return taken_.size() >= n; });
  }
  // Until the watch has gone round with nothing left to do.
  bool wait_idle() {
    const std::size_t now = turns();
    return wait([&] { return turns_ > now + 3 && state_.waiting == 0; });
  }
  std::size_t turns() {
    const std::lock_guard lock(mutex_);
    return turns_;
  }
  void set(bool& what, bool value) {
    const std::lock_guard lock(mutex_);
    what = value;
    changed_.notify_all();
  }
  bool noted(const std::string& words) {
    return wait([&] {
      return std::any_of(notes_.begin(), notes_.end(), [&](const std::string& note) {
        return note.find(words) != std::string::npos;
      });
    });
  }
  std::multiset<std::string> taken() {
    const std::lock_guard lock(mutex_);
    return {taken_.begin(), taken_.end()};
  }

  fs::path base_, folder_;
  WatchLimits limits_;
  std::mutex mutex_;
  std::condition_variable came_, changed_;
  std::vector<std::string> taken_, notes_;
  std::function<void()> undone_;
  WatchState state_;
  std::size_t turns_ = 0, asked_ = 0;
  bool blocked_ = false, full_ = false, held_ = false;
  std::unique_ptr<Watch> watch_;
};

TEST_F(WatchTest, WhatWaitsAtTheStartIsInspectedOldestFirst) {
  const auto now = fs::file_time_type::clock::now();
  for (const char* name : {"c.png", "a.png", "b.png"}) put(name);
  put("notes.txt");
  fs::last_write_time(folder_ / "b.png", now - 3h);
  fs::last_write_time(folder_ / "c.png", now - 2h);
  fs::last_write_time(folder_ / "a.png", now - 1h);
  start();
  ASSERT_TRUE(wait_taken(3));
  ASSERT_TRUE(wait_idle());
  EXPECT_EQ(taken_, (std::vector<std::string>{"b.png", "c.png", "a.png"}));
}

// The kernel keeps 16,384 events by default; the reader stands still until it has dropped some.
TEST_F(WatchTest, EventsThatTheKernelLostAreMadeUpFor) {
  std::size_t most = 0;
  std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> most;
  ASSERT_GT(most, 0u);
  if (most > 100000) GTEST_SKIP() << "the kernel keeps " << most << " events";
  blocked_ = true;
  start();
  put("first.png");
  ASSERT_TRUE(wait([&] { return asked_ > 0; }));
  const std::size_t n = most + most / 2;
  std::multiset<std::string> right = {"first.png"};
  for (std::size_t i = 0; i < n; ++i) {
    const std::string name = "part" + std::to_string(i) + ".png";
    put(name);
    right.insert(name);
  }
  set(blocked_, false);
  ASSERT_TRUE(noted("more files came"));
  ASSERT_TRUE(wait_taken(n + 1));
  ASSERT_TRUE(wait_idle());
  EXPECT_EQ(taken(), right);
}

TEST_F(WatchTest, MoreThanMayWaitIsFoundLater) {
  limits_.waiting = 10;
  full_ = true;
  put("early.png");
  start();
  ASSERT_TRUE(wait([&] { return asked_ > 0; }));
  std::multiset<std::string> right = {"early.png"};
  for (int i = 0; i < 100; ++i) {
    const std::string name = "part" + std::to_string(i) + ".png";
    put(name);
    right.insert(name);
  }
  const std::size_t now = turns();
  ASSERT_TRUE(wait([&] { return turns_ > now + 20; }));  // it goes round, full as all is
  {
    const std::lock_guard lock(mutex_);
    EXPECT_LE(state_.waiting, 20u);
    EXPECT_TRUE(taken_.empty());
  }
  set(full_, false);
  ASSERT_TRUE(wait_taken(101));
  ASSERT_TRUE(wait_idle());
  EXPECT_EQ(taken(), right);
}

TEST_F(WatchTest, ARestartTakesWhatCameMeanwhileAndNothingTwice) {
  put("old.png");
  put("changed.png");
  put("odd\n1 2 3 name.png");
  start();
  put("seen.png");
  ASSERT_TRUE(wait_taken(4));
  ASSERT_TRUE(wait_idle());
  watch_.reset();
  taken_.clear();
  put("changed.png", "other");
  put("new.png");
  // Moved here from elsewhere, and older than all that was seen.
  std::ofstream(base_ / "moved.png") << "x";
  fs::last_write_time(base_ / "moved.png", fs::file_time_type::clock::now() - 24h);
  fs::rename(base_ / "moved.png", folder_ / "moved.png");
  start();
  ASSERT_TRUE(wait_taken(3));
  ASSERT_TRUE(wait_idle());
  EXPECT_EQ(taken(), (std::multiset<std::string>{"changed.png", "moved.png", "new.png"}));
  watch_.reset();
  taken_.clear();
  start();
  ASSERT_TRUE(wait_idle());
  put("last.png");
  ASSERT_TRUE(wait_taken(1));
  EXPECT_EQ(taken(), std::multiset<std::string>{"last.png"});
}

TEST_F(WatchTest, WrittenAgainIsInspectedAgain) {
  held_ = true;
  start();
  put("part.png", "1");
  ASSERT_TRUE(wait_taken(1));
  put("part.png", "22");  // while the first is at work
  const std::size_t now = turns();
  ASSERT_TRUE(wait([&] { return turns_ > now + 2; }));
  EXPECT_EQ(taken_.size(), 1u);
  held_ = false;
  const auto old = mark_of((folder_ / "part.png").string());
  put("part.png", "333");
  ASSERT_NE(old, mark_of((folder_ / "part.png").string()));
  put("part.png", "4444");
  undone_();
  // What was done is of the file as it is now, so nothing is left to do; then it is written again.
  ASSERT_TRUE(wait_idle());
  put("part.png", "55555");
  ASSERT_TRUE(wait_taken(2));
  ASSERT_TRUE(wait_idle());
  EXPECT_EQ(taken_.size(), 2u);
}

// A scan sees a file that is being written; it is taken when it is closed, once.
TEST_F(WatchTest, AFileThatIsStillWrittenIsLeftAlone) {
  limits_.unchanged = 500ms;
  std::ofstream slow(folder_ / "slow.png");
  slow << "begin" << std::flush;
  start();
  ASSERT_TRUE(wait([&] { return state_.waiting == 1; }));
  slow << "end" << std::flush;
  slow.close();
  ASSERT_TRUE(wait_taken(1));
  ASSERT_TRUE(wait_idle());
  EXPECT_EQ(taken_.size(), 1u);
}

TEST_F(WatchTest, AFolderThatGoesAndComesBack) {
  start();
  put("one.png");
  ASSERT_TRUE(wait_taken(1));
  for (const bool moved : {true, false}) {
    {
      const std::lock_guard lock(mutex_);
      notes_.clear();
    }
    if (moved) {
      fs::rename(folder_, base_ / "elsewhere");
      std::ofstream(base_ / "elsewhere" / "stray.png") << "x";
    } else {
      fs::remove_all(folder_);
    }
    ASSERT_TRUE(noted("the folder is gone"));
    ASSERT_TRUE(wait([&] { return !state_.there; }));
    fs::create_directory(folder_);
    put(moved ? "two.png" : "three.png");
    ASSERT_TRUE(noted("the folder is back"));
    ASSERT_TRUE(wait_taken(moved ? 2 : 3));
  }
  ASSERT_TRUE(wait_idle());
  put("four.png");
  ASSERT_TRUE(wait_taken(4));
  EXPECT_EQ(taken_, (std::vector<std::string>{"one.png", "two.png", "three.png", "four.png"}));
}

// Shares that other machines write to send no events.
TEST_F(WatchTest, TheFolderIsSearchedFromTimeToTime) {
  limits_.rescan = 20ms;
  std::ofstream(base_ / "file.png") << "x";
  start();
  ASSERT_TRUE(wait_idle());
  fs::create_hard_link(base_ / "file.png",
                       folder_ / "linked.png");  // no event that is listened for
  ASSERT_TRUE(wait_taken(1));
  ASSERT_TRUE(wait_idle());
  EXPECT_EQ(taken(), std::multiset<std::string>{"linked.png"});
}

TEST_F(WatchTest, AFolderThatIsNot) {
  folder_ = base_ / "nowhere";
  EXPECT_THROW(start(), Error);
}

TEST(SeenFiles, ForgetsWhatIsGoneAlsoOnDisk) {
  std::string made = (fs::temp_directory_path() / "contcore_seen_XXXXXX").string();
  ASSERT_NE(::mkdtemp(made.data()), nullptr);
  const std::string path = made + "/list";
  SeenFiles seen(path);
  for (std::uint64_t i = 0; i < 20000; ++i) {
    seen.add(std::to_string(i), {i, 1, 1});
    if (i % 100 == 99) {
      seen.retain({std::to_string(i)});
      seen.save();
      EXPECT_EQ(seen.size(), 1u);
    }
  }
  EXPECT_LT(fs::file_size(path), 40000u);
  EXPECT_TRUE(SeenFiles(path).knows("19999", {19999, 1, 1}));
  EXPECT_FALSE(SeenFiles(path).knows("19999", {19999, 2, 1}));
  fs::remove_all(made);
}

// A crash in the middle of a record costs that record and none that comes after.
TEST(SeenFiles, AListThatWasCutShort) {
  std::string made = (fs::temp_directory_path() / "contcore_seen_XXXXXX").string();
  ASSERT_NE(::mkdtemp(made.data()), nullptr);
  const std::string path = made + "/list";
  {
    SeenFiles seen(path);
    seen.add("one.png", {1, 1, 1});
    seen.add("two.png", {2, 1, 1});
    seen.save();
  }
  fs::resize_file(path, fs::file_size(path) - 4);
  SeenFiles seen(path);
  EXPECT_TRUE(seen.knows("one.png", {1, 1, 1}));
  EXPECT_FALSE(seen.knows("two.png", {2, 1, 1}));
  seen.add("three.png", {3, 1, 1});
  seen.save();
  EXPECT_TRUE(SeenFiles(path).knows("one.png", {1, 1, 1}));
  EXPECT_TRUE(SeenFiles(path).knows("three.png", {3, 1, 1}));
  fs::remove_all(made);
}

}  // namespace
}  // namespace contcore
