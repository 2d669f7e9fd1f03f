#include "serve/http_head.h"

#include <gtest/gtest.h>

#include "contcore/error.h"
#include "serve/http_response.h"

namespace contcore {
namespace {

using Segments = std::vector<std::string>;

Segments segments(std::string_view target) {
  HttpRequest request;
  parse_target(target, request);
  return request.segments;
}

TEST(HttpHeadTest, SplitsThePathBeforeItDecodes) {
  EXPECT_EQ(segments("/"), Segments());
  EXPECT_EQ(segments("/?x"), Segments());
  EXPECT_EQ(segments("/a/b%2Fc"), (Segments{"a", "b/c"}));
  EXPECT_EQ(segments("/a%3Fb?c"), (Segments{"a?b"}));
  EXPECT_EQ(segments("/a/"), (Segments{"a", ""}));
  EXPECT_EQ(segments("//"), (Segments{"", ""}));
  EXPECT_EQ(segments("/a+b"), (Segments{"a+b"}));
  EXPECT_EQ(segments("/%e2%82%ac"), (Segments{"\xe2\x82\xac"}));
}

TEST(HttpHeadTest, ReadsTheQuery) {
  HttpRequest request;
  request.query["old"] = "must go";
  parse_target("/?a=1&&b=x%26y%3dz&c&d==+%2B&=e", request);
  const HttpRequest::Fields expected = {
      {"a", "1"}, {"b", "x&y=z"}, {"c", ""}, {"d", "= +"}, {"", "e"}};
  EXPECT_EQ(request.query, expected);
  EXPECT_THROW(parse_target("/?a=1&%61=2", request), Error);
}

TEST(HttpHeadTest, ReadsHowLongTheBodyIs) {
  EXPECT_EQ(parse_framing({}, "HTTP/1.1").length, 0u);
  EXPECT_EQ(parse_framing({{"content-length", "0042"}}, "HTTP/1.1").length, 42u);
  EXPECT_TRUE(parse_framing({{"transfer-encoding", "Chunked"}}, "HTTP/1.1").chunked);
  for (const char* length : {"", "-1", "+1", "1 ", "1,1", "0x1", "18446744073709551616", "1.0"}) {
    EXPECT_THROW(parse_framing({{"content-length", length}}, "HTTP/1.1"), Error) << length;
  }
}

TEST(HttpHeadTest, JoinsHeadersButNotThoseOfWhichThereIsOne) {
  const std::vector<HttpHeaderLine> lines = {{"Accept", "a"}, {"ACCEPT", "b"}, {"X", "\xc3\xa4\t"}};
  const HttpRequest::Fields expected = {{"accept", "a, b"}, {"x", "\xc3\xa4\t"}};
  EXPECT_EQ(parse_headers(lines), expected);
  const std::vector<HttpHeaderLine> twice = {{"Authorization", "a"}, {"authorization", "a"}};
  EXPECT_THROW(parse_headers(twice), Error);
}

// Takes a head apart as the server's library does: by pointers into it.
bool covers(std::string_view head, std::string_view target, std::vector<HttpHeaderLine> lines) {
  return covers_head(head.substr(0, 3), target.size(), head.substr(3 + target.size() + 2, 8), lines,
                     head.size());
}

TEST(HttpHeadTest, SeesWhatWasOverlooked) {
  const std::string_view head = "GET / HTTP/1.1\r\nA:  b\r\nC:\r\n\r\n";
  const HttpHeaderLine a(head.substr(16, 1), head.substr(20, 1));
  const HttpHeaderLine c(head.substr(23, 1), head.substr(25, 0));
  EXPECT_TRUE(covers(head, "/", {a, c}));
  EXPECT_FALSE(covers(head, "/", {c})) << "a line is missing";
  EXPECT_FALSE(covers(head, "/", {a})) << "the last line is missing";
  EXPECT_FALSE(covers(head, "/", {})) << "all are missing";
  EXPECT_FALSE(covers(head, "/", {{a.first, head.substr(20, 0)}, c})) << "a value is shorter";
  const std::string elsewhere = "A";
  EXPECT_FALSE(covers(head, "/", {{elsewhere, a.second}, c})) << "a name was put together";
  EXPECT_TRUE(covers("GET / HTTP/1.0\r\n\r\n", "/", {}));
}

TEST(HttpHeadTest, AnAnswerPastTheLibraryIsWhole) {
  HttpResponse response = problem(413, "T", "d");
  response.headers = {{"A", "b\nc"}, {"Connection", "keep-alive"}};
  const std::string bytes = as_bytes(response, "id");
  EXPECT_TRUE(bytes.starts_with("HTTP/1.1 413 Content Too Large\r\n")) << bytes;
  EXPECT_NE(bytes.find("\r\nA: b c\r\n"), bytes.npos);
  EXPECT_NE(bytes.find("\r\nConnection: close\r\n"), bytes.npos);
  EXPECT_EQ(bytes.find("keep-alive"), bytes.npos);
  const std::string body = bytes.substr(bytes.find("\r\n\r\n") + 4);
  EXPECT_NE(bytes.find("\r\nContent-Length: " + std::to_string(body.size()) + "\r\n"), bytes.npos);
  EXPECT_TRUE(body.ends_with("\"request_id\":\"id\"}")) << body;
}

}  // namespace
}  // namespace contcore
