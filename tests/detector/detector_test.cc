#include "contcore/detector.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/scarce.h"
#include "contcore/error.h"
#include "products/products.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

class DetectorTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("contcore_detector_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static Detector small(std::size_t capacity = 400, const Consolidate& rule = {}) {
    DetectorOptions options;
    options.backbone = "builtin";
    options.geometry = Geometry::parse("96", "none");
    options.capacity = capacity;
    options.consolidate = rule;
    return Detector(options);
  }

  // `count` good pieces of a product, as files.
  std::vector<std::string> pieces(const std::string& product, std::size_t count) {
    std::vector<std::string> files;
    for (std::size_t i = 0; i < count; ++i) {
      files.push_back(path(product + std::to_string(i) + ".png"));
      write_image(files.back(), make_product(product, i, "", 1).image);
    }
    return files;
  }

  static LearnOptions task(const std::string& name) {
    LearnOptions options;
    options.task = name;
    return options;
  }

  fs::path folder_;
  Compute compute_{2};
};

Error::Kind kind_of(const std::function<void()>& call, std::string* words = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (words != nullptr) *words = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error::Kind::kInternal;
}

// Who learns has the file to himself, from opening to the end; others may go on inspecting.
TEST_F(DetectorTest, HoldsTheFileItLearnsInto) {
  const auto settings = [] {
    DetectorOptions options;
    options.backbone = "builtin";
    options.geometry = Geometry::parse("96", "none");
    return options;
  };
  const std::string memory = path("line.ccm");
  {
    Detector first = Detector::open_to_learn(memory, settings);
    EXPECT_TRUE(first.is_new());
    EXPECT_EQ(kind_of([&] { Detector::open_to_learn(memory, settings); }), Error::Kind::kInput);
    first.learn(pieces("wood", 6), task("wood"), compute_);
    EXPECT_EQ(kind_of([&] { small().save(memory); }), Error::Kind::kInput);
    EXPECT_FALSE(fs::exists(memory));
    first.save(memory);
    EXPECT_EQ(Detector::open(memory).memory().tasks().size(), 1u);
    EXPECT_EQ(kind_of([&] { Detector::open_to_learn(memory, settings); }), Error::Kind::kInput);
  }
  Detector second = Detector::open_to_learn(memory, []() -> DetectorOptions {
    throw Error(Error::Kind::kUsage, "of a memory that is there nothing is asked");
  });
  EXPECT_FALSE(second.is_new());
  EXPECT_EQ(second.memory().tasks()[0].name, "wood");
}

TEST_F(DetectorTest, OpensOnlyWithItsOwnBackbone) {
  Detector detector = small();
  detector.learn(pieces("wood", 6), task("wood"), compute_);
  detector.save(path("a.ccm"));
  Memory memory = Memory::open(path("a.ccm"));
  memory.source["backbone.sha256"] = std::string(64, '0');
  memory.save(path("b.ccm"));
  std::string words;
  EXPECT_EQ(kind_of([&] { Detector::open(path("b.ccm")); }, &words), Error::Kind::kInput);
  EXPECT_NE(words.find("another backbone"), std::string::npos) << words;
  memory.source.erase("backbone");
  memory.save(path("b.ccm"));
  EXPECT_EQ(kind_of([&] { Detector::open(path("b.ccm")); }), Error::Kind::kInput);
  EXPECT_NO_THROW(Detector::open(path("a.ccm")));
}

TEST_F(DetectorTest, SeesTheSameAfterSavingAndFromManyThreads) {
  Detector detector = small();
  detector.learn(pieces("gear", 12), task("gear"), compute_);
  detector.save(path("a.ccm"));
  const Detector again = Detector::open(path("a.ccm"));
  const Image image = make_product("gear", 100, product_defects("gear")[0], 1).image;
  const Inspection first = detector.inspect(image, {}, compute_);
  std::vector<Inspection> seen(3);
  std::vector<std::thread> crew;
  for (Inspection& one : seen) {
    crew.emplace_back([&] {
      Compute alone(1);
      one = again.inspect(image, {}, alone);
    });
  }
  for (std::thread& thread : crew) thread.join();
  for (const Inspection& one : seen) {
    EXPECT_EQ(one.score, first.score);
    EXPECT_EQ(one.map.values, first.map.values);
    EXPECT_EQ(one.rejected, first.rejected);
  }
  EXPECT_EQ(first.map.width, image.width);
  EXPECT_EQ(first.map.height, image.height);
}

