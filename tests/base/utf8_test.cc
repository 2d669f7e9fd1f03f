#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace contcore {
namespace {

TEST(Utf8, IsKnown) {
  for (const char* good :
       {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x41", "\xe0\x9f\xbf", "\xe2\x82",
        "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf0\x90\x80", "\xf4\x90\x80\x80",
        "\xf8\x88\x80\x80\x80", "\xff"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

// A terminal must not be steered by a name.
TEST(Printable, WritesOutWhatSteersATerminal) {
  EXPECT_EQ(printable("naïve 🙂\n\tx"), "naïve 🙂\n\tx");
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable("a\rb\x7f"), "a\\x0db\\u007f");
  EXPECT_EQ(printable("\u0085\u009b2J"), "\\u0085\\u009b2J");
  EXPECT_EQ(printable("gpj\u202egnp.\u2066"), "gpj\\u202egnp.\\u2066");
  EXPECT_EQ(printable("caf\xe9\x9b"), "caf\\xe9\\x9b");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable_name("a\ncontcore: forged\tb"), "a\\x0acontcore: forged\\x09b");
}

TEST(ValidUtf8, KeepsTextAndReplacesTheRest) {
  const std::string bad = "\xEF\xBF\xBD";
  const std::string text("a\0é€😀\xF4\x8F\xBF\xBF", 15);
  EXPECT_EQ(valid_utf8(text), text);
  EXPECT_EQ(valid_utf8("\x80"), bad);
  EXPECT_EQ(valid_utf8("\xC0\x80"), bad + bad);            // overlong
  EXPECT_EQ(valid_utf8("\xE0\x9F\xBF"), bad + bad + bad);  // overlong
  EXPECT_EQ(valid_utf8("\xED\xA0\x80"), bad + bad + bad);  // half of a pair
  EXPECT_EQ(valid_utf8("\xF4\x90\x80\x80"), bad + bad + bad + bad);
  EXPECT_EQ(valid_utf8("x\xE2\x82"), "x" + bad + bad);  // ends in the middle
  for (int first = 0; first < 256; ++first) {           // replaced once, it is text
    for (int second = 0; second < 256; ++second) {
      const std::string pair = {static_cast<char>(first), static_cast<char>(second), 'z'};
      const std::string once = valid_utf8(pair);
      ASSERT_EQ(valid_utf8(once), once);
      ASSERT_EQ(once.back(), 'z');
    }
  }
}

}  // namespace
}  // namespace contcore
