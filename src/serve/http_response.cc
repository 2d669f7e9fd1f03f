#include "serve/http_response.h"

#include <fmt/format.h>
#include <microhttpd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "serve/http_head.h"

namespace contcore {
namespace {

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : int{c}; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

// What of a handler's headers goes out: not those that the server itself writes.
bool is_handlers(std::string_view name) {
  constexpr std::array<std::string_view, 8> kOurs = {
      "Connection", "Content-Length",    "Content-Type",           "Cross-Origin-Resource-Policy",
      "Date",       "Transfer-Encoding", "X-Content-Type-Options", "X-Request-Id"};
  return is_header_name(name) && std::none_of(kOurs.begin(), kOurs.end(),
                                              [&](auto ours) { return same_letters(ours, name); });
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

HttpResponse problem(int status, std::string_view title, std::string_view detail) {
  nlohmann::ordered_json body;
  body["type"] = "about:blank";
  body["title"] = title;
  body["status"] = status;
  body["detail"] = detail;
  HttpResponse response;
  response.status = status;
  response.type = "application/problem+json";
  response.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return response;
}

std::vector<std::pair<std::string, std::string>> finish(HttpResponse& response,
                                                        const std::string& id, bool close) {
  if (response.status < 200 || response.status > 599) response.status = 500;
  if (response.status == 204 || response.status == 304) {
    response.type.clear();
    response.body.clear();
  }
  if (response.type == "application/problem+json" && response.body.ends_with('}')) {
    const bool bare = response.body == "{}";
    response.body.insert(response.body.size() - 1,
                         fmt::format("{}\"request_id\":\"{}\"", bare ? "" : ",", id));
  }
  std::vector<std::pair<std::string, std::string>> lines;
  if (!response.type.empty()) lines.emplace_back("Content-Type", header_value(response.type));
  bool cached = false;
  for (const auto& [name, value] : response.headers) {
    if (!is_handlers(name)) continue;
    cached = cached || same_letters(name, "Cache-Control");
    lines.emplace_back(name, header_value(value));
  }
  if (!cached) lines.emplace_back("Cache-Control", "no-store");
  lines.emplace_back("X-Content-Type-Options", "nosniff");
  // Another site's page can ask for a picture without saying who it is; it is not shown there.
  lines.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  lines.emplace_back("X-Request-Id", id);
  if (close) lines.emplace_back("Connection", "close");
  return lines;
}

std::string as_bytes(HttpResponse response, const std::string& id) {
  const auto lines = finish(response, id, true);
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", response.status,
                                 MHD_get_reason_phrase_for(static_cast<unsigned>(response.status)));
  for (const auto& [name, value] : lines) text += fmt::format("{}: {}\r\n", name, value);
  return text + fmt::format("Content-Length: {}\r\n\r\n", response.body.size()) + response.body;
}

}  // namespace contcore
