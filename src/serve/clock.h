// The time of day, in UTC.
#pragma once

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <string>

namespace contcore {

/// "2031-05-04T03:02:01Z".
inline std::string utc_now() {
  return fmt::format(
      "{:%Y-%m-%dT%H:%M:%SZ}",
      fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

/// "2031-05-04T03:02:01.123Z".
inline std::string utc_now_ms() {
  using namespace std::chrono;
  const auto now = time_point_cast<milliseconds>(system_clock::now());
  const auto whole = floor<seconds>(now);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(system_clock::to_time_t(whole)),
                     (now - whole).count());
}

/// The second from the first.
inline std::string with_milliseconds(std::string time) {
  if (time.size() == 20 && time.back() == 'Z') time.replace(19, 1, ".000Z");
  return time;
}

}  // namespace contcore
