#include "camera/feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::chrono::milliseconds kFeedTick{100};
constexpr std::string_view kSoftware = "software";
constexpr std::chrono::hours kRecentLoss{1};
constexpr std::chrono::seconds kBetweenNotes{10};
constexpr double kLongestWait = 1e9;  // milliseconds

// As long as settings make it.
std::chrono::milliseconds between_frames(const CameraSettings& settings) {
  const double exposure = settings.exposure.value_or(0) / 1000;
  const double rate = settings.rate.value_or(0);
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(std::clamp(rate > 0 ? 1000 / rate : 0, exposure, kLongestWait)));
}

}  // namespace

CameraFeed::CameraFeed(CameraSettings settings, Open open, Note note, const CameraLimits& limits)
    : settings_(std::move(settings)),
      open_(std::move(open)),
      note_(std::move(note)),
      limits_(limits) {
  CameraState& state = account_->state;
  state.id = settings_.id;
  state.station = settings_.station;
  state.trigger = settings_.trigger;
  state.error = fmt::format("camera {}: it has not been opened yet", settings_.id);
}

CameraFeed::~CameraFeed() { stop(); }

void CameraFeed::start(Take take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { run(); });
}

void CameraFeed::end() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void CameraFeed::stop() {
  end();
  if (thread_.joinable()) thread_.join();
}

CameraState CameraFeed::state() const {
  const std::lock_guard<std::mutex> lock(account_->mutex);
  CameraState state = account_->state;
  if (account_->loss && Clock::now() - *account_->loss < kRecentLoss) {
    state.losses = fmt::format(
        "of {} frames {} were dropped since inspecting does not keep up (or nothing is learned "
        "yet), {} came damaged, {} were no image to be judged; {} more never came",
        state.frames, state.dropped, state.damaged, state.unreadable, state.lost);
  }
  return state;
}

// With the mutex held.
void CameraFeed::reopen(const std::string& why) {
  reopen_ = true;
  failure_ = why;
}

bool CameraFeed::is_up() const {
  const std::lock_guard<std::mutex> lock(account_->mutex);
  return account_->state.up;
}

// True when all is to end.
bool CameraFeed::pause(std::chrono::milliseconds time) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return stopping_; });
}

void CameraFeed::failed(const std::string& why) {
  bool is_new = false;
  {
    const std::lock_guard<std::mutex> lock(account_->mutex);
    CameraState& state = account_->state;
    is_new = !told_ || state.error != why;
    state.up = false;
    state.error = why;
  }
  if (is_new) note(why + "; it is tried again");
  told_ = true;
}

void CameraFeed::run() {
  for (;;) {
    try {
      const std::shared_ptr<Camera> camera = open_(settings_);
      {
        const std::lock_guard<std::mutex> lock(account_->mutex);
        CameraState& state = account_->state;
        state.info = camera->info();
        ++state.opened;
      }
      if (settings_.trigger != "free") works();
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        camera_ = camera;
        reopen_ = false;
      }
      changed_.notify_all();
      receive(*camera);
    } catch (const std::exception& error) {
      failed(error.what());
    }
    std::shared_ptr<Camera> gone;  // closed when nobody waits for it
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      gone.swap(camera_);
      if (asked_ && !answer_) {
        answer_ = {Camera::Caught::Kind::kDamaged, {}, "the camera was closed before it came"};
      }
    }
    changed_.notify_all();
    gone.reset();
    lost_before_ = state().lost;
    if (pause(limits_.retry)) return;
  }
}

// One that runs free does so when a frame has come.
void CameraFeed::works() {
  {
    const std::lock_guard<std::mutex> lock(account_->mutex);
    account_->state.up = true;
    account_->state.error.clear();
  }
  if (told_) note(fmt::format("camera {}: is back", settings_.id));
  told_ = false;
}

// Returns when all is to end.
void CameraFeed::receive(Camera& camera) {
  const Clock::duration silence = limits_.silence + 2 * between_frames(settings_);
  Clock::time_point heard = Clock::now();
  for (;;) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) return;
      if (reopen_) throw Error(Error::Kind::kInput, failure_);
    }
    Camera::Caught caught = camera.next(kFeedTick);
    count_losses(camera);
    if (caught.kind != Camera::Caught::Kind::kNothing) {
      heard = Clock::now();
      if (!is_up()) works();
      deliver(std::move(caught));
    } else if (settings_.trigger == "free" && Clock::now() - heard > silence) {
      throw Error(Error::Kind::kInput,
                  fmt::format("camera {}: has sent no frame for {} s", settings_.id,
                              std::chrono::ceil<std::chrono::seconds>(silence).count()));
    }
  }
}