// Something lies above the outline's level exactly when the image is rejected.
TEST_F(DetectorTest, OutlinesWhatItRejects) {
  Detector detector = small();
  detector.learn(pieces("wood", 15), task("wood"), compute_);
  for (std::size_t i = 0; i < 8; ++i) {
    const std::string defect = i % 2 == 0 ? "" : product_defects("wood")[0];
    const Inspection seen =
        detector.inspect(make_product("wood", 200 + i, defect, 1).image, {}, compute_);
    ASSERT_TRUE(seen.threshold);
    const float most = *std::max_element(seen.map.values.begin(), seen.map.values.end());
    EXPECT_EQ(most > seen.level, seen.rejected) << seen.score << " " << seen.threshold->score;
    EXPECT_EQ(seen.regions.empty(), !seen.rejected);
    EXPECT_EQ(std::string(verdict(seen)), seen.rejected ? "defect" : "good");
    EXPECT_TRUE(seen.reason.starts_with(std::string(verdict(seen)) + ": ")) << seen.reason;
  }
}

// By either score: the first region has the largest value, the pixel where that is lies in it, and
// the reason names one of them.
TEST_F(DetectorTest, TheRegionsOfADefect) {
  for (const Score score : {Score::kMap, Score::kPatch}) {
    DetectorOptions options;
    options.backbone = "builtin";
    options.geometry = Geometry::parse("96", "none");
    options.capacity = 400;
    options.score = score;
    Detector detector(options);
    detector.learn(pieces("wood", 15), task("wood"), compute_);
    InspectOptions strict;
    strict.false_alarms = 0.5;  // what is a defect is rejected
    const Image image = make_product("wood", 201, product_defects("wood")[0], 1).image;
    const Inspection seen = detector.inspect(image, strict, compute_);
    ASSERT_TRUE(seen.rejected);
    ASSERT_FALSE(seen.regions.empty());
    const Region& first = seen.regions.front();
    if (score == Score::kMap) {
      EXPECT_EQ(first.score, seen.score);
    }
    EXPECT_TRUE(seen.peak_x + 2 >= first.x && seen.peak_x <= first.x + first.width + 1);
    EXPECT_TRUE(seen.peak_y + 2 >= first.y && seen.peak_y <= first.y + first.height + 1);
    std::size_t largest = 0;
    for (const Region& region : seen.regions) {
      EXPECT_LE(region.x + region.width, image.width);
      EXPECT_LE(region.y + region.height, image.height);
      EXPECT_LE(region.area, region.width * region.height);
      largest = std::max(largest, region.area);
    }
    const auto named = std::find_if(seen.regions.begin(), seen.regions.end(),
                                    [&](const Region& region) { return region.area == largest; });
    const std::string at = std::to_string(named->width) + " × " + std::to_string(named->height) +
                           " px at (" + std::to_string(named->x) + ", " + std::to_string(named->y);
    EXPECT_NE(seen.reason.find(at), std::string::npos) << seen.reason;
    EXPECT_EQ(seen.reason.find("1 region, ") != std::string::npos, seen.regions.size() == 1);
  }
}

TEST_F(DetectorTest, LearnsOneImageAtATime) {
  Detector detector = small(120);
  for (std::size_t i = 0; i < 15; ++i) {
    detector.learn_online(make_product("gear", i, "", 1).image, task("gear"), compute_);
  }
  EXPECT_EQ(detector.memory().size(), 120U);
  EXPECT_EQ(detector.memory().tasks()[0].images, 15U);
  EXPECT_EQ(detector.memory().states()[0].calibrated, 14U);
  EXPECT_TRUE(detector.inspect(make_product("gear", 50, "", 1).image, {}, compute_).threshold);
}

