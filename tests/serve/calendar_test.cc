#include "serve/calendar.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <string>

#include "serve/shifts.h"

namespace contcore {
namespace {

constexpr Period kPeriods[] = {Period::kHour, Period::kShift, Period::kDay, Period::kWeek};

// The machine's clock is where the test says it is.
class CalendarTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* zone = std::getenv("TZ")) before_ = zone;
  }
  void TearDown() override {
    if (before_.empty()) {
      ::unsetenv("TZ");
    } else {
      ::setenv("TZ", before_.c_str(), 1);
    }
    ::tzset();
  }
  static void be_in(const char* zone) {
    ::setenv("TZ", zone, 1);
    ::tzset();
  }

 private:
  std::string before_;
};

constexpr char kBerlin[] = "CET-1CEST,M3.5.0,M10.5.0/3";

std::time_t at(const std::string& time) { return seconds_of(time + ".000Z"); }

TEST_F(CalendarTest, TimesAreReadAsTheyAreWritten) {
  for (const char* text :
       {"1970-01-01T00:00:00.000Z", "2024-02-29T23:59:59.000Z", "2031-12-31T00:00:01.000Z"}) {
    EXPECT_EQ(stored_time(seconds_of(text)), text);
  }
  EXPECT_EQ(seconds_of("1970-01-01T00:01:00.999Z"), 60);
}

TEST_F(CalendarTest, PeriodsOfAClockThatIsChanged) {
  be_in(kBerlin);
  const Calendar calendar(parse_shifts("06:00,14:00,22:00"));
  const auto period = [&](Period kind, const std::string& time) {
    return stored_time(calendar.begin(kind, at(time))).substr(5, 11) + " " +
           stored_time(calendar.end(kind, at(time))).substr(5, 11);
  };
  // The clock goes from 02:00 to 03:00 on 31 March, and from 03:00 to 02:00 on 27 October.
  EXPECT_EQ(period(Period::kDay, "2024-03-31T12:00:00"), "03-30T23:00 03-31T22:00");
  EXPECT_EQ(period(Period::kDay, "2024-10-27T12:00:00"), "10-26T22:00 10-27T23:00");
  EXPECT_EQ(period(Period::kShift, "2024-03-31T00:30:00"), "03-30T21:00 03-31T04:00");
  EXPECT_EQ(period(Period::kShift, "2024-10-27T00:30:00"), "10-26T20:00 10-27T05:00");
  EXPECT_EQ(period(Period::kHour, "2024-10-27T00:30:00"), "10-27T00:00 10-27T01:00");
  EXPECT_EQ(period(Period::kHour, "2024-10-27T01:30:00"), "10-27T01:00 10-27T02:00");
  EXPECT_EQ(period(Period::kWeek, "2024-10-27T12:00:00"), "10-20T22:00 10-27T23:00");
  EXPECT_EQ(period(Period::kWeek, "2024-10-27T23:00:00"), "10-27T23:00 11-03T23:00");
}

// Whatever clock and shifts: periods follow each other without a gap, slots make them up, and a
// moment is in its own.
TEST_F(CalendarTest, PeriodsMakeUpAllTime) {
  for (const char* zone : {"UTC", kBerlin, "<+0530>-5:30", "NST3:30NDT,M3.2.0,M11.1.0",
                           "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"}) {
    for (const char* shifts : {"00:00", "06:00,14:00,22:00", "02:30", "05:45,06:10,23:59"}) {
      be_in(zone);
      const Calendar calendar(parse_shifts(shifts));
      for (const char* from :
           {"2024-03-08T00:00:00", "2024-03-29T12:00:00", "2024-04-05T00:00:00",
            "2024-10-04T00:00:00", "2024-10-25T12:00:00", "2024-11-01T00:00:00"}) {
        for (const Period period : kPeriods) {
          for (std::time_t t = at(from); t < at(from) + 4 * 86400; t += 1740) {
            const std::time_t begin = calendar.begin(period, t);
            const std::time_t end = calendar.end(period, t);
            ASSERT_LE(begin, t) << zone << shifts << from;
            ASSERT_GT(end, t) << zone << shifts << from;
            ASSERT_EQ(calendar.begin(period, end), end) << zone << shifts << stored_time(t);
            ASSERT_EQ(calendar.end(period, begin), end) << zone << shifts << stored_time(t);
            ASSERT_EQ(calendar.begin(period, end - 1), begin) << zone << shifts << stored_time(t);
            ASSERT_EQ(calendar.slot_begin(begin), begin) << zone << shifts << stored_time(t);
            ASSERT_LE(calendar.slot_end(t), end) << zone << shifts << stored_time(t);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace contcore
