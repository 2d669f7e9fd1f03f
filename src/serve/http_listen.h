// A socket that listens, or the reason why there is none.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

struct sockaddr;

namespace contcore {

struct Listener {
  File socket;
  std::uint16_t port;
  bool ipv6;
};

/// On an address in figures; port 0 is any free one. Throws Error (kInput) with the remedy.
Listener listen_on(const std::string& address, std::uint16_t port);

/// In figures; an IPv4 client of an IPv6 socket is shown as IPv4. "unknown" if it is neither.
std::string address_text(const sockaddr* address);

}  // namespace contcore
