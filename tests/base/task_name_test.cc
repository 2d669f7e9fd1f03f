#include "base/task_name.h"

#include <gtest/gtest.h>

#include <string>

namespace contcore {
namespace {

TEST(TaskName, MayBeAnythingThatCanBeRead) {
  for (const char* name :
       {"bottle", "M8 x 20", "a/b", "...", "=1+1", "naïve ünï", "Größe 3", "Ελληνικά", "Кириллица",
        "ガラス瓶", "병뚜껑", "बोतल", "বোতল", "ढ़", "עברית", "ขวด", "🙂🍾",
        "<script>alert(1)</script>", "x\u0302"}) {  // the last has no character of its own
    EXPECT_EQ(task_name_fault(name), "") << name;
  }
  EXPECT_EQ(task_name_fault(std::string(200, 'x')), "");
}

TEST(TaskName, HasALength) {
  EXPECT_NE(task_name_fault(""), "");
  EXPECT_NE(task_name_fault("."), "");  // these two cannot stand in a path
  EXPECT_NE(task_name_fault(".."), "");
  EXPECT_NE(task_name_fault(std::string(201, 'x')), "");
}

TEST(TaskName, HasNothingThatCannotBeSeen) {
  for (const char* name : {
           "a\nb",
           "\x1b[2J",
           "a\x7f",
           "a\u0085b",
           "a\u009b2J",
           "a\u2028b",
           "a\u2029b",  // separators
           "a\u00adb",
           "a\u200bb",
           "a\u200cb",
           "a\u200db",  // zero-width
           "a\u200e",
           "a\u202eb",
           "a\u2066b",
           "\ufeff"
           "a",
           "a\u2060b",
           "a\u180eb",
           "a\u034fb",
           "a\u3164b",
           "a\ufe0f",
           "a\U000e0041b",
           "a\U000e01efb",
           "a\uffffb",  // selectors, tags, none
       }) {
    EXPECT_NE(task_name_fault(name).find("cannot be seen"), std::string::npos) << name;
  }
  EXPECT_NE(task_name_fault(std::string("a\0b", 3)), "");
}

TEST(TaskName, IsNotBlankAtTheEnds) {
  for (const char* name : {" ", "  ", " a", "a ", "\u00a0", "a\u3000",
                           "\u2003"
                           "a",
                           "\u2800"}) {
    EXPECT_NE(task_name_fault(name).find("blank"), std::string::npos) << name;
  }
}

// Two texts that are canonically the same are one name: only one of them can be given.
TEST(TaskName, HasNoTwin) {
  const struct {
    const char* whole;
    const char* apart;
  } twins[] = {{"café", "cafe\u0301"},
               {"Größe", "Gro\u0308ße"},
               {"й", "\u0438\u0306"},
               {"ά", "\u03b1\u0301"},
               {"ガ", "\u30ab\u3099"},
               {"병", "\u1107\u1167\u11bc"},
               {"Å", "\u212b"},
               {"Ω", "\u2126"},
               {"\u8c48", "\uf900"},
               {"\u09cb", "\u09c7\u09be"},
               {"\u1ea5", "\u00e2\u0301"},
               {"q\u0323\u0307", "q\u0307\u0323"}};
  for (const auto& [whole, apart] : twins) {
    EXPECT_EQ(task_name_fault(whole), "") << whole;
    EXPECT_NE(task_name_fault(apart).find("NFC"), std::string::npos) << apart;
  }
}

TEST(TaskName, IsUtf8) {
  for (const char* name : {"caf\xe9", "\xed\xa0\x80", "\xc0\xaf", "a\xff"}) {
    EXPECT_NE(task_name_fault(name).find("UTF-8"), std::string::npos);
  }
}

}  // namespace
}  // namespace contcore
