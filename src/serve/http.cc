// In: bytes of clients, whatever they are. Out: whole requests for a handler, and its answers. What
// is too large, too slow or no HTTP is refused here.
#include "serve/http.h"

#include <fmt/format.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <new>
#include <unordered_set>
#include <utility>

#include "contcore/error.h"
#include "serve/http_connections.h"
#include "serve/http_head.h"
#include "serve/http_listen.h"
#include "serve/http_replies.h"
#include "serve/http_response.h"
#include "serve/http_stream.h"

namespace contcore {
namespace {

using Phase = HttpConnections::Phase;

// What a handler's answer may take to leave when the service has to stop.
constexpr double kLastSeconds = 2;
// Files that are open besides connections.
constexpr std::size_t kOtherFiles = 128;
// At its limit the library would take no more connections; so its limit is above ours, and it is we
// who choose which of them to close.
constexpr std::size_t reserve(std::size_t connections) { return connections / 8 + 2; }
constexpr std::size_t kStreamBlockBytes = std::size_t{32} << 10;
constexpr std::size_t kFirstBodyBytes = std::size_t{64} << 10;

// One connection, as the server's thread sees it.
struct Peer {
  HttpConnections::Handle watched;
  std::string address;
  std::string target;   // as it came
  bool begun = false;   // the head has been looked at
  bool linger = false;  // closes before all is read
  bool is_head = false;
  HttpRequest request;
  HttpFraming framing;
  std::size_t most = 0;  // bytes of the body
  HttpBodyShare share;
  std::optional<HttpResponse> refusal;  // of a request without a body, for when it has ended
  std::shared_ptr<HttpExchange> exchange;

  void start_over() {
    target.clear();
    begun = false;
    is_head = false;
    request = {};
    framing = {};
    share.release();
    refusal.reset();
    exchange.reset();
  }
};

HttpResponse too_large(std::size_t most) {
  return problem(413, "Content Too Large",
                 fmt::format("the body may have at most {} bytes (--max-body)", most));
}

HttpResponse too_busy() {
  HttpResponse response =
      problem(503, "Service Unavailable", "too many large requests at once; try again in a second");
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

bool is_known(std::string_view method) {
  constexpr std::array<std::string_view, 7> kKnown = {"GET",    "HEAD",    "POST", "PUT",
                                                      "DELETE", "OPTIONS", "PATCH"};
  return std::find(kKnown.begin(), kKnown.end(), method) != kKnown.end();
}

// A stream on its way to a connection.
struct Streaming {
  std::shared_ptr<HttpStream> stream;
  MHD_Connection* connection;
  HttpConnections& connections;
  HttpConnections::Handle watched;
};

// Each piece has the time for an answer anew; while one is made, no time is set.
//
// Told of a failure by a connection that has just been woken, an old library does not look at it
// again until the server ends. So the connection is broken off, and sending one more byte fails.
ssize_t read_stream(void* self, std::uint64_t /*at*/, char* to, std::size_t most) {
  auto& [stream, connection, connections, watched] = *static_cast<Streaming*>(self);
  const std::ptrdiff_t bytes = stream->read(connection, to, most);
  connections.set_phase(watched, bytes == 0 ? Phase::kHandling : Phase::kStreaming);
  if (bytes == HttpStream::kAtEnd) return MHD_CONTENT_READER_END_OF_STREAM;
  if (bytes != HttpStream::kFailed) return bytes;
  connections.break_off(watched);
  *to = 0;
  return 1;
}

void close_stream(void* self) {
  const std::unique_ptr<Streaming> done(static_cast<Streaming*>(self));
  done->stream->close();
}

MHD_Response* stream_response(std::unique_ptr<Streaming> streaming) {
  MHD_Response* made = MHD_create_response_from_callback(
      MHD_SIZE_UNKNOWN, kStreamBlockBytes, &read_stream, streaming.get(), &close_stream);
  if (made != nullptr) static_cast<void>(streaming.release());  // the callback has it
  return made;
}

MHD_Response* body_response(std::unique_ptr<std::string> body) {
  MHD_Response* made = MHD_create_response_from_buffer_with_free_callback_cls(
      body->size(), body->data(), [](void* owner) { delete static_cast<std::string*>(owner); },
      body.get());
  if (made != nullptr) static_cast<void>(body.release());  // the callback has it
  return made;
}

MHD_Response* make_response(HttpResponse& response, const std::string& id, bool close,
                            std::unique_ptr<Streaming> streaming) {
  const auto lines = finish(response, id, close);
  MHD_Response* made = streaming != nullptr
                           ? stream_response(std::move(streaming))
                           : body_response(std::make_unique<std::string>(std::move(response.body)));
  if (made == nullptr) return nullptr;
  for (const auto& [name, value] : lines) {
    MHD_add_response_header(made, name.c_str(), value.c_str());
  }
  return made;
}

MHD_Result collect_line(void* lines, MHD_ValueKind, const char* name, std::size_t name_size,
                        const char* value, std::size_t value_size) {
  try {
    static_cast<std::vector<HttpHeaderLine>*>(lines)->emplace_back(
        std::string_view(name, name_size),
        value == nullptr ? std::string_view() : std::string_view(value, value_size));
    return MHD_YES;
  } catch (...) {
    return MHD_NO;
  }
}

std::vector<HttpHeaderLine> header_lines(MHD_Connection* connection) {
  std::vector<HttpHeaderLine> lines;
  const int count = MHD_get_connection_values_n(connection, MHD_HEADER_KIND, collect_line, &lines);
  if (count < 0 || lines.size() != static_cast<std::size_t>(count)) throw std::bad_alloc();
  return lines;
}

// Debian 12 has 0.9.75, which needs some care.
bool is_old_library() { return std::string_view(MHD_get_version()).starts_with("0."); }

// Signals are for the program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// No more connections than the process may have files.
HttpLimits within_the_process(HttpLimits limits) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
    const std::size_t most =
        files.rlim_cur > 2 * kOtherFiles ? files.rlim_cur - kOtherFiles : files.rlim_cur / 2;
    limits.connections = std::min(limits.connections, most - reserve(most));
  }
  limits.connections = std::clamp<std::size_t>(limits.connections, 2, 1 << 20);
  return limits;
}

}  // namespace

