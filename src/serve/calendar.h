// Hours, shifts, days and weeks, by the machine's local time.
#pragma once

#include <chrono>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace contcore {

enum class Period { kHour, kShift, kDay, kWeek };  ///< a week begins on Monday

/// Moments are seconds since 1970 in UTC, so an hour that the clock shows twice is two hours.
class Calendar {
 public:
  /// Shifts begin so many minutes after midnight; without any, a day is one shift.
  explicit Calendar(std::vector<std::chrono::minutes> shifts);

  /// The latest beginning of such a period that is not after `time`.
  std::time_t begin(Period period, std::time_t time) const;
  /// The first beginning of the next; after `time`.
  std::time_t end(Period period, std::time_t time) const;

  /// A slot is an hour, cut in two where a shift begins within it: whole slots make hours, shifts,
  /// days and weeks.
  std::time_t slot_begin(std::time_t time) const;
  std::time_t slot_end(std::time_t time) const;

 private:
  std::vector<std::chrono::minutes> shifts_;
};

/// "2031-05-04T03:02:01.000Z", and back; what is behind the second is dropped.
std::string stored_time(std::time_t time);
std::time_t seconds_of(std::string_view stored_time);

}  // namespace contcore
