#include "serve/http.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "contcore/error.h"
#include "serve/http_stream.h"
#include "serve/raw_client.h"

namespace contcore {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

HttpResponse text(std::string body) {
  HttpResponse response;
  response.type = "text/plain";
  response.body = std::move(body);
  return response;
}

// Replies that the handler has put aside, for a test to give when it likes.
class Shelf {
 public:
  void put(HttpReply reply) {
    const std::lock_guard lock(mutex_);
    replies_.push_back(std::move(reply));
    more_.notify_all();
  }
  HttpReply take() {
    std::unique_lock lock(mutex_);
    if (!more_.wait_for(lock, std::chrono::seconds(10), [&] { return !replies_.empty(); })) {
      throw std::runtime_error("no request has come");
    }
    HttpReply reply = std::move(replies_.back());
    replies_.pop_back();
    return reply;
  }

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<HttpReply> replies_;
};

class HttpTest : public testing::Test {
 protected:
  HttpServer& start(const HttpLimits& limits = {}) {
    server_ = std::make_unique<HttpServer>(
        "127.0.0.1", std::uint16_t{0}, limits,
        [this](const HttpRequest& head) { return gate(head); },
        [this](HttpRequest&& request, HttpReply reply) { handle(request, std::move(reply)); });
    return *server_;
  }
  std::uint16_t port() {
    if (!server_) start();
    return server_->port();
  }

  HttpAdmission gate(const HttpRequest& head) {
    EXPECT_TRUE(head.body.empty());
    HttpAdmission admission;
    if (head.path == "/forbidden") admission.refusal = problem(401, "Unauthorized", "no token");
    if (head.path == "/small") admission.body = 10;
    if (head.path == "/gate-throws") throw std::runtime_error("a bug");
    return admission;
  }

  void handle(HttpRequest& request, HttpReply reply) {
    ++handled_;
    if (request.path == "/throws") throw std::runtime_error("a secret");
    if (request.path == "/drops") return;
    if (request.path == "/later") return shelf_.put(std::move(reply));
    if (request.path == "/large") return reply.send(text(std::string(std::size_t{32} << 20, 'x')));
    if (request.path == "/stream") {
      HttpResponse response = text("not sent");
      response.stream = std::make_shared<HttpStream>([this](const auto& stream) {
        const std::lock_guard lock(asked_mutex_);
        asked_.push_back(stream);
        asked_more_.notify_all();
      });
      return reply.send(std::move(response));
    }
    if (request.path == "/headers") {
      HttpResponse response = text("x");
      response.status = 12345;
      response.headers = {{"X-Good", "a\r\nX-Evil: b"},
                          {"Bad Name", "c"},
                          {"Content-Length", "99"},
                          {"cache-control", "max-age=5"},
                          {"X-Request-Id", "other"}};
      return reply.send(std::move(response));
    }
    std::string body = request.method + " " + request.path + " " +
                       std::to_string(request.body.size()) + " " + request.client;
    for (const auto& [name, value] : request.query) body += " " + name + "=" + value;
    reply.send(text(body));
    reply.send(text("a second answer must not count"));
  }

  // The stream that asks for a piece.
  std::shared_ptr<HttpStream> asking() {
    std::unique_lock lock(asked_mutex_);
    if (!asked_more_.wait_for(lock, std::chrono::seconds(10), [&] { return !asked_.empty(); })) {
      throw std::runtime_error("no piece was asked for");
    }
    const auto stream = asked_.back();
    asked_.pop_back();
    return stream;
  }
  bool is_asked() {
    const std::lock_guard lock(asked_mutex_);
    return !asked_.empty();
  }

