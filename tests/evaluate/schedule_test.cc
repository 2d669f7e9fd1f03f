#include "contcore/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "contcore/error.h"

namespace contcore {
namespace {

using Sizes = std::vector<std::size_t>;
using Names = std::vector<std::string>;

// The sizes of the tasks, having seen that they hold all classes in order.
Sizes sizes_of(const Schedule& schedule, std::size_t classes) {
  Sizes sizes;
  std::size_t next = 0;
  for (const auto& task : schedule) {
    for (const std::size_t i : task) EXPECT_EQ(i, next++);
    sizes.push_back(task.size());
  }
  EXPECT_EQ(next, classes);
  return sizes;
}

Sizes parsed(const std::string& text, std::size_t classes) {
  return sizes_of(parse_schedule(text, {"set"}, {classes}), classes);
}

template <typename Call>
void expect_refused(const Call& call, const std::vector<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "not refused; expected " << parts.front();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' in: " << error.what();
    }
    EXPECT_LT(std::string(error.what()).size(), 600U);
  }
}

void expect_refused(const std::string& text, std::size_t classes,
                    const std::vector<std::string>& parts) {
  SCOPED_TRACE(text.substr(0, 100));
  expect_refused([&] { parse_schedule(text, {"visa"}, {classes}); }, parts);
}

TEST(Schedule, ReadsThoseOfThePaper) {
  const auto ones = [](std::size_t count) { return Sizes(count, 1); };
  EXPECT_EQ(parsed("1x15", 15), ones(15));
  EXPECT_EQ(parsed("3x5", 15), Sizes(5, 3));
  EXPECT_EQ(parsed("10-1x5", 15), (Sizes{10, 1, 1, 1, 1, 1}));
  EXPECT_EQ(parsed("10-5", 15), (Sizes{10, 5}));
  EXPECT_EQ(parsed("14-1", 15), (Sizes{14, 1}));
  EXPECT_EQ(parsed("1x12", 12), ones(12));
  EXPECT_EQ(parsed("8-1x4", 12), (Sizes{8, 1, 1, 1, 1}));
  EXPECT_EQ(parsed("8-4", 12), (Sizes{8, 4}));
  EXPECT_EQ(parsed("11-1", 12), (Sizes{11, 1}));
  EXPECT_EQ(parsed("1x30", 30), ones(30));
  EXPECT_EQ(parsed("5x6", 30), Sizes(6, 5));
  EXPECT_EQ(parsed("10x3", 30), Sizes(3, 10));
  EXPECT_EQ(parsed("10-20", 30), (Sizes{10, 20}));
  EXPECT_EQ(parsed("20-10", 30), (Sizes{20, 10}));
  EXPECT_EQ(parsed("25-1x5", 30), (Sizes{25, 1, 1, 1, 1, 1}));
  EXPECT_EQ(parsed("25-5", 30), (Sizes{25, 5}));
}

TEST(Schedule, ReadsDataSetAfterDataSet) {
  const Names names = {"mvtec_ad", "VisA"};
  EXPECT_EQ(parse_schedule("mvtec>visa", names, {3, 2}), (Schedule{{0, 1, 2}, {3, 4}}));
  EXPECT_EQ(parse_schedule("visa>mvtec", names, {3, 2}), (Schedule{{3, 4}, {0, 1, 2}}));
  EXPECT_EQ(parse_schedule(" VISA > ad ", names, {3, 2}), (Schedule{{3, 4}, {0, 1, 2}}));
  EXPECT_EQ(parse_schedule("2-3", names, {3, 2}), (Schedule{{0, 1}, {2, 3, 4}}));
  EXPECT_EQ(parse_schedule("visa", {"visa"}, {2}), (Schedule{{0, 1}}));
  // The hyphen and the digits are of the names here.
  EXPECT_EQ(parse_schedule("3d-ad>real-iad>b", {"b", "real-iad", "mvtec-3d-ad"}, {1, 1, 2}),
            (Schedule{{2, 3}, {1}, {0}}));
}

TEST(Schedule, PrefersTheNameThatFitsBest) {
  const Names names = {"visa", "VisA", "visa_old", "old_visa", "television"};
  const Sizes sizes = {1, 1, 1, 1, 1};
  EXPECT_EQ(parse_schedule("VisA>visa>visa_>old_>tele", names, sizes),
            (Schedule{{1}, {0}, {2}, {3}, {4}}));
  const auto refused = [&](const char* text, const std::vector<std::string>& parts) {
    expect_refused([&] { parse_schedule(text, names, sizes); }, parts);
  };
  refused("VISA>visa_>old_>tele>visa", {"not clear", "'VISA' may be visa or VisA"});
  refused("isa>visa>visa_>old_>tele", {"not clear", "'isa'"});
  refused("visa>VisA>visa_>old_>visa", {"names visa twice"});
  refused("visa>VisA>visa_>old_", {"does not name television"});
  refused("visa>mvtec", {"no data set 'mvtec'"});
  refused("visa>>VisA", {"no data set ''"});
  refused(">", {"no data set ''"});
  refused("nonsense", {"no data set 'nonsense'", "there are 5 classes", "visa 1, VisA 1"});
  expect_refused([] { parse_schedule("a>a", {"a", "a"}, {1, 1}); }, {"not clear"});
}