class HttpServer::Daemon {
 public:
  Daemon(Listener listener, const HttpLimits& limits, Gate gate, Handler handler);
  ~Daemon() { drain(0); }

  std::uint16_t port() const { return listener_.port; }
  void drain(double seconds);

 private:
  static void on_message(void* self, const char* format, va_list values);
  static void on_connection(void* self, MHD_Connection* connection, void** peer,
                            MHD_ConnectionNotificationCode what);
  static void* on_first_line(void* self, const char* target, MHD_Connection* connection);
  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* target,
                               const char* method, const char* version, const char* data,
                               std::size_t* size, void** unused);
  static void on_completed(void* self, MHD_Connection* connection, void** unused,
                           MHD_RequestTerminationCode how);
  static Peer* peer_of(MHD_Connection* connection);

  void start();
  MHD_Result proceed(MHD_Connection* connection, Peer& peer, const char* method,
                     const char* version, std::string_view data);
  MHD_Result begin(MHD_Connection* connection, Peer& peer, const char* method, const char* version);
  void look_at_framing(MHD_Connection* connection, Peer& peer, std::string_view method,
                       std::string_view version);
  std::optional<HttpResponse> look_at_request(Peer& peer, std::string_view method,
                                              std::string_view version);
  HttpAdmission ask_gate(const HttpRequest& head) const;
  MHD_Result receive(MHD_Connection* connection, Peer& peer, std::string_view data);
  std::optional<HttpResponse> make_room(Peer& peer, std::size_t bytes) const;
  static void send_past_library(MHD_Connection* connection, Peer& peer, HttpResponse&& response);
  bool hand_over(MHD_Connection* connection, Peer& peer);
  MHD_Result queue(MHD_Connection* connection, Peer& peer, HttpResponse&& response, bool close);

  const HttpLimits limits_;
  const Gate gate_;
  const Handler handler_;
  Listener listener_;
  std::shared_ptr<HttpBodyBudget> budget_;
  std::shared_ptr<HttpReplies> replies_ = std::make_shared<HttpReplies>();
  const bool is_old_ = is_old_library();
  std::atomic<bool> draining_{false};
  std::optional<HttpConnections> connections_;
  std::unordered_set<MHD_Connection*> heads_;  // that are being received; the server's thread's
  MHD_Daemon* daemon_ = nullptr;
};

