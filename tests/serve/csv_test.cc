#include "serve/csv.h"

#include <gtest/gtest.h>

#include <string>

namespace contcore {
namespace {

TEST(Csv, QuotesWhatMustBe) {
  EXPECT_EQ(csv_text(""), "");
  EXPECT_EQ(csv_text("part 4"), "part 4");
  EXPECT_EQ(csv_text("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_text("a \"b\""), "\"a \"\"b\"\"\"");
  EXPECT_EQ(csv_text("a\r\nb"), "\"a\r\nb\"");
  EXPECT_EQ(csv_text("é 🙂"), "é 🙂");
}

TEST(Csv, NoTextIsAFormula) {
  EXPECT_EQ(csv_text("=1+1"), "'=1+1");
  EXPECT_EQ(csv_text("+1"), "'+1");
  EXPECT_EQ(csv_text("-1"), "'-1");
  EXPECT_EQ(csv_text("@x"), "'@x");
  EXPECT_EQ(csv_text("\t=1"), "\"'\t=1\"");
  EXPECT_EQ(csv_text("x;=1+1"), "\"x;=1+1\"");  // parted there in some countries
  EXPECT_EQ(csv_text("x\t=1+1"), "\"x\t=1+1\"");
  EXPECT_EQ(csv_text("=cmd|\"/c\"!A1"), "\"'=cmd|\"\"/c\"\"!A1\"");
  EXPECT_EQ(csv_text("a=1"), "a=1");
}

TEST(Csv, NulDoesNotEndAText) {
  EXPECT_EQ(csv_text(std::string("a\0b", 3)),
            "a\xef\xbf\xbd"
            "b");
}

}  // namespace
}  // namespace contcore
