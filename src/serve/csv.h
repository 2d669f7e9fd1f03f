// Rows of comma-separated values, as in RFC 4180.
#pragma once

#include <string>
#include <string_view>

namespace contcore {

/// A text as a cell: quoted where it must be. What a spreadsheet would take for a formula (it
/// begins with = + - @, a tab or an end of line) gets an apostrophe in front; NUL becomes U+FFFD,
/// at which many readers would stop.
std::string csv_text(std::string_view text);

}  // namespace contcore
