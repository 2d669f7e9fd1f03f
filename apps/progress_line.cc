#include "progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/utf8.h"
#include "common.h"
#include "ranks.h"

namespace contcore::app {
namespace {

constexpr double kPatience = 1;      // seconds of work before anything is shown
constexpr double kRedraw = 0.1;      // seconds between two pictures on a terminal
constexpr double kBetweenLines = 5;  // seconds between two lines elsewhere
constexpr double kObserve = 0.1;     // seconds between two observations
constexpr double kRecent = 10;       // seconds that count as the recent past
constexpr double kWeightOfRecent = 0.7;

bool is_terminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<long>(std::min(seconds, 1e9) + 0.5);
  if (whole >= 3600) {
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string left_text(double left) {
  return left < 0 ? "" : fmt::format(", about {} left", clock_text(left));
}

ProgressLine* drawn_line = nullptr;  // the one that stands on the terminal

int percent(double done) { return static_cast<int>(std::floor(done * 100)); }

}  // namespace

void TimeLeft::observe(double seconds, double done) {
  recent_.push_back({seconds, done});
  // The oldest is kept until the next one is old enough, so that the span never falls below.
  while (recent_.size() > 2 && seconds - recent_[1].seconds >= kRecent) recent_.pop_front();
}

double TimeLeft::estimate() const {
  if (recent_.size() < 2) return -1;
  const Moment& then = recent_.front();
  const Moment& now = recent_.back();
  if (now.done <= 0 || now.seconds <= then.seconds) return -1;
  const double recent = (now.done - then.done) / (now.seconds - then.seconds);
  const double overall = now.done / now.seconds;
  return (1 - now.done) / (kWeightOfRecent * recent + (1 - kWeightOfRecent) * overall);
}

ProgressLine::ProgressLine(const std::string& task)
    : task_(printable_name(task)), terminal_(is_terminal()) {}

ProgressLine::~ProgressLine() { erase(); }

void ProgressLine::step_aside() {
  if (drawn_line != nullptr) drawn_line->erase();
}

void ProgressLine::erase() {
  if (drawn_line != this) return;
  std::fputs("\r\x1b[K", stderr);
  drawn_line = nullptr;
  shown_at_ = 0;  // the next update need not wait to draw it again
}

bool ProgressLine::update(double done) {
  if (stop_asked()) return false;
  if (!is_first()) return true;
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  done = std::clamp(done, 0.0, 1.0);
  if (seconds - observed_at_ >= kObserve) {
    left_.observe(seconds, done);
    observed_at_ = seconds;
  }
  if (seconds < kPatience || done >= 1) return true;
  const double pause = terminal_ ? kRedraw : kBetweenLines;
  if (shown_at_ > 0 && seconds - shown_at_ < pause) return true;
  if (terminal_) {
    draw(seconds, done);
  } else {
    print(seconds, done);
  }
  shown_at_ = seconds;
  return true;
}

void ProgressLine::draw(double seconds, double done) {
  const std::string text =
      fmt::format(" {:3}%  {}{}", percent(done), clock_text(seconds), left_text(left_.estimate()));
  const std::size_t width = terminal_width() - 1;  // the last column may wrap
  const std::size_t used = task_.size() + 3 + text.size();
  std::string line = task_ + " ";
  if (used + 5 < width) {
    const std::size_t cells = std::min<std::size_t>(30, width - used);
    const auto full = static_cast<std::size_t>(done * static_cast<double>(cells));
    line += '[' + std::string(full, '#') + std::string(cells - full, '.') + ']';
  }
  line += text;
  std::fputs(fmt::format("\r{}\x1b[K", line.substr(0, width)).c_str(), stderr);
  drawn_line = this;
}

void ProgressLine::print(double seconds, double done) const {
  note(fmt::format("{}: {}%, {} elapsed{}", task_, percent(done), clock_text(seconds),
                   left_text(left_.estimate())));
}

}  // namespace contcore::app
