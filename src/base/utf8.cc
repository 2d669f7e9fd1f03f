#include "base/utf8.h"

#include <fmt/format.h>

#include <cstddef>

namespace contcore {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

}  // namespace

// The second byte's range tells overlong forms, surrogates and what lies beyond U+10FFFF.
std::size_t utf8_bytes(std::string_view text, std::size_t i) {
  const unsigned lead = byte_at(text, i);
  if (lead < 0x80) return 1;
  const std::size_t length = lead < 0xC2   ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 0 || length > text.size() - i) return 0;
  const unsigned lowest = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned highest = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte_at(text, i + 1) < lowest || byte_at(text, i + 1) > highest) return 0;
  for (std::size_t k = 2; k < length; ++k) {
    if ((byte_at(text, i + k) & 0xC0) != 0x80) return 0;
  }
  return length;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_bytes(text, i);
    if (length == 0) {
      valid += "\xEF\xBF\xBD";
      ++i;
    } else {
      valid += text.substr(i, length);
      i += length;
    }
  }
  return valid;
}

namespace {

// Whether it moves the cursor, changes the terminal's state or turns the direction of the text.
bool steers(unsigned c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x061C || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

unsigned code_point(std::string_view character) {
  constexpr unsigned kLeadBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  unsigned c = byte_at(character, 0) & kLeadBits[character.size()];
  for (std::size_t k = 1; k < character.size(); ++k) c = c << 6 | (byte_at(character, k) & 0x3F);
  return c;
}

std::string written_out(std::string_view text, std::string_view kept) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_bytes(text, i);
    const std::string_view character = text.substr(i, length == 0 ? 1 : length);
    const unsigned c = length == 0 ? byte_at(text, i) : code_point(character);
    if (length != 0 && (!steers(c) || kept.find(text[i]) != kept.npos)) {
      shown += character;
    } else {
      shown += length == 0 || c < 0x20 ? fmt::format("\\x{:02x}", c) : fmt::format("\\u{:04x}", c);
    }
    i += character.size();
  }
  return shown;
}

}  // namespace

std::string printable(std::string_view text) { return written_out(text, "\n\t"); }

std::string printable_name(std::string_view name) { return written_out(name, ""); }

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_bytes(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

}  // namespace contcore
