#include "serve/calendar.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace contcore {
namespace {

constexpr std::time_t kHourSeconds = 3600;
constexpr std::time_t kDaySeconds = 86400;

std::tm local(std::time_t time) {
  std::tm day{};
  ::localtime_r(&time, &day);
  return day;
}

std::time_t offset_at(std::time_t time) { return local(time).tm_gmtoff; }

// When the clock shows that so many days after this one, which may have 23 or 25 hours. Shown
// twice, it is the first time; never shown, as long after midnight as if the clock went on.
// mktime() would do, if what it says of such hours did not depend on what it was asked before.
std::time_t on_the_clock(const std::tm& day, int days, std::chrono::minutes minutes) {
  std::tm moment{};
  moment.tm_year = day.tm_year;
  moment.tm_mon = day.tm_mon;
  moment.tm_mday = day.tm_mday + days;
  moment.tm_min = static_cast<int>(minutes.count());
  const std::time_t shown = ::timegm(&moment);
  const std::time_t before = offset_at(shown - kDaySeconds);
  const std::time_t after = offset_at(shown + kDaySeconds);
  for (const std::time_t offset : {std::max(before, after), std::min(before, after)}) {
    if (offset_at(shown - offset) == offset) return shown - offset;
  }
  return shown - before;
}

int days_since_monday(const std::tm& day) { return (day.tm_wday + 6) % 7; }

// The first moment from `from` on that has the offset of `to`.
std::time_t change_of_offset(std::time_t from, std::time_t to) {
  const std::time_t offset = offset_at(to);
  while (from < to) {
    const std::time_t middle = from + (to - from) / 2;
    if (offset_at(middle) == offset) {
      to = middle;
    } else {
      from = middle + 1;
    }
  }
  return to;
}

// The clock is changed by whole hours, but for a few places: there an hour ends where it is
// changed.
std::time_t hour_begin(std::time_t time) {
  const std::time_t shown = time + offset_at(time);
  const std::time_t whole = time - (shown % kHourSeconds + kHourSeconds) % kHourSeconds;
  return offset_at(whole) == offset_at(time) ? whole : change_of_offset(whole, time);
}

std::time_t hour_end(std::time_t time) {
  const std::time_t shown = time + offset_at(time);
  const std::time_t whole =
      time - (shown % kHourSeconds + kHourSeconds) % kHourSeconds + kHourSeconds;
  return offset_at(whole - 1) == offset_at(time) ? whole : change_of_offset(time, whole - 1);
}

int number_at(std::string_view text, std::size_t at, std::size_t digits) {
  int value = 0;
  for (const char c : text.substr(at, digits)) value = 10 * value + (c - '0');
  return value;
}

}  // namespace

Calendar::Calendar(std::vector<std::chrono::minutes> shifts) : shifts_(std::move(shifts)) {
  if (shifts_.empty()) shifts_.emplace_back(0);
}

std::time_t Calendar::begin(Period period, std::time_t time) const {
  if (period == Period::kHour) return hour_begin(time);
  const std::tm day = local(time);
  const std::chrono::minutes midnight(0);
  if (period == Period::kDay) return std::min(on_the_clock(day, 0, midnight), time);
  if (period == Period::kWeek) return on_the_clock(day, -days_since_monday(day), midnight);
  // A day's first shift may be to come: then it is still yesterday's last.
  std::optional<std::time_t> latest;
  for (const int days : {0, -1}) {
    for (const std::chrono::minutes shift : shifts_) {
      const std::time_t began = on_the_clock(day, days, shift);
      if (began <= time && (!latest || began > *latest)) latest = began;
    }
    if (latest) break;
  }
  return latest.value_or(time);
}

std::time_t Calendar::end(Period period, std::time_t time) const {
  const std::tm day = local(time);
  const std::chrono::minutes midnight(0);
  std::time_t end = time + kHourSeconds;
  if (period == Period::kHour) end = hour_end(time);
  if (period == Period::kDay) end = on_the_clock(day, 1, midnight);
  if (period == Period::kWeek) end = on_the_clock(day, 7 - days_since_monday(day), midnight);
  if (period == Period::kShift) {
    std::optional<std::time_t> first;
    for (const int days : {0, 1}) {
      for (const std::chrono::minutes shift : shifts_) {
        const std::time_t begins = on_the_clock(day, days, shift);
        if (begins > time && (!first || begins < *first)) first = begins;
      }
      if (first) break;
    }
    end = first.value_or(end);
  }
  return end > time ? end : time + kHourSeconds;
}

std::time_t Calendar::slot_begin(std::time_t time) const {
  return std::max(begin(Period::kHour, time), begin(Period::kShift, time));
}

std::time_t Calendar::slot_end(std::time_t time) const {
  return std::min(end(Period::kHour, time), end(Period::kShift, time));
}

std::string stored_time(std::time_t time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.000Z", fmt::gmtime(time));
}

std::time_t seconds_of(std::string_view text) {
  std::tm moment{};
  moment.tm_year = number_at(text, 0, 4) - 1900;
  moment.tm_mon = number_at(text, 5, 2) - 1;
  moment.tm_mday = number_at(text, 8, 2);
  moment.tm_hour = number_at(text, 11, 2);
  moment.tm_min = number_at(text, 14, 2);
  moment.tm_sec = number_at(text, 17, 2);
  return ::timegm(&moment);
}

}  // namespace contcore
