#include "evaluate/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace contcore {
namespace {

// Bytes of the UTF-8 character at the front of `text`, or 0 if there is none.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer than it need be, half of a surrogate pair, or beyond Unicode.
  const bool wrong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) >= 0xa0) ||
                     (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) >= 0x90);
  return wrong ? 0 : length;
}

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
    const std::size_t length = character(text);
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

std::string base64(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t have = std::min<std::size_t>(bytes.size() - i, 3);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (j < have ? bytes[i + j] : 0u);
    for (std::size_t j = 0; j < 4; ++j) {
      out += j <= have ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

}  // namespace contcore
