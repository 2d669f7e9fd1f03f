// The head of a request: what its target and headers mean, or why they are refused.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http.h"

namespace contcore {

using HttpHeaderLine = std::pair<std::string_view, std::string_view>;

/// Fills path, segments and query from a raw target such as "/a%20b?x=1". Throws Error (kInput) if
/// it does not start with '/', has a bad percent sign, bytes that are not UTF-8, control
/// characters, a segment "." or "..", or a query name given twice.
void parse_target(std::string_view target, HttpRequest& request);

/// The headers by name. Throws Error (kInput) for names that are no tokens, control characters in
/// values, and repeats of a header of which there can be only one.
HttpRequest::Fields parse_headers(std::span<const HttpHeaderLine> lines);

/// How long the body is to be. Throws Error (kInput) where two readers might see two answers:
/// Content-Length with Transfer-Encoding, a length that is not digits, another encoding than
/// "chunked", chunks in HTTP/1.0.
struct HttpFraming {
  std::uint64_t length = 0;
  bool chunked = false;  ///< length unknown
};
HttpFraming parse_framing(const HttpRequest::Fields& headers, std::string_view version);

/// Whether method, target, version and header lines, as they lie in memory, make up the whole head
/// of `size` bytes from the method on, with one blank between the first three and CR LF after each
/// line: then the library that took it apart has overlooked nothing.
bool covers_head(std::string_view method, std::size_t target_size, std::string_view version,
                 std::span<const HttpHeaderLine> lines, std::size_t size);

/// The client's X-Request-Id where it is harmless, else a new one.
std::string request_id(const HttpRequest::Fields& headers);

/// The text that may stand in a header line: control characters become blanks.
std::string header_value(std::string_view text);
bool is_header_name(std::string_view name);

}  // namespace contcore
