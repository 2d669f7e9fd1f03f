// Verdicts by MQTT, version 5 or 3.1.1: published with QoS 1, and delivered when the broker has
// acknowledged them.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include "serve/output_address.h"
#include "serve/output_queue.h"

namespace contcore {

/// PREFIX/STATION/verdict has the verdicts; PREFIX/status is "online" or, by the connection's last
/// will, "offline" (both retained). A connection that ends is made anew, after pauses that grow to
/// 30 s unless it took a verdict, and what was not acknowledged is published again. A broker that
/// refuses version 5, or hangs up on it before and after it took 3.1.1, is spoken to in that.
class Mqtt {
 public:
  /// `id` is who this client is to the broker, at most 23 characters. Throws Error (kInput) where
  /// libmosquitto is not installed.
  Mqtt(OutputAddress address, std::string password, std::string id);

  /// Sends until the queue is to stop. Throws Error when the store cannot be read.
  void run(OutputQueue& queue);

 private:
  class Link;
  // Published, and not acknowledged.
  struct Sent {
    Delivery delivery;
    int mid = 0;
    bool done = false;
    std::string refused;  // why; empty: it was not
  };
  // Why a connection ended; nothing: it was to.
  using End = std::optional<std::string>;
  End talk(OutputQueue& queue);
  int connect(Link& link);
  std::string refused(int reason);
  void hung_up();
  bool is_doubtful();
  End greet(Link& link);
  End publish(Link& link, Sent& sent);
  End take_acknowledgements(Link& link, OutputQueue& queue);
  End publish_more(Link& link, OutputQueue& queue, bool& more);
  std::string status_topic() const { return address_.prefix + "/status"; }

  const OutputAddress address_;
  const std::string password_;
  const std::string id_;
  bool old_version_ = false;  // 3.1.1
  bool settled_ = false;      // the broker knows no other, for all that it does
  bool doubted_ = false;      // it hung up on 5 and took 3.1.1
  bool retains_ = true;
  bool only_ipv4_ = false;
  // Of the last connection:
  bool again_ = false;  // it ended to be made another way at once
  bool greeted_ = false;
  bool took_ = false;      // a verdict
  std::deque<Sent> sent_;  // in their order
};

}  // namespace contcore
