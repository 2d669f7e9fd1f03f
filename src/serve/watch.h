// A folder whose images are inspected, each once for every time it is written.
//
// The kernel tells of files that are closed after writing or moved into the folder. Where it does
// not, a scan finds them: at the start, after it lost events, when more came than may wait, when
// the folder comes back, and once a minute for shares that other machines write to. A scan cannot
// tell whether a file is complete, so what it finds is inspected when it has not changed for a
// while.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "serve/seen_files.h"

namespace contcore {

struct WatchState {
  std::size_t waiting = 0;  ///< files known of and not yet inspected
  bool there = true;        ///< whether the folder is
};

struct WatchHooks {
  /// To be called once, from any thread, when a file was inspected or cannot be, with its mark as
  /// it was read; with nothing when it changed meanwhile or is gone.
  using Done = std::function<void(std::optional<FileMark>)>;
  /// Takes a file to be inspected. Must not wait; false: not now.
  std::function<bool(const std::string& path, const std::string& name, Done done)> inspect;
  /// What was inspected is on disk when it returns. May throw Error.
  std::function<void()> flush;
  std::function<void(const std::string&)> note;
  std::function<void(const WatchState&)> report;
};

struct WatchLimits {
  std::size_t waiting = 10000;  ///< names; what is beyond is found by a scan later
  std::size_t at_once = 4;      ///< files handed over and not done
  std::chrono::milliseconds unchanged{2000};
  std::chrono::milliseconds rescan{60000};
  std::chrono::milliseconds retry{1000};  ///< when the folder is gone
};

/// The hooks are called from a thread of its own.
class Watch {
 public:
  /// `list` is the file that remembers what was seen. Throws Error (kInput) when the folder cannot
  /// be watched or the list not be read.
  Watch(std::string folder, const std::string& list, WatchHooks hooks,
        const WatchLimits& limits = {});
  /// As stop(); then notes what was done until now.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Hands no more files over.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  // What a Done holds: it may be called after the watch is gone.
  struct Results;
  // Found by a scan, and perhaps still being written.
  struct Young {
    FileMark mark;
    Clock::time_point since;
  };

  void run();
  void read_events();
  bool attach();
  void lose_folder(const std::string& reason);
  void scan();
  void look_again();
  void wait_for(const std::string& name);
  void hand_over();
  void take_results();
  void save();
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  bool has_room() const { return waiting_.size() + young_.size() < limits_.waiting / 2 + 1; }

  const std::string folder_;
  const WatchHooks hooks_;
  const WatchLimits limits_;
  SeenFiles seen_;
  int events_ = -1;
  int watched_ = -1;  // the folder as the kernel knows it; -1: it is gone
  std::shared_ptr<Results> results_;
  std::deque<std::string> waiting_;
  std::unordered_set<std::string> named_;          // what is in waiting_
  std::unordered_map<std::string, bool> at_work_;  // handed over; whether written again since
  std::unordered_map<std::string, Young> young_;
  bool rescan_ = true;
  Clock::time_point scanned_{};
  Clock::time_point looked_{};
  Clock::time_point tried_{};
  Clock::time_point saved_{};
  std::string trouble_;  // with the list, said already
  std::thread thread_;
};

}  // namespace contcore
