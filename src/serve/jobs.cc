#include "serve/jobs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "contcore/error.h"
#include "detector/calibration_scores.h"
#include "detector/reviewing.h"
#include "serve/clock.h"

namespace contcore {
namespace {

constexpr std::size_t kMostJobs = 100;
constexpr std::size_t kMostImages = 20000;
constexpr std::size_t kMostSkippedNamed = 100;
constexpr int kPatience = 10;  // a person who looks at a review takes longer than a client
// Of false alarms: what inspections are judged by unless a task says otherwise.
constexpr double kReviewedRate = 0.05;

}  // namespace

std::size_t memory_for_jobs() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return kFeaturesInMemory;
  return std::min(kFeaturesInMemory,
                  static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) / 8);
}

Job::Job(std::uint64_t id, std::string task, std::size_t dimension,
         std::shared_ptr<FeatureRoom> room, JobClock now, SharedRegion region)
    : now_(std::move(now)),
      dimension_(dimension),
      room_(std::move(room)),
      region_(std::move(region)),
      set_(std::make_unique<TrainingSetBuilder>(dimension, kFeaturesInMemory, room_)),
      touched_(now_()) {
  state_.id = id;
  state_.task = std::move(task);
  state_.state = "receiving";
  state_.created = utc_now();
}

void Job::write_down(std::string who, std::unique_ptr<LessonImagesWriter> images) {
  const std::lock_guard<std::mutex> lock(mutex_);
  who_ = std::move(who);
  images_ = std::move(images);
}

JobState Job::state() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return state_;
}

std::optional<std::size_t> Job::take(const Patches& patches, JobImage image,
                                     std::span<const std::uint8_t> bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (state_.state != "receiving" || state_.received >= kMostImages) return {};
  try {
    set_->add(patches);
    if (images_) images_->append(bytes);
  } catch (const Error& error) {
    end_locked("failed", error.what());
    throw;
  }
  named_.push_back(std::move(image));
  touched_ = now_();
  return state_.received++;
}

void Job::touch() {
  const std::lock_guard<std::mutex> lock(mutex_);
  touched_ = now_();
}

std::optional<std::chrono::steady_clock::duration> Job::untouched() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!waits_locked()) return {};
  return untouched_locked();
}

bool Job::waits_locked() const {
  return state_.state == "receiving" || state_.state == "questions";
}

std::chrono::steady_clock::duration Job::untouched_locked() const {
  return (now_() - touched_) / (state_.state == "questions" ? kPatience : 1);
}

bool Job::drop(std::chrono::seconds untouched, const std::string& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!waits_locked() || untouched_locked() < untouched) return false;
  end_locked("cancelled", reason);
  return true;
}

void Job::skip(const std::string& name, const std::string& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++state_.skipped;
  if (state_.skipped_images.size() < kMostSkippedNamed) {
    state_.skipped_images.push_back({name, reason});
  }
}

bool Job::start_review() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (state_.state != "receiving" || state_.received == 0) return false;
  state_.state = "reviewing";
  return true;
}

bool Job::start(const std::vector<std::size_t>& without) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!waits_locked()) return false;
  without_.assign(state_.received, false);
  for (const std::size_t i : without) {
    if (i < without_.size()) without_[i] = true;
  }
  state_.left_out = static_cast<std::size_t>(std::count(without_.begin(), without_.end(), true));
  if (state_.left_out == state_.received) {
    state_.left_out = 0;
    return false;
  }
  state_.state = "learning";
  return true;
}

void Job::put_off() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stop_) {
    end_locked("cancelled", "");  // meanwhile
    return;
  }
  state_.state = state_.review ? "questions" : "receiving";
  state_.left_out = 0;
  touched_ = now_();
}

bool Job::ended() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ended_locked();
}

bool Job::ended_locked() const {
  return state_.state == "done" || state_.state == "cancelled" || state_.state == "failed";
}

void Job::cancel() {
  stop_ = true;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (ended_locked()) return;
  // One that is at work ends when it notices; until then its features are in use.
  if (!waits_locked()) return;
  end_locked("cancelled", "");
}

void Job::end(const std::string& state, const std::string& error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  end_locked(state, error);
}

void Job::end_locked(const std::string& state, const std::string& error) {
  state_.state = state;
  state_.error = error;
  state_.finished = utc_now();
  if (state == "done") state_.progress = 1;
  set_.reset();
  images_.reset();
  named_ = {};
}

Progress Job::follow() {
  return [this](double done) {
    const std::lock_guard<std::mutex> lock(mutex_);
    state_.progress = std::max(state_.progress, std::min(done, 1.0));
    return !stop_;
  };
}

