// Answers that are owed: who may give one, and how it gets back to the server's thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "serve/http.h"

struct MHD_Connection;

namespace contcore {

/// What a request gets that comes too late.
HttpResponse http_stopping();

/// Memory for bodies that all connections share.
class HttpBodyBudget {
 public:
  explicit HttpBodyBudget(std::size_t most) : most_(most) {}
  bool take(std::size_t bytes);
  void give_back(std::size_t bytes) { used_ -= bytes; }
  std::size_t left() const;

 private:
  const std::size_t most_;
  std::atomic<std::size_t> used_{0};
};

/// One body's share of it; given back at the end.
class HttpBodyShare {
 public:
  HttpBodyShare() = default;
  explicit HttpBodyShare(std::shared_ptr<HttpBodyBudget> budget) : budget_(std::move(budget)) {}
  ~HttpBodyShare() { release(); }
  HttpBodyShare(HttpBodyShare&& other) noexcept;
  HttpBodyShare& operator=(HttpBodyShare&& other) noexcept;

  /// False, and nothing changes, if there is no room.
  bool grow_to(std::size_t bytes);
  void release();

 private:
  std::shared_ptr<HttpBodyBudget> budget_;
  std::size_t bytes_ = 0;
};

/// A request that is with the handler. All but the connection is guarded by HttpReplies.
struct HttpExchange {
  MHD_Connection* connection = nullptr;
  int socket = -1;  ///< -1: closed, or about to be
  HttpBodyShare share;
  std::optional<HttpResponse> response;
  bool answered = false;
  bool suspended = false;
};

/// All exchanges of a server. One lock for all: a connection is woken while it is held, so once
/// close() has returned nobody touches the daemon any more and it can be stopped.
class HttpReplies {
 public:
  /// For the server's thread. Null when closed.
  std::shared_ptr<HttpExchange> open(MHD_Connection* connection, int socket, HttpBodyShare share);
  /// For the server's thread: the answer if it is there.
  std::optional<HttpResponse> take(HttpExchange& exchange);
  /// The same, but if it is not there the connection sleeps until it is.
  std::optional<HttpResponse> take_or_sleep(HttpExchange& exchange);

  /// For the server's thread, before it closes the socket: nobody looks at it from then on. May be
  /// null.
  void leave(HttpExchange* exchange);
  /// Whether the client has closed its side.
  bool has_left(const HttpExchange& exchange);

  /// Only the first answer counts. Wakes the connection if it sleeps.
  void answer(const std::shared_ptr<HttpExchange>& exchange, HttpResponse&& response);

  /// For the server's thread, before it sends a stream. False when closed.
  bool open(const std::shared_ptr<HttpStream>& stream);

  /// Lets streams fail, and opens no more.
  void end_streams();
  /// Answers 503 to all that are still owed, and the same.
  void close();

 private:
  void answer_locked(HttpExchange& exchange, HttpResponse&& response);
  void end_streams_locked();

  std::mutex mutex_;
  bool closed_ = false;
  bool streams_ended_ = false;
  std::unordered_set<std::shared_ptr<HttpExchange>> owed_;
  std::vector<std::weak_ptr<HttpStream>> streams_;
};

}  // namespace contcore
