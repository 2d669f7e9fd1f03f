#include "serve/shifts.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <string>

#include "contcore/error.h"

namespace contcore {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

// The machine's clock is where the test says it is.
class ShiftsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* zone = std::getenv("TZ")) before_ = zone;
    ::setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    ::tzset();
  }
  void TearDown() override {
    if (before_.empty()) {
      ::unsetenv("TZ");
    } else {
      ::setenv("TZ", before_.c_str(), 1);
    }
    ::tzset();
  }
  static std::string start(const std::string& shifts, int month, int day, int hour, int minute) {
    std::tm now{};
    now.tm_year = 124;
    now.tm_mon = month - 1;
    now.tm_mday = day;
    now.tm_hour = hour;
    now.tm_min = minute;
    return shift_start(parse_shifts(shifts),
                       std::chrono::system_clock::from_time_t(::timegm(&now)));
  }

 private:
  std::string before_;
};

TEST_F(ShiftsTest, TheLatestThatHasBegun) {
  constexpr char kShifts[] = "22:00,06:00,14:00";
  EXPECT_EQ(start(kShifts, 1, 10, 5, 0), "2024-01-10T05:00:00.000Z");    // 06:00 in winter
  EXPECT_EQ(start(kShifts, 1, 10, 4, 59), "2024-01-09T21:00:00.000Z");   // yesterday's 22:00
  EXPECT_EQ(start(kShifts, 1, 10, 20, 59), "2024-01-10T13:00:00.000Z");  // 14:00
  EXPECT_EQ(start(kShifts, 7, 1, 0, 0), "2024-06-30T20:00:00.000Z");     // over the month's end
  EXPECT_EQ(start("00:00", 1, 1, 0, 30), "2023-12-31T23:00:00.000Z");
}

// The night of 31 March has 23 hours, that of 27 October 25.
TEST_F(ShiftsTest, ClocksThatAreChanged) {
  EXPECT_EQ(start("22:00,06:00", 3, 31, 3, 59), "2024-03-30T21:00:00.000Z");
  EXPECT_EQ(start("22:00,06:00", 3, 31, 4, 0), "2024-03-31T04:00:00.000Z");
  EXPECT_EQ(start("22:00,06:00", 10, 27, 4, 59), "2024-10-26T20:00:00.000Z");
  EXPECT_EQ(start("22:00,06:00", 10, 27, 5, 0), "2024-10-27T05:00:00.000Z");
}

TEST(Shifts, OnlyListsOfTimesAreTaken) {
  EXPECT_EQ(parse_shifts("06:30"), std::vector<minutes>{hours(6) + minutes(30)});
  for (const char* text : {"", "6:00", "06:00,", ",06:00", "06.00", "24:00", "06:60", "06:00;14:00",
                           "06:00 ", "xx:yy", "-6:00"}) {
    EXPECT_THROW(parse_shifts(text), Error) << text;
  }
  std::string many = "00:00";
  for (int i = 0; i < 24; ++i) many += ",00:00";
  EXPECT_THROW(parse_shifts(many), Error);
}

}  // namespace
}  // namespace contcore
