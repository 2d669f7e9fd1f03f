#include "camera/feed.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>

#include "contcore/error.h"

namespace contcore {
namespace {

using Kind = Camera::Caught::Kind;
using std::chrono::milliseconds;

// What cameras of this test send, one after the other; shared by all that are opened.
struct Script {
  std::mutex mutex;
  std::deque<Camera::Caught> frames;
  std::uint64_t lost = 0;
  bool unplugged = false;  // thrown by those that are open, and no other can be opened
  int triggers = 0;
  std::function<void(Script&)> triggered;  // with the mutex held
  int opened = 0;

  void send(Kind kind, std::uint64_t id) {
    const std::lock_guard<std::mutex> lock(mutex);
    add(kind, id);
  }
  void add(Kind kind, std::uint64_t id) {
    Camera::Caught caught;
    caught.kind = kind;
    caught.frame.id = id;
    caught.why = kind == Kind::kDamaged ? "parts of it are missing" : "";
    frames.push_back(std::move(caught));
  }
};

class Scripted : public Camera {
 public:
  explicit Scripted(Script& script) : script_(script) {
    const std::lock_guard<std::mutex> lock(script_.mutex);
    if (script_.unplugged) throw Error(Error::Kind::kInput, "camera A: it is not there");
    ++script_.opened;
  }
  Caught next(milliseconds patience) override {
    {
      const std::lock_guard<std::mutex> lock(script_.mutex);
      if (!script_.frames.empty()) {
        Caught caught = std::move(script_.frames.front());
        script_.frames.pop_front();
        return caught;
      }
      if (script_.unplugged) throw Error(Error::Kind::kInput, "camera A: it has gone");
    }
    std::this_thread::sleep_for(std::min(patience, milliseconds(1)));
    return {};
  }
  std::uint64_t lost() override {
    const std::lock_guard<std::mutex> lock(script_.mutex);
    return script_.lost;
  }
  void trigger() override {
    const std::lock_guard<std::mutex> lock(script_.mutex);
    ++script_.triggers;
    if (script_.triggered) script_.triggered(script_);
  }
  CameraInfo info() const override { return {"A", "maker", "model", "1", "", ""}; }

 private:
  Script& script_;
};

class CameraFeedTest : public ::testing::Test {
 protected:
  std::unique_ptr<CameraFeed> feed(const std::string& trigger = "Line1", CameraLimits limits = {},
                                   std::optional<double> rate = {}) {
    CameraSettings settings;
    settings.id = "A";
    settings.station = "press 4";
    settings.trigger = trigger;
    settings.rate = rate;
    limits.retry = milliseconds(5);
    auto feed = std::make_unique<CameraFeed>(
        settings, [this](const CameraSettings&) { return std::make_unique<Scripted>(script_); },
        [this](const std::string& text) {
          const std::lock_guard<std::mutex> lock(mutex_);
          notes_.push_back(text);
        },
        limits);
    return feed;
  }
  CameraFeed::Take keep() {
    return [this](Frame&& frame, CameraFeed::Done done) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (refuse_) return false;
      ids_.push_back(frame.id);
      dones_.push_back(std::move(done));
      return true;
    };
  }
  bool taken(std::size_t frames) {
    return soon([&] {
      const std::lock_guard<std::mutex> lock(mutex_);
      return dones_.size() == frames;
    });
  }
  std::size_t notes_of(const std::string& part) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<std::size_t>(std::count_if(notes_.begin(), notes_.end(), [&](const auto& n) {
      return n.find(part) != std::string::npos;
    }));
  }
  template <typename Condition>
  static bool soon(Condition condition) {
    for (int i = 0; i < 6000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }
  static void expect_accounted(const CameraState& state) {
    EXPECT_EQ(state.frames,
              state.inspected + state.unreadable + state.dropped + state.damaged + state.waiting);
  }

  Script script_;
  std::mutex mutex_;
  bool refuse_ = false;
  std::vector<std::uint64_t> ids_;
  std::vector<CameraFeed::Done> dones_;
  std::vector<std::string> notes_;
};

TEST_F(CameraFeedTest, EveryFrameIsAccountedFor) {
  CameraLimits limits;
  limits.at_once = 2;
  auto one = feed("Line1", limits);
  one->start(keep());
  for (std::uint64_t id = 1; id <= 5; ++id) script_.send(Kind::kFrame, id);
  script_.send(Kind::kDamaged, 6);
  ASSERT_TRUE(soon([&] { return one->state().frames == 6; }));
  CameraState state = one->state();
  EXPECT_EQ(state.waiting, 2U);
  EXPECT_EQ(state.dropped, 3U);  // there was room for two
  EXPECT_EQ(state.damaged, 1U);
  expect_accounted(state);
  ASSERT_TRUE(taken(2));
  EXPECT_EQ(ids_, (std::vector<std::uint64_t>{1, 2}));
  dones_[0](true);
  dones_[1](false);
  script_.send(Kind::kFrame, 7);
  ASSERT_TRUE(soon([&] { return one->state().frames == 7; }));
  ASSERT_TRUE(taken(3));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    refuse_ = true;
    dones_[2](true);
  }
  script_.send(Kind::kFrame, 8);
  ASSERT_TRUE(soon([&] { return one->state().dropped == 4; }));
  state = one->state();
  EXPECT_EQ(state.inspected, 2U);
  EXPECT_EQ(state.unreadable, 1U);
  EXPECT_EQ(state.waiting, 0U);
  expect_accounted(state);
  EXPECT_NE(state.losses.find("4 were dropped"), std::string::npos) << state.losses;
  EXPECT_TRUE(soon([&] { return notes_of("frame 6: parts of it are missing") == 1; }));
}

