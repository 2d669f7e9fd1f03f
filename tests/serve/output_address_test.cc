#include "serve/output_address.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "contcore/error.h"

namespace contcore {
namespace {

std::string refusal_of(OutputAddress (*parse)(std::string_view), const std::string& url) {
  try {
    parse(url);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    return error.what();
  }
  return "taken";
}

TEST(OutputAddress, OfAWebhook) {
  const OutputAddress plain = parse_webhook("http://mes.example:8080/verdicts?key=hidden");
  EXPECT_EQ(plain.kind, OutputAddress::Kind::kWebhook);
  EXPECT_EQ(plain.host, "mes.example");
  EXPECT_EQ(plain.port, 8080);
  EXPECT_FALSE(plain.tls);
  EXPECT_EQ(plain.url, "http://mes.example:8080/verdicts?key=hidden");
  EXPECT_EQ(plain.name, "http://mes.example:8080/verdicts");
  const OutputAddress short_one = parse_webhook("https://h");
  EXPECT_TRUE(short_one.tls);
  EXPECT_EQ(short_one.port, 443);
  EXPECT_EQ(short_one.url, "https://h/");
  EXPECT_EQ(parse_webhook("http://h?a").url, "http://h/?a");
  const OutputAddress six = parse_webhook("http://[::1]:81/");
  EXPECT_EQ(six.host, "::1");
  EXPECT_EQ(six.port, 81);
}

TEST(OutputAddress, OfABroker) {
  const OutputAddress bare = parse_mqtt("mqtt://broker");
  EXPECT_EQ(bare.kind, OutputAddress::Kind::kMqtt);
  EXPECT_EQ(bare.host, "broker");
  EXPECT_EQ(bare.port, 1883);
  EXPECT_EQ(bare.user, "");
  EXPECT_EQ(bare.prefix, "contcore");
  EXPECT_EQ(bare.name, "mqtt://broker/contcore");
  const OutputAddress full = parse_mqtt("mqtts://line%207@broker:8884/halle/1%20b/");
  EXPECT_TRUE(full.tls);
  EXPECT_EQ(full.port, 8884);
  EXPECT_EQ(full.user, "line 7");
  EXPECT_EQ(full.prefix, "halle/1 b");
  EXPECT_EQ(full.name, "mqtts://broker:8884/halle/1%20b");
  EXPECT_EQ(parse_mqtt("mqtts://[fe80::1]/x").port, 8883);
}

TEST(OutputAddress, NonsenseIsRefusedAndSecretsAreNotShown) {
  const std::vector<std::string> both = {"",
                                         "h",
                                         "//h",
                                         "ftp://h",
                                         "X://",
                                         "X:///a",
                                         "X://:80",
                                         "X://h:",
                                         "X://h:0",
                                         "X://h:65536",
                                         "X://h:80x",
                                         "X://h:-1",
                                         "X://[::1",
                                         "X://[::1]80",
                                         "X://[]:80",
                                         "X://a:b:c",
                                         "X://h/a b",
                                         "X://h/\n",
                                         "X://h/\x80",
                                         "X://h/#hidden",
                                         "X://me:hidden@h",
                                         "X://@h",
                                         "X://a_b!c",
                                         std::string("X://h/\0", 7),
                                         "X://h/" + std::string(3000, 'x'),
                                         "X://h/" + std::string(250, 'x')};
  for (std::string url : both) {
    for (const bool mqtt : {false, true}) {
      std::string tried = url;
      if (tried.starts_with("X")) tried.replace(0, 1, mqtt ? "mqtt" : "http");
      const std::string said = refusal_of(mqtt ? parse_mqtt : parse_webhook, tried);
      EXPECT_NE(said, "taken") << tried;
      EXPECT_EQ(said.find("hidden"), said.npos) << said;
      EXPECT_TRUE(said.starts_with(mqtt ? "--mqtt: " : "--webhook: ")) << said;
    }
  }
  EXPECT_NE(refusal_of(parse_webhook, "mqtt://h"), "taken");
  EXPECT_NE(refusal_of(parse_webhook, "http://me@h"), "taken");
  for (const char* url : {"http://h", "mqtt://h/?a", "mqtt://h/+/a", "mqtt://h/%23", "mqtt://h/%0a",
                          "mqtt://h/%ff", "mqtt://h/%4", "mqtt://h/%zz", "mqtt://h/$SYS"}) {
    EXPECT_NE(refusal_of(parse_mqtt, url), "taken") << url;
  }
}

TEST(OutputAddress, AnyBytesAreTakenOrRefused) {
  std::mt19937 numbers(5);
  constexpr std::string_view kParts[] = {"http", "mqtt", "s", "://", "@",  ":", "/",
                                         "?",    "#",    "[", "]",   "%",  "h", "80",
                                         "a",    "\xff", " ", "+",   "%41"};
  for (int i = 0; i < 20000; ++i) {
    std::string url = i % 2 == 0 ? "http://" : "mqtt://";
    for (std::size_t n = numbers() % 8; n > 0; --n) url += kParts[numbers() % std::size(kParts)];
    for (const auto parse : {parse_webhook, parse_mqtt}) {
      try {
        const OutputAddress address = parse(url);
        EXPECT_FALSE(address.host.empty());
        EXPECT_NE(address.port, 0);
        EXPECT_LE(address.name.size(), 200U);
        EXPECT_TRUE(is_utf8(address.prefix));
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), Error::Kind::kUsage);
      }
    }
  }
}

TEST(TopicLevel, IsOneLevelAndAnotherForEachStation) {
  EXPECT_EQ(topic_level(""), "-");
  EXPECT_EQ(topic_level("-"), "%2D");
  EXPECT_EQ(topic_level("press 4"), "press 4");
  EXPECT_EQ(topic_level("a/b+c#d%e"), "a%2Fb%2Bc%23d%25e");
  EXPECT_EQ(topic_level("Prüfstand"), "Prüfstand");
  EXPECT_EQ(topic_level(std::string("\n\0\x7f\xc2\x85\xff", 6)), "%0A%00%7F%C2%85%FF");
  std::mt19937 numbers(6);
  std::set<std::string> stations;
  std::set<std::string> levels;
  for (int i = 0; i < 5000; ++i) {
    std::string station;
    for (std::size_t n = numbers() % 5; n > 0; --n) {
      station += "-%2DF/+#a\xc2\x85\xc3\xbc\n"[numbers() % 13];
    }
    const std::string level = topic_level(station);
    EXPECT_TRUE(is_utf8(level));
    EXPECT_FALSE(level.empty());
    EXPECT_EQ(level.find_first_of("/+#\n"), level.npos);
    stations.insert(station);
    levels.insert(level);
  }
  EXPECT_EQ(stations.size(), levels.size());
}

}  // namespace
}  // namespace contcore