void CameraFeed::count_losses(Camera& camera) {
  const std::uint64_t lost = lost_before_ + camera.lost();
  const std::lock_guard<std::mutex> lock(account_->mutex);
  if (lost == account_->state.lost) return;
  account_->state.lost = lost;
  account_->loss = Clock::now();
}

// Not each: there may be as many as there are frames.
void CameraFeed::note_damaged(const Camera::Caught& caught) {
  if (noted_ && Clock::now() - *noted_ < kBetweenNotes) return;
  noted_ = Clock::now();
  note(fmt::format("camera {}: frame {}: {}", settings_.id, caught.frame.id, caught.why));
}

CameraFeed::Done CameraFeed::hand_over() {
  return [account = account_](bool inspected) {
    const std::lock_guard<std::mutex> lock(account->mutex);
    --account->state.waiting;
    ++(inspected ? account->state.inspected : account->state.unreadable);
    if (!inspected) account->loss = Clock::now();
  };
}

void CameraFeed::deliver(Camera::Caught caught) {
  const bool whole = caught.kind == Camera::Caught::Kind::kFrame;
  bool room = false;
  {
    const std::lock_guard<std::mutex> lock(account_->mutex);
    CameraState& state = account_->state;
    ++state.frames;
    if (!whole) {
      ++state.damaged;
      account_->loss = Clock::now();
    } else {
      room = state.waiting < limits_.at_once;
      ++state.waiting;
    }
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (asked_ && !answer_) {
      answer_ = std::move(caught);
      changed_.notify_all();
      return;
    }
    // What nobody asked for must not be taken for what somebody asks for next.
    if (settings_.trigger == kSoftware) {
      reopen(fmt::format("camera {}: sent a frame that nobody asked for", settings_.id));
      room = false;
    }
  }
  if (!whole) return note_damaged(caught);
  try {
    if (room && take_(std::move(caught.frame), hand_over())) return;
  } catch (const std::exception& error) {
    note(fmt::format("camera {}: {}", settings_.id, error.what()));
  }
  const std::lock_guard<std::mutex> lock(account_->mutex);
  --account_->state.waiting;
  ++account_->state.dropped;
  account_->loss = Clock::now();
}

std::pair<Frame, CameraFeed::Done> CameraFeed::trigger() {
  if (settings_.trigger != kSoftware) {
    throw Error(
        Error::Kind::kUsage,
        fmt::format("camera {} is not triggered by software but {}", settings_.id,
                    settings_.trigger == "free" ? "runs free" : "by its " + settings_.trigger));
  }
  const auto patience = limits_.answer + between_frames(settings_);
  const auto refuse = [&](const std::string& why) {
    throw Error(Error::Kind::kInput, fmt::format("camera {}: {}", settings_.id, why));
  };
  const std::lock_guard<std::mutex> turn(turn_);
  std::shared_ptr<Camera> camera;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto is_open = [&] { return camera_ != nullptr && !reopen_; };
    changed_.wait_for(lock, patience, [&] { return is_open() || stopping_ || !is_up(); });
    if (is_open()) camera = camera_;
    asked_ = camera != nullptr;
    answer_.reset();
  }
  if (!camera) {
    const std::string why = state().error;
    if (!why.empty()) throw Error(Error::Kind::kInput, why);
    refuse("it is being opened again; trigger in a moment");
  }
  std::string trouble;
  try {
    camera->trigger();
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  camera.reset();  // it may have to be opened again while we wait
  std::unique_lock<std::mutex> lock(mutex_);
  if (trouble.empty()) changed_.wait_for(lock, patience, [&] { return answer_ || stopping_; });
  asked_ = false;
  std::optional<Camera::Caught> answer = std::move(answer_);
  answer_.reset();
  if (!answer && trouble.empty()) {
    trouble = fmt::format("camera {}: no frame came within {} ms", settings_.id, patience.count());
  }
  // A frame that comes now would be taken for the next one that is asked for.
  if (!answer) reopen(trouble);
  lock.unlock();
  if (!answer) throw Error(Error::Kind::kInput, trouble);
  if (answer->kind != Camera::Caught::Kind::kFrame) {
    refuse(fmt::format("the frame was lost: {}; trigger again", answer->why));
  }
  return {std::move(answer->frame), hand_over()};
}

}  // namespace contcore
