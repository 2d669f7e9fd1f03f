// Sets of lessons, as text and back.
#include "memory/lesson_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
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
                           "1-18446744073709551615", "18446744073709551615", "18446744073709551616",
                           "9007199254740993", "1,,2"}) {
    EXPECT_THROW(LessonSet::parse(text), Error) << text;
  }
}

// Those of a service that learned for years, and of a file that wants much memory.
TEST(LessonSet, TakesAsMuchRoomAsItsText) {
  LessonSet set = LessonSet::parse("1-9007199254740991");
  EXPECT_EQ(set.size(), 9007199254740991U);
  EXPECT_EQ(set.without(LessonSet({7})).text(), "1-6,8-9007199254740991");
  set.add(LessonSet::kLargest);
  EXPECT_EQ(set.text(), "1-9007199254740992");
}

TEST(LessonSet, IsASetOfNumbers) {
  std::mt19937 random(11);
  const auto some = [&] {
    std::set<LessonId> ids;
    for (LessonId id = 1; id < 40; ++id) {
      if (random() % 2 == 0) ids.insert(id);
    }
    return ids;
  };
  const auto as_set = [](const std::set<LessonId>& ids) {
    return LessonSet(std::vector<LessonId>(ids.begin(), ids.end()));
  };
  for (int i = 0; i < 200; ++i) {
    const std::set<LessonId> a = some(), b = some();
    std::set<LessonId> both = a, rest = a, before, after;
    both.insert(b.begin(), b.end());
    for (const LessonId id : b) rest.erase(id);
    const LessonId at = random() % 45;
    for (const LessonId id : a) (id <= at ? before : after).insert(id);
    LessonSet joined = as_set(a);
    joined.add(as_set(b));
    EXPECT_EQ(joined, as_set(both));
    EXPECT_EQ(as_set(a).without(as_set(b)), as_set(rest));
    EXPECT_EQ(as_set(a).up_to(at), as_set(before));
    EXPECT_EQ(as_set(a).after(at), as_set(after));
    EXPECT_EQ(as_set(a).size(), a.size());
    EXPECT_EQ(as_set(a).contains(at), a.contains(at));
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
  EXPECT_EQ(set.after(3).text(), "5,7");
  EXPECT_EQ(set.without(LessonSet({2, 7, 8})).text(), "1,3,5");
}

}  // namespace
}  // namespace contcore
