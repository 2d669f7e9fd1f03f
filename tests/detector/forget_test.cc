// Lessons taken back: the memory is what it would be had they never been taught, to the last bit.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "contcore/detector.h"
#include "contcore/error.h"
#include "products/products.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

// What is taught, one lesson each.
struct Step {
  enum class Kind { kBatch, kOnline, kRename } kind;
  std::string task;
  std::size_t first;  // image
  std::size_t count;
};

class ForgetTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/dev/shm/contcore_forget_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      name = (fs::temp_directory_path() / "contcore_forget_XXXXXX").string();
      ASSERT_NE(::mkdtemp(name.data()), nullptr);
    }
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Detector open(const std::string& name) {
    return Detector::open_to_learn(
        path(name),
        [&] {
          DetectorOptions options;
          options.backbone = "builtin";
          options.geometry = Geometry::parse(side_, "none");
          options.capacity = capacity_;
          options.consolidate = rule_;
          return options;
        },
        "", nullptr, kept_);
  }

  std::string image(std::size_t i) {
    const std::string file = path("image" + std::to_string(i) + ".png");
    if (!fs::exists(file)) {
      const std::vector<std::string> known = product_names();
      write_image(file, make_product(known[i % known.size()], i, "", 1).image);
    }
    return file;
  }

  void teach(Detector& detector, const Step& step) {
    if (step.kind == Step::Kind::kRename) {
      const Memory& memory = detector.memory();
      if (memory.find_task(step.task) && !memory.find_task(step.task + "'")) {
        detector.rename_task(step.task, step.task + "'");
      }
      return;
    }
    std::vector<std::string> files;
    for (std::size_t i = 0; i < step.count; ++i) files.push_back(image(step.first + i));
    LearnOptions options;
    options.task = step.task;
    options.online = step.kind == Step::Kind::kOnline;
    options.p = step.kind == Step::Kind::kOnline ? 0.2 : 0.1;
    detector.learn(files, options, compute_);
  }

  // Each lesson by a command of its own.
  void teach_all(const std::string& name, const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      Detector detector = open(name);
      teach(detector, step);
      detector.save(path(name));
    }
  }

  // All bytes of the file but for the times in it, and its checksum.
  std::string bytes(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    std::string whole{std::istreambuf_iterator<char>(in), {}};
    std::size_t header = 0;
    std::memcpy(&header, whole.data(), 8);
    std::string text = whole.substr(8, header);
    text = std::regex_replace(text, std::regex("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ"), "T");
    text = std::regex_replace(text, std::regex("\"sha256\":\"[0-9a-f]{64}\""), "S");
    return text + whole.substr(8 + header);
  }

  Forgotten forget(const std::string& name, const Forget& what) {
    Detector detector = open(name);
    Forgotten done = detector.forget(what, compute_);
    detector.save(path(name));
    return done;
  }

  std::size_t capacity_ = 60;
  std::string side_ = "64";
  Consolidate rule_;
  HistoryLimits kept_;
  fs::path folder_;
  Compute compute_{2};
};

using Kind = Step::Kind;

// A, B, C, without B: also where the memory was too small for all, batch and online, by both rules.
TEST_F(ForgetTest, IsWhatItWouldHaveBeen) {
  for (const Kind kind : {Kind::kBatch, Kind::kOnline}) {
    for (const std::size_t capacity : {40U, 2000U}) {
      for (const Consolidate& rule : {Consolidate{}, Consolidate::paper()}) {
        capacity_ = capacity;
        rule_ = rule;
        const std::vector<Step> all = {{kind, "a", 0, 6}, {kind, "b", 10, 5}, {kind, "c", 20, 6}};
        teach_all("abc.ccm", all);
        teach_all("ac.ccm", {all[0], all[2]});
        const Forgotten done = forget("abc.ccm", {{2}, {}});
        EXPECT_TRUE(done.exact);
        EXPECT_EQ(bytes("abc.ccm"), bytes("ac.ccm"));
        // What can be taken back once can be taken back no second time.
        EXPECT_THROW(forget("abc.ccm", {{2}, {}}), Error);
        EXPECT_THROW(forget("abc.ccm", {{}, {"b"}}), Error);
        for (const char* name : {"abc.ccm", "ac.ccm"}) {
          fs::remove(path(name));
          fs::remove_all(path(name) + std::string(".versions"));
        }
      }
    }
  }
}

