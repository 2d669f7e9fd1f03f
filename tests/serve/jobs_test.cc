// Jobs that receive: who may stay, who gives way, and what they may take.
#include "serve/jobs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "contcore/error.h"
#include "contcore/vectors.h"

namespace contcore {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kDimension = 64;
constexpr std::size_t kRows = 256;
constexpr std::size_t kImage = kRows * kDimension * sizeof(float);  // 64 KiB

// The moment is what a test says it is.
class JobsTest : public testing::Test {
 protected:
  JobClock clock() {
    return [this] { return now_; };
  }
  static Patches image() {
    Patches patches;
    patches.vectors = Vectors(kRows, kDimension);
    return patches;
  }
  static std::string kept_from(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
      return error.what();
    }
    return "";
  }

  std::chrono::steady_clock::time_point now_{};
};

TEST_F(JobsTest, OnlyThoseThatEndedAreForgotten) {
  Jobs jobs({}, clock());
  const auto receiving = jobs.create("a", kDimension);
  const auto learning = jobs.create("b", kDimension);
  ASSERT_TRUE(learning->take(image()));
  ASSERT_EQ(jobs.start(*learning), Jobs::Start::kStarted);
  for (int i = 0; i < 250; ++i) {
    const auto other = jobs.create("c", kDimension);
    ASSERT_TRUE(other);
    other->cancel();
    ASSERT_LE(jobs.list().size(), 100u);
  }
  EXPECT_EQ(jobs.find(receiving->state().id), receiving);
  EXPECT_EQ(jobs.find(learning->state().id), learning);
  EXPECT_GT(receiving->state().id, 1'000'000'000'000u);  // never one of a run before
  EXPECT_TRUE(receiving->take(image()));
}

TEST_F(JobsTest, TheOneUntouchedForLongestGivesWay) {
  JobLimits limits;
  limits.receiving = 3;
  Jobs jobs(limits, clock());
  const auto aborted = jobs.create("a", kDimension);
  const auto busy = jobs.create("b", kDimension);
  const auto starting = jobs.create("c", kDimension);
  now_ += 20s;
  EXPECT_TRUE(busy->take(image()));
  EXPECT_TRUE(starting->take(image()));
  EXPECT_FALSE(jobs.create("d", kDimension));
  now_ += 9s;
  EXPECT_FALSE(jobs.create("d", kDimension));
  now_ += 1s;
  EXPECT_TRUE(jobs.create("d", kDimension));
  EXPECT_EQ(aborted->state().state, "cancelled");
  EXPECT_NE(aborted->state().error.find("gave way"), std::string::npos);
  EXPECT_FALSE(aborted->take(image()));
  EXPECT_EQ(busy->state().state, "receiving");
  // One that was started holds no place, and never gives way.
  ASSERT_EQ(jobs.start(*starting), Jobs::Start::kStarted);
  now_ += 1h;
  EXPECT_TRUE(jobs.create("e", kDimension));
  EXPECT_TRUE(jobs.create("f", kDimension));
  EXPECT_EQ(starting->state().state, "learning");
  EXPECT_EQ(busy->state().state, "cancelled");
}

TEST_F(JobsTest, WhoDoesNotComeBackIsForgotten) {
  Jobs jobs({}, clock());
  const auto slow = jobs.create("a", kDimension);
  const auto gone = jobs.create("b", kDimension);
  EXPECT_TRUE(gone->take(image()));
  now_ += 299s;
  slow->touch();
  jobs.forget();
  EXPECT_EQ(gone->state().state, "receiving");
  now_ += 1s;
  jobs.forget();
  EXPECT_EQ(gone->state().state, "cancelled");
  EXPECT_NE(gone->state().error.find("5 minutes"), std::string::npos);
  EXPECT_EQ(slow->state().state, "receiving");
}

TEST_F(JobsTest, NoMoreThanSomeWaitToBeLearned) {
  JobLimits limits;
  limits.waiting = 2;
  Jobs jobs(limits, clock());
  std::vector<std::shared_ptr<Job>> made;
  for (int i = 0; i < 3; ++i) {
    made.push_back(jobs.create("a", kDimension));
    EXPECT_TRUE(made.back()->take(image()));
  }
  EXPECT_EQ(jobs.start(*made[0]), Jobs::Start::kStarted);
  EXPECT_EQ(jobs.start(*made[1]), Jobs::Start::kStarted);
  EXPECT_EQ(jobs.start(*made[2]), Jobs::Start::kFull);
  EXPECT_TRUE(made[2]->take(image()));  // it still receives
  EXPECT_EQ(jobs.start(*made[0]), Jobs::Start::kNothingToLearn);
}

