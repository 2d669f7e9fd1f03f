#include "serve/http_connections.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <vector>

namespace contcore {
namespace {

using Clock = HttpConnections::Clock;

constexpr std::size_t kMostLingering = 64;
constexpr auto kLeaveDelay = std::chrono::milliseconds(200);
constexpr auto kLingerPeriod = std::chrono::milliseconds(10);

Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(std::clamp(count, 0.0, 1e6)));
}

bool has_unread_bytes(int socket) {
  int bytes = 0;
  return ::ioctl(socket, FIONREAD, &bytes) == 0 && bytes > 0;
}

// False when the other side has closed. At most 512 KiB at a time: the others wait for the lock.
bool throw_away_input(int socket) {
  std::array<char, 1 << 16> scratch;
  for (int i = 0; i < 8; ++i) {
    const ssize_t got = ::recv(socket, scratch.data(), scratch.size(), MSG_DONTWAIT);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;  // not if there was no socket to copy
  }
  return true;
}

}  // namespace

HttpConnections::HttpConnections(const HttpLimits& limits)
    : limits_(limits), thread_([this] { watch(); }) {}

HttpConnections::~HttpConnections() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  for (const Lingering& left : lingering_) ::close(left.socket);
}

HttpConnections::Handle HttpConnections::add(int socket) {
  const std::lock_guard lock(mutex_);
  watched_.push_back({.socket = socket, .phase = Phase::kIdle, .since = Clock::now()});
  if (is_crowded()) wake_.notify_all();
  return std::prev(watched_.end());
}

void HttpConnections::set_phase(Handle handle, Phase phase) {
  const std::lock_guard lock(mutex_);
  handle->phase = phase;
  handle->since = Clock::now();
  handle->ended = {};
}

void HttpConnections::remove(Handle handle, bool linger) {
  const std::lock_guard lock(mutex_);
  const Watched connection = *handle;
  watched_.erase(handle);
  gone_.notify_all();
  if (!linger || connection.broken || lingering_.size() >= kMostLingering) return;
  try {
    lingering_.push_back({-1, Clock::now() + seconds(limits_.linger_seconds)});
  } catch (const std::bad_alloc&) {
    return;
  }
  lingering_.back().socket = ::fcntl(connection.socket, F_DUPFD_CLOEXEC, 0);
  ::shutdown(lingering_.back().socket, SHUT_WR);
  wake_.notify_all();
}

void HttpConnections::start_draining() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  wake_.notify_all();
}

void HttpConnections::give_up() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  giving_up_ = true;
  wake_.notify_all();
}

bool HttpConnections::wait_for_none(double most_seconds) {
  std::unique_lock lock(mutex_);
  return gone_.wait_for(lock, seconds(most_seconds),
                        [this] { return watched_.empty() && lingering_.empty(); });
}

void HttpConnections::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Clock::time_point now = Clock::now();
    try {
      sweep(now);
    } catch (const std::bad_alloc&) {  // next time, then
    }
    drop_lingering(now);
    wake_.wait_for(lock, period());
  }
}

// Often enough that a time limit is kept to about a tenth.
Clock::duration HttpConnections::period() const {
  if (draining_ || !lingering_.empty()) return kLingerPeriod;
  const double least =
      std::min({limits_.idle_seconds, limits_.request_seconds, limits_.answer_seconds});
  return seconds(std::clamp(least / 10, 0.01, 0.5));
}

void HttpConnections::sweep(Clock::time_point now) {
  for (Watched& connection : watched_) {
    if (connection.broken) continue;
    if (is_overdue(connection, now) || has_left(connection, now)) break_off(connection);
  }
  if (is_crowded()) make_room();
}

bool HttpConnections::is_crowded() const {
  return watched_.size() > limits_.connections - std::max<std::size_t>(1, limits_.connections / 10);
}

// So that whoever only holds connections open does not keep the others out.
void HttpConnections::make_room() {
  std::vector<Watched*> idle;
  std::size_t surplus = watched_.size() - limits_.connections * 3 / 4;
  for (Watched& connection : watched_) {
    if (connection.broken) {
      surplus -= surplus > 0 ? 1 : 0;
    } else if (connection.phase == Phase::kIdle && !has_unread_bytes(connection.socket)) {
      idle.push_back(&connection);
    }
  }
  std::sort(idle.begin(), idle.end(),
            [](const Watched* a, const Watched* b) { return a->since < b->since; });
  idle.resize(std::min(idle.size(), surplus));
  for (Watched* connection : idle) break_off(*connection);
}

bool HttpConnections::is_overdue(const Watched& connection, Clock::time_point now) const {
  const Clock::duration age = now - connection.since;
  switch (connection.phase) {
    case Phase::kIdle:
      // What has come but was not looked at yet is no idle connection.
      return age > seconds(limits_.idle_seconds) ||
             (draining_ && !has_unread_bytes(connection.socket));
    case Phase::kReceiving:
      return giving_up_ || age > seconds(limits_.request_seconds);
    case Phase::kAnswering:
      return age > seconds(limits_.answer_seconds);
    case Phase::kHandling:
      break;
  }
  return false;
}

// The library can miss the end of input when it comes together with the last bytes; it would keep a
// body that nobody will complete. The delay is for what it has read but not told us of yet.
bool HttpConnections::has_left(Watched& connection, Clock::time_point now) {
  if (connection.phase != Phase::kIdle && connection.phase != Phase::kReceiving) return false;
  char byte = 0;
  if (::recv(connection.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0) return false;
  if (connection.ended == Clock::time_point()) connection.ended = now;
  return now - connection.ended > kLeaveDelay;
}

void HttpConnections::break_off(Watched& connection) {
  connection.broken = true;
  if (connection.phase == Phase::kAnswering) {
    // The kernel, too, is to forget what the client does not read.
    const linger at_once{1, 0};
    ::setsockopt(connection.socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  // The server's thread sees the end of input or a broken pipe, and closes.
  ::shutdown(connection.socket, SHUT_RDWR);
}

void HttpConnections::drop_lingering(Clock::time_point now) {
  const std::size_t before = lingering_.size();
  lingering_.remove_if([&](const Lingering& left) {
    if (!giving_up_ && now < left.until && throw_away_input(left.socket)) return false;
    ::close(left.socket);
    return true;
  });
  if (lingering_.size() != before) gone_.notify_all();
}

}  // namespace contcore
