// Tasks that are learned from many images, sent one after the other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contcore/review.h"
#include "contcore/vectors.h"
#include "detector/image_look.h"
#include "detector/learning.h"
#include "serve/live_memory.h"

namespace contcore {

struct JobState {
  std::uint64_t id = 0;
  std::string task;
  std::string state;  ///< receiving, reviewing, questions, learning, done, cancelled, failed
  std::size_t received = 0;
  std::size_t skipped = 0;
  /// Those that could not be used, by the client's names: at most a hundred.
  struct Skipped {
    std::string name;
    std::string reason;
  };
  std::vector<Skipped> skipped_images;
  std::size_t left_out = 0;                  ///< of the received: not to be learned
  std::shared_ptr<const Review> review;      ///< none before there is one
  std::vector<std::string> strangest_names;  ///< of its strangest images
  double progress = 0;
  std::string error;
  std::string created;
  std::string finished;
};

/// Bytes of features in memory that a machine has for jobs: 512 MiB, or an eighth of its memory.
std::size_t memory_for_jobs();

/// Of all jobs together: whoever may learn must not be able to take the machine down.
struct JobLimits {
  std::size_t receiving = 16;
  std::size_t waiting = 16;                  ///< to be learned, with the one that is
  std::size_t memory = memory_for_jobs();    ///< bytes of features; beyond: on disk
  std::size_t disk = std::size_t{64} << 30;  ///< bytes of features, and half of what is free
  std::chrono::seconds gives_way{30};        ///< untouched so long, it ends for another
  std::chrono::seconds forgotten{300};       ///< untouched so long, it ends
};

/// What a job keeps of an image beside its patches.
struct JobImage {
  std::string name;  ///< the client's
  ImageLook look;
};

using JobClock = std::function<std::chrono::steady_clock::time_point()>;

/// Features arrive from several threads; learning is for one.
class Job {
 public:
  Job(std::uint64_t id, std::string task, std::size_t dimension, std::shared_ptr<FeatureRoom> room,
      JobClock now, SharedRegion region = {});

  /// That its images are seen through.
  const SharedRegion& region() const { return region_; }

  /// Who teaches it, and where its images are kept so that it can be taken back; none: they are
  /// not.
  void write_down(std::string who, std::unique_ptr<LessonImagesWriter> images);

  JobState state() const;

  /// An image's patches; returns its number. Nothing when the job does not receive any more, or
  /// has as many as it may. Throws Error (kInput) when there is no room for them: the job has then
  /// failed, and all that it had is free.
  /// `bytes` are the image as it came.
  std::optional<std::size_t> take(const Patches& patches, JobImage image = {},
                                  std::span<const std::uint8_t> bytes = {});
  /// One that could not be used.
  void skip(const std::string& name = "", const std::string& reason = "");
  /// Its client is still there.
  void touch();

  /// From receiving to reviewing; false if it is not receiving or has nothing to look at.
  bool start_review();
  /// From receiving or from questions to learning, without some of its images; false if it is in
  /// neither state or has nothing to learn from. See Jobs::start().
  bool start(const std::vector<std::size_t>& without = {});
  /// Back to what it was before: there was no room for it.
  void put_off();
  /// Ends it if it has not ended; what is learning stops soon.
  void cancel();
  /// How long nothing has come for it, a tenth of that while a person looks at a review; nothing if
  /// it does not receive.
  std::optional<std::chrono::steady_clock::duration> untouched() const;
  /// Cancels it if nothing has come for so long, and keeps the reason. Whether it did.
  bool drop(std::chrono::seconds untouched, const std::string& reason);
  bool ended() const;

  /// Looks at its images, and has a review then. Does not throw.
  void review(const LiveMemory& live, Compute& compute);

  /// Learns into the memory, if the job is still to be learned. Does not throw. Returns why the
  /// disk did not take it, if that is why it failed.
  std::optional<std::string> learn(LiveMemory& live, Compute& compute);

 private:
  void end(const std::string& state, const std::string& error);
  void end_locked(const std::string& state, const std::string& error);
  bool ended_locked() const;
  bool waits_locked() const;
  std::chrono::steady_clock::duration untouched_locked() const;
  Progress follow();
  void leave_out();

  const JobClock now_;
  const std::size_t dimension_;
  const std::shared_ptr<FeatureRoom> room_;
  const SharedRegion region_;
  mutable std::mutex mutex_;
  JobState state_;
  std::atomic<bool> stop_ = false;
  std::unique_ptr<TrainingSetBuilder> set_;
  std::string who_;
  std::unique_ptr<LessonImagesWriter> images_;
  std::vector<JobImage> named_;  // as many as the set has
  std::vector<bool> without_;    // of these
  std::chrono::steady_clock::time_point touched_;
};

/// The last hundred: only those that have ended are forgotten.
class Jobs {
 public:
  explicit Jobs(const JobLimits& limits = {}, JobClock now = std::chrono::steady_clock::now);

  /// Where there are as many as may receive, the one that has been untouched for longest gives way;
  /// nothing when none has been for long enough.
  std::shared_ptr<Job> create(const std::string& task, std::size_t dimension,
                              const SharedRegion& region = {});
  /// From receiving to learning. kFull: too many wait already, and the job stays as it is.
  enum class Start { kStarted, kNothingToLearn, kFull };
  Start start(Job& job, const std::vector<std::size_t>& without = {});
  /// Ends those whose clients have not come back. To be called every so often.
  void forget();
  std::shared_ptr<Job> find(std::uint64_t id) const;
  std::vector<JobState> list() const;  ///< newest first, without their reviews
  const FeatureRoom& room() const { return *room_; }

 private:
  std::size_t count(std::string_view state) const;
  std::size_t open() const;
  bool make_place();

  const JobLimits limits_;
  const JobClock now_;
  const std::shared_ptr<FeatureRoom> room_;
  mutable std::mutex mutex_;
  std::uint64_t next_;
  std::deque<std::shared_ptr<Job>> jobs_;
};

}  // namespace contcore