  std::mutex asked_mutex_;
  std::condition_variable asked_more_;
  std::vector<std::shared_ptr<HttpStream>> asked_;
  std::atomic<int> handled_{0};
  Shelf shelf_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpTest, AnswersAndKeepsTheConnection) {
  RawClient client(port());
  for (int i = 0; i < 3; ++i) {
    const RawAnswer answer = client.ask(get("/a%20b/c?x=1&y=%C3%A4+z"));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "GET /a b/c 0 127.0.0.1 x=1 y=\xc3\xa4 z");
    EXPECT_EQ(answer.headers.at("Cache-Control"), "no-store");
    EXPECT_EQ(answer.headers.at("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(answer.headers.at("Cross-Origin-Resource-Policy"), "same-origin");
    EXPECT_EQ(answer.headers.at("X-Request-Id").size(), 24u);
  }
  EXPECT_EQ(client.ask(post("/p", "abc")).body, "POST /p 3 127.0.0.1");
  EXPECT_EQ(client.ask(get("/forbidden")).status, 401);
  EXPECT_EQ(client.ask(get("/")).status, 200) << "a refusal without a body keeps the connection";
}

TEST_F(HttpTest, PipelinedRequestsAreAnsweredInOrder) {
  RawClient client(port());
  client.send(get("/1") + post("/2", "ab") + get("/3") + "GET /4 HTTP/1.1\r\nHo");
  EXPECT_EQ(client.answer().body, "GET /1 0 127.0.0.1");
  EXPECT_EQ(client.answer().body, "POST /2 2 127.0.0.1");
  EXPECT_EQ(client.answer().body, "GET /3 0 127.0.0.1");
  client.send("st: x\r\n\r\n");
  EXPECT_EQ(client.answer().body, "GET /4 0 127.0.0.1");
}

TEST_F(HttpTest, HeadIsGetWithoutTheBody) {
  RawClient client(port());
  client.send("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n");
  const RawAnswer answer = client.answer(false);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("Content-Length"), "18");
  EXPECT_EQ(client.ask(get("/b")).body, "GET /b 0 127.0.0.1") << "no body came in between";
}

TEST_F(HttpTest, TakesTheClientsRequestIdOnlyIfItIsHarmless) {
  RawClient client(port());
  const auto id = [&](const std::string& given) {
    return client.ask("GET / HTTP/1.1\r\nHost: x\r\nX-Request-Id: " + given + "\r\n\r\n")
        .headers.at("X-Request-Id");
  };
  EXPECT_EQ(id("Az09._-"), "Az09._-");
  EXPECT_EQ(id(std::string(64, 'a')), std::string(64, 'a'));
  EXPECT_EQ(id(std::string(65, 'a')).size(), 24u);
  EXPECT_EQ(id("a b").size(), 24u);
  EXPECT_EQ(id("\"><script>").size(), 24u);
}

TEST_F(HttpTest, ProblemsSayWhatAndCarryTheRequestId) {
  RawClient client(port());
  const RawAnswer answer = client.ask("GET /%zz HTTP/1.1\r\nHost: x\r\nX-Request-Id: me\r\n\r\n");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.headers.at("Content-Type"), "application/problem+json");
  const nlohmann::json body = nlohmann::json::parse(answer.body);
  EXPECT_EQ(body["type"], "about:blank");
  EXPECT_EQ(body["status"], 400);
  EXPECT_EQ(body["request_id"], "me");
  EXPECT_NE(body["detail"].get<std::string>().find("%25"), std::string::npos);
  // Bytes that are no text must not make a problem of their own.
  EXPECT_NE(problem(400, "x", "\xff").body, "");
}

TEST_F(HttpTest, AHandlerThatFailsIsA500AndTheServerLivesOn) {
  RawClient client(port());
  for (const char* path : {"/throws", "/drops", "/gate-throws"}) {
    const RawAnswer answer = client.ask(get(path));
    if (answer.headers.contains("Connection")) FAIL() << path << " closed the connection";
    EXPECT_EQ(answer.status, 500) << path;
    EXPECT_EQ(answer.body.find("secret"), std::string::npos);
    EXPECT_EQ(nlohmann::json::parse(answer.body)["request_id"], answer.headers.at("X-Request-Id"));
  }
  EXPECT_EQ(client.ask(get("/")).status, 200);
}

TEST_F(HttpTest, WhatAHandlerPutsIntoHeadersCannotBreakTheAnswer) {
  RawClient client(port());
  const RawAnswer answer = client.ask(get("/headers"));
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.headers.at("X-Good"), "a  X-Evil: b");
  EXPECT_FALSE(answer.headers.contains("X-Evil"));
  EXPECT_FALSE(answer.headers.contains("Bad Name"));
  EXPECT_EQ(answer.headers.at("Content-Length"), "1");
  EXPECT_EQ(answer.headers.at("cache-control"), "max-age=5");
  EXPECT_FALSE(answer.headers.contains("Cache-Control"));
  EXPECT_NE(answer.headers.at("X-Request-Id"), "other");
  EXPECT_EQ(client.ask(get("/")).status, 200);
}

TEST_F(HttpTest, MethodsAndVersionsThatAreUnknown) {
  for (const char* method : {"BREW", "CONNECT", "TRACE", "get"}) {
    RawClient client(port());
    EXPECT_EQ(client.ask(std::string(method) + " / HTTP/1.1\r\nHost: x\r\n\r\n").status, 501)
        << method;
  }
  EXPECT_EQ(RawClient(port()).ask("GET / HTTP/1.0\r\n\r\n").status, 200);
  for (const char* line : {"GET / HTTP/3.0", "PRI * HTTP/2.0", "GET /", "GET", "",
                           "GET / HTTP/1.1 x", "\x16\x03\x01\x02"}) {
    RawClient client(port());
    const int status = client.ask(std::string(line) + "\r\nHost: x\r\n\r\n").status;
    EXPECT_TRUE(status == 0 || status >= 400 || std::string(line).empty()) << line << status;
  }
  EXPECT_EQ(handled_, 1);
}

// ---- Bodies ----