// A person looks at what it asks: that takes longer than a client that goes on sending.
TEST_F(JobsTest, OneThatAsksIsWaitedForLonger) {
  Jobs jobs({}, clock());
  const std::string folder = testing::TempDir() + "jobs_that_ask";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  Compute compute(1);
  LiveMemoryOptions options;
  options.path = folder + "/line.ccm";
  options.settings.backbone = "builtin";
  options.settings.geometry = Geometry::parse("64", "none");
  LiveMemory live(options, compute);
  const auto job = jobs.create("a", live.memory()->dimension());
  EXPECT_FALSE(job->start_review());
  Patches patches;
  patches.vectors = Vectors(4, live.memory()->dimension(), live.memory()->scalar());
  patches.grid_width = 4;
  patches.grid_height = 1;
  patches.input.width = 64;
  patches.input.height = 16;
  EXPECT_EQ(job->take(patches, {"first", {}}), 0U);
  ASSERT_TRUE(job->start_review());
  EXPECT_FALSE(job->take(patches));
  EXPECT_EQ(jobs.start(*job), Jobs::Start::kNothingToLearn);
  job->review(live, compute);
  ASSERT_EQ(job->state().state, "questions") << job->state().error;
  ASSERT_TRUE(job->state().review);
  EXPECT_EQ(job->state().review->images, 1U);
  EXPECT_FALSE(jobs.list()[0].review);
  now_ += 10min;
  jobs.forget();
  EXPECT_EQ(job->state().state, "questions");
  EXPECT_EQ(jobs.start(*job, {0}), Jobs::Start::kNothingToLearn);
  now_ += 51min;
  jobs.forget();
  EXPECT_EQ(job->state().state, "cancelled");
  std::filesystem::remove_all(folder);
}

// What was cancelled while it was looked at does not come back with questions.
TEST_F(JobsTest, ACancelledReviewEnds) {
  Jobs jobs({}, clock());
  const auto job = jobs.create("a", kDimension);
  ASSERT_TRUE(job->take(image()));
  ASSERT_TRUE(job->start_review());
  job->cancel();
  EXPECT_EQ(job->state().state, "reviewing");
  EXPECT_FALSE(job->untouched());
}

TEST_F(JobsTest, MemoryIsSharedAndGivenBack) {
  JobLimits limits;
  limits.memory = 10 * kImage;
  Jobs jobs(limits, clock());
  const auto first = jobs.create("a", kDimension);
  const auto second = jobs.create("b", kDimension);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(first->take(image()));
  EXPECT_EQ(jobs.room().memory_taken(), 8 * kImage);
  EXPECT_EQ(jobs.room().disk_taken(), 0u);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(second->take(image()));
    ASSERT_LE(jobs.room().memory_taken(), 10 * kImage);
  }
  EXPECT_GE(jobs.room().disk_taken(), 16 * kImage);
  second->cancel();
  EXPECT_EQ(jobs.room().memory_taken(), 8 * kImage);
  EXPECT_EQ(jobs.room().disk_taken(), 0u);
  first->cancel();
  EXPECT_EQ(jobs.room().memory_taken(), 0u);
}

TEST_F(JobsTest, OneThatTakesMoreDiskThanThereIsFailsAndFreesIt) {
  JobLimits limits;
  limits.memory = 0;
  limits.disk = 10 * kImage;
  Jobs jobs(limits, clock());
  const auto other = jobs.create("a", kDimension);
  ASSERT_TRUE(other->take(image()));
  const auto large = jobs.create("b", kDimension);
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(large->take(image()));
  const std::string reason = kept_from([&] { large->take(image()); });
  EXPECT_NE(reason.find("no more room"), std::string::npos) << reason;
  EXPECT_EQ(large->state().state, "failed");
  EXPECT_EQ(large->state().error, reason);
  EXPECT_FALSE(large->take(image()));
  EXPECT_EQ(jobs.room().disk_taken(), kImage);
  EXPECT_TRUE(other->take(image()));
}

TEST_F(JobsTest, AFolderThatCannotBeWrittenFailsTheJob) {
  JobLimits limits;
  limits.memory = 2 * kImage;
  Jobs jobs(limits, clock());
  const auto job = jobs.create("a", kDimension);
  ASSERT_TRUE(job->take(image()));
  ASSERT_TRUE(job->take(image()));
  ::setenv("TMPDIR", "/nowhere/at/all", 1);
  const std::string reason = kept_from([&] { job->take(image()); });
  ::unsetenv("TMPDIR");
  EXPECT_NE(reason.find("/nowhere/at/all"), std::string::npos) << reason;
  EXPECT_EQ(job->state().state, "failed");
  EXPECT_EQ(jobs.room().memory_taken(), 0u);
  EXPECT_EQ(jobs.room().disk_taken(), 0u);
}

}  // namespace
}  // namespace contcore
