#include "serve/http_listen.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr int kBacklog = 1024;

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

Address parse_address(const std::string& text, std::uint16_t port) {
  Address address;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    address.size = sizeof v4;
    std::memcpy(&address.bytes, &v4, sizeof v4);
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    address.size = sizeof v6;
    std::memcpy(&address.bytes, &v6, sizeof v6);
  } else {
    throw Error(Error::Kind::kInput,
                fmt::format("\"{}\" is no address to listen on; give one in figures, such as "
                            "127.0.0.1, ::1 or 0.0.0.0",
                            text));
  }
  return address;
}

[[noreturn]] void fail(const std::string& address, std::uint16_t port, int error) {
  std::string remedy = "check the address";
  if (error == EADDRINUSE) remedy = "stop what is listening there, or choose another port";
  if (error == EACCES) remedy = "ports below 1024 need a privilege; choose a higher one";
  if (error == EADDRNOTAVAIL) remedy = "this machine has no such address";
  if (error == EMFILE || error == ENFILE) remedy = "allow more open files (ulimit -n)";
  throw Error(Error::Kind::kInput, fmt::format("cannot listen on port {} of {}: {}; {}", port,
                                               address, std::strerror(error), remedy));
}

std::uint16_t port_of(int socket) {
  Address address;
  address.size = sizeof address.bytes;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address.bytes), &address.size) != 0) {
    return 0;
  }
  // The port stands at the same place in both kinds of address.
  sockaddr_in v4{};
  std::memcpy(&v4, &address.bytes, sizeof v4);
  return ntohs(v4.sin_port);
}

}  // namespace

Listener take_place(const std::string& address, std::uint16_t port) {
  const Address at = parse_address(address, port);
  const bool ipv6 = at.bytes.ss_family == AF_INET6;
  File socket(::socket(at.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) fail(address, port, errno);
  const int yes = 1;
  const int no = 0;
  // Not to wait minutes for the last run's connections to be forgotten.
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (ipv6) ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&at.bytes), at.size) != 0) {
    fail(address, port, errno);
  }
  const std::uint16_t bound = port_of(socket.fd());
  return {std::move(socket), address, bound, ipv6};
}

void start_listening(const Listener& listener) {
  if (::listen(listener.socket.fd(), kBacklog) != 0) fail(listener.address, listener.port, errno);
}

std::string address_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address != nullptr && address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof v4);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  } else if (address != nullptr && address->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, address, sizeof v6);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      ::inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
    } else {
      ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    }
  } else {
    return "unknown";
  }
  return text.data();
}

}  // namespace contcore
