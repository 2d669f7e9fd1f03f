// How far a command is, on stderr.
#pragma once

#include <chrono>
#include <deque>
#include <string>

#include "contcore/progress.h"

namespace contcore::app {

/// Estimates the time left from the rate of the recent past, smoothed with that of the whole run.
class TimeLeft {
 public:
  /// `done` (0 to 1) of the work is done `seconds` after the start.
  void observe(double seconds, double done);

  /// Seconds until all is done; negative while nothing is known.
  double estimate() const;

 private:
  struct Moment {
    double seconds;
    double done;
  };
  std::deque<Moment> recent_;
};

/// On a terminal, one line that is redrawn in place and erased at the end; elsewhere a plain line
/// now and then. Work that takes less than a second shows nothing. One at a time, on one thread.
class ProgressLine {
 public:
  explicit ProgressLine(const std::string& task);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows the part done; false once a stop was asked for.
  bool update(double done);

  /// Makes room for a line on the same terminal: erases what is drawn, until the next update. For
  /// whoever prints (common.h), whether there is a progress line or not.
  static void step_aside();

  /// The callback that the library takes. This object must outlive it.
  Progress callback() {
    return [this](double done) { return update(done); };
  }

 private:
  using Clock = std::chrono::steady_clock;

  void draw(double seconds, double done);
  void print(double seconds, double done) const;
  void erase();

  std::string task_;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  double shown_at_ = 0;
  double observed_at_ = 0;
  TimeLeft left_;
};

}  // namespace contcore::app