TEST_F(CameraFeedTest, NothingLostIsNothingSaid) {
  auto one = feed();
  one->start(keep());
  script_.send(Kind::kFrame, 1);
  ASSERT_TRUE(taken(1));
  dones_[0](true);
  EXPECT_EQ(one->state().losses, "");
  EXPECT_EQ(notes_of(""), 0U);
}

TEST_F(CameraFeedTest, OneThatIsUnpluggedComesBackByItself) {
  const auto tries = [](int round) { return static_cast<std::size_t>(round); };
  script_.unplugged = true;
  auto one = feed();
  one->start(keep());
  for (int round = 1; round <= 3; ++round) {
    ASSERT_TRUE(soon([&] { return notes_of("camera A: it is not there") >= tries(round); }));
    {
      const std::lock_guard<std::mutex> lock(script_.mutex);
      script_.unplugged = false;
      script_.lost = 2;  // by the camera that is opened now
    }
    script_.send(Kind::kFrame, 1);
    ASSERT_TRUE(soon([&] { return one->state().frames == static_cast<std::uint64_t>(round); }));
    CameraState state = one->state();
    EXPECT_TRUE(state.up);
    EXPECT_EQ(state.error, "");
    EXPECT_EQ(state.info.model, "model");
    EXPECT_EQ(state.opened, static_cast<std::uint64_t>(round));
    {
      const std::lock_guard<std::mutex> lock(script_.mutex);
      script_.unplugged = true;
    }
    ASSERT_TRUE(soon([&] { return !one->state().up; }));
    EXPECT_EQ(one->state().lost, static_cast<std::uint64_t>(2 * round));
    // The reason is said once for each time, however often it is tried.
    EXPECT_TRUE(soon([&] { return notes_of("camera A: it has gone") == tries(round); }));
    EXPECT_EQ(notes_of("is back"), tries(round));
  }
}

TEST_F(CameraFeedTest, FramesThatHadComeBeforeItWentAreHandedOver) {
  auto one = feed();
  one->start(keep());
  ASSERT_TRUE(soon([&] { return one->state().up; }));
  {
    const std::lock_guard<std::mutex> lock(script_.mutex);
    script_.add(Kind::kFrame, 1);
    script_.add(Kind::kFrame, 2);
    script_.unplugged = true;
  }
  EXPECT_TRUE(taken(2));
}

TEST_F(CameraFeedTest, OneThatRunsFreeAndIsSilentIsOpenedAgain) {
  CameraLimits limits;
  limits.silence = milliseconds(20);
  auto one = feed("free", limits);
  one->start(keep());
  EXPECT_TRUE(soon([&] { return one->state().opened > 3; }));
  EXPECT_EQ(notes_of("has sent no frame"), 1U);
  EXPECT_EQ(notes_of("is back"), 0U);
  EXPECT_FALSE(one->state().up);
  script_.send(Kind::kFrame, 1);
  EXPECT_TRUE(soon([&] { return notes_of("is back") == 1; }));
  limits.silence = milliseconds(0);
  auto seldom = feed("free", limits, 0.001);
  seldom->start(keep());
  auto patient = feed("Line1", limits);
  patient->start(keep());
  ASSERT_TRUE(soon([&] { return patient->state().opened > 0 && seldom->state().opened > 0; }));
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(patient->state().opened, 1U);
  EXPECT_EQ(seldom->state().opened, 1U);
}

TEST_F(CameraFeedTest, WhoTriggersHasTheFrameThatWasTakenThen) {
  auto one = feed("software");
  std::uint64_t next = 1;
  script_.triggered = [&](Script& script) { script.add(Kind::kFrame, next++); };
  one->start(keep());
  ASSERT_TRUE(soon([&] { return one->state().up; }));
  for (std::uint64_t id = 1; id <= 20; ++id) {
    auto [frame, done] = one->trigger();
    EXPECT_EQ(frame.id, id);
    EXPECT_EQ(one->state().waiting, 1U);
    done(true);
  }
  EXPECT_EQ(one->state().inspected, 20U);
  EXPECT_TRUE(ids_.empty());
  // One that nobody asked for is nobody's, and all that may come behind it.
  script_.send(Kind::kFrame, 99);
  ASSERT_TRUE(soon([&] { return one->state().opened == 2; }));
  auto [frame, done] = one->trigger();
  EXPECT_EQ(frame.id, 21U);
  done(true);
  EXPECT_EQ(one->state().dropped, 1U);
  EXPECT_TRUE(ids_.empty());
}

