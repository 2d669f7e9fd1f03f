// Verdicts by HTTP: each a POST of its own, one after the other over a connection that is kept.
#pragma once

#include <memory>
#include <string>

#include "serve/output_address.h"
#include "serve/output_queue.h"

namespace contcore {

/// 2xx: delivered. 4xx, but for 408 and 429: refused, which is counted as dropped. All else (no
/// connection in 3 s, no whole answer in 10 s, redirects, 5xx) is tried again after growing pauses
/// of at most 30 s, or as long as Retry-After says.
class Webhook {
 public:
  /// `secret`: what each is signed with; empty: with nothing. Throws Error (kInput) where libcurl
  /// is not installed.
  Webhook(OutputAddress address, std::string secret);
  ~Webhook();

  /// Sends until the queue is to stop. Throws Error when the store cannot be read.
  void run(OutputQueue& queue);

 private:
  struct Connection;
  struct Answer {
    enum class Kind { kDelivered, kRefused, kFailed };
    Kind kind = Kind::kFailed;
    std::string why;
    double retry_after = 0;
  };
  bool deliver(OutputQueue& queue, const Delivery& delivery);
  Answer send(const OutputQueue& queue, const Delivery& delivery);

  const OutputAddress address_;
  const std::string secret_;
  const std::unique_ptr<Connection> connection_;
};

}  // namespace contcore
