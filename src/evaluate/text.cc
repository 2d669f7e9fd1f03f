#include "evaluate/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace contcore {
namespace {

const char* entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return nullptr;
  }
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_bytes(text, 0);
    const bool hidden = length == 1 && (static_cast<unsigned char>(text[0]) < 32 || text[0] == 127);
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (const char* name = entity(text[0])) {
      out += name;
    } else {
      out += hidden ? std::string_view(" ") : text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string escape_markdown(std::string_view text) {
  std::string out;
  for (const char c : escape_html(text)) {
    if (std::string_view("\\`*[]|").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string escape_csv(std::string_view given) {
  // A spreadsheet would run a text that begins like this as a formula.
  const bool formula = given.find_first_of("=+-@\t\r\n") == 0;
  const std::string text = (formula ? "'" : "") + std::string(given);
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string(2, '"') : std::string(1, c);
  return out + '"';
}

std::string percent(std::optional<double> part) {
  if (!part) return "-";
  const std::string text = fmt::format("{:.1f}", *part * 100);
  return text == "-0.0" ? "0.0" : text;
}

std::string percent(const std::optional<Statistic>& part) {
  if (!part) return "-";
  const std::string mean = percent(std::optional(part->mean));
  if (part->count < 2) return mean;
  return fmt::format("{} ± {:.1f}", mean, part->deviation * 100);
}

std::string grouped(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

}  // namespace contcore
