#include "remote.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "common.h"
#include "serve/curl.h"

namespace contcore::app {
namespace {

constexpr long kConnectSeconds = 10;
constexpr long kRequestSeconds = 120;
constexpr long kRemoveSeconds = 5;
constexpr double kMostWaiting = 60;  // seconds, for a request that is put off
constexpr std::size_t kMostAnswer = std::size_t{16} << 20;
constexpr std::size_t kMostText = 1000;

struct UrlDeleter {
  void operator()(CURLU* url) const { libcurl().url_cleanup(url); }
};

std::string part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (libcurl().url_get(url, part, &text, 0) != CURLUE_OK || text == nullptr) return "";
  std::string copy = text;
  libcurl().free(text);
  return copy;
}

struct Address {
  std::string url;
  bool loopback = false;
};

Address parse_address(const std::string& text) {
  const auto fail = [&](const char* why) {
    throw Error(
        Error::Kind::kUsage,
        fmt::format("--server {}: {}; write it like http://127.0.0.1:8080", clean(text), why));
  };
  const std::unique_ptr<CURLU, UrlDeleter> url(libcurl().url());
  if (!url) throw std::bad_alloc();
  if (libcurl().url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK)
    fail("is not a URL");
  const std::string scheme = part_of(url.get(), CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") fail("is neither http nor https");
  if (!part_of(url.get(), CURLUPART_USER).empty() ||
      !part_of(url.get(), CURLUPART_PASSWORD).empty()) {
    // Not shown: it has a password in it.
    throw Error(Error::Kind::kUsage,
                "--server: a name or password in the URL is not used; leave it out and put the "
                "token into the environment's CONTCORE_TOKEN");
  }
  if (!part_of(url.get(), CURLUPART_QUERY).empty() ||
      !part_of(url.get(), CURLUPART_FRAGMENT).empty()) {
    fail("has a '?' or '#' in it");
  }
  Address address;
  address.url = part_of(url.get(), CURLUPART_URL);
  while (address.url.ends_with('/')) address.url.pop_back();
  const std::string host = part_of(url.get(), CURLUPART_HOST);
  address.loopback = host == "localhost" || host == "[::1]" || host.starts_with("127.");
  return address;
}

std::string token_of_environment() {
  const char* token = std::getenv("CONTCORE_TOKEN");
  if (token == nullptr) return "";
  const std::string text = token;
  if (std::any_of(text.begin(), text.end(), [](char c) { return c <= ' ' || c > '~'; })) {
    throw Error(Error::Kind::kUsage,
                "CONTCORE_TOKEN holds a blank or another character that no token has; set it to "
                "the token alone");
  }
  return text;
}

void wait(double seconds, bool may_stop) {
  const Stopwatch watch;
  while (watch.seconds() < seconds) {
    if (may_stop) stop_if_asked();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

std::size_t take(char* data, std::size_t size, std::size_t count, void* into) {
  auto& body = *static_cast<std::string*>(into);
  if (count > (kMostAnswer - body.size()) / size) return 0;
  try {
    body.append(data, size * count);
  } catch (...) {  // no exception may pass through C
    return 0;
  }
  return size * count;
}

int look_for_stop(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return stop_asked() ? 1 : 0;
}

// What holds for every request, whatever the service does.
void set_bounds(CURL* handle, long seconds, std::string& body) {
  libcurl().easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  libcurl().easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
  // A task named ".." must not lead elsewhere.
  libcurl().easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L);
  libcurl().easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, std::min(kConnectSeconds, seconds));
  libcurl().easy_setopt(handle, CURLOPT_TIMEOUT, seconds);
  libcurl().easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  libcurl().easy_setopt(handle, CURLOPT_USERAGENT, "contcore");
  libcurl().easy_setopt(handle, CURLOPT_WRITEFUNCTION, take);
  libcurl().easy_setopt(handle, CURLOPT_WRITEDATA, &body);
}

std::string remedy_for(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return "see that contcore serve runs there, and that --server has its address and port";
    case CURLE_OPERATION_TIMEDOUT:
      return "see whether the service is overloaded, and try again";
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
      return "contcore serve itself speaks http; for https see to the certificate of what stands "
             "in front of it";
    case CURLE_WRITE_ERROR:
      return "its answer is over 16 MiB; see that --server has the address of contcore serve";
    default:
      return "try again, and see that --server has the address of contcore serve";
  }
}

}  // namespace

