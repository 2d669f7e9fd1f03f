#include "serve/mqtt.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "contcore/error.h"
#include "serve/mosquitto.h"

namespace contcore {
namespace {

using namespace std::chrono_literals;
using MqttClock = std::chrono::steady_clock;

constexpr std::size_t kMostSent = 20;  // as many as brokers take at once
constexpr int kKeepAliveSeconds = 15;
constexpr int kPackets = 100;  // that are dealt with before others have their turn
constexpr int kQos = 1;
constexpr std::chrono::seconds kAnswerLimit{3};
constexpr std::chrono::seconds kSecureAnswerLimit{10};
constexpr std::chrono::seconds kAcknowledgeLimit{30};
constexpr std::chrono::milliseconds kFirstMqttPause{250};
constexpr std::chrono::milliseconds kLongestMqttPause{30000};
constexpr int kVerifyPeer = 1;  // SSL_VERIFY_PEER

constexpr int kUnacceptableVersion = 1;    // what a broker says in 3.1.1
constexpr int kUnsupportedVersion = 0x84;  // and in 5
constexpr int kFirstFailure = 0x80;        // of the reasons in 5
// Reasons that have to do with the broker's state, and not with what was published.
constexpr std::array kPassing = {0x80, 0x83, 0x97};

std::string said(int result) {
  return result == MOSQ_ERR_ERRNO ? std::strerror(errno) : libmosquitto().strerror(result);
}

// It is what was published that cannot be.
bool is_about_the_message(int result) {
  return result == MOSQ_ERR_INVAL || result == MOSQ_ERR_PAYLOAD_SIZE ||
         result == MOSQ_ERR_MALFORMED_UTF8 || result == MOSQ_ERR_OVERSIZE_PACKET;
}

}  // namespace

// One connection.
class Mqtt::Link {
 public:
  Link(const OutputAddress& address, const std::string& password, const std::string& id,
       const std::string& status, bool old_version)
      : client_(libmosquitto().make(id.c_str(), true, this)) {
    if (client_ == nullptr) throw std::bad_alloc();
    const Mosquitto& lib = libmosquitto();
    lib.int_option(client_, MOSQ_OPT_PROTOCOL_VERSION,
                   old_version ? MQTT_PROTOCOL_V311 : MQTT_PROTOCOL_V5);
    lib.int_option(client_, MOSQ_OPT_TCP_NODELAY, 1);
    constexpr std::string_view kOffline = "offline";
    lib.will_set(client_, status.c_str(), kOffline.size(), kOffline.data(), kQos, true);
    if (!address.user.empty()) {
      lib.username_pw_set(client_, address.user.c_str(),
                          password.empty() ? nullptr : password.c_str());
    }
    if (address.tls) {
      lib.int_option(client_, MOSQ_OPT_TLS_USE_OS_CERTS, 1);
      lib.tls_opts_set(client_, kVerifyPeer, nullptr, nullptr);
    }
    lib.connect_v5_callback_set(
        client_, [](mosquitto*, void* link, int code, int, const mosquitto_property*) {
          auto& self = *static_cast<Link*>(link);
          self.answered = true;
          self.refusal = code;
        });
    lib.publish_v5_callback_set(
        client_, [](mosquitto*, void* link, int mid, int reason, const mosquitto_property*) {
          auto& self = *static_cast<Link*>(link);
          // No exception may pass through C; there was room for all that are sent.
          if (self.acknowledged.size() < self.acknowledged.capacity()) {
            self.acknowledged.push_back({mid, reason});
          }
        });
    acknowledged.reserve(4 * kMostSent);
  }
  ~Link() { libmosquitto().destroy(client_); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  mosquitto* client() { return client_; }

  // Does what is to be done, or waits until there is something, also for the queue.
  int turn(const OutputQueue& queue, std::chrono::milliseconds longest, bool& called) {
    const Mosquitto& lib = libmosquitto();
    const int socket = lib.socket(client_);
    if (socket < 0) return MOSQ_ERR_CONN_LOST;
    const auto events = static_cast<short>(POLLIN | (lib.want_write(client_) ? POLLOUT : 0));
    std::array<pollfd, 2> ready = {pollfd{socket, events, 0}, pollfd{queue.wake().fd(), POLLIN, 0}};
    if (::poll(ready.data(), ready.size(), static_cast<int>(longest.count())) < 0 &&
        errno != EINTR) {
      return MOSQ_ERR_ERRNO;
    }
    if (ready[1].revents != 0) {
      queue.wake().spend();
      called = true;
    }
    // A connection that never came about the library may not notice.
    if ((ready[0].revents & (POLLERR | POLLHUP)) != 0 && !answered) {
      int reason = 0;
      socklen_t size = sizeof reason;
      ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &reason, &size);
      errno = reason != 0 ? reason : ECONNRESET;
      return MOSQ_ERR_ERRNO;
    }
    int result = MOSQ_ERR_SUCCESS;
    errno = 0;
    if ((ready[0].revents & POLLOUT) != 0) result = lib.loop_write(client_, kPackets);
    if (result == MOSQ_ERR_SUCCESS && (ready[0].revents & ~POLLOUT) != 0) {
      result = lib.loop_read(client_, kPackets);
    }
    return result == MOSQ_ERR_SUCCESS ? lib.loop_misc(client_) : result;
  }