TEST_F(HttpTest, ABodyAboveTheLimitIsRefusedBeforeItComes) {
  HttpLimits limits;
  limits.body = 1000;
  start(limits);
  RawClient client(port());
  client.send("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_EQ(client.answer().status, 413);
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(RawClient(port()).ask(post("/x", std::string(1000, 'x'))).status, 200);
  EXPECT_EQ(RawClient(port()).ask(post("/small", std::string(11, 'x'))).status, 413);
  EXPECT_EQ(RawClient(port()).ask(post("/small", std::string(10, 'x'))).status, 200);
  for (const char* length :
       {"18446744073709551615", "18446744073709551616", "99999999999999999999999999"}) {
    RawClient huge(port());
    const int status = huge.ask(std::string("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: ") +
                                length + "\r\n\r\n")
                           .status;
    EXPECT_TRUE(status >= 400 && status < 500) << length << " " << status;
  }
  EXPECT_EQ(handled_, 2);
}

// Whoever sends first and reads afterwards must find the refusal, not a broken connection.
TEST_F(HttpTest, ARefusalIsReadEvenByAClientThatSendsAllFirst) {
  HttpLimits limits;
  limits.body = 1000;
  start(limits);
  for (int i = 0; i < 5; ++i) {
    RawClient client(port());
    EXPECT_TRUE(client.send(post("/x", std::string(std::size_t{8} << 20, 'x'))));
    EXPECT_EQ(client.answer().status, 413);
  }
}

TEST_F(HttpTest, ChunkedBodiesAreTakenAndBounded) {
  HttpLimits limits;
  limits.body = 100'000;
  start(limits);
  const std::string head = "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  RawClient client(port());
  client.send(head + "3\r\nabc\r\n1");
  client.send("0;ext=1\r\n0123456789abcdef\r\n0\r\nTrailer: x\r\n\r\n" + get("/next"));
  EXPECT_EQ(client.answer().body, "POST /x 19 127.0.0.1");
  EXPECT_TRUE(client.closed()) << "nothing may hide behind a trailer";

  RawClient endless(port());
  const std::string chunk = "2710\r\n" + std::string(10'000, 'x') + "\r\n";
  endless.send(head);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(endless.send(chunk));
  EXPECT_TRUE(endless.silent(50)) << "100,000 bytes are not too many";
  for (int i = 0; i < 100; ++i) endless.send(chunk);
  const RawAnswer refusal = endless.answer();
  ASSERT_EQ(refusal.status, 413);
  EXPECT_EQ(nlohmann::json::parse(refusal.body)["request_id"], refusal.headers.at("X-Request-Id"));
  EXPECT_EQ(handled_, 1);
}

TEST_F(HttpTest, BadChunksAreRefused) {
  const std::string head = "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char* chunks : {"-1\r\nabc\r\n", "zz\r\nabc\r\n", "3\r\nabcdef\r\n0\r\n\r\n",
                             "fffffffffffffffff\r\nabc\r\n", " 3\r\nabc\r\n0\r\n\r\n",
                             "0x3\r\nabc\r\n0\r\n\r\n", "+3\r\nabc\r\n0\r\n\r\n"}) {
    RawClient client(port());
    const int status = client.ask(head + chunks + get("/smuggled")).status;
    EXPECT_TRUE(status == 0 || (status >= 400 && status < 500)) << chunks << status;
    EXPECT_TRUE(client.closed()) << chunks;
  }
  EXPECT_EQ(handled_, 0);
}

TEST_F(HttpTest, TruncatedBodiesNeverReachTheHandler) {
  {
    RawClient left(port());
    left.send("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc");
    RawClient half(port());
    half.send("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc");
    half.close_writing();
    EXPECT_TRUE(half.closed());
  }
  EXPECT_EQ(RawClient(port()).ask(get("/")).status, 200);
  EXPECT_EQ(handled_, 1);
}

TEST_F(HttpTest, AHalfClosedClientStillGetsItsAnswer) {
  for (int i = 0; i < 50; ++i) {
    RawClient quick(port());
    quick.send(post("/x", "abc"));
    quick.close_writing();
    EXPECT_EQ(quick.answer().status, 200);
  }
  const RawClient another(port());
  RawClient client(port());
  client.send(post("/later", "abc"));
  client.close_writing();
  shelf_.take().send(text("here"));
  EXPECT_EQ(client.answer().body, "here");
  EXPECT_TRUE(client.closed());
}