struct Remote::Connection {
  Connection() : handle(libcurl().easy_init()) {
    if (handle == nullptr) throw Error(Error::Kind::kInternal, "libcurl cannot be started");
  }
  ~Connection() { libcurl().easy_cleanup(handle); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  CURL* handle;
  bool loopback = false;
};

struct Remote::Request {
  const char* method = "GET";
  std::string path;
  std::string_view body;
  const char* type = nullptr;
  Stop stop = Stop::kAtOnce;
  long seconds = kRequestSeconds;
};

struct Remote::Answer {
  int status = 0;
  std::string body;
  std::string redirect;
  std::optional<double> retry_after;
};

Remote::Remote(const std::string& url) : token_(token_of_environment()) {
  if (libcurl().global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    throw Error(Error::Kind::kInternal, "libcurl cannot be started");
  }
  const Address address = parse_address(url);
  url_ = address.url;
  connection_ = std::make_unique<Connection>();
  connection_->loopback = address.loopback;
}

Remote::~Remote() = default;

Remote::Answer Remote::send(const Request& request) {
  CURL* handle = connection_->handle;
  libcurl().easy_reset(handle);  // the connection stays
  const std::string address = url_ + request.path;
  Answer answer;
  HeaderLines lines;
  lines.add("Expect:");  // nobody is asked whether a body may come
  lines.add("Accept: application/json, application/problem+json");
  if (request.type != nullptr) lines.add(fmt::format("Content-Type: {}", request.type));
  if (!token_.empty()) lines.add("Authorization: Bearer " + token_);
  set_bounds(handle, request.seconds, answer.body);
  libcurl().easy_setopt(handle, CURLOPT_URL, address.c_str());
  libcurl().easy_setopt(handle, CURLOPT_HTTPHEADER, lines.list());
  // A proxy for the world outside cannot reach what listens on this machine.
  if (connection_->loopback) libcurl().easy_setopt(handle, CURLOPT_PROXY, "");
  if (request.stop == Stop::kAtOnce) {
    libcurl().easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    libcurl().easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, look_for_stop);
  }
  if (std::string_view(request.method) == "POST") {
    libcurl().easy_setopt(handle, CURLOPT_POST, 1L);
    libcurl().easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
                          static_cast<curl_off_t>(request.body.size()));
    libcurl().easy_setopt(handle, CURLOPT_POSTFIELDS,
                          request.body.empty() ? "" : request.body.data());
  } else {
    libcurl().easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method);
  }

  const CURLcode code = libcurl().easy_perform(handle);
  if (code == CURLE_ABORTED_BY_CALLBACK) stop_if_asked();
  if (code != CURLE_OK) {
    throw Error(Error::Kind::kInput, fmt::format("{}: {}; {}", address,
                                                 libcurl().easy_strerror(code), remedy_for(code)));
  }
  long status = 0;
  libcurl().easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  const char* redirect = nullptr;
  libcurl().easy_getinfo(handle, CURLINFO_REDIRECT_URL, &redirect);
  if (redirect != nullptr) answer.redirect = redirect;
  answer.retry_after = retry_after(handle);
  return answer;
}

void Remote::refuse(const std::string& address, const Answer& answer) const {
  const nlohmann::json problem = nlohmann::json::parse(answer.body, nullptr, false);
  const std::string title = text_in(problem, "title");
  const std::string detail = text_in(problem, "detail");
  std::string reason = title.empty()    ? fmt::format("answered with status {}", answer.status)
                       : detail.empty() ? title
                                        : title + ": " + detail;
  if (answer.status >= 300 && answer.status < 400) {
    reason = "answered with a redirect, which is not followed";
    if (!answer.redirect.empty()) {
      reason += fmt::format("; it leads to {}, give --server what of that is right",
                            clean(answer.redirect));
    }
  } else if (answer.status == 401) {
    reason += token_.empty() ? "; set the environment's CONTCORE_TOKEN to a token of this service"
                             : "; the token in CONTCORE_TOKEN is not one of this service's";
  } else if (answer.status == 403 && detail.empty()) {
    reason += "; set CONTCORE_TOKEN to a token that may do this";
  } else if (title.empty() && answer.status < 500) {
    reason += "; see that --server has the address of contcore serve";
  } else if (answer.status == 503 || answer.status == 429) {
    reason += "; try again later";
  }
  throw RemoteRefusal(fmt::format("{}: {}", address, reason), answer.status,
                      detail.empty() ? reason : detail);
}

