#include "serve/http_connections.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <tuple>
#include <vector>

#include "serve/rate_limit.h"

namespace contcore {
namespace {

using Clock = HttpConnections::Clock;

constexpr std::size_t kMostLingering = 64;
// A client may have a quarter of all connections, or these.
constexpr std::size_t kLeastShare = 8;
// What is sent piece by piece can be asked for again when the service is back.
constexpr auto kLastPiece = std::chrono::seconds(2);
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
    : limits_(limits),
      share_(std::max(limits.connections / 4, kLeastShare)),
      thread_([this] { watch(); }) {}

HttpConnections::~HttpConnections() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  for (const Lingering& left : lingering_) ::close(left.socket);
}

// Room is made here and not by the watcher: whoever comes fast must not get ahead of it.
HttpConnections::Handle HttpConnections::add(int socket, const std::string& address) {
  const std::lock_guard lock(mutex_);
  const auto client = clients_.try_emplace(client_key(address), 0).first;
  watched_.push_back(
      {.socket = socket, .client = client, .phase = Phase::kIdle, .since = Clock::now()});
  ++client->second;
  ++open_;
  try {
    if (client->second > share_) make_room(&*client, client->second - share_ * 7 / 8);
    if (is_crowded()) make_room(nullptr, open_ - limits_.connections * 3 / 4);
  } catch (const std::bad_alloc&) {  // then there is none
  }
  Watched& fresh = watched_.back();
  if (!fresh.broken && (open_ > limits_.connections || client->second > share_)) break_off(fresh);
  return std::prev(watched_.end());
}

void HttpConnections::set_phase(Handle handle, Phase phase) {
  const std::lock_guard lock(mutex_);
  // The time for a request runs from its first line to its last byte.
  if (phase != Phase::kReceiving) handle->since = Clock::now();
  handle->phase = phase;
  handle->ended = {};
}

void HttpConnections::break_off(Handle handle) {
  const std::lock_guard lock(mutex_);
  if (!handle->broken) break_off(*handle);
}

void HttpConnections::remove(Handle handle, bool linger) {
  const std::lock_guard lock(mutex_);
  if (!handle->broken) forget(*handle);
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
  const double least = std::min({limits_.idle_seconds, limits_.head_seconds,
                                 limits_.request_seconds, limits_.answer_seconds});
  return seconds(std::clamp(least / 10, 0.01, 0.5));
}

void HttpConnections::sweep(Clock::time_point now) {
  for (Watched& connection : watched_) {
    if (connection.broken) continue;
    if (is_overdue(connection, now) || has_left(connection, now)) break_off(connection);
  }
}

bool HttpConnections::is_crowded() const {
  return open_ > limits_.connections - std::max<std::size_t>(1, limits_.connections / 10);
}

// So that whoever only holds connections open does not keep the one out that came last: of all, or
// of one client, those go that have been at the same thing for longest, be it waiting, sending a
// part of a request or taking an answer. A request that is whole is served; one that may be, for it
// was not looked at yet, goes last.
void HttpConnections::make_room(const Clients::value_type* client, std::size_t surplus) {
  struct Candidate {
    bool unread;
    Clock::time_point since;
    Watched* connection;
  };
  std::vector<Candidate> unfinished;
  for (Watched& connection : watched_) {
    if (connection.broken || connection.phase == Phase::kHandling) continue;
    if (client != nullptr && &*connection.client != client) continue;
    if (&connection == &watched_.back()) continue;
    const bool unread = connection.phase == Phase::kIdle && has_unread_bytes(connection.socket);
    unfinished.push_back({unread, connection.since, &connection});
  }
  std::sort(unfinished.begin(), unfinished.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.unread, a.since) < std::tie(b.unread, b.since);
  });
  unfinished.resize(std::min(unfinished.size(), surplus));
  for (const Candidate& one : unfinished) break_off(*one.connection);
}

bool HttpConnections::is_overdue(const Watched& connection, Clock::time_point now) const {
  const Clock::duration age = now - connection.since;
  switch (connection.phase) {
    case Phase::kIdle:
      // What has come but was not looked at yet is no idle connection.
      return age > seconds(limits_.idle_seconds) ||
             (draining_ && !has_unread_bytes(connection.socket));
    case Phase::kHead:
      if (age > seconds(limits_.head_seconds)) return true;
      [[fallthrough]];
    case Phase::kReceiving:
      return giving_up_ || age > seconds(limits_.request_seconds);
    case Phase::kStreaming:
      if (draining_ && age > kLastPiece) return true;
      [[fallthrough]];
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
  if (connection.phase >= Phase::kHandling) return false;
  char byte = 0;
  if (::recv(connection.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0) return false;
  if (connection.ended == Clock::time_point()) connection.ended = now;
  return now - connection.ended > kLeaveDelay;
}

// It does not count any more.
void HttpConnections::forget(const Watched& connection) {
  --open_;
  if (--connection.client->second == 0) clients_.erase(connection.client);
}

void HttpConnections::break_off(Watched& connection) {
  connection.broken = true;
  forget(connection);
  if (connection.phase == Phase::kAnswering || connection.phase == Phase::kStreaming) {
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