void Job::review(const LiveMemory& live, Compute& compute) {
  try {
    if (stop_) throw Error(Error::Kind::kCancelled, "stopped");
    LearnHow how;
    how.task = state().task;
    how.p = kBatchRatio;
    how.region = region_;
    how.progress = follow();
    const auto memory = live.memory();
    const TrainingSet set = set_->view();
    const FoldScores folds = score_task(*memory, set, how, compute);
    how.progress = {};
    std::vector<ImageLook> looks;
    for (const JobImage& image : named_) looks.push_back(image.look);
    auto review = std::make_shared<const Review>(
        review_images(*memory, set, looks, folds, how, kReviewedRate, compute));
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stop_) {
      end_locked("cancelled", "");  // meanwhile
      return;
    }
    for (const StrangeImage& image : review->strangest) {
      state_.strangest_names.push_back(named_[image.image].name);
    }
    state_.review = std::move(review);
    state_.state = "questions";
    state_.progress = 0;
    touched_ = now_();
  } catch (const Error& error) {
    const bool cancelled = error.kind() == Error::Kind::kCancelled;
    end(cancelled ? "cancelled" : "failed", cancelled ? "" : error.what());
  } catch (const std::exception& error) {
    end("failed", error.what());
  }
}

// The set without those that are not to be learned.
void Job::leave_out() {
  if (std::find(without_.begin(), without_.end(), true) == without_.end()) return;
  auto kept = std::make_unique<TrainingSetBuilder>(dimension_, kFeaturesInMemory, room_);
  for (std::size_t i = 0; i < without_.size(); ++i) {
    if (!without_[i]) kept->add(set_->patches(i));
  }
  set_ = std::move(kept);
  if (images_) images_->leave_out(without_);
}

std::optional<std::string> Job::learn(LiveMemory& live, Compute& compute) {
  try {
    if (stop_) throw Error(Error::Kind::kCancelled, "stopped");
    leave_out();
    live.learn_batch(set_->view(), state().task, compute, follow(),
                     {who_, std::move(images_), region_});
    end("done", "");
  } catch (const Error& error) {
    const bool cancelled = error.kind() == Error::Kind::kCancelled;
    end(cancelled ? "cancelled" : "failed", cancelled ? "" : error.what());
    if (error.kind() == Error::Kind::kInput) return error.what();
  } catch (const std::exception& error) {
    end("failed", error.what());
  }
  return std::nullopt;
}

namespace {

// Not 1: a client that has not noticed that the service was started anew must not send its images
// to another's job.
std::uint64_t first_id() {
  using namespace std::chrono;
  return static_cast<std::uint64_t>(
      duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count());
}

}  // namespace

Jobs::Jobs(const JobLimits& limits, JobClock now)
    : limits_(limits),
      now_(std::move(now)),
      room_(std::make_shared<FeatureRoom>(limits.memory, limits.disk)),
      next_(first_id()) {}

std::size_t Jobs::count(std::string_view state) const {
  return static_cast<std::size_t>(std::count_if(
      jobs_.begin(), jobs_.end(), [&](const auto& job) { return job->state().state == state; }));
}

// Those that hold images and are not to be learned yet.
std::size_t Jobs::open() const {
  return count("receiving") + count("reviewing") + count("questions");
}

bool Jobs::make_place() {
  const auto longest = std::max_element(
      jobs_.begin(), jobs_.end(),
      [](const auto& a, const auto& b) { return a->untouched() < b->untouched(); });
  return longest != jobs_.end() &&
         (*longest)->drop(limits_.gives_way,
                          fmt::format("it gave way to another job, as nothing had come for {} s",
                                      limits_.gives_way.count()));
}

std::shared_ptr<Job> Jobs::create(const std::string& task, std::size_t dimension,
                                  const SharedRegion& region) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (open() >= limits_.receiving && !make_place()) return nullptr;
  jobs_.push_back(std::make_shared<Job>(next_++, task, dimension, room_, now_, region));
  if (jobs_.size() > kMostJobs) {
    const auto oldest =
        std::find_if(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->ended(); });
    if (oldest != jobs_.end()) jobs_.erase(oldest);
  }
  return jobs_.back();
}

Jobs::Start Jobs::start(Job& job, const std::vector<std::size_t>& without) {
  const std::lock_guard<std::mutex> lock(mutex_);
  job.touch();
  if (count("learning") >= limits_.waiting && job.untouched()) return Start::kFull;
  return job.start(without) ? Start::kStarted : Start::kNothingToLearn;
}

void Jobs::forget() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& job : jobs_) {
    job->drop(limits_.forgotten,
              fmt::format("nothing had come for {} minutes", limits_.forgotten.count() / 60));
  }
}

std::shared_ptr<Job> Jobs::find(std::uint64_t id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& job : jobs_) {
    if (job->state().id == id) return job;
  }
  return nullptr;
}

std::vector<JobState> Jobs::list() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<JobState> states;
  for (auto job = jobs_.rbegin(); job != jobs_.rend(); ++job) {
    states.push_back((*job)->state());
    states.back().review.reset();
  }
  return states;
}

}  // namespace contcore