HttpServer::Daemon::Daemon(Listener listener, const HttpLimits& limits, Gate gate, Handler handler)
    : limits_(within_the_process(limits)),
      gate_(std::move(gate)),
      handler_(std::move(handler)),
      listener_(std::move(listener)),
      budget_(std::make_shared<HttpBodyBudget>(limits.bodies)) {
  const SignalsBlocked blocked;
  connections_.emplace(limits_);
  start();
}

void HttpServer::Daemon::start() {
  start_listening(listener_);
  const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                         MHD_USE_ERROR_LOG | (listener_.ipv6 ? unsigned{MHD_USE_IPv6} : 0u);
  daemon_ =
      MHD_start_daemon(flags, listener_.port, nullptr, nullptr, &on_request, this,  //
                       MHD_OPTION_EXTERNAL_LOGGER, &on_message, this,               //
                       MHD_OPTION_LISTEN_SOCKET, listener_.socket.fd(),             //
                       MHD_OPTION_CONNECTION_LIMIT,
                       static_cast<unsigned>(limits_.connections + reserve(limits_.connections)),
                       MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits_.header_memory,  //
                       MHD_OPTION_NOTIFY_CONNECTION, &on_connection, this,         //
                       MHD_OPTION_URI_LOG_CALLBACK, &on_first_line, this,          //
                       MHD_OPTION_NOTIFY_COMPLETED, &on_completed, this,           //
                       MHD_OPTION_END);
  if (daemon_ == nullptr) {
    throw Error(Error::Kind::kInternal,
                "the HTTP server cannot be started; is there memory, and are threads allowed?");
  }
}

void HttpServer::Daemon::drain(double seconds) {
  if (daemon_ == nullptr) return;
  draining_ = true;
  MHD_quiesce_daemon(daemon_);
  // Whoever comes now is turned away at once, not left waiting to be accepted.
  ::shutdown(listener_.socket.fd(), SHUT_RDWR);
  connections_->start_draining();
  const double first = std::min(seconds, kLastSeconds);
  if (!connections_->wait_for_none(first)) {
    replies_->end_streams();
    connections_->wait_for_none(seconds - first);
  }
  replies_->close();
  connections_->give_up();
  connections_->wait_for_none(kLastSeconds);
  MHD_stop_daemon(daemon_);
  daemon_ = nullptr;
  connections_.reset();
  listener_.socket.close();
}

Peer* HttpServer::Daemon::peer_of(MHD_Connection* connection) {
  const MHD_ConnectionInfo* info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info == nullptr ? nullptr : static_cast<Peer*>(info->socket_context);
}

