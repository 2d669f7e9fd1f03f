#include "serve/shifts.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <optional>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::size_t kMostShifts = 24;

// "06:00"; nothing for anything else.
std::optional<std::chrono::minutes> time_of_day(std::string_view text) {
  if (text.size() != 5 || text[2] != ':') return {};
  const auto is_digit = [&](std::size_t i) { return text[i] >= '0' && text[i] <= '9'; };
  if (!is_digit(0) || !is_digit(1) || !is_digit(3) || !is_digit(4)) return {};
  const int hours = (text[0] - '0') * 10 + (text[1] - '0');
  const int minutes = (text[3] - '0') * 10 + (text[4] - '0');
  if (hours > 23 || minutes > 59) return {};
  return std::chrono::hours(hours) + std::chrono::minutes(minutes);
}

}  // namespace

std::vector<std::chrono::minutes> parse_shifts(std::string_view text) {
  std::vector<std::chrono::minutes> shifts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const auto time = time_of_day(text.substr(at, end - at));
    if (!time || shifts.size() == kMostShifts) {
      throw Error(Error::Kind::kUsage,
                  fmt::format("'{:.80}' does not say when shifts begin; write it like "
                              "06:00,14:00,22:00 ({} at most)",
                              text, kMostShifts));
    }
    shifts.push_back(*time);
    at = end + 1;
  }
  std::sort(shifts.begin(), shifts.end());
  return shifts;
}

std::string shift_start(const std::vector<std::chrono::minutes>& shifts,
                        std::chrono::system_clock::time_point now) {
  const std::time_t moment = std::chrono::system_clock::to_time_t(now);
  std::tm day{};
  ::localtime_r(&moment, &day);
  std::optional<std::time_t> latest;
  // A day's first shift may be to come: then it is still yesterday's last. mktime() sees to days of
  // 23 or 25 hours.
  for (const int days : {0, -1}) {
    for (const std::chrono::minutes shift : shifts) {
      std::tm start{};
      start.tm_year = day.tm_year;
      start.tm_mon = day.tm_mon;
      start.tm_mday = day.tm_mday + days;
      start.tm_min = static_cast<int>(shift.count());
      start.tm_isdst = -1;
      const std::time_t began = std::mktime(&start);
      if (began <= moment && (!latest || began > *latest)) latest = began;
    }
    if (latest) break;
  }
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.000Z", fmt::gmtime(latest.value_or(moment)));
}

}  // namespace contcore
