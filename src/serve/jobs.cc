#include "serve/jobs.h"

#include <algorithm>
#include <utility>

#include "contcore/error.h"
#include "serve/clock.h"

namespace contcore {
namespace {

constexpr std::size_t kMostJobs = 100;
constexpr std::size_t kMostReceiving = 4;
constexpr std::size_t kMostImages = 20000;
constexpr std::size_t kHeldOutEvery = 5;
constexpr std::size_t kMostHeldOut = 64;
constexpr std::size_t kInMemory = std::size_t{512} << 20;  // bytes of features; beyond: on disk

}  // namespace

Job::Job(std::uint64_t id, std::string task, std::size_t dimension, std::string now)
    : features_(std::make_unique<FeatureStore>(dimension, kInMemory)),
      held_(std::make_unique<FeatureStore>(dimension, kInMemory / 8)) {
  state_.id = id;
  state_.task = std::move(task);
  state_.state = "receiving";
  state_.created = std::move(now);
}

JobState Job::state() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return state_;
}

bool Job::take(VectorView patches) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (state_.state != "receiving" || state_.received >= kMostImages) return false;
  const bool hold =
      state_.received % kHeldOutEvery == kHeldOutEvery - 1 && held_ends_.size() < kMostHeldOut;
  FeatureStore& into = hold ? *held_ : *features_;
  into.append(patches.row(0, nullptr), patches.rows);
  if (hold) {
    held_ends_.push_back(held_->rows());
  } else {
    ++learned_;
  }
  ++state_.received;
  touched_ = std::chrono::steady_clock::now();
  return true;
}

bool Job::forgotten() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return state_.state == "receiving" &&
         std::chrono::steady_clock::now() - touched_ > std::chrono::minutes(15);
}

void Job::skip() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++state_.skipped;
}

bool Job::start() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (state_.state != "receiving" || state_.received == 0) return false;
  state_.state = "learning";
  return true;
}

void Job::put_off() {
  const std::lock_guard<std::mutex> lock(mutex_);
  state_.state = "receiving";
}

bool Job::ended() const {
  return state_.state == "done" || state_.state == "cancelled" || state_.state == "failed";
}

void Job::cancel(const std::string& now) {
  stop_ = true;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (ended()) return;
  // One that is learning ends when it notices; until then its features are in use.
  if (state_.state == "learning") return;
  state_.state = "cancelled";
  state_.finished = now;
  features_.reset();
  held_.reset();
}

void Job::end(const std::string& state, const std::string& error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  state_.state = state;
  state_.error = error;
  state_.finished = utc_now();
  if (state == "done") state_.progress = 1;
  features_.reset();
  held_.reset();
}

std::optional<std::string> Job::learn(Line& line, Threads& threads) {
  const auto progress = [this](double done) {
    const std::lock_guard<std::mutex> lock(mutex_);
    state_.progress = std::max(state_.progress, std::min(done, 1.0));
    return !stop_;
  };
  try {
    if (stop_) throw Error(Error::Kind::kCancelled, "stopped");
    line.learn_batch({features_->view(), learned_, held_->view(), held_ends_}, state().task,
                     threads, progress);
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

std::shared_ptr<Job> Jobs::create(const std::string& task, std::size_t dimension) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& job : jobs_) {
    if (job->forgotten()) job->cancel(utc_now());
  }
  const auto receiving = std::count_if(jobs_.begin(), jobs_.end(), [](const auto& job) {
    return job->state().state == "receiving";
  });
  if (static_cast<std::size_t>(receiving) >= kMostReceiving) return nullptr;
  jobs_.push_back(std::make_shared<Job>(next_++, task, dimension, utc_now()));
  if (jobs_.size() > kMostJobs) jobs_.pop_front();
  return jobs_.back();
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
  for (auto job = jobs_.rbegin(); job != jobs_.rend(); ++job) states.push_back((*job)->state());
  return states;
}

}  // namespace contcore