// Any lessons of any kinds, taken back in any order, with few versions kept.
TEST_F(ForgetTest, AnyLessonsInAnyOrder) {
  std::mt19937 random(11);
  for (int round = 0; round < 6; ++round) {
    kept_.versions = 1 + random() % 4;
    capacity_ = random() % 2 == 0 ? 50 : 1500;
    std::vector<Step> steps;
    std::set<std::string> known;
    for (std::size_t i = 0; i < 8; ++i) {
      const std::string task(1, static_cast<char>('a' + random() % 3));
      const bool rename = i > 3 && known.contains(task) && !known.contains(task + "'");
      const auto kind = rename ? Kind::kRename : static_cast<Kind>(random() % 2);
      steps.push_back({kind, task, random() % 30, 1 + random() % 4});
      known.insert(rename ? task + "'" : task);
      if (rename) known.erase(task);
    }
    const std::string name = "all" + std::to_string(round) + ".ccm";
    const std::string twin = "twin" + std::to_string(round) + ".ccm";
    teach_all(name, steps);
    ASSERT_EQ(open(name).lessons().size(), steps.size());
    // One now, two later.
    std::vector<std::size_t> order(steps.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    std::erase_if(order, [&](std::size_t i) { return steps[i].kind == Kind::kRename; });
    ASSERT_GE(order.size(), 4U);
    forget(name, {{order[0] + 1}, {}});
    forget(name, {{order[1] + 1, order[2] + 1}, {}});
    std::vector<Step> rest;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (i != order[0] && i != order[1] && i != order[2]) rest.push_back(steps[i]);
    }
    teach_all(twin, rest);
    EXPECT_EQ(bytes(name), bytes(twin)) << round;
  }
}

// Stray tasks made by mistake, far more than versions are kept.
TEST_F(ForgetTest, StrayTasksLeaveNoTrace) {
  capacity_ = 100;
  kept_.versions = 3;
  teach_all("line.ccm", {{Kind::kBatch, "bottle", 0, 8}});
  const std::string before = bytes("line.ccm");
  std::vector<std::string> strays;
  for (std::size_t i = 0; i < 40; ++i) {
    strays.push_back("stray " + std::to_string(i));
    teach_all("line.ccm", {{Kind::kBatch, strays.back(), 40 + i, 1}});
  }
  EXPECT_NE(bytes("line.ccm"), before);
  EXPECT_TRUE(forget("line.ccm", {{}, strays}).exact);
  EXPECT_EQ(bytes("line.ccm"), before);
}

TEST_F(ForgetTest, SaysWhereItIsNotExactAnyMore) {
  capacity_ = 30;
  kept_ = {1, 4000};  // bytes: no image, and hardly a version
  teach_all("line.ccm",
            {{Kind::kBatch, "a", 0, 5}, {Kind::kBatch, "b", 10, 5}, {Kind::kBatch, "c", 20, 5}});
  const std::string before = bytes("line.ccm");
  const auto lessons = open("line.ccm").lessons();
  ASSERT_EQ(lessons.size(), 3U);
  EXPECT_FALSE(lessons[1].exact);
  EXPECT_NE(lessons[1].why, "");
  EXPECT_THROW(forget("line.ccm", {{2}, {}}), Error);
  EXPECT_THROW(forget("line.ccm", {{}, {"b"}, true}), Error);
  EXPECT_EQ(bytes("line.ccm"), before);
  const Forgotten done = forget("line.ccm", {{}, {"b"}, false});
  EXPECT_FALSE(done.exact);
  EXPECT_NE(done.note, "");
  const Detector now = open("line.ccm");
  EXPECT_FALSE(now.memory().find_task("b"));
  EXPECT_TRUE(now.memory().find_task("a"));
  // From here on it says so of those before, too.
  for (const TaughtLesson& lesson : now.lessons()) {
    if (lesson.id <= 3) {
      EXPECT_FALSE(lesson.exact) << lesson.id;
    }
    EXPECT_EQ(lesson.taken, lesson.id != 2) << lesson.id;
  }
}

