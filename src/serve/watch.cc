#include "serve/watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "contcore/error.h"
#include "detector/find_images.h"

namespace contcore {
namespace {

constexpr std::size_t kEventBytes = 64 << 10;
constexpr int kTick = 200;     // milliseconds
constexpr int kBusyTick = 20;  // when something waits for room
constexpr auto kSaveEvery = std::chrono::seconds(1);
// An empty folder is most likely a share that is not mounted: what is known of it is kept, if it is
// not too much.
constexpr std::size_t kMostAbsent = 200000;

}  // namespace

struct Watch::Results {
  ~Results() {
    if (wake >= 0) ::close(wake);
  }
  void ring() const {
    const std::uint64_t one = 1;
    // A counter that is full wakes as well.
    [[maybe_unused]] const ssize_t put = ::write(wake, &one, sizeof(one));
  }

  int wake = -1;
  std::atomic<bool> stopped = false;
  std::mutex mutex;
  std::vector<std::pair<std::string, std::optional<FileMark>>> done;
};

Watch::Watch(std::string folder, const std::string& list, WatchHooks hooks,
             const WatchLimits& limits)
    : folder_(std::move(folder)),
      hooks_(std::move(hooks)),
      limits_(limits),
      seen_(list),
      results_(std::make_shared<Results>()) {
  events_ = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  results_->wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (events_ < 0 || results_->wake < 0 || !attach()) {
    const std::string reason = std::strerror(errno);
    if (events_ >= 0) ::close(events_);
    throw Error(Error::Kind::kInput,
                fmt::format("{}: the folder cannot be watched: {}", folder_, reason));
  }
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  stop();
  take_results();
  save();
  ::close(events_);
}

void Watch::stop() {
  results_->stopped = true;
  results_->ring();
  if (thread_.joinable()) thread_.join();
}

void Watch::run() {
  for (;;) {
    const bool wants_room = !waiting_.empty() && at_work_.size() < limits_.at_once;
    pollfd waited[] = {{events_, POLLIN, 0}, {results_->wake, POLLIN, 0}};
    ::poll(waited, 2, wants_room ? kBusyTick : kTick);
    if (results_->stopped) return;
    std::uint64_t rung = 0;
    [[maybe_unused]] const ssize_t got = ::read(results_->wake, &rung, sizeof(rung));
    read_events();
    take_results();
    look_again();
    const Clock::time_point now = Clock::now();
    const bool gone = watched_ < 0;
    if (gone ? now - tried_ > limits_.retry
             : has_room() && (rescan_ || now - scanned_ > limits_.rescan)) {
      scan();
    }
    hand_over();
    if (now - saved_ > kSaveEvery) save();
    if (hooks_.report) {
      hooks_.report({waiting_.size() + young_.size() + at_work_.size(), watched_ >= 0});
    }
  }
}

void Watch::read_events() {
  alignas(inotify_event) char buffer[kEventBytes];
  const ssize_t bytes = ::read(events_, buffer, sizeof(buffer));
  for (ssize_t at = 0; at < bytes;) {
    const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    if ((event->mask & IN_Q_OVERFLOW) != 0) {
      hooks_.note(
          fmt::format("{}: more files came than the kernel could tell of; the folder is "
                      "searched for them",
                      folder_));
      rescan_ = true;
      continue;
    }
    if (event->wd != watched_) continue;  // of a folder that was here before
    if ((event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) != 0) {
      lose_folder("it was moved, removed or unmounted");
      continue;
    }
    if (event->len == 0 || (event->mask & IN_ISDIR) != 0) continue;
    if (is_image_name(event->name)) wait_for(event->name);
  }
}

// Also when it is watched already: another folder may have taken its place.
bool Watch::attach() {
  tried_ = Clock::now();
  const int now = ::inotify_add_watch(
      events_, folder_.c_str(),
      IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
  if (now < 0) return false;
  if (watched_ >= 0 && now != watched_) ::inotify_rm_watch(events_, watched_);
  watched_ = now;
  return true;
}

void Watch::lose_folder(const std::string& reason) {
  if (watched_ < 0) return;
  hooks_.note(fmt::format("{}: the folder is gone: {}; its images are inspected when it is back",
                          folder_, reason));
  ::inotify_rm_watch(events_, watched_);  // a folder that was moved is still watched where it is
  watched_ = -1;
}

// Oldest first, and as many as there is room for.
void Watch::scan() {
  const bool was_gone = watched_ < 0;
  if (!attach()) {
    lose_folder(std::strerror(errno));
    return;
  }
  if (was_gone) hooks_.note(fmt::format("{}: the folder is back", folder_));
  scanned_ = Clock::now();
  rescan_ = false;
  std::unordered_set<std::string> present;
  std::vector<std::pair<FileMark, std::string>> found;
  std::error_code error;
  std::filesystem::directory_iterator at(folder_, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::string name = at->path().filename().string();
    if (!is_image_name(name)) continue;
    const std::optional<FileMark> mark = mark_of(path(name));
    if (!mark) continue;
    present.insert(name);
    if (seen_.knows(name, *mark) || named_.contains(name) || at_work_.contains(name) ||
        young_.contains(name)) {
      continue;
    }
    found.emplace_back(*mark, std::move(name));
  }
  if (error) {
    hooks_.note(fmt::format("{}: cannot be searched: {}", folder_, error.message()));
    return;
  }
  if (!present.empty() || seen_.size() > kMostAbsent) seen_.retain(present);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.changed, a.second) < std::tie(b.first.changed, b.second);
  });
  for (auto& [mark, name] : found) {
    if (waiting_.size() + young_.size() >= limits_.waiting) {
      rescan_ = true;
      break;
    }
    young_[std::move(name)] = {mark, scanned_};
  }
}

