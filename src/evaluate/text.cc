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

// What LaTeX would take for something else; "" for a character that is written as it is.
const char* latex_command(char c) {
  switch (c) {
    case '\\':
      return "\\textbackslash{}";
    case '~':
      return "\\textasciitilde{}";
    case '^':
      return "\\textasciicircum{}";
    case '<':
      return "\\textless{}";
    case '>':
      return "\\textgreater{}";
    case '|':
      return "\\textbar{}";
    case '"':
      return "\\textquotedbl{}";
    case '\'':
      return "\\textquotesingle{}";
    case '`':
      return "\\textasciigrave{}";
    case '[':
      return "{[}";  // an option of the row's end before it
    case '*':
      return "{*}";
    default:
      return "";
  }
}

std::string latex_ascii(char c) {
  if (static_cast<unsigned char>(c) < 32 || c == 127) return " ";
  if (std::string_view("{}$&#_%").find(c) != std::string_view::npos) return {'\\', c};
  const std::string_view command = latex_command(c);
  return command.empty() ? std::string(1, c) : std::string(command);
}

// Of a letter of two bytes or more.
std::uint32_t code_point(std::string_view letter) {
  const std::uint32_t mask = letter.size() == 2 ? 0x1f : letter.size() == 3 ? 0x0f : 0x07;
  std::uint32_t code = static_cast<unsigned char>(letter[0]) & mask;
  for (const char c : letter.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3f);
  return code;
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

std::string escape_latex(std::string_view text) {
  constexpr std::uint32_t kNoBreak = 0xa0, kSoftHyphen = 0xad, kLatin1 = 0xff;
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_bytes(text, 0);
    const std::uint32_t code = length > 1 ? code_point(text.substr(0, length)) : 0xfffd;
    if (length == 1) {
      out += latex_ascii(text[0]);
      // Two hyphens would become a dash, two commas a quotation mark.
      if ((text[0] == '-' || text[0] == ',') && text.substr(1).starts_with(text[0])) out += "{}";
    } else if (code > kNoBreak && code <= kLatin1 && code != kSoftHyphen) {
      out += text.substr(0, length);
    } else {
      out += fmt::format("U+{:04X}", code);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string without_folders(std::string_view word) {
  std::string out;
  while (true) {
    const std::size_t end = std::min(word.find_first_of("=,>"), word.size());
    std::string_view part = word.substr(0, end);
    if (part.starts_with('/') || part.starts_with('~') || part.starts_with("..")) {
      while (part.ends_with('/')) part.remove_suffix(1);
      part.remove_prefix(part.rfind('/') + 1);
    }
    out += part;
    if (end == word.size()) return out;
    out += word[end];
    word.remove_prefix(end + 1);
  }
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
