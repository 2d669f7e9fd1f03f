// Sets of lessons, as text and back.
#include "memory/lesson_set.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "contcore/error.h"

namespace contcore {
namespace {

TEST(LessonSet, IsWrittenAsRangesAndReadBack) {
  EXPECT_EQ(LessonSet().text(), "");
  EXPECT_EQ(LessonSet({5}).text(), "5");
  EXPECT_EQ(LessonSet({9, 3, 2, 1, 3}).text(), "1-3,9");
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::vector<LessonId> ids;
    for (LessonId id = 1; id < 60; ++id) {
      if (random() % 3 != 0) ids.push_back(id);
    }
    const LessonSet set(ids);
    EXPECT_EQ(LessonSet::parse(set.text()), set);
    EXPECT_EQ(set.ids(), ids);
  }
}

TEST(LessonSet, RefusesWhatIsNone) {
  for (const char* text : {"0", "1,", ",1", "2,1", "1,1", "3-2", "-1", "1-", "1--2", "a", "1 ",
                           "1-1000001", "1-18446744073709551615", "18446744073709551616", "1,,2"}) {
    EXPECT_THROW(LessonSet::parse(text), Error) << text;
  }
}

TEST(LessonSet, TellsWhatIsInIt) {
  LessonSet set({1, 2, 3, 7});
  set.add(5);
  set.add(5);
  EXPECT_EQ(set.text(), "1-3,5,7");
  EXPECT_TRUE(set.contains(5));
  EXPECT_FALSE(set.contains(6));
  EXPECT_EQ(set.last(), 7U);
  EXPECT_EQ(LessonSet().last(), 0U);
  EXPECT_EQ(set.up_to(4).text(), "1-3");
  EXPECT_EQ(set.after(3), (std::vector<LessonId>{5, 7}));
  EXPECT_EQ(set.without(LessonSet({2, 7, 8})).text(), "1,3,5");
}

}  // namespace
}  // namespace contcore
