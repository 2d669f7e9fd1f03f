#include "serve/output_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/utf8.h"
#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::size_t kLongestUrl = 2000;
// It stands in metrics and in the store.
constexpr std::size_t kLongestOutputName = 200;

// One kind of URL, and how messages show it.
struct UrlForm {
  const char* option;
  const char* like;
  const char* plain;
  const char* secure;
  std::uint16_t plain_port;
  std::uint16_t secure_port;
};
constexpr UrlForm kWebhookForm = {
    "--webhook", "http://mes.example:8080/verdicts", "http", "https", 80, 443};
constexpr UrlForm kMqttForm = {
    "--mqtt", "mqtt://user@broker.example:1883/contcore", "mqtt", "mqtts", 1883, 8883};

// The URL is not shown: it may have a password in it.
[[noreturn]] void refuse_url(const UrlForm& form, std::string_view what) {
  throw Error(Error::Kind::kUsage,
              fmt::format("{}: the URL {}; write it like {}", form.option, what, form.like));
}

struct Url {
  bool secure = false;
  std::string_view user;
  std::string_view host;
  std::uint16_t port = 0;
  std::string_view authority;  // host and port, as written
  std::string_view path;       // with its '/'
  std::string_view query;      // with its '?'
};

bool is_host(std::string_view host, bool brackets) {
  return !host.empty() && std::ranges::all_of(host, [&](char c) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return plain || c == '.' || (brackets ? c == ':' : c == '-' || c == '_');
  });
}

void parse_authority(const UrlForm& form, Url& url) {
  std::string_view port;
  if (url.authority.starts_with('[')) {
    const std::size_t end = url.authority.find(']');
    if (end == url.authority.npos) refuse_url(form, "has a '[' without its ']'");
    url.host = url.authority.substr(1, end - 1);
    port = url.authority.substr(end + 1);
    if (!port.empty() && port[0] != ':') refuse_url(form, "has no ':' before its port");
  } else {
    const std::size_t colon = std::min(url.authority.find(':'), url.authority.size());
    url.host = url.authority.substr(0, colon);
    port = url.authority.substr(colon);
  }
  if (!is_host(url.host, url.authority.starts_with('['))) refuse_url(form, "has no host");
  url.port = url.secure ? form.secure_port : form.plain_port;
  if (port.empty()) return;
  port.remove_prefix(1);
  const char* const end = port.data() + port.size();
  const auto [rest, error] = std::from_chars(port.data(), end, url.port);
  if (error != std::errc() || rest != end || url.port == 0) {
    refuse_url(form, "has a port that is none");
  }
}

Url parse_url(const UrlForm& form, std::string_view text) {
  if (text.empty()) refuse_url(form, "is empty");
  if (text.size() > kLongestUrl) {
    refuse_url(form, fmt::format("is longer than {} bytes", kLongestUrl));
  }
  if (!std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; })) {
    refuse_url(form, "has a blank or another character that must be escaped");
  }
  Url url;
  const std::size_t scheme = text.find("://");
  const std::string_view named = text.substr(0, std::min(scheme, text.size()));
  url.secure = named == form.secure;
  if (scheme == text.npos || (!url.secure && named != form.plain)) {
    refuse_url(form, fmt::format("begins with neither {}:// nor {}://", form.plain, form.secure));
  }
  text.remove_prefix(scheme + 3);
  if (text.find('#') != text.npos) refuse_url(form, "has a '#' in it");
  url.authority = text.substr(0, text.find_first_of("/?"));
  text.remove_prefix(url.authority.size());
  url.path = text.substr(0, text.find('?'));
  url.query = text.substr(url.path.size());
  if (const std::size_t at = url.authority.rfind('@'); at != url.authority.npos) {
    url.user = url.authority.substr(0, at);
    url.authority.remove_prefix(at + 1);
    if (url.user.find(':') != url.user.npos) {
      refuse_url(form, "has a password in it, where everybody on this machine can read it");
    }
    if (url.user.empty()) refuse_url(form, "has an '@' without a user");
  }
  parse_authority(form, url);
  return url;
}

int hexadecimal(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string unescaped(const UrlForm& form, std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hexadecimal(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hexadecimal(text[i + 2]) : -1;
    if (high < 0 || low < 0) refuse_url(form, "has a '%' without two hexadecimal digits");
    plain += static_cast<char>(16 * high + low);
    i += 2;
  }
  if (!is_utf8(plain) ||
      std::ranges::any_of(plain, [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; })) {
    refuse_url(form, "has a character escaped that cannot be used");
  }
  return plain;
}

OutputAddress address_of(OutputAddress::Kind kind, const UrlForm& form, const Url& url,
                         std::string_view path) {
  OutputAddress address;
  address.kind = kind;
  address.tls = url.secure;
  address.host = std::string(url.host);
  address.port = url.port;
  address.name =
      fmt::format("{}://{}{}", url.secure ? form.secure : form.plain, url.authority, path);
  if (address.name.size() > kLongestOutputName) {
    refuse_url(form, fmt::format("is longer than {} bytes before its '?'", kLongestOutputName));
  }
  return address;
}

}  // namespace

OutputAddress parse_webhook(std::string_view text) {
  const Url url = parse_url(kWebhookForm, text);
  if (!url.user.empty()) {
    refuse_url(kWebhookForm, "has a user in it, which is not used; sign with --webhook-secret");
  }
  OutputAddress address = address_of(OutputAddress::Kind::kWebhook, kWebhookForm, url,
                                     url.path.empty() ? "/" : url.path);
  address.url = address.name + std::string(url.query);
  return address;
}

OutputAddress parse_mqtt(std::string_view text) {
  const Url url = parse_url(kMqttForm, text);
  if (!url.query.empty()) refuse_url(kMqttForm, "has a '?' in it");
  std::string_view path = url.path;
  while (path.ends_with('/')) path.remove_suffix(1);
  OutputAddress address =
      address_of(OutputAddress::Kind::kMqtt, kMqttForm, url, path.empty() ? "/contcore" : path);
  address.user = unescaped(kMqttForm, url.user);
  address.prefix = path.empty() ? "contcore" : unescaped(kMqttForm, path.substr(1));
  if (address.prefix.find_first_of("+#") != address.prefix.npos ||
      address.prefix.starts_with('$')) {
    refuse_url(kMqttForm, "names topics with '+' or '#' in them, or with '$' first");
  }
  return address;
}

std::string topic_level(std::string_view station) {
  if (station.empty()) return "-";
  if (station == "-") return "%2D";
  std::string level;
  for (std::size_t i = 0; i < station.size();) {
    const std::size_t bytes = utf8_bytes(station, i);
    const auto first = static_cast<unsigned char>(station[i]);
    // U+0080 to U+009F are controls as well.
    const bool control = first < ' ' || first == 0x7F ||
                         (first == 0xC2 && static_cast<unsigned char>(station[i + 1]) < 0xA0);
    const bool escape = bytes == 0 || control || station[i] == '%' || station[i] == '/' ||
                        station[i] == '+' || station[i] == '#';
    for (const std::size_t end = i + std::max<std::size_t>(1, bytes); i < end; ++i) {
      if (escape) {
        level += fmt::format("%{:02X}", static_cast<unsigned char>(station[i]));
      } else {
        level += station[i];
      }
    }
  }
  return level;
}

}  // namespace contcore