// A Content-Length that is no number is refused by the library itself, and an old one then sends
// the head of its answer twice. It says what it is about to send, though not on which connection:
// that is the one whose head is whole and was not handed to us. We send our own answer first, and
// no more goes out after it.
void HttpServer::Daemon::on_message(void* self, const char* format, va_list values) {
  std::array<char, 512> bytes{};
  std::vsnprintf(bytes.data(), bytes.size(), format, values);
  const std::string_view text(bytes.data());
  const auto says = [&](std::string_view words) { return text.find(words) != text.npos; };
  if (!says("Error processing request") || !says("Content-Length")) return;
  std::vector<MHD_Connection*> refused;
  auto& heads = static_cast<Daemon*>(self)->heads_;
  try {
    for (MHD_Connection* one : heads) {
      if (MHD_get_connection_info(one, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE) != nullptr) {
        refused.push_back(one);
      }
    }
    for (MHD_Connection* one : refused) heads.erase(one);
    // Others may still be taking the library's answer to a head that was too large.
    if (refused.size() != 1) return;
    Peer* peer = peer_of(refused[0]);
    peer->request.id = request_id({});
    send_past_library(
        refused[0], *peer,
        says("413") ? problem(413, "Content Too Large", "the body would be too large")
                    : problem(400, "Bad Request", "Content-Length must be a number of bytes"));
    ::shutdown(MHD_get_connection_info(refused[0], MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
               SHUT_WR);
  } catch (...) {  // no memory: then it is the library's answer
  }
}

void HttpServer::Daemon::on_connection(void* self, MHD_Connection* connection, void** peer,
                                       MHD_ConnectionNotificationCode what) {
  HttpConnections& connections = *static_cast<Daemon*>(self)->connections_;
  if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
    const std::unique_ptr<Peer> gone(static_cast<Peer*>(*peer));
    *peer = nullptr;
    static_cast<Daemon*>(self)->heads_.erase(connection);
    if (gone == nullptr) return;
    static_cast<Daemon*>(self)->replies_->leave(gone->exchange.get());
    connections.remove(gone->watched, gone->linger);
    return;
  }
  const int socket =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  try {
    auto fresh = std::make_unique<Peer>();
    fresh->address = address_text(
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
    fresh->watched = connections.add(socket, fresh->address);
    *peer = fresh.release();
  } catch (...) {  // no memory to watch it with
    *peer = nullptr;
    ::shutdown(socket, SHUT_RDWR);
  }
}

void* HttpServer::Daemon::on_first_line(void* self, const char* target,
                                        MHD_Connection* connection) {
  Peer* peer = peer_of(connection);
  if (peer == nullptr) return nullptr;
  static_cast<Daemon*>(self)->connections_->set_phase(peer->watched, Phase::kHead);
  try {
    static_cast<Daemon*>(self)->heads_.insert(connection);
    peer->target = target;
  } catch (...) {  // then it does not start with '/'
  }
  return nullptr;
}

void HttpServer::Daemon::on_completed(void* self, MHD_Connection* connection, void** /*unused*/,
                                      MHD_RequestTerminationCode /*how*/) {
  Peer* peer = peer_of(connection);
  if (peer == nullptr) return;
  static_cast<Daemon*>(self)->replies_->leave(peer->exchange.get());
  peer->start_over();
  static_cast<Daemon*>(self)->connections_->set_phase(peer->watched, Phase::kIdle);
}

MHD_Result HttpServer::Daemon::on_request(void* self, MHD_Connection* connection,
                                          const char* /*target*/, const char* method,
                                          const char* version, const char* data, std::size_t* size,
                                          void** /*unused*/) {
  Peer* peer = peer_of(connection);
  if (peer == nullptr) return MHD_NO;
  try {
    const std::string_view bytes(data, data == nullptr ? 0 : *size);
    const MHD_Result result =
        static_cast<Daemon*>(self)->proceed(connection, *peer, method, version, bytes);
    *size = 0;
    return result;
  } catch (...) {  // no memory even for a refusal
    return MHD_NO;
  }
}

// The library calls once with the head, then with pieces of the body, then at its end, and again
// when a connection that slept is woken.
MHD_Result HttpServer::Daemon::proceed(MHD_Connection* connection, Peer& peer, const char* method,
                                       const char* version, std::string_view data) {
  if (!peer.begun) return begin(connection, peer, method, version);
  if (!data.empty()) return receive(connection, peer, data);
  // Chunks and what may trail them are the easiest place to hide a request in: none follows.
  const bool close = peer.framing.chunked || draining_;
  if (peer.refusal) return queue(connection, peer, std::move(*peer.refusal), close);
  std::optional<HttpResponse> response;
  if (peer.exchange == nullptr) {
    if (!hand_over(connection, peer)) return queue(connection, peer, http_stopping(), true);
    response = replies_->take(*peer.exchange);
    // Put to sleep now, an old library would read when it wakes up, and close without an answer if
    // the client has closed its side. It does not when it is put to sleep on the next call, which
    // comes at once.
    if (!response && is_old_) return MHD_YES;
  }
  if (!response) response = replies_->take_or_sleep(*peer.exchange);
  if (!response) return MHD_YES;
  return queue(connection, peer, std::move(*response), close);
}

MHD_Result HttpServer::Daemon::begin(MHD_Connection* connection, Peer& peer, const char* method,
                                     const char* version) {
  peer.begun = true;
  heads_.erase(connection);
  connections_->set_phase(peer.watched, Phase::kReceiving);
  peer.request.client = peer.address;
  // Until the head is understood nobody knows where the next request starts.
  bool close = true;
  std::optional<HttpResponse> refusal;
  try {
    look_at_framing(connection, peer, method, version);
    close = peer.framing.chunked || peer.framing.length > 0;
    refusal = look_at_request(peer, method, version);
  } catch (const Error& error) {
    refusal = error.kind() == Error::Kind::kInput
                  ? problem(400, "Bad Request", error.what())
                  : problem(500, "Internal Server Error", "the request could not be looked at");
  } catch (...) {
    refusal = problem(500, "Internal Server Error", "the request could not be looked at");
  }
  if (!refusal) return MHD_YES;
  if (peer.request.id.empty()) peer.request.id = request_id({});
  if (!close) {
    // Answered now the library would close; at its end the request may be followed by another.
    peer.refusal = std::move(refusal);
    return MHD_YES;
  }
  peer.linger = true;
  return queue(connection, peer, std::move(*refusal), true);
}

void HttpServer::Daemon::look_at_framing(MHD_Connection* connection, Peer& peer,
                                         std::string_view method, std::string_view version) {
  HttpRequest& request = peer.request;
  const std::vector<HttpHeaderLine> lines = header_lines(connection);
  request.headers = parse_headers(lines);
  request.id = request_id(request.headers);
  const std::size_t size =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
  // An old library stops reading a value at a NUL, takes ": x" for the end of the head, and adds a
  // folded line to the name of the header instead of its value: what it reports is then not what
  // another reader of the same bytes sees.
  if (is_old_ && !covers_head(method, peer.target.size(), version, lines, size)) {
    throw Error(Error::Kind::kInput,
                "the head has a NUL, a folded line, a line without a name or one that does not end "
                "in CR LF");
  }
  peer.framing = parse_framing(request.headers, version);
}

std::optional<HttpResponse> HttpServer::Daemon::look_at_request(Peer& peer, std::string_view method,
                                                                std::string_view version) {
  HttpRequest& request = peer.request;
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return problem(505, "HTTP Version Not Supported", "use HTTP/1.1");
  }
  if (!is_known(method)) {
    return problem(501, "Not Implemented", "the method is not known here");
  }
  // The library would say so itself, but an old one sends the head of its answer twice.
  if (version == "HTTP/1.1" && !request.headers.contains("host")) {
    return problem(400, "Bad Request", "the header host is missing");
  }
  peer.is_head = method == "HEAD";
  request.method = peer.is_head ? "GET" : method;
  parse_target(peer.target, request);
  HttpAdmission admission = ask_gate(request);
  if (admission.refusal) return std::move(admission.refusal);
  peer.most = std::min(limits_.body, admission.body);
  if (peer.framing.length > peer.most) return too_large(peer.most);
  if (peer.framing.length > budget_->left()) return too_busy();
  peer.share = HttpBodyShare(budget_);
  return std::nullopt;
}

