// Text from elsewhere, fit to be shown in a message.
#pragma once

#include <string>
#include <string_view>

namespace contcore {

/// At most `most` bytes of it, not cut inside a character of UTF-8; control characters are '?'.
inline std::string clipped(std::string_view text, std::size_t most = 80) {
  const bool whole = text.size() <= most;
  std::size_t end = whole ? text.size() : most;
  while (!whole && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  std::string shown(text.substr(0, end));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return whole ? shown : shown + "…";
}

}  // namespace contcore