TEST_F(DetectorTest, IsAsItWasWhenLearningIsStopped) {
  Detector detector = small();
  detector.learn(pieces("wood", 6), task("wood"), compute_);
  const Vectors before = detector.memory().vectors();
  const std::vector<std::string> files = pieces("gear", 6);
  for (const double until : {0.0, 0.5, 0.9}) {
    LearnOptions options = task("gear");
    options.progress = [&](double done) { return done < until; };
    EXPECT_EQ(kind_of([&] { detector.learn(files, options, compute_); }), Error::Kind::kCancelled);
    EXPECT_EQ(detector.memory().tasks().size(), 1U);
    EXPECT_EQ(detector.memory().size(), before.rows());
  }
}

// What a detector's memory is: the bytes it saves.
std::string bytes_of(const Detector& detector, const std::string& file) {
  detector.save(file);
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// One thread takes eight images at a time: both come to grief in the second eight, when the first
// are learned.
TEST_F(DetectorTest, IsAsItWasWhenLearningOnlineFailsLate) {
  Compute alone(1);
  for (const Consolidate& rule : {Consolidate{}, Consolidate::paper()}) {
    Detector detector = small(120, rule);
    detector.learn(pieces("wood", 6), task("wood"), alone);
    const std::string before = bytes_of(detector, path("a.ccm"));
    std::vector<std::string> files = pieces("gear", 12);
    for (const char* name : {"gear", "wood"}) {
      LearnOptions options = task(name);
      options.online = true;
      options.progress = [&](double done) { return done < 0.8; };
      EXPECT_EQ(kind_of([&] { detector.learn(files, options, alone); }), Error::Kind::kCancelled);
      EXPECT_TRUE(bytes_of(detector, path("a.ccm")) == before) << rule.name();
      options.progress = {};
      options.strict = true;
      files[10] = path("missing.png");
      EXPECT_EQ(kind_of([&] { detector.learn(files, options, alone); }), Error::Kind::kInput);
      EXPECT_TRUE(bytes_of(detector, path("a.ccm")) == before) << rule.name();
      files = pieces("gear", 12);
    }
    LearnOptions options = task("gear");
    options.online = true;
    EXPECT_EQ(detector.learn(files, options, alone).learned, 12U);
  }
}

// The batch is learned when there is no room left to calibrate.
TEST_F(DetectorTest, IsAsItWasWhenThereIsNoRoomToCalibrate) {
  Compute alone(1);
  for (const Consolidate& rule : {Consolidate{}, Consolidate::paper()}) {
    Detector detector = small(120, rule);
    detector.learn(pieces("wood", 6), task("wood"), alone);
    const std::string before = bytes_of(detector, path("a.ccm"));
    const std::vector<std::string> files = pieces("gear", 3);
    std::size_t failed = 1;
    for (bool done = false; !done; failed += 1 + failed / 2) {
      LearnOptions options = task("gear");
      options.progress = [&](double part) {  // an allocation after the last report fails
        if (part >= 1) scarce::fail_allocation(failed);
        return true;
      };
      try {
        detector.learn(files, options, alone);
        done = true;
      } catch (const std::bad_alloc&) {
        ASSERT_TRUE(bytes_of(detector, path("a.ccm")) == before) << rule.name() << " " << failed;
      }
      scarce::fail_allocation(0);
    }
    EXPECT_GT(failed, 10U);
  }
}

// Every image that can be read is learned, and as many calibrate; a first one alone cannot.
TEST_F(DetectorTest, LearnsAndCalibratesWithWhatCanBeRead) {
  const std::string missing = path("missing.png");
  const std::vector<std::string> good = pieces("gear", 5);
  struct Case {
    std::vector<std::string> files;
    std::size_t learned, calibrated;
  };
  const std::vector<Case> cases = {
      {{good[0]}, 1, 0},
      {{missing, good[0]}, 1, 0},
      {{good[0], good[1], missing}, 2, 2},
      {{good[0], good[1], good[2], good[3], missing}, 4, 4},
      {{good[0], missing, good[1], missing, good[2], missing, good[3], missing, good[4]}, 5, 5}};
  for (const bool online : {false, true}) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      Detector detector = small();
      LearnOptions options = task("gear");
      options.online = online;
      const LearnReport report = detector.learn(cases[i].files, options, compute_);
      const Memory& memory = detector.memory();
      EXPECT_EQ(report.learned, cases[i].learned) << "case " << i;
      EXPECT_EQ(report.skipped.size(), cases[i].files.size() - report.learned);
      EXPECT_EQ(report.patches, memory.tasks()[0].patches);
      EXPECT_EQ(memory.tasks()[0].images, cases[i].learned);
      // Online each image is scored by those before it.
      const std::size_t scored = online ? cases[i].learned - 1 : cases[i].calibrated;
      EXPECT_EQ(memory.states()[0].calibrated, scored) << "case " << i;
      EXPECT_EQ(memory.threshold(0, 0.05).has_value(), scored > 0) << "case " << i;
    }
    Detector detector = small();
    std::string words;
    EXPECT_EQ(kind_of([&] { detector.learn({missing}, task("bolt"), compute_); }, &words),
              Error::Kind::kInput);
    EXPECT_NE(words.find("missing.png"), std::string::npos) << words;
  }
}

