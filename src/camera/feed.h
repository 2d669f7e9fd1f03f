// One camera's frames, handed on as they come, with an account of each; opened again when it is
// gone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "camera/camera.h"

namespace contcore {

/// Of every frame that came: frames = inspected + unreadable + dropped + damaged + waiting.
struct CameraState {
  std::string id;
  std::string station;
  std::string trigger;
  bool up = false;           ///< open; if it runs free, and sending
  CameraInfo info;           ///< as it was last seen
  std::uint64_t frames = 0;  ///< that came, whole or not
  std::uint64_t inspected = 0;
  std::uint64_t unreadable = 0;  ///< whole, but no image, or not to be judged
  std::uint64_t dropped = 0;     ///< since those before were not done
  std::uint64_t damaged = 0;     ///< came in part
  std::uint64_t waiting = 0;     ///< handed over
  std::uint64_t lost = 0;        ///< the camera counted them, and they never came
  std::uint64_t opened = 0;      ///< how often the camera was
  std::string error;             ///< why it is not up
  std::string losses;            ///< of the last hour, in words; empty: none
};

struct CameraLimits {
  std::size_t at_once = 4;  ///< frames handed over and not done
  std::chrono::milliseconds retry{1000};
  std::chrono::milliseconds silence{10000};  ///< of one that runs free, and then is opened again
  std::chrono::milliseconds answer{5000};    ///< of one that is triggered, beyond its exposure
};

class CameraFeed {
 public:
  using Clock = std::chrono::steady_clock;
  using Open = std::function<std::unique_ptr<Camera>(const CameraSettings&)>;
  /// To be called once: whether the frame could be inspected.
  using Done = std::function<void(bool)>;
  /// Takes a frame. Must not wait; false: not now, and the frame is dropped.
  using Take = std::function<bool(Frame&&, Done)>;
  using Note = std::function<void(const std::string&)>;

  CameraFeed(CameraSettings settings, Open open, Note note, const CameraLimits& limits = {});
  /// As stop().
  ~CameraFeed();
  CameraFeed(const CameraFeed&) = delete;
  CameraFeed& operator=(const CameraFeed&) = delete;

  /// Once. `take` is called from a thread of its own.
  void start(Take take);
  /// Hands nothing more over. Of several, each is told to end before one is waited for.
  void end();
  void stop();

  /// The frame that is taken now, of a camera that is triggered by software; Done is to be called
  /// for it. One at a time, the others wait. Throws Error: kUsage for another camera, kInput when
  /// no frame comes.
  std::pair<Frame, Done> trigger();

  const CameraSettings& settings() const { return settings_; }
  CameraState state() const;

 private:
  // What a Done changes: it may be called after the feed is gone.
  struct Account {
    std::mutex mutex;
    CameraState state;
    std::optional<Clock::time_point> loss;  // the latest
  };

  void run();
  void receive(Camera& camera);
  void deliver(Camera::Caught caught);
  bool pause(std::chrono::milliseconds time);
  void failed(const std::string& why);
  Done hand_over();  // of a frame that is counted as waiting
  void works();
  void reopen(const std::string& why);
  bool is_up() const;
  void count_losses(Camera& camera);
  void note_damaged(const Camera::Caught& caught);
  void note(const std::string& text) const {
    if (note_) note_(text);
  }

  const CameraSettings settings_;
  const Open open_;
  const Note note_;
  const CameraLimits limits_;
  const std::shared_ptr<Account> account_ = std::make_shared<Account>();
  Take take_;
  std::mutex turn_;  // of those who trigger

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::shared_ptr<Camera> camera_;  // while it is open
  bool asked_ = false;              // for a frame
  bool reopen_ = false;             // what was asked for in vain must not be taken for the next
  std::string failure_;             // why, then
  std::optional<Camera::Caught> answer_;
  bool stopping_ = false;
  bool told_ = false;                       // for the feed's thread alone: that the camera is gone
  std::uint64_t lost_before_ = 0;           // the same: by cameras opened before
  std::optional<Clock::time_point> noted_;  // the same: a frame that was damaged
  std::thread thread_;
};

}  // namespace contcore