  struct Acknowledgement {
    int mid;
    int reason;
  };
  bool answered = false;
  int refusal = 0;
  std::vector<Acknowledgement> acknowledged;
  MqttClock::time_point progress = MqttClock::now();  // when it last did something

 private:
  mosquitto* client_;
};

Mqtt::Mqtt(OutputAddress address, std::string password, std::string id)
    : address_(std::move(address)), password_(std::move(password)), id_(std::move(id)) {
  libmosquitto();
}

void Mqtt::run(OutputQueue& queue) {
  for (std::chrono::milliseconds pause = kFirstMqttPause;;) {
    const bool last = queue.stopping();
    greeted_ = took_ = false;
    const MqttClock::time_point begun = MqttClock::now();
    const End end = talk(queue);
    if (!end) return;
    queue.failed(*end);
    if (last || queue.is_over()) return;
    // One that takes the connection and nothing else is not asked again at once for ever.
    if (took_ || MqttClock::now() - begun > kLongestMqttPause) pause = kFirstMqttPause;
    queue.pause(pause);
    pause = std::min(2 * pause, kLongestMqttPause);
  }
}

Mqtt::End Mqtt::talk(OutputQueue& queue) {
  Link link(address_, password_, id_, status_topic(), old_version_);
  const int begun = libmosquitto().connect_async(link.client(), address_.host.c_str(),
                                                 address_.port, kKeepAliveSeconds);
  if (begun != MOSQ_ERR_SUCCESS) return said(begun);
  bool more = true;  // there may be something to take
  for (;;) {
    if (link.answered) {
      if (End end = greet(link)) return end;
      if (!link.acknowledged.empty()) more = true;
      if (End end = take_acknowledgements(link, queue)) return end;
      if (End end = publish_more(link, queue, more)) return end;
      if (sent_.empty()) queue.works();
      if (queue.stopping() && sent_.empty() && !more) {
        constexpr std::string_view kOffline = "offline";
        libmosquitto().publish(link.client(), nullptr, status_topic().c_str(), kOffline.size(),
                               kOffline.data(), 0, true);
        libmosquitto().disconnect(link.client());
        return std::nullopt;
      }
    }
    if (queue.is_over()) return std::nullopt;
    const auto limit = link.answered  ? kAcknowledgeLimit
                       : address_.tls ? kSecureAnswerLimit
                                      : kAnswerLimit;
    const bool waits = !link.answered || !sent_.empty();
    if (waits && MqttClock::now() - link.progress >= limit) {
      return link.answered ? "the broker acknowledges nothing" : "the broker does not answer";
    }
    const int result = link.turn(queue, waits ? 100ms : 1000ms, more);
    if (link.refusal != 0) return refused(link.refusal);
    if (result != MOSQ_ERR_SUCCESS) {
      // What a broker does that has never heard of version 5.
      const bool reset = result == MOSQ_ERR_ERRNO && errno == ECONNRESET;
      if (!link.answered && (reset || result == MOSQ_ERR_CONN_LOST || result == MOSQ_ERR_PROTOCOL ||
                             result == MOSQ_ERR_MALFORMED_PACKET)) {
        old_version_ = !old_version_;
      }
      return said(result);
    }
  }
}

std::string Mqtt::refused(int reason) {
  if (reason == kUnacceptableVersion || reason == kUnsupportedVersion) old_version_ = !old_version_;
  return fmt::format("the broker refused: {}", reason < kFirstFailure
                                                   ? libmosquitto().connack_string(reason)
                                                   : libmosquitto().reason_string(reason));
}

// Once for each connection.
Mqtt::End Mqtt::greet(Link& link) {
  if (std::exchange(greeted_, true)) return std::nullopt;
  constexpr std::string_view kOnline = "online";
  const int result = libmosquitto().publish(link.client(), nullptr, status_topic().c_str(),
                                            kOnline.size(), kOnline.data(), kQos, true);
  // A broker that retains nothing is told the verdicts all the same.
  if (result != MOSQ_ERR_SUCCESS && result != MOSQ_ERR_RETAIN_NOT_SUPPORTED) return said(result);
  for (Sent& sent : sent_) {
    if (sent.done) continue;
    if (End end = publish(link, sent)) return end;
  }
  link.progress = MqttClock::now();
  return std::nullopt;
}

Mqtt::End Mqtt::publish(Link& link, Sent& sent) {
  const std::string topic =
      fmt::format("{}/{}/verdict", address_.prefix, topic_level(sent.delivery.station));
  const int result = libmosquitto().publish(link.client(), &sent.mid, topic.c_str(),
                                            static_cast<int>(sent.delivery.body.size()),
                                            sent.delivery.body.data(), kQos, false);
  if (result == MOSQ_ERR_SUCCESS) return std::nullopt;
  if (!is_about_the_message(result)) return said(result);
  sent.done = true;
  sent.refused = said(result);
  return std::nullopt;
}

Mqtt::End Mqtt::take_acknowledgements(Link& link, OutputQueue& queue) {
  for (const auto& [mid, reason] : std::exchange(link.acknowledged, {})) {
    const auto found = std::ranges::find_if(
        sent_, [&, number = mid](const Sent& sent) { return sent.mid == number && !sent.done; });
    if (found == sent_.end()) continue;  // the status
    const std::string why = libmosquitto().reason_string(reason);
    if (std::ranges::find(kPassing, reason) != kPassing.end()) {
      return "the broker does not take a verdict now: " + why;
    }
    found->done = true;
    if (reason >= kFirstFailure) found->refused = "the broker refused: " + why;
    link.progress = MqttClock::now();
    took_ = true;
    queue.works();
  }
  link.acknowledged.reserve(4 * kMostSent);
  while (!sent_.empty() && sent_.front().done) {
    const Sent done = std::move(sent_.front());
    sent_.pop_front();
    if (done.refused.empty()) {
      queue.delivered(done.delivery);
    } else {
      queue.dropped(done.delivery, done.refused);
    }
  }
  return std::nullopt;
}

Mqtt::End Mqtt::publish_more(Link& link, OutputQueue& queue, bool& more) {
  while (more && sent_.size() < kMostSent) {
    if (sent_.empty()) link.progress = MqttClock::now();
    std::vector<Delivery> next = queue.take(kMostSent - sent_.size());
    more = !next.empty();
    // All are kept before one is published that may find the connection gone.
    const std::size_t first = sent_.size();
    for (Delivery& delivery : next) sent_.push_back({std::move(delivery), 0, false, ""});
    for (std::size_t i = first; i < sent_.size(); ++i) {
      if (End end = publish(link, sent_[i])) return end;
    }
  }
  return std::nullopt;
}

}  // namespace contcore