TEST(Schedule, ReadsOtherSpellings) {
  for (const char* text : {"10-1x5", "10-1X5", "10-1×5", "10–1x5", "10--1×5", " 10 - 1 x 5 ",
                           "10\t–\n1 × 5", "010-01x05"}) {
    EXPECT_EQ(parsed(text, 15), (Sizes{10, 1, 1, 1, 1, 1})) << text;
  }
}

TEST(Schedule, SaysWhatItAddsUpTo) {
  expect_refused("10-1x5", 12,
                 {"'10-1x5' has 15 classes in 6 tasks", "there are 12", "(visa)", "1x12", "11-1"});
  expect_refused("1x12", 13, {"has 12 classes in 12 tasks", "there are 13", "12-1"});
  expect_refused("2", 1, {"has 2 classes in 1 tasks", "there are 1 ", "for example 1x1"});
  expect_refused(
      [] {
        parse_schedule("3", {"mvtec", "visa"}, {15, 12});
      },
      {"there are 27 (mvtec 15, visa 12)", "1x27 or 26-1 or mvtec>visa"});
}

TEST(Schedule, RefusesWhatIsNoSchedule) {
  for (const char* text :
       {"",     " ",    "-",     "--",   "x",    "5-",  "-5",     "10---2",  "8--–4", "x4",
        "8-x4", "8-4x", "2x2x3", "0",    "0x5",  "5x0", "12-0",   "1.5x8",   "1e1-2", "+12",
        "8-+4", "12;",  "8,4",   "8-4a", "0x0C", "×12", "12\xFF", "\xE2\x80"}) {
    expect_refused(text, 12, {"is not one", "12", "1x12"});
  }
  expect_refused(std::string("8-4\0", 4), 12, {"is not one"});
}

TEST(Schedule, BoundsItsNumbers) {
  for (const char* text :
       {"100001", "1x100001", "317x317", "100000-1", "99999999999999999999999999999999",
        "4294967296x4294967296", "18446744073709551615", "18446744073709551628x1",
        "1x18446744073709551628", "50000x2-50000x2"}) {
    expect_refused(text, 12, {"more than 100000 classes", "there are 12"});
  }
  EXPECT_EQ(parsed("1x100000", 100000).size(), 100000U);
  // Long nonsense is not repeated in full.
  expect_refused(std::string(1000000, '7'), 12, {"7777…"});
  expect_refused(std::string(1000000, '-'), 12, {"----…"});
  expect_refused(std::string(1000000, '>'), 12, {">>>>…"});
  const std::size_t most = static_cast<std::size_t>(-1);
  expect_refused([&] { parse_schedule("1x3", {"a", "b"}, {most, 4}); }, {"more than 100000"});
  expect_refused([&] { parse_schedule("1x3", {"a", "b"}, {3, 0}); }, {"b has no classes"});
  expect_refused([&] { parse_schedule("1x3", {"a", "b"}, {3}); }, {"2 names and 1 sizes"});
  expect_refused([&] { parse_schedule("1x3", {}, {}); }, {"0 names"});
}

// Writes the tasks in one of the ways they can be written, and checks that they are read back.
TEST(Schedule, ReadsBackRandomOnes) {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    Sizes sizes;
    std::string text;
    const std::size_t pieces = 1 + random.below(5);
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const std::size_t size = 1 + random.below(20);
      const std::size_t repeats = 1 + random.below(4);
      const char* dashes[] = {"-", "–", "--", " - "};
      const char* times[] = {"x", "X", "×", " x "};
      if (piece > 0) text += dashes[random.below(4)];
      text += std::to_string(size);
      if (repeats > 1 || random.below(2) == 0) {
        text += times[random.below(4)] + std::to_string(repeats);
      }
      sizes.insert(sizes.end(), repeats, size);
    }
    const std::size_t classes = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    EXPECT_EQ(parsed(text, classes), sizes) << text;
  }
}

// What remains of the notation when it is written as plainly as can be: digits, one 'x', '-'.
bool naive_sum(const std::string& text, std::size_t& sum) {
  sum = 0;
  std::string piece;
  for (const char c : text + "-") {
    if (c != '-') {
      piece += c;
      continue;
    }
    const std::size_t x = std::min(piece.find('x'), piece.size());
    const std::string first = piece.substr(0, x);
    const std::string second = x < piece.size() ? piece.substr(x + 1) : "1";
    for (const std::string& digits : {first, second}) {
      if (digits.empty() || digits.find('x') != digits.npos) return false;
      if (std::stoul(digits) == 0) return false;
    }
    sum += std::stoul(first) * std::stoul(second);
    piece.clear();
  }
  return true;
}

