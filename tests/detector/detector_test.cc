#include "contcore/detector.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "contcore/error.h"
#include "detector/products.h"

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

  static Detector small(std::size_t capacity = 400) {
    DetectorOptions options;
    options.backbone = "builtin";
    options.geometry = Geometry::parse("96", "none");
    options.capacity = capacity;
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
  Threads threads_{2};
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

TEST_F(DetectorTest, OpensOnlyWithItsOwnBackbone) {
  Detector detector = small();
  detector.learn(pieces("wood", 6), task("wood"), threads_);
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
  detector.learn(pieces("gear", 12), task("gear"), threads_);
  detector.save(path("a.ccm"));
  const Detector again = Detector::open(path("a.ccm"));
  const Image image = make_product("gear", 100, product_defects("gear")[0], 1).image;
  const Inspection first = detector.inspect(image, {}, threads_);
  std::vector<Inspection> seen(3);
  std::vector<std::thread> crew;
  for (Inspection& one : seen) {
    crew.emplace_back([&] {
      Threads alone(1);
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
  detector.learn(pieces("wood", 15), task("wood"), threads_);
  for (std::size_t i = 0; i < 8; ++i) {
    const std::string defect = i % 2 == 0 ? "" : product_defects("wood")[0];
    const Inspection seen =
        detector.inspect(make_product("wood", 200 + i, defect, 1).image, {}, threads_);
    ASSERT_TRUE(seen.threshold);
    const float most = *std::max_element(seen.map.values.begin(), seen.map.values.end());
    EXPECT_EQ(most > seen.level, seen.rejected) << seen.score << " " << seen.threshold->score;
  }
}

TEST_F(DetectorTest, LearnsOneImageAtATime) {
  Detector detector = small(120);
  for (std::size_t i = 0; i < 15; ++i) {
    detector.learn_online(make_product("gear", i, "", 1).image, task("gear"), threads_);
  }
  EXPECT_EQ(detector.memory().size(), 120U);
  EXPECT_EQ(detector.memory().tasks()[0].images, 12U);
  EXPECT_EQ(detector.memory().states()[0].held_out, 3U);
  EXPECT_TRUE(detector.inspect(make_product("gear", 50, "", 1).image, {}, threads_).threshold);
}

TEST_F(DetectorTest, IsAsItWasWhenLearningIsStopped) {
  Detector detector = small();
  detector.learn(pieces("wood", 6), task("wood"), threads_);
  const Vectors before = detector.memory().vectors();
  const std::vector<std::string> files = pieces("gear", 6);
  for (const double until : {0.0, 0.5, 0.9}) {
    LearnOptions options = task("gear");
    options.progress = [&](double done) { return done < until; };
    EXPECT_EQ(kind_of([&] { detector.learn(files, options, threads_); }), Error::Kind::kCancelled);
    EXPECT_EQ(detector.memory().tasks().size(), 1U);
    EXPECT_EQ(detector.memory().size(), before.rows());
  }
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
