// How often a client may come.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace contcore {

/// Who a client's address in figures stands for: IPv6 addresses with the same first 64 bits are
/// one, whoever has one such address has them all.
std::string client_key(std::string_view address);

/// A token bucket for each client address. Not for several threads at once.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  /// `burst` requests at once, then `per_second`. Both must be above 0, burst at least 1; throws
  /// Error (kUsage). Of more than `most_clients` the one that has been away for longest is
  /// forgotten.
  RateLimit(double per_second, double burst, std::size_t most_clients = 10000);

  /// Nothing if the client may go on, else how many whole seconds it is to wait (at least 1), for
  /// Retry-After. A refusal costs the client nothing. Clients with the same client_key are one.
  std::optional<int> refuse(std::string_view client, Clock::time_point now);

  std::size_t clients() const { return buckets_.size(); }

 private:
  struct Bucket {
    std::string client;
    double level;
    Clock::time_point filled;
  };
  using Buckets = std::list<Bucket>;  // the latest first

  Bucket& bucket_of(std::string_view client, Clock::time_point now);

  const double per_second_;
  const double burst_;
  const std::size_t most_clients_;
  Buckets buckets_;
  std::unordered_map<std::string, Buckets::iterator> places_;
};

}  // namespace contcore
