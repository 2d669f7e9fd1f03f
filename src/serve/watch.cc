#include "serve/watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <utility>

#include "contcore/error.h"
#include "detector/find_images.h"

namespace contcore {

Watch::Watch(std::string folder, Found found)
    : folder_(std::move(folder)), found_(std::move(found)) {
  events_ = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  stop_ = ::eventfd(0, EFD_CLOEXEC);
  const bool watched =
      events_ >= 0 && stop_ >= 0 &&
      ::inotify_add_watch(events_, folder_.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR) >= 0;
  if (!watched) {
    const std::string reason = std::strerror(errno);
    if (events_ >= 0) ::close(events_);
    if (stop_ >= 0) ::close(stop_);
    throw Error(Error::Kind::kInput,
                fmt::format("{}: the folder cannot be watched: {}", folder_, reason));
  }
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  const std::uint64_t one = 1;
  if (::write(stop_, &one, sizeof(one)) == sizeof(one)) thread_.join();
  ::close(events_);
  ::close(stop_);
}

void Watch::run() {
  alignas(inotify_event) char buffer[16 * (sizeof(inotify_event) + NAME_MAX + 1)];
  for (;;) {
    pollfd waited[] = {{events_, POLLIN, 0}, {stop_, POLLIN, 0}};
    if (::poll(waited, 2, -1) < 0 && errno != EINTR) return;
    if (waited[1].revents != 0) return;
    const ssize_t bytes = ::read(events_, buffer, sizeof(buffer));
    for (ssize_t at = 0; at < bytes;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      if (event->len == 0 || (event->mask & IN_ISDIR) != 0) continue;
      const std::string name = event->name;
      if (is_image_name(name)) found_(folder_ + "/" + name, name);
    }
  }
}

}  // namespace contcore