nlohmann::json Remote::ask(const Request& request) {
  const bool patient = request.seconds == kRequestSeconds;
  const std::string address = url_ + request.path;
  for (double waited = 0;;) {
    const Answer answer = send(request);
    if (answer.status >= 200 && answer.status < 300) {
      nlohmann::json object = nlohmann::json::parse(answer.body, nullptr, false);
      if (!object.is_object()) throw_strange(request.path, "it is not a JSON object");
      return object;
    }
    const bool put_off = answer.status == 503 || answer.status == 429;
    const double pause = answer.retry_after.value_or(2 * kMostWaiting);
    if (!patient || !put_off || waited + pause > kMostWaiting) refuse(address, answer);
    wait(pause, request.stop == Stop::kAtOnce);
    waited += pause;
  }
}

nlohmann::json Remote::get(const std::string& path, Stop stop) {
  Request request;
  request.path = path;
  request.stop = stop;
  return ask(request);
}

nlohmann::json Remote::post(const std::string& path, std::string_view body, const char* type,
                            Stop stop) {
  Request request;
  request.method = "POST";
  request.path = path;
  request.body = body;
  request.type = type;
  request.stop = stop;
  return ask(request);
}

nlohmann::json Remote::remove(const std::string& path) {
  Request request;
  request.method = "DELETE";
  request.path = path;
  request.stop = Stop::kNever;
  request.seconds = kRemoveSeconds;
  return ask(request);
}

nlohmann::json Remote::post(const std::string& path, std::span<const std::uint8_t> image) {
  return post(path, {reinterpret_cast<const char*>(image.data()), image.size()},
              "application/octet-stream");
}

void Remote::throw_strange(const std::string& path, const std::string& what) const {
  throw Error(Error::Kind::kInput,
              fmt::format("{}{}: the answer is not one of contcore serve: {}; see that --server "
                          "has its address, and that it is of the same version",
                          url_, path, what));
}

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~';
    if (plain) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string clean(std::string_view text) {
  std::string cleaned(text.substr(0, kMostText));
  for (char& c : cleaned) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) c = ' ';
  }
  if (text.size() > kMostText) cleaned += " ...";
  return cleaned;
}

std::optional<double> number_in(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return {};
  return found->get<double>();
}

std::string text_in(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? clean(found->get_ref<const std::string&>())
                                                     : "";
}

std::size_t count_in(const nlohmann::json& object, const char* key) {
  const double number = number_in(object, key).value_or(0);
  return number > 0 && number < 0x1p53 ? static_cast<std::size_t>(number) : 0;
}

std::string threshold_line(const nlohmann::json& task) {
  if (!task.is_object() || !task.contains("threshold")) return "";
  const nlohmann::json& threshold = task["threshold"];
  const auto score = number_in(threshold, "score");
  if (!score) return "";
  const auto rate = number_in(threshold, "false_alarms");
  if (!rate) return fmt::format("threshold {:.4g}: set by hand\n", *score);
  Threshold known;
  known.score = static_cast<float>(*score);
  known.false_alarms = *rate;
  known.images = count_in(threshold, "images");
  return threshold_text(known) + "\n";
}

void refuse_local_options(const CLI::App& command, const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    if (command.get_option(option)->count() == 0) continue;
    throw Error(Error::Kind::kUsage,
                fmt::format("{} is for a memory's file and cannot be given with --server, where "
                            "the service decides; leave it out",
                            option));
  }
}

void sort_positionals(const CLI::App& command, const std::string& server, std::string& memory,
                      std::vector<std::string>& images) {
  if (server.empty()) {
    if (command.get_option("--server")->count() != 0) {
      throw Error(Error::Kind::kUsage, "--server is empty; write it like http://127.0.0.1:8080");
    }
    if (memory.empty()) throw CLI::RequiredError("memory");
    if (images.empty()) throw CLI::RequiredError("images");
    return;
  }
  if (memory.empty()) throw CLI::RequiredError("images");
  if (memory.ends_with(".ccm")) {
    throw Error(Error::Kind::kUsage,
                fmt::format("{}: with --server the memory is the service's; leave it out", memory));
  }
  images.insert(images.begin(), std::exchange(memory, ""));
}

}  // namespace contcore::app