TEST_F(HttpTest, AllBodiesTogetherAreBounded) {
  HttpLimits limits;
  limits.body = 600'000;
  limits.bodies = 1'000'000;
  start(limits);
  const std::string body(600'000, 'x');
  RawClient first(port());
  first.send(post("/later", body));
  HttpReply reply = shelf_.take();
  RawClient second(port());
  const RawAnswer refused = second.ask(post("/x", body));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("Retry-After"), "1");
  // A body without a length is found out on its way.
  RawClient chunked(port());
  chunked.send("POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n80000\r\n");
  chunked.send(std::string(0x80000, 'x'));
  EXPECT_EQ(chunked.answer().status, 503);
  EXPECT_EQ(RawClient(port()).ask(post("/x", "small")).status, 200);
  reply.send(text("done"));
  EXPECT_EQ(first.answer().body, "done");
  EXPECT_EQ(RawClient(port()).ask(post("/x", body)).status, 200) << "the memory came back";
  {
    RawClient left(port());
    left.send(post("/x", body).substr(0, 500'000));
  }
  // The server sees a little later that the client has left.
  int status = 0;
  for (int i = 0; i < 100 && status != 200; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    status = RawClient(port()).ask(post("/x", body)).status;
  }
  EXPECT_EQ(status, 200) << "also that of a body which never came whole";
}

TEST_F(HttpTest, ExpectContinueIsAnsweredOnlyIfTheBodyIsWanted) {
  const std::string rest =
      " HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
  RawClient wanted(port());
  wanted.send("POST /x" + rest);
  EXPECT_EQ(wanted.answer().status, 100);
  EXPECT_EQ(wanted.ask("abc").body, "POST /x 3 127.0.0.1");
  RawClient refused(port());
  refused.send("POST /forbidden" + rest);
  EXPECT_EQ(refused.answer().status, 401);
  EXPECT_TRUE(refused.closed());
  EXPECT_EQ(handled_, 1);
}

// ---- Heads ----

TEST_F(HttpTest, HeadersThatAreTooLargeOrTooMany) {
  HttpLimits limits;
  limits.header_memory = 16 << 10;
  start(limits);
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += "A" + std::to_string(i) + ": b\r\n";
  for (const std::string& head :
       {"GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(1 << 20, 'a') + "\r\n\r\n",
        "GET /" + std::string(1 << 20, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n" + many + "\r\n", std::string(1 << 20, 'a'),
        std::string(1 << 20, '\n'), "GET /?" + std::string(1 << 20, '&') + " HTTP/1.1\r\n\r\n"}) {
    RawClient client(port());
    client.send(head);
    client.close_writing();
    const int status = client.answer().status;
    EXPECT_TRUE(status == 0 || (status >= 400 && status < 500)) << status;
    EXPECT_TRUE(client.closed());
  }
  EXPECT_EQ(handled_, 0);
  // Every size up to the limit is answered one way or another.
  for (std::size_t size = 0; size < 17'000; size += 500) {
    RawClient client(port());
    const int status =
        client.ask("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(size, 'a') + "\r\n\r\n").status;
    EXPECT_TRUE(size < 7'000 ? status == 200 : (status == 200 || status == 0 || status == 431))
        << size << " " << status;
  }
}

// What is refused is answered once, or not at all.
TEST_F(HttpTest, BadHeadsGetOneAnswer) {
  const std::string fields = "Host: x\r\n";
  for (const std::string& head :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("GET / HTTP/1.1\r\n x\r\n\r\n"),
        "POST / HTTP/1.1\r\n" + fields + "Content-Length: abc\r\n\r\n",
        "POST / HTTP/1.1\r\n" + fields + "Content-Length: -5\r\n\r\n",
        "POST / HTTP/1.1\r\n" + fields + "Content-Length: 99999999999999999999999\r\n\r\n",
        "GET / HTTP/7.3\r\n" + fields + "\r\n", std::string("GET /\r\n\r\n"),
        "GET / HTTP/1.1\r\n" + fields + "abc\r\n\r\n",
        "GET / HTTP/1.1\r\n" + fields + "A: " + std::string(1 << 16, 'a') + "\r\n\r\n"}) {
    RawClient client(port());
    client.send(head);
    client.close_writing();
    while (client.receive()) {
    }
    const std::string got = client.buffer();
    EXPECT_EQ(got.find("HTTP/1.1 ", 1), got.npos) << head.substr(0, 100) << got;
    const RawAnswer answer = client.answer();
    EXPECT_TRUE(got.empty() || (answer.status >= 400 && answer.status < 600)) << got;
    EXPECT_EQ(client.buffer(), "") << head.substr(0, 100);
  }
  EXPECT_EQ(handled_, 0);
}

TEST_F(HttpTest, HeadsThatTwoReadersMightReadDifferently) {
  const std::string smuggled = get("/smuggled");
  for (const std::string& headers :
       {std::string("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"),
        std::string("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"),
        std::string("Content-Length: 3\r\nContent-Length: 3\r\n"),
        std::string("Content-Length: 3\r\nContent-Length: 4\r\n"),
        std::string("Content-Length: 3, 3\r\n"),
        std::string("Content-Length: +3\r\n"),
        std::string("Content-Length: -3\r\n"),
        std::string("Content-Length: 3 4\r\n"),
        std::string("Content-Length: 0x3\r\n"),
        std::string("Content-Length: \r\n"),
        std::string("Content-Length : 3\r\n"),
        std::string("Content-Length\t: 3\r\n"),
        std::string("Transfer-Encoding: identity\r\n"),
        std::string("Transfer-Encoding: chunked, identity\r\n"),
        std::string("Transfer-Encoding: xchunked\r\n"),
        std::string("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        std::string("Host: y\r\n"),
        std::string("A: b\rc\r\n"),
        std::string("A: b\x01 c\r\n"),
        std::string("A b: c\r\n"),
        std::string("\xff: c\r\n"),
        std::string(": c\r\n"),
        std::string("no colon\r\n"),
        std::string("A: b\n"),
        std::string("\0: c\r\n", 6),
        std::string("\0\r\n", 3),
        std::string("A: b\0\r\n", 7),
        std::string("A\0: b\r\n", 7),
        std::string("A: b\r\n c\r\n"),
        std::string("Content-Leng: 3\r\n th\r\n"),
        std::string("Transfer-Encodin: chunked\r\n\tg\r\n")}) {
    RawClient client(port());
    const int status =
        client.ask("POST /x HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + "abc" + smuggled).status;
    EXPECT_TRUE(status == 0 || (status >= 400 && status < 500)) << headers << status;
    EXPECT_TRUE(client.closed()) << headers;
  }
  EXPECT_EQ(handled_, 0);
  EXPECT_EQ(RawClient(port()).ask("GET / HTTP/1.1\r\n\r\n").status, 400) << "no Host";
  EXPECT_EQ(RawClient(port())
                .ask("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
                .status,
            400);
}

TEST_F(HttpTest, NulIsNotTheEndOfAnything) {
  using namespace std::string_literals;
  for (const std::string& head :
       {"GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n"s, "GET /a\0b HTTP/1.1\r\nHost: x\r\n\r\n"s,
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\0\r\n\r\nabc"s,
        "GET / HTTP/1.1\0\r\nHost: x\r\n\r\n"s, "GET\0 / HTTP/1.1\r\nHost: x\r\n\r\n"s}) {
    RawClient client(port());
    const RawAnswer answer = client.ask(head);
    EXPECT_TRUE(answer.status == 0 || answer.status == 400) << head << answer.status << answer.body;
  }
}

TEST_F(HttpTest, PathsThatAreTricks) {
  for (const char* path :
       {"/%00",    "/a%00b",     "/%2e%2e/etc", "/a/../b",    "/./a", "/.%2E", "/%ff",
        "/%c0%af", "/%ed%a0%80", "/%0d%0aX:y",  "/%",         "/%4",  "/%g0",  "a",
        "*",       "http://x/",  "/a?b=%00",    "/a?b=1&b=2", "/a#b", "/\xff"}) {
    RawClient client(port());
    EXPECT_EQ(client.ask(get(path)).status, 400) << path;
  }
  EXPECT_EQ(handled_, 0);
  RawClient client(port());
  EXPECT_EQ(client.ask(get("//a//b/")).body, "GET //a//b/ 0 127.0.0.1");
  EXPECT_EQ(client.ask(get("/...")).status, 200);
}

// ---- Time ----

TEST_F(HttpTest, SlowWritersAreCutOffHoweverBusyTheyAre) {
  HttpLimits limits;
  limits.idle_seconds = 0.4;
  limits.request_seconds = 0.4;
  start(limits);
  const auto dribble = [&](std::string_view start, std::string_view piece) {
    const Clock::time_point begun = Clock::now();
    RawClient client(port());
    client.send(start);
    while (seconds_since(begun) < 8 && client.send(piece)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_LT(seconds_since(begun), 8) << start;
    EXPECT_GT(seconds_since(begun), 0.3) << start;
  };
  std::vector<std::thread> all;
  all.emplace_back([&] { dribble("GET /", "a"); });
  all.emplace_back([&] { dribble("GET / HTTP/1.1\r\nHost: x\r\n", "a: b\r\n"); });
  all.emplace_back(
      [&] { dribble("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n", "a"); });
  all.emplace_back([&] {
    dribble("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n");
  });
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(handled_, 0);
}

TEST_F(HttpTest, AHeadThatTricklesHasItsOwnTime) {
  HttpLimits limits;
  limits.head_seconds = 0.3;
  start(limits);
  RawClient client(port());
  RawClient body(port());
  body.send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n");
  client.send("GET / HTTP/1.1\r\nHost: x\r\n");
  const Clock::time_point begun = Clock::now();
  while (seconds_since(begun) < 8 && client.send("a: b\r\n")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_LT(seconds_since(begun), 8);
  EXPECT_EQ(body.ask("abc").status, 200) << "a body has more time";
  EXPECT_EQ(handled_, 1);
}

TEST_F(HttpTest, IdleConnectionsAreClosedButNotThoseThatWaitForAnAnswer) {
  HttpLimits limits;
  limits.idle_seconds = 0.2;
  limits.request_seconds = 0.2;
  start(limits);
  RawClient waiting(port());
  waiting.send(get("/later"));
  HttpReply reply = shelf_.take();
  RawClient fresh(port());
  RawClient used(port());
  EXPECT_EQ(used.ask(get("/")).status, 200);
  EXPECT_TRUE(fresh.closed());
  EXPECT_TRUE(used.closed());
  EXPECT_TRUE(waiting.silent(300));
  reply.send(text("at last"));
  EXPECT_EQ(waiting.answer().body, "at last");
}

TEST_F(HttpTest, AClientThatDoesNotReadItsAnswerIsDropped) {
  HttpLimits limits;
  limits.answer_seconds = 0.3;
  start(limits);
  RawClient lazy(port(), 4096);
  lazy.send(get("/large"));
  EXPECT_EQ(RawClient(port()).ask(get("/")).status, 200) << "others are served meanwhile";
  EXPECT_TRUE(lazy.breaks());
}

// ---- Many ----

void allow_files(rlim_t count) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::max(files.rlim_cur, std::min(count, files.rlim_max));
  ::setrlimit(RLIMIT_NOFILE, &files);
}

TEST_F(HttpTest, AThousandIdleConnectionsHinderNobody) {
  allow_files(4096);
  HttpLimits limits;
  limits.idle_seconds = 1;
  start(limits);
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 1000; ++i) {
    idle.push_back(std::make_unique<RawClient>(port()));
    ASSERT_TRUE(idle.back()->connected());
  }
  const Clock::time_point begun = Clock::now();
  EXPECT_EQ(RawClient(port()).ask(get("/")).status, 200);
  EXPECT_LT(seconds_since(begun), 1);
  for (const std::unique_ptr<RawClient>& client : idle) EXPECT_TRUE(client->closed());
}

TEST_F(HttpTest, IdleConnectionsMakeRoomWhenAllAreTaken) {
  HttpLimits limits;
  limits.connections = 10;
  limits.idle_seconds = 5;  // sweeps come twice a second
  start(limits);
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 30; ++i) idle.push_back(std::make_unique<RawClient>(port()));
  const Clock::time_point begun = Clock::now();
  EXPECT_EQ(RawClient(port()).ask(get("/")).status, 200);
  EXPECT_LT(seconds_since(begun), 15);
}

// Whatever is begun and not finished goes, the oldest first, whoever comes and from where.
TEST_F(HttpTest, RequestsThatDoNotEndMakeRoomForOthers) {
  HttpLimits limits;
  limits.connections = 40;
  start(limits);
  for (const char* part : {"", "GE", "GET / HTTP/1.1\r\nHost: x\r\nA: ",
                           "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"}) {
    for (const std::uint32_t addresses : {1u, 20u}) {
      std::vector<std::unique_ptr<RawClient>> held;
      for (std::uint32_t i = 0; i < 100; ++i) {
        held.push_back(std::make_unique<RawClient>(port(), 0, 1 + i % addresses));
        held.back()->send(part);
      }
      const Clock::time_point begun = Clock::now();
      EXPECT_EQ(RawClient(port()).ask(get("/")).status, 200) << part << " " << addresses;
      EXPECT_LT(seconds_since(begun), 5) << part << " " << addresses;
      EXPECT_TRUE(held.front()->closed()) << "the oldest";
      EXPECT_EQ(held.back()->buffer(), "");
    }
  }
}

TEST_F(HttpTest, AClientHasAShareOfTheConnections) {
  HttpLimits limits;
  limits.connections = 40;
  start(limits);
  std::vector<std::unique_ptr<RawClient>> busy;
  for (int i = 0; i < 10; ++i) {
    busy.push_back(std::make_unique<RawClient>(port(), 0, 2));
    busy.back()->send(get("/later"));
  }
  std::vector<HttpReply> owed;
  for (int i = 0; i < 10; ++i) owed.push_back(shelf_.take());
  EXPECT_EQ(RawClient(port(), 0, 2).ask(get("/")).status, 0) << "a quarter of all is its share";
  EXPECT_EQ(RawClient(port(), 0, 3).ask(get("/")).status, 200) << "others have theirs";
  for (HttpReply& reply : owed) reply.send(text("served"));
  for (const std::unique_ptr<RawClient>& client : busy) EXPECT_EQ(client->answer().body, "served");
  EXPECT_EQ(RawClient(port(), 0, 2).ask(get("/")).status, 200) << "it may wait idle for more";
}

TEST_F(HttpTest, ManyClientsAtOnce) {
  std::atomic<int> right{0};
  std::atomic<bool> stop{false};
  std::thread answering([&] {
    while (!stop) {
      try {
        shelf_.take().send(text("late"));
      } catch (const std::runtime_error&) {
      }
    }
  });
  const auto work = [&](int number) {
    RawClient client(port());
    for (int i = 0; i < 50; ++i) {
      const std::string path = "/" + std::to_string(number) + "/" + std::to_string(i);
      const std::string body(static_cast<std::size_t>(i) * 997, 'x');
      right += client.ask(post(path, body)).body ==
               "POST " + path + " " + std::to_string(body.size()) + " 127.0.0.1";
      right += client.ask(get("/later")).body == "late";
    }
  };
  port();
  std::vector<std::thread> threads;
  for (int number = 0; number < 6; ++number) threads.emplace_back(work, number);
  for (std::thread& thread : threads) thread.join();
  stop = true;
  RawClient last(port());
  last.send(get("/later"));
  answering.join();
  EXPECT_EQ(right, 6 * 50 * 2);
}

// ---- Replies and the end ----

TEST_F(HttpTest, RepliesMayComeFromOtherThreadsLateOrNever) {
  port();
  RawClient client(port());
  client.send(get("/later"));
  std::thread([reply = shelf_.take()]() mutable { reply.send(text("other")); }).join();
  EXPECT_EQ(client.answer().body, "other");
  client.send(get("/later"));
  { const HttpReply dropped = shelf_.take(); }
  EXPECT_EQ(client.answer().status, 500);
  client.send(get("/later"));
  HttpReply reply = shelf_.take();
  client.close();
  reply.send(text(std::string(1 << 20, 'x')));
  EXPECT_EQ(RawClient(port()).ask(get("/")).status, 200);
}

TEST_F(HttpTest, AReplyKnowsWhetherItsClientHasLeft) {
  const auto leaves = [](const HttpReply& reply) {
    const Clock::time_point begun = Clock::now();
    while (!reply.client_has_left() && seconds_since(begun) < 10) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return reply.client_has_left();
  };
  for (const char* behind : {"", "GET /next HTTP/1.1\r\n"}) {
    RawClient client(port());
    client.send(get("/later") + behind);
    HttpReply reply = shelf_.take();
    EXPECT_FALSE(reply.client_has_left());
    client.close();
    EXPECT_TRUE(leaves(reply));
    reply.send(text("for nobody"));
    EXPECT_FALSE(reply.client_has_left()) << "it owes nothing any more";
  }
  RawClient client(port());
  client.send(get("/later"));
  const HttpReply reply = shelf_.take();
  server_.reset();
  EXPECT_TRUE(leaves(reply)) << "and when the server is gone";
}

TEST_F(HttpTest, DrainFinishesWhatWasBegun) {
  RawClient idle(port());
  RawClient waiting(port());
  waiting.send(get("/later"));
  HttpReply reply = shelf_.take();
  RawClient sending(port());
  sending.send("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na");
  // Only when the server has seen the head does it count as begun.
  RawClient(port()).ask(get("/"));
  std::thread draining([&] { server_->drain(10); });
  EXPECT_TRUE(idle.closed());
  EXPECT_FALSE(RawClient(port()).connected());
  EXPECT_EQ(sending.ask("bc").body, "POST /x 3 127.0.0.1");
  EXPECT_TRUE(sending.closed());
  const std::string large(std::size_t{16} << 20, 'x');
  reply.send(text(large));
  const RawAnswer answer = waiting.answer();
  EXPECT_EQ(answer.headers.at("Connection"), "close");
  EXPECT_EQ(answer.body, large);
  const Clock::time_point begun = Clock::now();
  draining.join();
  EXPECT_LT(seconds_since(begun), 5);
}

TEST_F(HttpTest, DrainGivesUpAfterItsTime) {
  RawClient waiting(port());
  waiting.send(get("/later"));
  HttpReply reply = shelf_.take();
  RawClient stuck(port());
  stuck.send("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na");
  const Clock::time_point begun = Clock::now();
  server_->drain(0.1);
  EXPECT_LT(seconds_since(begun), 5);
  EXPECT_EQ(waiting.answer().status, 503);
  EXPECT_TRUE(stuck.closed());
  reply.send(text("too late, and harmless"));
  server_->drain(1);
  server_.reset();
  reply.send(text("and now"));
}

TEST_F(HttpTest, RepliesRaceWithTheEnd) {
  for (int round = 0; round < 20; ++round) {
    start();
    std::vector<std::unique_ptr<RawClient>> clients;
    std::vector<HttpReply> replies;
    for (int i = 0; i < 4; ++i) {
      clients.push_back(std::make_unique<RawClient>(port()));
      clients.back()->send(get("/later"));
      replies.push_back(shelf_.take());
    }
    std::thread answering([&] {
      for (HttpReply& reply : replies) reply.send(text("x"));
    });
    server_->drain(0);
    answering.join();
    for (const std::unique_ptr<RawClient>& client : clients) {
      const int status = client->answer().status;
      EXPECT_TRUE(status == 200 || status == 503) << status;
    }
    server_.reset();
  }
}

TEST_F(HttpTest, AStreamIsSentPieceByPiece) {
  RawClient client(port());
  for (int again = 0; again < 2; ++again) {
    client.send(get("/stream"));
    asking()->give("one,");
    asking()->give(std::string(100000, 'x'));
    const auto stream = asking();
    stream->give("");
    stream->give("after its end");
    const RawAnswer answer = client.chunked();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("Transfer-Encoding"), "chunked");
    EXPECT_EQ(answer.headers.count("Content-Length"), 0u);
    EXPECT_EQ(answer.body, "one," + std::string(100000, 'x'));
  }
  EXPECT_EQ(client.ask(get("/")).status, 200) << "the connection is kept";
}

TEST_F(HttpTest, AStreamThatFailsHasNoEnd) {
  RawClient client(port());
  client.send(get("/stream"));
  asking()->give("half");
  asking()->fail();
  EXPECT_EQ(client.chunked().status, 0) << "it must not look whole";
  RawClient other(port());
  other.send("HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(other.answer(false).status, 200);
  EXPECT_EQ(other.ask(get("/")).status, 200);
  EXPECT_FALSE(is_asked()) << "nothing is made that is not sent";
}

// One piece is asked for and no more, and other clients do not notice.
TEST_F(HttpTest, AClientThatReadsSlowlyHoldsOnePiece) {
  HttpLimits limits;
  limits.answer_seconds = 2;
  start(limits);
  RawClient client(port(), 4096);
  client.send(get("/stream"));
  auto stream = asking();
  stream->give(std::string(std::size_t{32} << 20, 'x'));  // more than fits into the sockets
  RawClient other(port());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(other.ask(get("/")).status, 200);
  EXPECT_FALSE(is_asked());
  // Who takes nothing is dropped, and the stream knows.
  for (int i = 0; i < 1000 && !stream->is_closed(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(stream->is_closed());
  stream->give("nobody gets this");
  EXPECT_EQ(other.ask(get("/")).status, 200);
}

// Exports must not keep a service from ending.
TEST_F(HttpTest, StreamsAreBrokenOffWhenItEnds) {
  RawClient idle(port(), 4096);
  idle.send(get("/stream"));
  const auto stalled = asking();
  stalled->give(std::string(std::size_t{32} << 20, 'x'));  // more than fits into the sockets
  RawClient slow(port());
  slow.send(get("/stream"));
  const auto endless = asking();
  std::thread feeding([&] {
    while (!endless->is_closed()) {
      endless->give("x");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  server_->drain(60);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  feeding.join();
}

// A piece may take longer to make than a client may take to read it.
TEST_F(HttpTest, MakingAPieceMayTakeLong) {
  HttpLimits limits;
  limits.answer_seconds = 0.5;
  start(limits);
  RawClient client(port());
  client.send(get("/stream"));
  const auto stream = asking();
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  stream->give("late");
  asking()->give("");
  EXPECT_EQ(client.chunked().body, "late");
}

TEST_F(HttpTest, StreamsRaceWithTheEnd) {
  for (int round = 0; round < 20; ++round) {
    start();
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 5; ++i) {
      clients.push_back(std::make_unique<RawClient>(port()));
      clients.back()->send(get("/stream"));
    }
    std::vector<std::shared_ptr<HttpStream>> streams;
    for (int i = 0; i < 5; ++i) streams.push_back(asking());
    std::thread giver([&] {
      for (const auto& stream : streams) stream->give("piece");
    });
    if (round % 2 == 0) clients.resize(2);
    server_->drain(0);
    giver.join();
    for (const auto& stream : streams) stream->give("too late");
    const std::lock_guard lock(asked_mutex_);
    asked_.clear();
  }
}

TEST_F(HttpTest, APortThatIsTakenIsAnErrorWithARemedy) {
  const std::uint16_t taken = port();
  try {
    const HttpServer second("127.0.0.1", taken, {}, nullptr, [](HttpRequest&&, HttpReply) {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput);
    const std::string what = error.what();
    EXPECT_NE(what.find(std::to_string(taken)), what.npos);
    EXPECT_NE(what.find("another port"), what.npos) << what;
  }
  EXPECT_THROW(HttpServer("localhost", 0, {}, nullptr, nullptr), Error);
  EXPECT_THROW(HttpServer("203.0.113.1", 0, {}, nullptr, nullptr), Error);
  server_.reset();
  const HttpServer again("127.0.0.1", taken, {}, nullptr, [](HttpRequest&&, HttpReply) {});
  EXPECT_EQ(again.port(), taken);
}

TEST_F(HttpTest, ClientsOfAnIpv6SocketAreShownAsWhatTheyAre) {
  std::string seen;
  try {
    HttpServer server("::", 0, {}, nullptr, [&](HttpRequest&& request, HttpReply reply) {
      seen = request.client;
      reply.send({});
    });
    EXPECT_EQ(RawClient(server.port()).ask(get("/")).status, 200);
    server.drain(5);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_EQ(seen, "127.0.0.1");
}

}  // namespace
}  // namespace contcore
