// Where verdicts are sent: the addresses of outputs, as they are given on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace contcore {

struct OutputAddress {
  enum class Kind { kWebhook, kMqtt };

  Kind kind = Kind::kWebhook;
  bool tls = false;
  std::string user;  ///< of MQTT; may be empty
  std::string host;  ///< an IPv6 address without its brackets
  std::uint16_t port = 0;
  std::string prefix;  ///< of MQTT's topics
  std::string url;     ///< of a webhook, as given
  /// What the output is known by: without the user, and without what stands behind a '?', which may
  /// be a secret.
  std::string name;
};

/// "https://host:port/path?query". Throws Error (kUsage).
OutputAddress parse_webhook(std::string_view url);

/// "mqtt://user@host:port/prefix", "mqtts://…"; the prefix is "contcore" unless it is given. Throws
/// Error (kUsage), which shows no password.
OutputAddress parse_mqtt(std::string_view url);

/// A station's name as one level of a topic: '%', '/', '+', '#', control characters and what is no
/// UTF-8 are written as in URLs (%2F); no station is "-", and one that is called so "%2D".
std::string topic_level(std::string_view station);

}  // namespace contcore
