#include "serve/csv.h"

namespace contcore {

std::string csv_text(std::string_view text) {
  constexpr std::string_view kFormula = "=+-@\t\r\n";
  const bool is_formula = !text.empty() && kFormula.find(text.front()) != kFormula.npos;
  std::string cell = is_formula ? "'" : "";
  bool quoted = false;
  for (const char c : text) {
    // Spreadsheets of some countries part cells at a semicolon.
    quoted = quoted || std::string_view("\",;\t\r\n").find(c) != std::string_view::npos;
    if (c == '"') cell += '"';
    if (c == '\0') {
      cell += "\xef\xbf\xbd";
    } else {
      cell += c;
    }
  }
  return quoted ? '"' + cell + '"' : cell;
}

}  // namespace contcore