// The same vectors, in the same order, with the same thresholds.
void expect_same(const Memory& a, const Memory& b) {
  ASSERT_EQ(a.size(), b.size());
  const Vectors left = a.vectors();
  const Vectors right = b.vectors();
  EXPECT_EQ(std::memcmp(left.view().data, right.view().data, left.view().bytes()), 0);
  EXPECT_EQ(a.source, b.source);
  ASSERT_EQ(a.tasks().size(), b.tasks().size());
  for (std::size_t i = 0; i < a.tasks().size(); ++i) {
    EXPECT_EQ(a.tasks()[i].images, b.tasks()[i].images);
    ASSERT_EQ(a.threshold(i, 0.05).has_value(), b.threshold(i, 0.05).has_value());
    if (a.threshold(i, 0.05)) {
      EXPECT_EQ(a.threshold(i, 0.05)->score, b.threshold(i, 0.05)->score);
    }
  }
}

ImageSource in_memory(const std::string& product, std::size_t count) {
  return {count, [product](std::size_t i) { return make_product(product, i, "", 1).image; },
          [product](std::size_t i) { return product + " " + std::to_string(i); }};
}

TEST_F(DetectorTest, LearnsPixelsInMemoryAsItLearnsFiles) {
  const std::vector<std::string> files = pieces("gear", 7);
  for (const bool online : {false, true}) {
    Detector of_files = small();
    Detector of_images = small();
    LearnOptions options = task("gear");
    options.online = online;
    const LearnReport report = of_files.learn(files, options, compute_);
    const LearnReport same = of_images.learn(in_memory("gear", 7), options, compute_);
    EXPECT_EQ(report.learned, same.learned);
    EXPECT_EQ(report.patches, same.patches);
    expect_same(of_files.memory(), of_images.memory());

    std::vector<float> scores;
    of_files.inspect(files, {}, compute_, [&](Detector::Inspected& item) {
      scores.push_back(item.seen.score);
      return true;
    });
    std::size_t seen = 0;
    of_images.inspect(in_memory("gear", 7), {}, compute_, [&](Detector::Inspected& item) {
      EXPECT_EQ(item.file, "gear " + std::to_string(seen));
      EXPECT_EQ(item.seen.score, scores[seen++]);
      return true;
    });
    EXPECT_EQ(seen, files.size());
  }
}

