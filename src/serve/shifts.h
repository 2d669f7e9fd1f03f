// When a shift began.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace contcore {

/// "06:00,14:00,22:00": when shifts begin, as minutes after midnight, in order. Throws Error
/// (kUsage) for what is no such list.
std::vector<std::chrono::minutes> parse_shifts(std::string_view text);

/// The latest beginning of a shift that is not after `now`, by the machine's local time; in UTC, as
/// in "2031-05-04T03:02:01.000Z". There is at least one shift.
std::string shift_start(const std::vector<std::chrono::minutes>& shifts,
                        std::chrono::system_clock::time_point now);

}  // namespace contcore