HttpAdmission HttpServer::Daemon::ask_gate(const HttpRequest& head) const {
  if (!gate_) return {};
  try {
    return gate_(head);
  } catch (...) {
    HttpAdmission admission;
    admission.refusal = problem(500, "Internal Server Error", "the gate failed");
    return admission;
  }
}

MHD_Result HttpServer::Daemon::receive(MHD_Connection* connection, Peer& peer,
                                       std::string_view data) {
  std::optional<HttpResponse> refusal = make_room(peer, data.size());
  if (!refusal) {
    peer.request.body.append(data);
    return MHD_YES;
  }
  // In the middle of a body the library takes no answer.
  send_past_library(connection, peer, std::move(*refusal));
  return MHD_NO;
}

// Nothing of ours may be under way on this socket, and the connection is to be closed.
void HttpServer::Daemon::send_past_library(MHD_Connection* connection, Peer& peer,
                                           HttpResponse&& response) {
  const std::string bytes = as_bytes(std::move(response), peer.request.id);
  const MHD_ConnectionInfo* info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  const ssize_t sent =
      ::send(info->connect_fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  peer.linger = sent > 0;
}

// Counts what the string holds, not what is in it, and lets that grow by doubling.
std::optional<HttpResponse> HttpServer::Daemon::make_room(Peer& peer, std::size_t bytes) const {
  std::string& body = peer.request.body;
  if (bytes > peer.most - body.size()) return too_large(peer.most);
  const std::size_t needed = body.size() + bytes;
  if (needed <= body.capacity()) return std::nullopt;
  const std::size_t whole =
      peer.framing.chunked ? peer.most : static_cast<std::size_t>(peer.framing.length);
  const std::size_t wanted =
      std::max(needed, std::min(whole, std::max(2 * body.capacity(), kFirstBodyBytes)));
  if (!peer.share.grow_to(wanted)) return too_busy();
  body.reserve(wanted);
  return std::nullopt;
}

// False when the server is stopping.
bool HttpServer::Daemon::hand_over(MHD_Connection* connection, Peer& peer) {
  connections_->set_phase(peer.watched, Phase::kHandling);
  const int socket =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  peer.exchange = replies_->open(connection, socket, std::move(peer.share));
  if (peer.exchange == nullptr) return false;
  HttpRequest request = std::exchange(peer.request, {});
  peer.request.id = request.id;
  try {
    // A reply that is destroyed on the way out answers 500.
    handler_(std::move(request), HttpReply(replies_, peer.exchange));
  } catch (...) {
    replies_->answer(peer.exchange, problem(500, "Internal Server Error", "the handler failed"));
  }
  return true;
}

MHD_Result HttpServer::Daemon::queue(MHD_Connection* connection, Peer& peer,
                                     HttpResponse&& response, bool close) {
  connections_->set_phase(peer.watched, Phase::kAnswering);
  std::unique_ptr<Streaming> streaming;
  if (peer.is_head && response.stream != nullptr) {
    // An old library would send the end of the body that there must not be.
    response.stream.reset();
    response.body.clear();
  }
  if (response.stream != nullptr && !replies_->open(response.stream)) {
    response = http_stopping();
    close = true;
  }
  if (response.stream != nullptr) {
    streaming.reset(new Streaming{response.stream, connection, *connections_, peer.watched});
  }
  MHD_Response* made = make_response(response, peer.request.id, close, std::move(streaming));
  if (made == nullptr) return MHD_NO;
  const MHD_Result result =
      MHD_queue_response(connection, static_cast<unsigned>(response.status), made);
  MHD_destroy_response(made);
  return result;
}

HttpServer::HttpServer(const std::string& address, std::uint16_t port, const HttpLimits& limits,
                       Gate gate, Handler handler)
    : HttpServer(take_place(address, port), limits, std::move(gate), std::move(handler)) {}

HttpServer::HttpServer(Listener place, const HttpLimits& limits, Gate gate, Handler handler)
    : daemon_(std::make_unique<Daemon>(std::move(place), limits, std::move(gate),
                                       std::move(handler))) {}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return daemon_->port(); }

void HttpServer::drain(double seconds) { daemon_->drain(seconds); }

}  // namespace contcore