TEST_F(ForgetTest, GoesBackToAVersionAndForthAgain) {
  const std::vector<Step> all = {
      {Kind::kBatch, "a", 0, 5}, {Kind::kOnline, "b", 10, 3}, {Kind::kBatch, "a", 20, 4}};
  std::vector<std::string> after;
  for (const Step& step : all) {
    teach_all("line.ccm", {step});
    after.push_back(bytes("line.ccm"));
  }
  const auto restore = [&](std::uint64_t version) {
    Detector detector = open("line.ccm");
    detector.restore(version);
    detector.save(path("line.ccm"));
  };
  restore(1);
  EXPECT_EQ(bytes("line.ccm"), after[0]);
  const auto lessons = open("line.ccm").lessons();
  EXPECT_TRUE(lessons[0].taken);
  EXPECT_FALSE(lessons[1].taken);
  // The memory that was left is a version too.
  const std::uint64_t last = open("line.ccm").versions().back().id;
  restore(last);
  EXPECT_EQ(bytes("line.ccm"), after[2]);
  restore(2);
  EXPECT_EQ(bytes("line.ccm"), after[1]);
  EXPECT_THROW(restore(77), Error);
  teach_all("line.ccm", {all[2]});
  EXPECT_EQ(bytes("line.ccm"), after[2]);
}

TEST_F(ForgetTest, RefusesAVersionOfAnotherBackbone) {
  teach_all("line.ccm", {{Kind::kBatch, "a", 0, 3}, {Kind::kBatch, "b", 5, 3}});
  // Somebody puts another memory in its place.
  DetectorOptions other;
  other.backbone = "builtin";
  other.geometry = Geometry::parse("96", "none");
  Detector stranger(other);
  LearnOptions options;
  options.task = "x";
  stranger.learn({image(1), image(4)}, options, compute_);
  stranger.save(path("line.ccm"));
  const std::string before = bytes("line.ccm");
  Detector detector = open("line.ccm");
  EXPECT_THROW(detector.restore(1), Error);
  EXPECT_EQ(bytes("line.ccm"), before);
}

// Defects that were shown, in a box or with masks, are taken again with the rest; they are no
// images of the task, which is forgotten whole all the same.
TEST_F(ForgetTest, DefectsAreTakenAgain) {
  capacity_ = 2000;
  side_ = "256";  // so that there are patches beside a defect which show nothing of it
  const std::string product = "ceramic_tile";
  const auto files = [&](std::size_t first, std::size_t count) {
    std::vector<std::string> names;
    for (std::size_t i = first; i < first + count; ++i) {
      names.push_back(path(product + std::to_string(i) + ".png"));
      write_image(names.back(), make_product(product, i, "", 1).image);
    }
    return names;
  };
  const auto learn = [&](const std::string& name, const std::string& task, std::size_t first) {
    Detector detector = open(name);
    LearnOptions options;
    options.task = task;
    detector.learn(files(first, 12), options, compute_);
    detector.save(path(name));
  };
  const auto show = [&](const std::string& name, std::size_t first, bool with_masks) {
    Detector detector = open(name);
    LearnOptions options;
    options.task = "gear";
    std::vector<std::string> bad;
    for (std::size_t i = first; i < first + 3; ++i) {
      Image image = make_product(product, i, "", 1).image;
      Image mask = image;
      for (std::size_t at = 0; at < image.rgb.size(); ++at) {
        const std::size_t x = at / 3 % image.width, y = at / 3 / image.width;
        const bool is_bad = x >= 100 && x < 140 && y >= 90 && y < 130;
        if (is_bad) image.rgb[at] = (x / 4 + y / 4) % 2 == 0 ? 0 : 255;
        mask.rgb[at] = is_bad ? 255 : 0;
      }
      bad.push_back(path("bad" + std::to_string(i) + ".png"));
      write_image(bad.back(), image);
      write_image(bad.back() + ".mask.png", mask);
    }
    if (with_masks) {
      const auto mask = [&](const std::string& file) { return file + ".mask.png"; };
      detector.learn_defects(bad, mask, options, compute_);
    } else {
      DefectMark mark;
      mark.box = DefectBox{100, 90, 40, 40};
      detector.learn_defect(read_image(bad[0]), mark, "gear", compute_);
    }
    detector.save(path(name));
  };
  for (const bool with_masks : {false, true}) {
    const std::string line = with_masks ? "masks.ccm" : "boxes.ccm";
    const std::string twin = "twin of " + line;
    for (const std::string& name : {line, twin}) {
      learn(name, "gear", 0);
      if (name == line) learn(name, "gear", 20);
      show(name, 50, with_masks);
      learn(name, "gear", 40);
    }
    for (const TaughtLesson& lesson : open(line).lessons()) EXPECT_TRUE(lesson.exact) << lesson.id;
    // Where they cannot be read nothing happens; it is not as if they had nothing to say.
    const std::string images = path(line) + ".versions/3.images";
    fs::rename(images, images + ".away");
    EXPECT_THROW(forget(line, {{2}, {}}), Error);
    fs::rename(images + ".away", images);
    EXPECT_TRUE(forget(line, {{2}, {}}).exact);
    EXPECT_TRUE(bytes(line) == bytes(twin)) << line;
    EXPECT_TRUE(forget(line, {{}, {"gear"}, true}).exact);
    EXPECT_TRUE(open(line).memory().tasks().empty());
  }
}

