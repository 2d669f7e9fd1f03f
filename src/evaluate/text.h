// Words and numbers as they stand in a report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evaluate/aggregate.h"

namespace contcore {

/// For text and for attributes in double quotes; what is not UTF-8 becomes U+FFFD, what cannot be
/// seen becomes a blank.
std::string escape_html(std::string_view text);
/// For a cell of a Markdown table.
std::string escape_markdown(std::string_view text);
/// A text as a field of a CSV file, as RFC 4180 wants it. One that a spreadsheet would take for a
/// formula has an apostrophe before it.
std::string escape_csv(std::string_view text);

/// For LaTeX with the T1 encoding. Letters beyond Latin-1, which few fonts have, become their
/// codes: U+4E2D.
std::string escape_latex(std::string_view text);

/// A word of a command without the folders that say where somebody keeps things:
/// "backbone=/home/anna/net.onnx,builtin" becomes "backbone=net.onnx,builtin". What is named
/// relative to the current folder, and lies in it, stays.
std::string without_folders(std::string_view word);

/// "98.9", or "-" where there is nothing; never "-0.0".
std::string percent(std::optional<double> part);
/// "98.9", or with the deviation "98.9 ± 0.1" if it is of several values.
std::string percent(const std::optional<Statistic>& part);

/// "20,000".
std::string grouped(std::uint64_t count);

}  // namespace contcore
