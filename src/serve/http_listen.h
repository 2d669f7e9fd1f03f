// A socket to listen on, or the reason why there is none.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

struct sockaddr;

namespace contcore {

struct Listener {
  File socket;
  std::string address;
  std::uint16_t port;
  bool ipv6;
};

/// Takes a place, an address in figures and a port (0: any free one), where nobody else listens.
/// Clients are refused until start_listening(). Throws Error (kInput) with the remedy.
Listener take_place(const std::string& address, std::uint16_t port);

/// Throws Error (kInput) if somebody else was faster.
void start_listening(const Listener& listener);

/// In figures; an IPv4 client of an IPv6 socket is shown as IPv4. "unknown" if it is neither.
std::string address_text(const sockaddr* address);

}  // namespace contcore