TEST_F(CameraFeedTest, ManyWhoTriggerEachHaveAFrameOfTheirOwn) {
  auto one = feed("software");
  std::uint64_t next = 1;
  script_.triggered = [&](Script& script) { script.add(Kind::kFrame, next++); };
  one->start(keep());
  ASSERT_TRUE(soon([&] { return one->state().up; }));
  std::mutex mutex;
  std::vector<std::uint64_t> seen;
  std::vector<std::thread> crowd;
  for (int i = 0; i < 8; ++i) {
    crowd.emplace_back([&] {
      for (int k = 0; k < 5; ++k) {
        auto [frame, done] = one->trigger();
        done(true);
        const std::lock_guard<std::mutex> lock(mutex);
        seen.push_back(frame.id);
      }
    });
  }
  for (std::thread& thread : crowd) thread.join();
  std::sort(seen.begin(), seen.end());
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i + 1);
  EXPECT_EQ(seen.size(), 40U);
}

std::string refusal_of(CameraFeed& feed, Error::Kind kind = Error::Kind::kInput) {
  try {
    feed.trigger();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "";
}

TEST_F(CameraFeedTest, AFrameThatComesTooLateIsNobodyElses) {
  CameraLimits limits;
  limits.answer = milliseconds(50);
  auto one = feed("software", limits);
  one->start(keep());
  ASSERT_TRUE(soon([&] { return one->state().up; }));
  EXPECT_EQ(refusal_of(*one), "camera A: no frame came within 50 ms");
  // It is opened anew, so that what was asked for in vain cannot come then; and that is said.
  ASSERT_TRUE(soon([&] { return notes_of("no frame came within 50 ms") == 1; }));
  ASSERT_TRUE(soon([&] { return one->state().opened == 2; }));
  {
    const std::lock_guard<std::mutex> lock(script_.mutex);
    script_.triggered = [](Script& script) { script.add(Kind::kFrame, 5); };
  }
  std::optional<std::pair<Frame, CameraFeed::Done>> shot;
  ASSERT_TRUE(soon([&] {
    try {
      shot = one->trigger();
      return true;
    } catch (const Error&) {
      return false;  // being opened
    }
  }));
  EXPECT_EQ(shot->first.id, 5U);
}

TEST_F(CameraFeedTest, WhoTriggersIsToldWhatWentWrong) {
  auto one = feed("software");
  script_.unplugged = true;
  one->start(keep());
  ASSERT_TRUE(soon([&] { return notes_of("not there") == 1; }));
  EXPECT_EQ(refusal_of(*one), "camera A: it is not there");
  {
    const std::lock_guard<std::mutex> lock(script_.mutex);
    script_.unplugged = false;
    script_.triggered = [](Script& script) { script.add(Kind::kDamaged, 3); };
  }
  ASSERT_TRUE(soon([&] { return one->state().up; }));
  EXPECT_EQ(refusal_of(*one),
            "camera A: the frame was lost: parts of it are missing; trigger again");
  {
    const std::lock_guard<std::mutex> lock(script_.mutex);
    script_.triggered = [](Script& script) { script.unplugged = true; };
  }
  EXPECT_EQ(refusal_of(*one),
            "camera A: the frame was lost: the camera was closed before it came; trigger again");
  {
    const std::lock_guard<std::mutex> lock(script_.mutex);
    script_.unplugged = false;
    script_.triggered = [](Script&) { throw Error(Error::Kind::kInput, "camera A: no"); };
  }
  ASSERT_TRUE(soon([&] { return one->state().up; }));
  EXPECT_TRUE(soon([&] { return refusal_of(*one) == "camera A: no"; }));
  expect_accounted(one->state());
  EXPECT_EQ(refusal_of(*feed("free"), Error::Kind::kUsage),
            "camera A is not triggered by software but runs free");
  EXPECT_EQ(refusal_of(*feed("Line1"), Error::Kind::kUsage),
            "camera A is not triggered by software but by its Line1");
}

TEST_F(CameraFeedTest, WhatCannotBeTakenIsDropped) {
  auto one = feed();
  one->start([](Frame&&, const CameraFeed::Done&) -> bool {
    throw Error(Error::Kind::kInput, "no memory");
  });
  script_.send(Kind::kFrame, 1);
  ASSERT_TRUE(soon([&] { return one->state().dropped == 1; }));
  EXPECT_EQ(one->state().waiting, 0U);
  EXPECT_EQ(notes_of("camera A: no memory"), 1U);
  EXPECT_EQ(one->state().opened, 1U);
}

TEST_F(CameraFeedTest, AFrameMayBeDoneWhenTheFeedIsGone) {
  auto one = feed();
  one->start(keep());
  script_.send(Kind::kFrame, 1);
  ASSERT_TRUE(taken(1));
  one.reset();
  dones_[0](true);
}

}  // namespace
}  // namespace contcore
