// The verdicts that one output is still to send, in their order: rows of the store, and among them
// those that the store did not take.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/store.h"
#include "serve/wake.h"

namespace contcore {

/// A verdict on its way.
struct Delivery {
  std::string key;  ///< tells it from all others, and is the same however often it is sent
  std::string station;
  std::string body;     ///< JSON
  std::int64_t id = 0;  ///< of its row; 0: it has none
};

struct OutputState {
  std::string name;
  bool up = false;  ///< the last attempt succeeded, or none was made
  std::size_t waiting = 0;
  std::size_t delivered = 0;  ///< since the output was first named, as is `dropped`
  std::size_t dropped = 0;
  std::size_t failures = 0;  ///< attempts, since the start
  std::string error;         ///< why it is not up
  std::string drops;         ///< of the last hour, in words
};

/// Nothing of it waits in memory but what is being sent, and a thousand that the store did not
/// take.
class OutputQueue {
 public:
  using Clock = std::chrono::steady_clock;
  using Note = std::function<void(const std::string&)>;

  OutputQueue(Store& store, std::string name, Note note);

  const std::string& name() const { return name_; }

  // From any thread.
  /// A row was added.
  void came() { wake_.call(); }
  /// One that the store did not take.
  void unkept(const StoredInspection& row, const std::string& key);
  OutputState state();
  /// Whoever sends is to end when nothing waits, after the next failure, or at that time.
  void stop(Clock::time_point end);
  /// Nobody sends any more: what waits in memory alone is dropped, and the store is told.
  void close();

  // For the thread that sends.
  /// The next, at most n; none when there is none now. Throws Error when the store cannot be read.
  std::vector<Delivery> take(std::size_t n);
  /// A delivery is done with. In the order in which they were taken.
  void delivered(const Delivery& delivery) { settle(delivery, true); }
  void dropped(const Delivery& delivery, const std::string& why);
  /// An attempt failed; or the first one succeeded after that.
  void failed(const std::string& why);
  void works();
  bool stopping() const { return stopping_; }
  bool is_over() const;
  /// Until something came, or it is to stop; at most that long.
  void wait(std::chrono::milliseconds longest) { wake_.wait(longest); }
  /// That long, or until it is to stop.
  void pause(std::chrono::milliseconds time);
  const Wake& wake() const { return wake_; }

 private:
  struct Unkept {
    std::int64_t after = 0;  // the last row that was made before it
    Delivery delivery;
  };
  static Delivery as_delivery(const StoredInspection& row, std::string key);
  void settle(const Delivery& delivery, bool arrived);
  bool tell_store();
  void look_for_drops(std::size_t dropped);
  StoredOutput counts();

  Store& store_;
  const std::string name_;
  const std::string series_;
  const Note note_;
  Wake wake_;
  std::atomic<bool> stopping_ = false;

  std::mutex counting_;       // held while the store is told of report_; before the other
  mutable std::mutex mutex_;  // of what follows
  std::deque<Unkept> unkept_;
  std::size_t unkept_taken_ = 0;  // of those, at hand
  OutputReport report_;           // what the store does not know yet
  bool up_ = true;
  std::size_t failures_ = 0;
  std::string error_;
  Clock::time_point end_ = Clock::time_point::max();
  bool counted_ = false;
  std::size_t drops_seen_ = 0;
  std::string drops_;
  std::string why_dropped_;
  std::size_t drops_told_ = 0;
  std::optional<Clock::time_point> drops_noted_;
  Clock::time_point dropped_at_;
};

}  // namespace contcore
