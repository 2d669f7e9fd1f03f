#include "serve/shifts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "contcore/error.h"
#include "serve/calendar.h"

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
  return stored_time(
      Calendar(shifts).begin(Period::kShift, std::chrono::system_clock::to_time_t(now)));
}

}  // namespace contcore
