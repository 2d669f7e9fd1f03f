// Tasks that are learned from many images, sent one after the other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "contcore/vectors.h"
#include "detector/feature_store.h"
#include "serve/line.h"

namespace contcore {

struct JobState {
  std::uint64_t id = 0;
  std::string task;
  std::string state;  ///< receiving, learning, done, cancelled, failed
  std::size_t received = 0;
  std::size_t skipped = 0;
  double progress = 0;
  std::string error;
  std::string created;
  std::string finished;
};

/// Features arrive from several threads; learning is for one.
class Job {
 public:
  Job(std::uint64_t id, std::string task, std::size_t dimension, std::string now);

  JobState state() const;

  /// An image's patches; every fifth is held out. False when the job does not receive any more, or
  /// has as many as it may.
  bool take(VectorView patches);
  void skip();

  /// From receiving to learning; false if it is not receiving or has nothing to learn from.
  bool start();
  /// Back to receiving: there was no room for it.
  void put_off();
  /// Ends it if it has not ended; what is learning stops soon.
  void cancel(const std::string& now);
  /// Whether it receives, and nothing has come for a quarter of an hour.
  bool forgotten() const;

  /// Learns into the line, if the job is still to be learned. Does not throw. Returns why the disk
  /// did not take it, if that is why it failed.
  std::optional<std::string> learn(Line& line, Threads& threads);

 private:
  void end(const std::string& state, const std::string& error);
  bool ended() const;

  mutable std::mutex mutex_;
  JobState state_;
  std::atomic<bool> stop_ = false;
  std::unique_ptr<FeatureStore> features_;
  std::unique_ptr<FeatureStore> held_;
  std::vector<std::size_t> held_ends_;
  std::size_t learned_ = 0;
  std::chrono::steady_clock::time_point touched_ = std::chrono::steady_clock::now();
};

/// The last hundred.
class Jobs {
 public:
  /// Nothing when too many receive at once.
  std::shared_ptr<Job> create(const std::string& task, std::size_t dimension);
  std::shared_ptr<Job> find(std::uint64_t id) const;
  std::vector<JobState> list() const;  ///< newest first

 private:
  mutable std::mutex mutex_;
  std::uint64_t next_ = 1;
  std::deque<std::shared_ptr<Job>> jobs_;
};

}  // namespace contcore
