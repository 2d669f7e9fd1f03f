// The head of a request: the target in the first line, then header lines.
#include "serve/http_head.h"

#include <algorithm>

#include "base/utf8.h"
#include "fuzz.h"

using namespace contcore;

namespace {

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

void check_target(std::string_view target) {
  HttpRequest request;
  if (!fuzz::taken([&] { parse_target(target, request); })) return;
  fuzz::expect(is_utf8(request.path) && !has_control(request.path));
  for (const std::string& segment : request.segments) {
    fuzz::expect(segment != "." && segment != ".." && is_utf8(segment) && !has_control(segment));
  }
  for (const auto& [name, value] : request.query) {
    fuzz::expect(is_utf8(name) && is_utf8(value) && !has_control(value));
  }
}

void check_headers(const std::vector<HttpHeaderLine>& lines) {
  fuzz::taken([&] {
    const HttpRequest::Fields headers = parse_headers(lines);
    const std::string id = request_id(headers);
    fuzz::expect(!id.empty() && id.size() <= 64 && !has_control(id));
    for (const char* version : {"HTTP/1.0", "HTTP/1.1"}) {
      fuzz::taken([&] {
        const HttpFraming framing = parse_framing(headers, version);
        fuzz::expect(!(framing.chunked && headers.contains("content-length")));
      });
    }
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(fuzz::text({data, size}));
  std::string_view rest = input;
  const auto take_line = [&rest] {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    return line;
  };
  check_target(take_line());
  std::vector<HttpHeaderLine> lines;
  while (!rest.empty()) {
    const std::string_view line = take_line();
    const std::size_t colon = std::min(line.find(':'), line.size());
    lines.emplace_back(line.substr(0, colon), line.substr(std::min(colon + 1, line.size())));
  }
  check_headers(lines);
  covers_head(input, 3, input, lines, size);
  fuzz::expect(!has_control(header_value(input)));
  return 0;
}