// Takes what has not changed since a scan found it.
void Watch::look_again() {
  const Clock::time_point now = Clock::now();
  if (now - looked_ < limits_.unchanged / 10) return;
  looked_ = now;
  std::vector<std::pair<std::int64_t, std::string>> ready;
  for (auto at = young_.begin(); at != young_.end();) {
    auto& [name, young] = *at;
    if (now - young.since < limits_.unchanged) {
      ++at;
      continue;
    }
    const std::optional<FileMark> mark = mark_of(path(name));
    if (mark && *mark != young.mark) {
      young = {*mark, now};
      ++at;
      continue;
    }
    // One that is gone has another name now, or is back with its folder.
    if (mark) ready.emplace_back(mark->changed, name);
    at = young_.erase(at);
  }
  std::sort(ready.begin(), ready.end());
  for (const auto& [changed, name] : ready) wait_for(name);
}

void Watch::wait_for(const std::string& name) {
  young_.erase(name);
  if (const auto found = at_work_.find(name); found != at_work_.end()) {
    found->second = true;
    return;
  }
  if (named_.contains(name)) return;
  if (waiting_.size() >= limits_.waiting) {
    rescan_ = true;
    return;
  }
  named_.insert(name);
  waiting_.push_back(name);
}

void Watch::hand_over() {
  while (watched_ >= 0 && !waiting_.empty() && at_work_.size() < limits_.at_once) {
    const std::string name = waiting_.front();
    const std::optional<FileMark> mark = mark_of(path(name));
    if (mark && !seen_.knows(name, *mark)) {
      const auto done = [results = results_, name](std::optional<FileMark> read) {
        const std::lock_guard<std::mutex> lock(results->mutex);
        results->done.emplace_back(name, read);
        results->ring();
      };
      if (!hooks_.inspect(path(name), name, done)) return;
      at_work_[name] = false;
    } else if (!mark) {
      hooks_.note(fmt::format("{}: gone before it could be inspected", path(name)));
    }
    waiting_.pop_front();
    named_.erase(name);
  }
}

void Watch::take_results() {
  std::vector<std::pair<std::string, std::optional<FileMark>>> done;
  {
    const std::lock_guard<std::mutex> lock(results_->mutex);
    done.swap(results_->done);
  }
  for (const auto& [name, read] : done) {
    const auto work = at_work_.extract(name);
    if (read) seen_.add(name, *read);
    if (!work.empty() && work.mapped()) {
      wait_for(name);
    } else if (!read) {
      if (const auto mark = mark_of(path(name))) {
        young_[name] = {*mark, Clock::now()};
      } else {
        hooks_.note(fmt::format("{}: gone before it could be inspected", path(name)));
      }
    }
  }
}

void Watch::save() {
  saved_ = Clock::now();
  if (!seen_.is_behind()) return;
  try {
    hooks_.flush();
    seen_.save();
    trouble_.clear();
  } catch (const Error& error) {
    if (trouble_ != error.what()) hooks_.note(error.what());
    trouble_ = error.what();
  }
}

}  // namespace contcore