// A task that was there before its lessons were written down, with as many defects shown as images:
// it goes, or it is said that it does not.
TEST_F(ForgetTest, ATaskIsGoneOrItIsRefused) {
  capacity_ = 2000;
  kept_.versions = 0;
  teach_all("line.ccm", {{Kind::kBatch, "a", 0, 3}});
  kept_ = {};
  teach_all("line.ccm", {{Kind::kOnline, "a", 10, 3}, {Kind::kBatch, "b", 20, 3}});
  const Forgotten done = forget("line.ccm", {{}, {"a"}, false});
  EXPECT_FALSE(open("line.ccm").memory().find_task("a")) << done.note;
}

// Without a list of lessons a whole task can still be taken out.
TEST_F(ForgetTest, ATaskIsTakenOutWithoutAList) {
  capacity_ = 2000;
  kept_.versions = 0;
  teach_all("line.ccm", {{Kind::kBatch, "a", 0, 3}, {Kind::kBatch, "b", 20, 3}});
  teach_all("twin.ccm", {{Kind::kBatch, "a", 0, 3}});
  EXPECT_TRUE(forget("line.ccm", {{}, {"b"}, true}).exact);
  EXPECT_EQ(bytes("line.ccm"), bytes("twin.ccm"));
  EXPECT_THROW(forget("line.ccm", {{1}, {}}), Error);
  EXPECT_FALSE(fs::exists(path("line.ccm") + ".versions"));
}

// Lessons go by names: without the rename the later ones would be of another task.
TEST_F(ForgetTest, ARenameThatLaterLessonsGoByStays) {
  teach_all("line.ccm", {{Kind::kBatch, "a", 0, 4}, {Kind::kRename, "a", 0, 0}});
  const std::string before = bytes("line.ccm");
  teach_all("line.ccm", {{Kind::kBatch, "a", 10, 4}});
  EXPECT_THROW(forget("line.ccm", {{2}, {}}), Error);
  forget("line.ccm", {{3}, {}});
  EXPECT_EQ(bytes("line.ccm"), before);
  forget("line.ccm", {{2}, {}});
  EXPECT_TRUE(open("line.ccm").memory().find_task("a"));
}

TEST_F(ForgetTest, ARenamedTaskIsForgottenByItsNewName) {
  teach_all("line.ccm", {{Kind::kBatch, "a", 0, 4},
                         {Kind::kBatch, "b", 10, 4},
                         {Kind::kRename, "b", 0, 0},
                         {Kind::kOnline, "b'", 20, 2}});
  teach_all("twin.ccm", {{Kind::kBatch, "a", 0, 4}});
  const auto lessons = open("line.ccm").lessons();
  ASSERT_EQ(lessons.size(), 4U);
  EXPECT_EQ(lessons[1].task, "b'");
  EXPECT_THROW(forget("line.ccm", {{}, {"b"}}), Error);
  EXPECT_EQ(forget("line.ccm", {{}, {"b'"}}).lessons.size(), 3U);
  EXPECT_EQ(bytes("line.ccm"), bytes("twin.ccm"));
}

}  // namespace
}  // namespace contcore