TEST(Schedule, AgreesWithANaiveReaderOnRandomText) {
  Random random(8);
  int good = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const std::size_t length = 1 + random.below(7);
    for (std::size_t i = 0; i < length; ++i) text += "0123x-"[random.below(6)];
    if (text.find("--") != text.npos) continue;
    std::size_t sum = 0;
    const bool valid = naive_sum(text, sum) && sum <= 100000;
    good += valid ? 1 : 0;
    try {
      const std::size_t classes = valid ? sum : 1;
      sizes_of(parse_schedule(text, {"set"}, {classes}), classes);
      EXPECT_TRUE(valid) << text;
    } catch (const Error&) {
      EXPECT_FALSE(valid) << text;
    }
  }
  EXPECT_GT(good, 100);
}

TEST(Schedule, SurvivesRandomBytes) {
  Random random(9);
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    const std::size_t length = random.below(12);
    for (std::size_t i = 0; i < length; ++i) text += static_cast<char>(random.below(256));
    try {
      sizes_of(parse_schedule(text, {"\xFF\xC3", "b"}, {2, 1}), 3);
      class_order(text, {"\xFF\xC3", "b"});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    }
  }
}

TEST(ClassOrder, IsAsItIs) {
  EXPECT_EQ(class_order("alphabetical", {"c", "a", "b"}), (Sizes{0, 1, 2}));
  EXPECT_EQ(class_order(" alphabetical ", {}), Sizes{});
}

// From the definitions of the Mersenne Twister and of the shuffle, computed elsewhere.
TEST(ClassOrder, ShufflesTheSameEverywhere) {
  const auto shuffled = [](const std::string& seed, std::size_t classes) {
    Names names;
    for (std::size_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
    return class_order("shuffle:" + seed, names);
  };
  EXPECT_EQ(shuffled("0", 15), (Sizes{9, 4, 12, 0, 1, 13, 7, 6, 14, 8, 2, 11, 5, 10, 3}));
  EXPECT_EQ(shuffled("1", 15), (Sizes{8, 3, 13, 9, 0, 14, 4, 6, 10, 2, 11, 5, 7, 12, 1}));
  EXPECT_EQ(shuffled("42", 30), (Sizes{6,  27, 28, 1,  23, 8,  22, 25, 20, 19, 7, 3,  12, 9, 11,
                                       17, 26, 16, 13, 21, 29, 4,  18, 10, 14, 0, 24, 5,  2, 15}));
  EXPECT_EQ(shuffled("18446744073709551615", 12), (Sizes{8, 0, 9, 10, 3, 2, 4, 5, 6, 1, 7, 11}));
  EXPECT_EQ(shuffled("3", 0), Sizes{});
  EXPECT_EQ(shuffled("3", 1), Sizes{0});
}

TEST(ClassOrder, RefusesWhatIsNoSeed) {
  for (const char* text : {"shuffle:", "shuffle:x", "shuffle:-1", "shuffle:1.5", "shuffle:1 2",
                           "shuffle:+1", "shuffle:18446744073709551616", "shuffle:1,2"}) {
    expect_refused([&] { class_order(text, {"a", "b"}); }, {"is not a seed", "shuffle:1"});
  }
}

TEST(ClassOrder, ReadsNames) {
  const Names names = {"bottle", "cable", "metal nut"};
  EXPECT_EQ(class_order("metal nut,bottle,cable", names), (Sizes{2, 0, 1}));
  EXPECT_EQ(class_order(" metal nut ,\tcable , bottle", names), (Sizes{2, 1, 0}));
  const auto refused = [&](const char* text, const std::vector<std::string>& parts) {
    expect_refused([&] { class_order(text, names); }, parts);
  };
  refused("bottle,cable", {"1 of the 3 classes are missing: metal nut"});
  refused("bottle", {"2 of the 3 classes are missing: cable, metal nut"});
  refused("bottle,cable,bottle,metal nut", {"'bottle' is there twice"});
  refused("bottle,cable,screw", {"no class 'screw'", "bottle, cable, metal nut"});
  refused("bottle,Cable,metal nut", {"no class 'Cable'"});
  refused("bottle,cable,metal nut,", {"no class ''"});
  refused("", {"no class ''", "alphabetical", "shuffle:SEED"});
  refused("shuffle", {"no class 'shuffle'", "shuffle:SEED"});
  expect_refused([] { class_order("a,a", {"a", "a"}); }, {"two classes are called 'a'"});
}

TEST(ClassOrder, ShowsTheFirstOfManyNames) {
  Names names;
  for (std::size_t i = 0; i < 5000; ++i) names.push_back("class" + std::to_string(i));
  expect_refused([&] { class_order("class7", names); },
                 {"4999 of the 5000", "class0, class1", "and 4991 more"});
}

}  // namespace
}  // namespace contcore
