#include "serve/multipart.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/utf8.h"
#include "contcore/error.h"
#include "serve/http_head.h"

namespace contcore {
namespace {

constexpr std::size_t kMostBoundaryBytes = 70;
constexpr std::string_view kBlanks = " \t";

[[noreturn]] void refuse_form(const std::string& what) {
  throw Error(Error::Kind::kInput, "the form " + what);
}

std::string lower(std::string_view text) {
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return small;
}

std::string_view trim(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Takes a value off the front, with or without quotes. Some clients write a quote in a name as \",
// others leave the backslashes of a path as they are.
std::string take_value(std::string_view& text) {
  std::string value;
  if (!text.starts_with('"')) {
    value = trim(text.substr(0, text.find(';')));
    text.remove_prefix(std::min(text.find(';'), text.size()));
    return value;
  }
  for (std::size_t at = 1; at < text.size(); ++at) {
    if (text[at] == '"') {
      text = trim(text.substr(at + 1));
      return value;
    }
    const bool escape =
        text[at] == '\\' && at + 1 < text.size() && (text[at + 1] == '"' || text[at + 1] == '\\');
    if (escape) ++at;
    value += text[at];
  }
  refuse_form("has a quote in a header that is not closed");
}

// "form-data; name=x; filename=y": the word in front in lower case, then what follows by name.
struct Described {
  std::string word;
  std::map<std::string, std::string> values;
};

Described parse_description(std::string_view text) {
  Described described;
  described.word = lower(trim(text.substr(0, text.find(';'))));
  text.remove_prefix(std::min(text.find(';'), text.size()));
  while (!text.empty()) {
    if (text[0] != ';') refuse_form("has a header that cannot be read");
    text = trim(text.substr(1));
    if (text.empty()) break;
    const std::size_t equals = text.find('=');
    const std::string name = lower(trim(text.substr(0, equals)));
    if (equals == text.npos || !is_header_name(name))
      refuse_form("has a header that cannot be read");
    text = trim(text.substr(equals + 1));
    if (!described.values.emplace(name, take_value(text)).second) {
      refuse_form(fmt::format("has \"{}\" twice in a header", name));
    }
  }
  return described;
}

std::string boundary_of(std::string_view content_type) {
  const Described described = parse_description(content_type);
  if (described.word != "multipart/form-data") refuse_form("is not sent as multipart/form-data");
  const auto found = described.values.find("boundary");
  if (found == described.values.end()) refuse_form("has no boundary in its Content-Type");
  const std::string& boundary = found->second;
  const bool fine =
      !boundary.empty() && boundary.size() <= kMostBoundaryBytes &&
      std::all_of(boundary.begin(), boundary.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (!fine) refuse_form("has a boundary that is not 1 to 70 plain characters");
  return boundary;
}

void check_text(const std::string& text, const char* what) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (!is_utf8(text) || std::any_of(text.begin(), text.end(), is_control)) {
    refuse_form(fmt::format("has a {} that is not plain UTF-8 text", what));
  }
}

void take_disposition(std::string_view value, FormPart& part) {
  const Described described = parse_description(value);
  if (described.word != "form-data") refuse_form("has a part that is not \"form-data\"");
  const auto name = described.values.find("name");
  if (name == described.values.end()) refuse_form("has a part without a name");
  part.name = name->second;
  check_text(part.name, "name");
  const auto filename = described.values.find("filename");
  if (filename == described.values.end()) return;
  part.filename = filename->second;
  check_text(part.filename, "filename");
}

void take_header(std::string_view line, FormPart& part, std::map<std::string, bool>& seen) {
  const std::size_t colon = line.find(':');
  const std::string name = lower(line.substr(0, colon));
  if (colon == line.npos || !is_header_name(name)) refuse_form("has a header that cannot be read");
  if (!seen.emplace(name, true).second)
    refuse_form(fmt::format("has \"{}\" twice in a part", name));
  const std::string_view value = trim(line.substr(colon + 1));
  if (name == "content-disposition") {
    take_disposition(value, part);
  } else if (name == "content-type") {
    part.type = value;
    check_text(part.type, "content type");
  } else if (name == "content-transfer-encoding") {
    const std::string encoding = lower(value);
    if (encoding != "binary" && encoding != "8bit" && encoding != "7bit") {
      refuse_form("has an encoded part; send the bytes as they are");
    }
  }
}

FormPart parse_headers_of(std::string_view head) {
  FormPart part;
  std::map<std::string, bool> seen;
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    head.remove_prefix(std::min(head.size(), line.size() + 2));
    take_header(line, part, seen);
  }
  if (!seen.contains("content-disposition"))
    refuse_form("has a part without a Content-Disposition");
  return part;
}

// Takes what follows a boundary off the front; false after the last one.
bool take_line_end(std::string_view& body) {
  if (body.starts_with("--")) return false;
  body.remove_prefix(std::min(body.find_first_not_of(kBlanks), body.size()));
  if (!body.starts_with("\r\n")) refuse_form("has a boundary that is cut short or inside a part");
  return true;
}

// `body` stands at the line end before the part's headers, and then behind the boundary after it.
FormPart take_part(std::string_view& body, const std::string& delimiter, const FormLimits& limits) {
  // A part without headers would have its empty line here; it is refused as nameless.
  const std::size_t end = body.substr(0, limits.header_bytes + 4).find("\r\n\r\n");
  if (end == body.npos) {
    refuse_form(
        fmt::format("has a part whose headers do not end within {} bytes", limits.header_bytes));
  }
  FormPart part = parse_headers_of(end == 0 ? std::string_view() : body.substr(2, end - 2));
  body.remove_prefix(end + 2);  // the empty line may be the one before the next boundary
  const std::size_t next = body.find(delimiter);
  if (next == body.npos) refuse_form("is cut short: its last boundary is missing");
  part.bytes = next == 0 ? body.substr(0, 0) : body.substr(2, next - 2);
  body.remove_prefix(next + delimiter.size());
  return part;
}

}  // namespace

bool is_form(std::string_view content_type) {
  return lower(trim(content_type.substr(0, content_type.find(';')))) == "multipart/form-data";
}

std::vector<FormPart> parse_form(std::string_view content_type, std::string_view body,
                                 const FormLimits& limits) {
  const std::string delimiter = "\r\n--" + boundary_of(content_type);
  const std::string_view opening = std::string_view(delimiter).substr(2);
  if (body.starts_with(opening)) {
    body.remove_prefix(opening.size());
  } else {
    const std::size_t first = body.find(delimiter);
    if (first == body.npos) refuse_form("does not have its boundary in it");
    body.remove_prefix(first + delimiter.size());
  }
  std::vector<FormPart> parts;
  while (take_line_end(body)) {
    if (parts.size() == limits.parts)
      refuse_form(fmt::format("has more than {} parts", limits.parts));
    parts.push_back(take_part(body, delimiter, limits));
  }
  return parts;
}

}  // namespace contcore
