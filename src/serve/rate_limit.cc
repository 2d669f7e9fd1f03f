#include "serve/rate_limit.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cmath>

#include "contcore/error.h"

namespace contcore {
namespace {

// Nobody is told to come back later than in an hour.
constexpr double kMostSeconds = 3600;

}  // namespace

std::string client_key(std::string_view address) {
  std::string key(address);
  in6_addr bytes{};
  if (key.find(':') == key.npos || ::inet_pton(AF_INET6, key.c_str(), &bytes) != 1) return key;
  return {reinterpret_cast<const char*>(&bytes), 8};
}

RateLimit::RateLimit(double per_second, double burst, std::size_t most_clients)
    : per_second_(per_second), burst_(burst), most_clients_(most_clients) {
  if (!(per_second > 0) || !(burst >= 1) || !std::isfinite(per_second) || !std::isfinite(burst) ||
      most_clients == 0) {
    throw Error(Error::Kind::kUsage,
                "a rate must be above 0 requests a second, with a burst of at least 1");
  }
}

RateLimit::Bucket& RateLimit::bucket_of(std::string_view client, Clock::time_point now) {
  std::string key = client_key(client);
  const auto known = places_.find(key);
  if (known != places_.end()) {
    buckets_.splice(buckets_.begin(), buckets_, known->second);
    return buckets_.front();
  }
  if (buckets_.size() == most_clients_) {
    places_.erase(buckets_.back().client);
    buckets_.pop_back();
  }
  buckets_.push_front({std::move(key), burst_, now});
  places_.emplace(buckets_.front().client, buckets_.begin());
  return buckets_.front();
}

std::optional<int> RateLimit::refuse(std::string_view client, Clock::time_point now) {
  Bucket& bucket = bucket_of(client, now);
  const double passed = std::chrono::duration<double>(now - bucket.filled).count();
  if (passed > 0) {
    bucket.level = std::min(burst_, bucket.level + passed * per_second_);
    bucket.filled = now;
  }
  if (bucket.level >= 1) {
    bucket.level -= 1;
    return std::nullopt;
  }
  const double wait = std::min((1 - bucket.level) / per_second_, kMostSeconds);
  return std::max(1, static_cast<int>(std::ceil(wait)));
}

}  // namespace contcore