// An image that its source refuses is left out under its name, whatever else goes wrong is not
// hidden, and the memory is then as before.
TEST_F(DetectorTest, LeavesOutWhatASourceRefuses) {
  ImageSource images = in_memory("gear", 5);
  images.load = [load = images.load](std::size_t i) {
    if (i == 2) throw Error(Error::Kind::kInput, "has two channels");
    return load(i);
  };
  Detector detector = small();
  LearnOptions options = task("gear");
  const LearnReport report = detector.learn(images, options, compute_);
  EXPECT_EQ(report.learned, 4u);
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_EQ(report.skipped[0].file, "gear 2");
  EXPECT_EQ(report.skipped[0].reason, "gear 2: has two channels");
  std::vector<std::string> errors;
  detector.inspect(images, {}, compute_, [&](Detector::Inspected& item) {
    errors.push_back(item.error);
    return true;
  });
  EXPECT_EQ(errors, (std::vector<std::string>{"", "", "gear 2: has two channels", "", ""}));

  const Memory before = detector.memory().copy();
  options.strict = true;
  std::string words;
  EXPECT_EQ(kind_of([&] { detector.learn(images, options, compute_); }, &words),
            Error::Kind::kInput);
  EXPECT_EQ(words, "gear 2: has two channels");
  images.load = [](std::size_t) -> Image { throw std::out_of_range("a fault of the program"); };
  EXPECT_THROW(detector.learn(images, options, compute_), std::out_of_range);
  EXPECT_THROW(detector.inspect(images, {}, compute_, [](auto&) { return true; }),
               std::out_of_range);
  expect_same(detector.memory(), before);
}

// A lesson from memory keeps the images, so that a lesson before it can be taken back.
TEST_F(DetectorTest, KeepsImagesFromMemoryWithTheirLesson) {
  DetectorOptions settings;
  settings.backbone = "builtin";
  settings.geometry = Geometry::parse("96", "none");
  settings.capacity = 400;
  Detector detector = Detector::open_to_learn(path("line.ccm"), [&] { return settings; });
  detector.learn(in_memory("wood", 5), task("wood"), compute_);
  detector.learn(in_memory("gear", 5), task("gear"), compute_);
  detector.save(path("line.ccm"));
  EXPECT_TRUE(detector.forget({{1}, {}}, compute_).exact);
  Detector alone(settings);
  alone.learn(in_memory("gear", 5), task("gear"), compute_);
  expect_same(detector.memory(), alone.memory());
}

TEST_F(DetectorTest, IsMadeOfAMemory) {
  Detector first = small();
  first.learn(in_memory("gear", 6), task("gear"), compute_);
  Detector second(first.memory().copy());
  EXPECT_FALSE(second.is_new());
  const Image image = make_product("gear", 100, product_defects("gear")[0], 1).image;
  EXPECT_EQ(first.inspect(image, {}, compute_).map.values,
            second.inspect(image, {}, compute_).map.values);
  first.learn(in_memory("wood", 6), task("wood"), compute_);
  second.learn(in_memory("wood", 6), task("wood"), compute_);
  expect_same(first.memory(), second.memory());

  Memory other = first.memory().copy();
  other.source["backbone.sha256"] = std::string(64, '0');
  std::string words;
  EXPECT_EQ(kind_of([&] { Detector{std::move(other)}; }, &words), Error::Kind::kInput);
  EXPECT_NE(words.find("another backbone"), std::string::npos) << words;
  EXPECT_EQ(kind_of([] { Detector{Memory(8, 10)}; }, &words), Error::Kind::kInput);
  EXPECT_NE(words.find("not learned from images"), std::string::npos) << words;
}

TEST_F(DetectorTest, FindsImagesInFolders) {
  fs::create_directories(path("a/b"));
  for (const char* name : {"a/z.PNG", "a/b/y.jpg", "a/.hidden.png", "a/notes.txt"}) {
    write_image(path("x.png"), Image{2, 2, std::vector<std::uint8_t>(12)});
    fs::rename(path("x.png"), path(name));
  }
  EXPECT_EQ(find_images({path("a")}),
            (std::vector<std::string>{path("a/b/y.jpg"), path("a/z.PNG")}));
  EXPECT_EQ(find_images({path("a/notes.txt")}).size(), 1U);  // named, so it is tried
  EXPECT_EQ(kind_of([&] { find_images({path("nowhere")}); }), Error::Kind::kInput);
  fs::create_directories(path("empty"));
  EXPECT_EQ(kind_of([&] { find_images({path("empty")}); }), Error::Kind::kInput);
}

}  // namespace
}  // namespace contcore
