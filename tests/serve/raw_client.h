// A client that sends exactly the bytes it is told to, and waits for nothing forever.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

namespace contcore {

struct RawAnswer {
  int status = 0;  ///< 0: the connection was closed, or broke, before an answer was whole
  std::map<std::string, std::string> headers;
  std::string body;
};

class RawClient {
 public:
  /// `from` is the last figure of our own address, 127.0.0.x.
  explicit RawClient(std::uint16_t port, int receive_buffer = 0, std::uint32_t from = 1)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) {
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + from);
    ::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  void close_writing() { ::shutdown(socket_, SHUT_WR); }

  /// False if the other side is gone.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      pollfd ready{socket_, POLLOUT, 0};
      if (::poll(&ready, 1, kPatience) <= 0) return false;
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN) return false;
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// The next answer. `has_body` is false for the answer to HEAD.
  RawAnswer answer(bool has_body = true) {
    RawAnswer answer;
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == buffer_.npos) {
      if (!receive()) return {};
    }
    std::string_view head(buffer_.data(), end + 2);
    answer.status = std::atoi(std::string(head.substr(9, 3)).c_str());
    head.remove_prefix(head.find("\r\n") + 2);
    while (!head.empty()) {
      const std::string_view line = head.substr(0, head.find("\r\n"));
      head.remove_prefix(line.size() + 2);
      const std::size_t colon = line.find(": ");
      answer.headers[std::string(line.substr(0, colon))] = line.substr(colon + 2);
    }
    buffer_.erase(0, end + 4);
    const std::size_t size =
        has_body ? std::strtoull(answer.headers["Content-Length"].c_str(), nullptr, 10) : 0;
    while (buffer_.size() < size) {
      if (!receive()) return {};
    }
    answer.body = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return answer;
  }

  /// The same of an answer in chunks; status 0 if it has no end.
  RawAnswer chunked() {
    RawAnswer whole = answer(false);
    for (;;) {
      std::size_t line = 0;
      while ((line = buffer_.find("\r\n")) == buffer_.npos) {
        if (!receive()) return {};
      }
      const std::size_t size = std::strtoull(buffer_.c_str(), nullptr, 16);
      while (buffer_.size() < line + size + 4) {
        if (!receive()) return {};
      }
      whole.body += buffer_.substr(line + 2, size);
      buffer_.erase(0, line + size + 4);
      if (size == 0) return whole;
    }
  }

  RawAnswer ask(std::string_view request) {
    send(request);
    return answer();
  }

  /// Whether the other side closes, or breaks off, before we lose patience; what came is thrown
  /// away.
  bool closed() {
    while (receive()) buffer_.clear();
    return ended_;
  }

  /// Whether the connection breaks, before we lose patience, without our reading anything.
  bool breaks() {
    pollfd state{socket_, 0, 0};
    return ::poll(&state, 1, kPatience) > 0 && (state.revents & (POLLERR | POLLHUP)) != 0;
  }

  /// Whether nothing at all has come, and it is still open.
  bool silent(int milliseconds) {
    pollfd ready{socket_, POLLIN, 0};
    return buffer_.empty() && ::poll(&ready, 1, milliseconds) == 0;
  }

  std::string& buffer() { return buffer_; }
  bool receive() {
    char bytes[1 << 16];
    pollfd ready{socket_, POLLIN, 0};
    if (::poll(&ready, 1, kPatience) <= 0) return false;
    const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
    if (got <= 0) ended_ = true;
    if (got > 0) buffer_.append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  }

 private:
  static constexpr int kPatience = 10000;  // milliseconds
  int socket_;
  bool connected_ = false;
  bool ended_ = false;
  std::string buffer_;
};

inline std::string get(std::string_view target) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: x\r\n\r\n";
}

inline std::string post(std::string_view target, std::string_view body,
                        std::string_view headers = "") {
  return "POST " + std::string(target) + " HTTP/1.1\r\nHost: x\r\n" + std::string(headers) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace contcore
