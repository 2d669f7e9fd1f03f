#include "serve/http_head.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/refuse.h"
#include "base/utf8.h"
#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::size_t kMostIdBytes = 64;

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char small = lower(c);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

// `what` names the text to the client.
std::string decode(std::string_view text, bool plus_is_blank, const char* what) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '%') {
      const int high = at + 2 < text.size() ? hex_digit(text[at + 1]) : -1;
      const int low = at + 2 < text.size() ? hex_digit(text[at + 2]) : -1;
      if (high < 0 || low < 0) {
        refuse(fmt::format("the {} has a % without two hexadecimal digits; write %25", what));
      }
      c = static_cast<char>(high * 16 + low);
      at += 2;
    } else if (c == '+' && plus_is_blank) {
      c = ' ';
    }
    if (is_control(c)) refuse(fmt::format("the {} has a control character", what));
    decoded += c;
  }
  if (!is_utf8(decoded)) refuse(fmt::format("the {} is not UTF-8", what));
  return decoded;
}

void parse_path(std::string_view path, HttpRequest& request) {
  request.path = decode(path, false, "path");
  request.segments.clear();
  if (path == "/") return;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::string_view raw = path.substr(0, path.find('/'));
    std::string segment = decode(raw, false, "path");
    if (segment == "." || segment == "..") {
      refuse("the path has a part that is \".\" or \"..\"; write the path out");
    }
    request.segments.push_back(std::move(segment));
    path.remove_prefix(raw.size());
  }
}

void parse_query(std::string_view query, HttpRequest& request) {
  request.query.clear();
  while (!query.empty()) {
    const std::string_view item = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), item.size() + 1));
    if (item.empty()) continue;
    const std::size_t equals = std::min(item.find('='), item.size());
    std::string name = decode(item.substr(0, equals), true, "query");
    std::string value = decode(item.substr(std::min(equals + 1, item.size())), true, "query");
    const auto [place, fresh] = request.query.emplace(std::move(name), std::move(value));
    if (!fresh) refuse(fmt::format("the query has \"{}\" twice; give it once", place->first));
  }
}

// Of these a second one is an attempt to be read differently by two readers.
bool only_once(std::string_view name) {
  constexpr std::array<std::string_view, 8> kOnce = {
      "authorization", "content-length",    "content-type",  "expect",
      "host",          "transfer-encoding", "content-range", "x-request-id"};
  return std::find(kOnce.begin(), kOnce.end(), name) != kOnce.end();
}

}  // namespace

void parse_target(std::string_view target, HttpRequest& request) {
  if (target.empty() || target[0] != '/') refuse("the path must start with '/'");
  for (const char c : target) {
    if (is_control(c) || c == ' ' || c == '#') {
      refuse(
          "the path or query has a blank, a '#' or a control character; "
          "write it as %XX");
    }
  }
  const std::size_t mark = std::min(target.find('?'), target.size());
  parse_path(target.substr(0, mark), request);
  parse_query(target.substr(std::min(mark + 1, target.size())), request);
}

bool is_header_name(std::string_view name) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
    return is_alphanumeric(c) || kOthers.find(c) != kOthers.npos;
  });
}

HttpRequest::Fields parse_headers(std::span<const HttpHeaderLine> lines) {
  HttpRequest::Fields headers;
  for (const auto& [name, value] : lines) {
    if (!is_header_name(name)) refuse("a header has a name that is no word");
    std::string key(name);
    std::transform(key.begin(), key.end(), key.begin(), lower);
    if (std::any_of(value.begin(), value.end(),
                    [](char c) { return is_control(c) && c != '\t'; })) {
      refuse(fmt::format("the header {} has a control character", key));
    }
    const auto [place, fresh] = headers.emplace(std::move(key), value);
    if (fresh) continue;
    if (only_once(place->first)) refuse(fmt::format("the header {} is there twice", place->first));
    place->second.append(", ").append(value);
  }
  return headers;
}

HttpFraming parse_framing(const HttpRequest::Fields& headers, std::string_view version) {
  HttpFraming framing;
  const auto length = headers.find("content-length");
  const auto encoding = headers.find("transfer-encoding");
  if (encoding != headers.end()) {
    if (length != headers.end()) refuse("Content-Length and Transfer-Encoding exclude each other");
    std::string value = encoding->second;
    std::transform(value.begin(), value.end(), value.begin(), lower);
    if (value != "chunked") refuse("Transfer-Encoding can only be \"chunked\"");
    if (version != "HTTP/1.1") refuse("Transfer-Encoding needs HTTP/1.1");
    framing.chunked = true;
  } else if (length != headers.end()) {
    const std::string& text = length->second;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, framing.length);
    if (error != std::errc{} || stop != end) refuse("Content-Length must be a number of bytes");
  }
  return framing;
}

bool covers_head(std::string_view method, std::size_t target_size, std::string_view version,
                 std::span<const HttpHeaderLine> lines, std::size_t size) {
  const auto begin = [](std::string_view text) {
    return reinterpret_cast<std::uintptr_t>(text.data());
  };
  const auto end = [&](std::string_view text) { return begin(text) + text.size(); };
  if (begin(version) != end(method) + 1 + target_size + 1) return false;
  std::uintptr_t last = end(version);
  for (const auto& [name, value] : lines) {
    if (begin(name) != last + 2 || begin(value) <= end(name)) return false;
    last = end(value);
  }
  return last + 4 == begin(method) + size;
}

std::string request_id(const HttpRequest::Fields& headers) {
  const auto given = headers.find("x-request-id");
  if (given != headers.end() && !given->second.empty() && given->second.size() <= kMostIdBytes &&
      std::all_of(given->second.begin(), given->second.end(),
                  [](char c) { return is_alphanumeric(c) || c == '.' || c == '_' || c == '-'; })) {
    return given->second;
  }
  std::array<unsigned char, 12> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw Error(Error::Kind::kInternal, "no random bytes can be had for a request id");
  }
  std::string id;
  for (const unsigned byte : bytes) id += fmt::format("{:02x}", byte);
  return id;
}

std::string header_value(std::string_view text) {
  std::string value(text);
  std::replace_if(value.begin(), value.end(), is_control, ' ');
  return value;
}

}  // namespace contcore
