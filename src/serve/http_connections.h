// Watches over connections, so that none takes longer than it may.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "serve/http.h"

namespace contcore {

/// A thread that breaks off connections whose time is up. It shuts sockets down but never closes
/// one of the server's; a socket is forgotten, under the same lock, before the server closes it.
class HttpConnections {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Phase {
    kIdle,       ///< no first line of a request yet
    kHead,       ///< from the first line to the end of the head
    kReceiving,  ///< from there to the end of the body
    kHandling,   ///< with the handler: no time is set here
    kAnswering,  ///< until the last byte is handed to the kernel
    kStreaming,  ///< the same of a piece of a stream
  };

  /// How many connections each client has; broken ones do not count.
  using Clients = std::map<std::string, std::size_t, std::less<>>;

  struct Watched {
    int socket;
    Clients::iterator client;  ///< until it is broken
    Phase phase;
    Clock::time_point since;
    Clock::time_point ended{};  ///< when the client was first seen to send no more in this phase
    bool broken = false;
  };
  using Handle = std::list<Watched>::iterator;

  explicit HttpConnections(const HttpLimits& limits);
  ~HttpConnections();
  HttpConnections(const HttpConnections&) = delete;
  HttpConnections& operator=(const HttpConnections&) = delete;

  /// Makes room for it, or breaks it off: too many at once, or too many of this client.
  Handle add(int socket, const std::string& address);
  void set_phase(Handle handle, Phase phase);
  /// Nothing more is sent on it or received.
  void break_off(Handle handle);
  /// Before the server closes the socket. With `linger`, what the client still sends is thrown away
  /// for a while: closed at once, its kernel would drop our answer along with the connection.
  void remove(Handle handle, bool linger);

  /// From now on idle connections are closed at once.
  void start_draining();
  /// From now on all but answers are broken off.
  void give_up();
  /// Whether no connection is left, at the latest after so many seconds.
  bool wait_for_none(double seconds);

 private:
  struct Lingering {
    int socket;
    Clock::time_point until;
  };

  void watch();
  Clock::duration period() const;
  void sweep(Clock::time_point now);
  bool is_crowded() const;
  void make_room(const Clients::value_type* client, std::size_t surplus);
  bool is_overdue(const Watched& connection, Clock::time_point now) const;
  static bool has_left(Watched& connection, Clock::time_point now);
  void break_off(Watched& connection);
  void forget(const Watched& connection);
  void drop_lingering(Clock::time_point now);

  const HttpLimits limits_;
  const std::size_t share_;  // of one client
  std::mutex mutex_;
  std::condition_variable wake_;  // the watcher
  std::condition_variable gone_;  // a connection
  std::list<Watched> watched_;
  Clients clients_;
  std::size_t open_ = 0;  // not broken
  std::list<Lingering> lingering_;
  bool draining_ = false;
  bool giving_up_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace contcore
