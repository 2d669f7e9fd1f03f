// Text that may be anything, made text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace contcore {

/// Bytes of the UTF-8 character at byte `i`; 0 when there is none.
std::size_t utf8_bytes(std::string_view text, std::size_t i);

/// The same text with each byte that is not part of a valid UTF-8 character replaced by U+FFFD, so
/// that it can stand in JSON, a database and a metric. NUL is a character like any other.
std::string valid_utf8(std::string_view text);

bool is_utf8(std::string_view text);

/// The text as it can be shown on a terminal: what would steer it is written out (\x1b, \u009b,
/// \u202e), and so is every byte that is not UTF-8 (\xff). Ends of lines and tabs stay, and JSON
/// stays the same JSON.
std::string printable(std::string_view text);
/// The same, and it stays on one line: for a name, which must not be able to forge another line.
std::string printable_name(std::string_view name);

}  // namespace contcore
