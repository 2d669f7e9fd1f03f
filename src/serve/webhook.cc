#include "serve/webhook.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "contcore/error.h"
#include "serve/curl.h"
#include "serve/hmac.h"

namespace contcore {
namespace {

using namespace std::chrono_literals;

constexpr long kConnectMilliseconds = 3000;
constexpr long kSendMilliseconds = 10000;
constexpr std::size_t kMostAnswer = 64 << 10;
constexpr std::chrono::milliseconds kFirstPause{250};
constexpr std::chrono::milliseconds kLongestPause{30000};
constexpr double kLongestRetryAfter = 300;

// Counts what is answered, its head and what may follow its body too, and keeps none of it.
std::size_t pass_over_answer(char* /*data*/, std::size_t size, std::size_t count, void* into) {
  auto& bytes = *static_cast<std::size_t*>(into);
  bytes += size * count;
  return bytes > kMostAnswer ? 0 : size * count;
}

int look_for_end(void* queue, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const OutputQueue*>(queue)->is_over() ? 1 : 0;
}

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

struct Webhook::Connection {
  Connection() {
    if (libcurl().global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) handle = libcurl().easy_init();
    if (handle == nullptr) throw Error(Error::Kind::kInternal, "libcurl cannot be started");
  }
  ~Connection() { libcurl().easy_cleanup(handle); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  CURL* handle = nullptr;
};

Webhook::Webhook(OutputAddress address, std::string secret)
    : address_(std::move(address)),
      secret_(std::move(secret)),
      connection_(std::make_unique<Connection>()) {}

Webhook::~Webhook() = default;

void Webhook::run(OutputQueue& queue) {
  for (;;) {
    const std::vector<Delivery> next = queue.take(1);
    if (!next.empty()) {
      if (!deliver(queue, next[0])) return;
    } else if (queue.stopping()) {
      return;
    } else {
      queue.wait(1min);
    }
  }
}

// False: it is to stop, and this one waits for the next start.
bool Webhook::deliver(OutputQueue& queue, const Delivery& delivery) {
  for (std::chrono::milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const bool last = queue.stopping();
    const Answer answer = send(queue, delivery);
    if (answer.kind == Answer::Kind::kFailed) {
      queue.failed(answer.why);
      if (last || queue.is_over()) return false;
      const auto asked = std::chrono::duration<double>(answer.retry_after);
      queue.pause(std::max(pause, std::chrono::ceil<std::chrono::milliseconds>(asked)));
      continue;
    }
    queue.works();
    if (answer.kind == Answer::Kind::kDelivered) {
      queue.delivered(delivery);
    } else {
      queue.dropped(delivery, answer.why);
    }
    return !queue.is_over();
  }
}

Webhook::Answer Webhook::send(const OutputQueue& queue, const Delivery& delivery) {
  CURL* const handle = connection_->handle;
  const auto set = [&](CURLoption option, auto value) {
    libcurl().easy_setopt(handle, option, value);
  };
  libcurl().easy_reset(handle);  // the connection stays
  HeaderLines lines;
  lines.add("Expect:");  // nobody is asked whether a body may come
  lines.add("Content-Type: application/json");
  lines.add("X-Contcore-Delivery: " + delivery.key);
  if (!secret_.empty()) {
    const std::string timestamp =
        std::to_string(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()));
    lines.add("X-Contcore-Timestamp: " + timestamp);
    lines.add("X-Contcore-Signature: sha256=" +
              hmac_sha256(secret_, timestamp + "." + delivery.body));
  }
  std::size_t bytes = 0;
  set(CURLOPT_URL, address_.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMilliseconds);
  set(CURLOPT_TIMEOUT_MS, kSendMilliseconds);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_QUICK_EXIT, 1L);  // a name server that does not answer is not waited for beyond that
  set(CURLOPT_USERAGENT, "contcore");
  set(CURLOPT_HTTPHEADER, lines.list());
  set(CURLOPT_POST, 1L);
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(delivery.body.size()));
  set(CURLOPT_POSTFIELDS, delivery.body.data());
  set(CURLOPT_WRITEFUNCTION, pass_over_answer);
  set(CURLOPT_WRITEDATA, &bytes);
  set(CURLOPT_HEADERFUNCTION, pass_over_answer);
  set(CURLOPT_HEADERDATA, &bytes);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, look_for_end);
  set(CURLOPT_XFERINFODATA, const_cast<OutputQueue*>(&queue));
  // A proxy for the world outside cannot reach what listens on this machine.
  if (is_this_machine(address_.host)) set(CURLOPT_PROXY, "");
  const CURLcode code = libcurl().easy_perform(handle);
  const bool too_long = code == CURLE_WRITE_ERROR && bytes > kMostAnswer;
  if (code != CURLE_OK && !too_long) return {Answer::Kind::kFailed, libcurl().easy_strerror(code)};
  long status = 0;
  libcurl().easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  if (status >= 200 && status < 300) return {Answer::Kind::kDelivered, ""};
  const std::string why = fmt::format("answered with status {}", status);
  if (status >= 400 && status < 500 && status != 408 && status != 429) {
    return {Answer::Kind::kRefused, why};
  }
  if (status >= 300 && status < 400) {
    return {Answer::Kind::kFailed, why + ": redirects are not followed; name the place itself"};
  }
  return {Answer::Kind::kFailed, why,
          std::min(retry_after(handle).value_or(0), kLongestRetryAfter)};
}

}  // namespace contcore
