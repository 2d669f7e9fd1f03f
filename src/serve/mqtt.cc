#include "serve/mqtt.h"

#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
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
// What a broker has to say to who subscribes to nothing.
constexpr std::uint64_t kMostReceived = 64 << 10;
constexpr std::uint64_t kReceivedOfEach = 1 << 10;  // that was published
constexpr std::uint64_t kReceivedEachSecond = 16;

constexpr int kUnacceptableVersion = 1;    // what a broker says in 3.1.1
constexpr int kUnsupportedVersion = 0x84;  // and in 5
constexpr int kRetainsNothing = 0x9a;
constexpr int kFirstFailure = 0x80;  // of the reasons in 5
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
       const std::string& status, bool old_version, bool retains)
      : client_(libmosquitto().make(id.c_str(), true, this)) {
    if (client_ == nullptr) throw std::bad_alloc();
    const Mosquitto& lib = libmosquitto();
    lib.int_option(client_, MOSQ_OPT_PROTOCOL_VERSION,
                   old_version ? MQTT_PROTOCOL_V311 : MQTT_PROTOCOL_V5);
    lib.int_option(client_, MOSQ_OPT_TCP_NODELAY, 1);
    constexpr std::string_view kOffline = "offline";
    lib.will_set(client_, status.c_str(), kOffline.size(), kOffline.data(), kQos, retains);
    if (!address.user.empty()) {
      lib.username_pw_set(client_, address.user.c_str(),
                          password.empty() ? nullptr : password.c_str());
    }
    if (address.tls &&
        (lib.int_option(client_, MOSQ_OPT_TLS_USE_OS_CERTS, 1) != MOSQ_ERR_SUCCESS ||
         lib.tls_opts_set(client_, kVerifyPeer, nullptr, nullptr) != MOSQ_ERR_SUCCESS)) {
      libmosquitto().destroy(client_);
      throw Error(Error::Kind::kInput, "libmosquitto cannot encrypt; a newer one can (2.0)");
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

  // The library keeps what a broker sends, asked for or not.
  bool says_too_much() {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(libmosquitto().socket(client_), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
      return false;
    }
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(MqttClock::now() - begun_);
    return info.tcpi_bytes_received >
           kMostReceived + kReceivedOfEach * published +
               kReceivedEachSecond * static_cast<std::uint64_t>(age.count());
  }

  struct Acknowledgement {
    int mid;
    int reason;
  };
  bool answered = false;
  int refusal = 0;
  std::vector<Acknowledgement> acknowledged;
  std::uint64_t published = 0;
  MqttClock::time_point progress = MqttClock::now();  // when it last did something

 private:
  mosquitto* client_;
  const MqttClock::time_point begun_ = MqttClock::now();
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
    if (std::exchange(again_, false)) continue;
    queue.failed(*end);
    if (last || queue.is_over()) return;
    // One that takes the connection and nothing else is not asked again at once for ever.
    if (took_ || MqttClock::now() - begun > kLongestMqttPause) pause = kFirstMqttPause;
    queue.pause(pause);
    pause = std::min(2 * pause, kLongestMqttPause);
  }
}

// The library tries the first address alone of a host that has several. Who is bound to an address
// of IPv4 has those of IPv6 left out.
int Mqtt::connect(Link& link) {
  const auto begin = [&](const char* own) {
    return libmosquitto().connect_bind_async(link.client(), address_.host.c_str(), address_.port,
                                             kKeepAliveSeconds, own);
  };
  int begun = begin(only_ipv4_ ? "0.0.0.0" : nullptr);
  if (begun != MOSQ_ERR_SUCCESS && std::exchange(only_ipv4_, !only_ipv4_)) begun = begin(nullptr);
  link.progress = MqttClock::now();  // a name server may have taken its time
  return begun;
}

// A broker that has never heard of version 5 hangs up on it, but so does one that is being started,
// or what stands before it.
void Mqtt::hung_up() {
  if (old_version_) {
    old_version_ = settled_ = doubted_ = false;
  } else {
    old_version_ = true;
    settled_ = doubted_;
  }
}

// Whether 5 has to be tried once more, now that 3.1.1 was taken: in that a broker cannot say that
// it refuses a verdict.
bool Mqtt::is_doubtful() {
  if (!old_version_ || settled_) {
    doubted_ = false;
    return false;
  }
  doubted_ = again_ = true;
  old_version_ = false;
  return true;
}

Mqtt::End Mqtt::talk(OutputQueue& queue) {
  Link link(address_, password_, id_, status_topic(), old_version_, retains_);
  if (const int begun = connect(link); begun != MOSQ_ERR_SUCCESS) return said(begun);
  bool more = true;  // there may be something to take
  for (;;) {
    if (link.answered) {
      if (!greeted_ && is_doubtful()) {
        libmosquitto().disconnect(link.client());
        return "the broker took version 3.1.1";
      }
      if (End end = greet(link)) return end;
      if (!link.acknowledged.empty()) more = true;
      if (End end = take_acknowledgements(link, queue)) return end;
      if (End end = publish_more(link, queue, more)) return end;
      if (sent_.empty()) queue.works();
      if (queue.stopping() && sent_.empty() && !more) {
        constexpr std::string_view kOffline = "offline";
        libmosquitto().publish(link.client(), nullptr, status_topic().c_str(), kOffline.size(),
                               kOffline.data(), 0, retains_);
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
      if (link.answered) return "the broker acknowledges nothing";
      only_ipv4_ = !only_ipv4_;
      return "the broker does not answer";
    }
    const int result = link.turn(queue, waits ? 100ms : 1000ms, more);
    if (link.refusal != 0) return refused(link.refusal);
    if (result != MOSQ_ERR_SUCCESS) {
      const std::string why = said(result);
      const bool reset = result == MOSQ_ERR_ERRNO && errno == ECONNRESET;
      if (link.answered) return why;
      if (reset || result == MOSQ_ERR_CONN_LOST || result == MOSQ_ERR_PROTOCOL ||
          result == MOSQ_ERR_MALFORMED_PACKET) {
        hung_up();
      } else {
        only_ipv4_ = !only_ipv4_;
      }
      return why;
    }
    if (link.says_too_much()) return "the broker sends what nobody asked for";
  }
}

std::string Mqtt::refused(int reason) {
  if (reason == kUnacceptableVersion || reason == kUnsupportedVersion) {
    old_version_ = settled_ = !old_version_;
    doubted_ = false;
  }
  if (reason == kRetainsNothing) retains_ = false;
  return fmt::format("the broker refused: {}", reason < kFirstFailure
                                                   ? libmosquitto().connack_string(reason)
                                                   : libmosquitto().reason_string(reason));
}

// Once for each connection.
Mqtt::End Mqtt::greet(Link& link) {
  if (std::exchange(greeted_, true)) return std::nullopt;
  constexpr std::string_view kOnline = "online";
  const int result = libmosquitto().publish(link.client(), nullptr, status_topic().c_str(),
                                            kOnline.size(), kOnline.data(), kQos, retains_);
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
  ++link.published;
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
