#include "serve/wake.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "contcore/error.h"

namespace contcore {

Wake::Wake() : file_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!file_.is_open()) {
    throw Error(Error::Kind::kInput,
                fmt::format("no more files can be opened ({}); allow more, ulimit -n",
                            std::strerror(errno)));
  }
}

void Wake::call() const {
  const std::uint64_t one = 1;
  // It fails when it has been called 2^64 times.
  [[maybe_unused]] const ssize_t written = ::write(fd(), &one, sizeof one);
}

void Wake::wait(std::chrono::milliseconds longest) const {
  pollfd called{fd(), POLLIN, 0};
  const auto limit = std::clamp<std::chrono::milliseconds::rep>(longest.count(), 0, 1 << 30);
  if (::poll(&called, 1, static_cast<int>(limit)) > 0) spend();
}

void Wake::spend() const {
  std::uint64_t calls = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd(), &calls, sizeof calls);
}

}  // namespace contcore
