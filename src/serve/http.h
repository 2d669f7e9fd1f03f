// HTTP/1.1 for the service: bounded in memory and time, whatever a client sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace contcore {

class HttpStream;

struct HttpRequest {
  using Fields = std::map<std::string, std::string, std::less<>>;

  std::string method;                 ///< upper case; HEAD arrives as GET
  std::string path;                   ///< decoded, for people; decide by `segments`
  std::vector<std::string> segments;  ///< "/a/b%2Fc" is {"a", "b/c"}, "/" is {}; never "." or ".."
  Fields query;                       ///< decoded; a name given twice has been refused
  Fields headers;                     ///< names in lower case; repeated ones joined by ", "
  std::string body;
  std::string id;      ///< the client's X-Request-Id if it is 1..64 of [A-Za-z0-9._-], else random
  std::string client;  ///< the address in figures

  /// The value of a header (its name in lower case), or "".
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  /// Control characters in values become blanks. The server writes Content-Length, X-Request-Id,
  /// X-Content-Type-Options, Cross-Origin-Resource-Policy and, unless it is here, Cache-Control.
  std::vector<std::pair<std::string, std::string>> headers;
  /// If set, the body is what this gives (serve/http_stream.h), and `body` is not sent. A client
  /// that takes nothing for HttpLimits::answer_seconds is dropped.
  std::shared_ptr<HttpStream> stream;
};

/// application/problem+json as in RFC 9457; the server adds "request_id" when it sends it.
HttpResponse problem(int status, std::string_view title, std::string_view detail);

class HttpReplies;
struct Listener;
struct HttpExchange;

/// An answer that is owed. May be given once, from any thread, also after the client has left or
/// the server is gone. If it is dropped, the client gets a 500.
class HttpReply {
 public:
  HttpReply(std::shared_ptr<HttpReplies> replies, std::shared_ptr<HttpExchange> exchange);
  ~HttpReply();
  HttpReply(HttpReply&&) noexcept = default;
  HttpReply& operator=(HttpReply&&) noexcept;

  /// Only the first call counts.
  void send(HttpResponse response);

  /// Whether the client has closed the connection, or its side of it: nobody may be there to read
  /// the answer.
  bool client_has_left() const;

 private:
  std::shared_ptr<HttpReplies> replies_;
  std::shared_ptr<HttpExchange> exchange_;
};

struct HttpLimits {
  std::size_t body = std::size_t{64} << 20;
  /// All bodies that are being received or wait for their answer, together; beyond: 503.
  std::size_t bodies = std::size_t{512} << 20;
  /// At once; a quarter of them for one client (by its address, IPv6 by the first 64 bits). When
  /// nearly all are taken, those that have been idle, or in the middle of sending or being sent
  /// something, for longest are closed. Fewer where the process may not have as many open files.
  std::size_t connections = 2000;
  std::size_t header_memory = 32 << 10;  ///< for each connection: request line and headers
  double idle_seconds = 30;     ///< for the first line of a request to come; then it is closed
  double head_seconds = 10;     ///< from that line to the end of the head, however it trickles
  double request_seconds = 30;  ///< from its first line to its last byte, however it trickles
  double answer_seconds = 60;   ///< for the client to take the answer
  double linger_seconds = 2;    ///< a refused body is thrown away this long, so that the refusal is
                                ///< read before the connection breaks
};

/// What is to become of a request of which only the head is known.
struct HttpAdmission {
  std::optional<HttpResponse> refusal;  ///< the answer; the body is not received
  /// Most bytes of its body; HttpLimits::body holds as well.
  std::size_t body = std::numeric_limits<std::size_t>::max();
};

class HttpServer {
 public:
  /// Runs before a body is received: authentication, rates, whether there is such a route. The
  /// request's `body` is empty.
  using Gate = std::function<HttpAdmission(const HttpRequest& head)>;
  using Handler = std::function<void(HttpRequest&&, HttpReply)>;

  /// Listens on an address in figures ("127.0.0.1", "::1", "0.0.0.0") and a port, 0 for any that is
  /// free. Gate and handler run on the server's one thread: they must be quick, or pass the reply
  /// on. What they throw becomes a 500. Throws Error (kInput) when the port cannot be had.
  HttpServer(const std::string& address, std::uint16_t port, const HttpLimits& limits, Gate gate,
             Handler handler);
  /// The same at a place that was taken before (serve/http_listen.h).
  HttpServer(Listener place, const HttpLimits& limits, Gate gate, Handler handler);
  /// As drain(0).
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;

  /// Takes no more connections, closes the idle ones, lets the others finish for that long, answers
  /// 503 to what is then still unanswered, and stops. For one thread, and neither gate nor handler.
  void drain(double seconds);

 private:
  class Daemon;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace contcore
