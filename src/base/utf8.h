// Text that may be anything, made text.
#pragma once

#include <string>
#include <string_view>

namespace contcore {

/// The same text with each byte that is not part of a valid UTF-8 character replaced by U+FFFD, so
/// that it can stand in JSON, a database and a metric. NUL is a character like any other.
std::string valid_utf8(std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace contcore
