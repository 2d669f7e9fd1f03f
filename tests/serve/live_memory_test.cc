// The memory of a service: swapped whole, and there again after a crash.
#include "serve/live_memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "contcore/error.h"
#include "contcore/image.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSide = 64;

/// Stripes of a product's own, each image shifted.
Image picture(std::size_t product, std::size_t index) {
  Image image;
  image.width = image.height = kSide;
  image.rgb.resize(kSide * kSide * 3);
  for (std::size_t y = 0; y < kSide; ++y) {
    for (std::size_t x = 0; x < kSide; ++x) {
      const double at = 0.2 * static_cast<double>(x * product + y * (product + 1) + 7 * index);
      for (std::size_t c = 0; c < 3; ++c) {
        image.rgb[3 * (y * kSide + x) + c] =
            static_cast<std::uint8_t>(120 + 60 * std::sin(at + static_cast<double>(c)));
      }
    }
  }
  return image;
}

class LiveMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/dev/shm/contcore_line_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      name = (fs::temp_directory_path() / "contcore_line_XXXXXX").string();
      ASSERT_NE(::mkdtemp(name.data()), nullptr);
    }
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  LiveMemoryOptions options() const {
    LiveMemoryOptions options;
    options.path = (folder_ / "line.ccm").string();
    options.backbone = "builtin";
    options.settings.geometry = Geometry::parse("64", "none");
    options.settings.capacity = 40;
    return options;
  }

  void learn(LiveMemory& line, std::size_t product, std::size_t index) {
    const Image image = picture(product, index);
    const std::vector<std::uint8_t> bytes = encode_png(image);
    const Patches patches = line.extractor().extract(image, compute_);
    Lesson lesson;
    lesson.task = "product " + std::to_string(product);
    lesson.image = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    line.take(lesson, patches, compute_);
  }

  void learn_all(LiveMemory& line, std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) learn(line, i % 3, i);
  }

  static void expect_same(const Memory& a, const Memory& b) {
    ASSERT_EQ(a.size(), b.size());
    const Vectors x = a.vectors();
    const Vectors y = b.vectors();
    ASSERT_EQ(x.scalar(), y.scalar());
    EXPECT_EQ(std::memcmp(x.view().data, y.view().data, x.view().bytes()), 0);
    EXPECT_EQ(a.origins(), b.origins());
    EXPECT_EQ(a.radii(), b.radii());
    EXPECT_EQ(a.certificate(), b.certificate());
    ASSERT_EQ(a.tasks().size(), b.tasks().size());
    for (std::size_t t = 0; t < a.tasks().size(); ++t) {
      EXPECT_EQ(a.tasks()[t].images, b.tasks()[t].images);
      EXPECT_EQ(a.calibration_scores(t), b.calibration_scores(t)) << t;
    }
  }

  fs::path folder_;
  Compute compute_{1};
};

TEST_F(LiveMemoryTest, IsThereAgainAfterACrashAtAnyMoment) {
  std::vector<Memory> after;  // each number of images
  {
    Memory memory = LiveMemory(options(), compute_).memory()->copy();
    LiveMemory other(options(), compute_);
    for (std::size_t i = 0; i < 12; ++i) {
      LearnHow how;
      how.task = "product " + std::to_string(i % 3);
      how.p = kOnlineRatio;
      how.time = "t";
      const Patches patches = other.extractor().extract(picture(i % 3, i), compute_);
      learn_next(memory, patches, how, true, compute_);
      after.push_back(memory.copy());
    }
  }
  for (std::size_t i = 0; i < 12; ++i) {
    // No orderly end: what the destructor leaves is what a crash does.
    LiveMemory line(options(), compute_);
    learn(line, i % 3, i);
    expect_same(*line.memory(), after[i]);
    if (HasFailure()) FAIL() << "after " << i + 1 << " images";
  }
}

TEST_F(LiveMemoryTest, FoldsTheJournalIntoTheMemory) {
  {
    LiveMemory line(options(), compute_);
    learn_all(line, 0, 10);
    EXPECT_EQ(line.unsaved(), 10u);
    const auto before = fs::file_size(options().path + ".journal");
    line.checkpoint(compute_);
    EXPECT_EQ(line.unsaved(), 0u);
    EXPECT_LT(fs::file_size(options().path + ".journal"), before);
    learn_all(line, 10, 13);
  }
  LiveMemory line(options(), compute_);
  EXPECT_EQ(line.unsaved(), 3u);
  std::size_t images = 0;
  for (std::size_t t = 0; t < 3; ++t) {
    images += line.memory()->tasks()[t].images;
  }
  EXPECT_EQ(images, 13u);
  line.checkpoint(compute_);
  expect_same(Memory::open(options().path), *line.memory());
}

TEST_F(LiveMemoryTest, WhoHoldsAMemorySeesItUnchanged) {
  LiveMemory line(options(), compute_);
  learn_all(line, 0, 9);
  const auto held = line.memory();
  const Memory as_it_was = held->copy();
  learn(line, 1, 100);                                // the other copy takes it
  std::thread learner([&] { learn(line, 2, 101); });  // and waits for the reader
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  expect_same(*held, as_it_was);
  const auto now = line.memory();
  EXPECT_NE(now.get(), held.get());
  const_cast<std::shared_ptr<const Memory>&>(held).reset();
  const_cast<std::shared_ptr<const Memory>&>(now).reset();
  learner.join();
}

// Scores seen while learning goes on are all of some whole memory, old or new.
TEST_F(LiveMemoryTest, ReadersSeeTheOldOrTheNewMemory) {
  const Image probe = picture(1, 55);
  std::set<float> allowed;
  const auto score = [&](const LiveMemory& line, Compute& compute) {
    const Patches patches = line.extractor().extract(probe, compute);
    const auto distances = line.memory()->distances(patches.vectors.view(), compute);
    return *std::max_element(distances.begin(), distances.end());
  };
  {
    LiveMemory line(options(), compute_);
    learn_all(line, 0, 3);
    allowed.insert(score(line, compute_));
    for (std::size_t i = 3; i < 25; ++i) {
      learn(line, i % 3, i);
      allowed.insert(score(line, compute_));
    }
  }
  for (const char* end : {"", ".journal"}) fs::remove(options().path + end);
  LiveMemory line(options(), compute_);
  learn_all(line, 0, 3);
  std::atomic<bool> stop = false;
  std::vector<std::set<float>> seen(2);
  std::vector<std::thread> readers;
  for (std::set<float>& mine : seen) {
    readers.emplace_back([&] {
      Compute alone(1);
      while (!stop) mine.insert(score(line, alone));
    });
  }
  learn_all(line, 3, 25);
  stop = true;
  for (std::thread& reader : readers) reader.join();
  for (const std::set<float>& mine : seen) {
    for (const float value : mine) EXPECT_EQ(allowed.count(value), 1u) << value;
  }
}

TEST_F(LiveMemoryTest, ABatchIsSavedOrHasNotHappened) {
  LiveMemory line(options(), compute_);
  learn_all(line, 0, 4);
  const Memory before = line.memory()->copy();
  const Patches patches = line.extractor().extract(picture(5, 0), compute_);
  const TrainingImage image{patches.vectors.rows(), patches.grid()};
  const TrainingSet batch{patches.vectors.view(), std::span(&image, 1)};
  EXPECT_THROW(line.learn_batch(batch, "new", compute_, [](double) { return false; }), Error);
  expect_same(*line.memory(), before);
  line.learn_batch(batch, "new", compute_, {});
  EXPECT_EQ(line.memory()->tasks().back().name, "new");
  EXPECT_EQ(line.unsaved(), 0u);
  expect_same(Memory::open(options().path), *line.memory());
}

TEST_F(LiveMemoryTest, ABatchIsLearnedThoughTheJournalCannotBeBegunAnew) {
  LiveMemory line(options(), compute_);
  const Patches patches = line.extractor().extract(picture(5, 0), compute_);
  const TrainingImage image{patches.vectors.rows(), patches.grid()};
  const TrainingSet batch{patches.vectors.view(), std::span(&image, 1)};
  const fs::path in_the_way = folder_ / ".line.ccm.journal.tmp";
  fs::create_directory(in_the_way);
  line.learn_batch(batch, "new", compute_, {});
  expect_same(Memory::open(options().path), *line.memory());
  // An image that could not be found again is not taken; as soon as it can be, it is.
  const Memory before = line.memory()->copy();
  EXPECT_THROW(learn(line, 1, 1), Error);
  expect_same(*line.memory(), before);
  fs::remove(in_the_way);
  learn(line, 1, 1);
  EXPECT_EQ(line.unsaved(), 1u);
}

TEST_F(LiveMemoryTest, IsForOneProcess) {
  const LiveMemory line(options(), compute_);
  EXPECT_THROW(LiveMemory(options(), compute_), Error);
}

// By whatever name it is served, it is one memory with one journal.
TEST_F(LiveMemoryTest, IsOneMemoryByAnyName) {
  LiveMemoryOptions by_link = options();
  by_link.path = (folder_ / "link.ccm").string();
  LiveMemoryOptions by_twin = options();
  by_twin.path = (folder_ / "twin.ccm").string();
  {
    LiveMemory line(options(), compute_);
    learn_all(line, 0, 2);
    fs::create_symlink("line.ccm", by_link.path);
    fs::create_hard_link(options().path, by_twin.path);
    EXPECT_THROW(LiveMemory(by_link, compute_), Error);
    EXPECT_THROW(LiveMemory(by_twin, compute_), Error);
    EXPECT_FALSE(fs::exists(by_twin.path + ".lock"));
    line.checkpoint(compute_);
    fs::remove(by_twin.path);
    fs::create_hard_link(options().path, by_twin.path);
    EXPECT_THROW(LiveMemory(by_twin, compute_), Error);  // what was saved since is held too
    learn_all(line, 2, 3);
  }
  fs::remove(by_twin.path);
  LiveMemory line(by_link, compute_);
  EXPECT_EQ(line.unsaved(), 1u);
  learn_all(line, 3, 4);
  line.checkpoint(compute_);
  EXPECT_TRUE(fs::is_symlink(by_link.path));
  expect_same(Memory::open(options().path), *line.memory());
  EXPECT_FALSE(fs::exists(by_link.path + ".journal"));
}

// A copy that somebody puts back under a running service is theirs, not ours to overwrite.
TEST_F(LiveMemoryTest, DoesNotOverwriteAMemoryThatWasPutBack) {
  const std::string copy = (folder_ / "copy.ccm").string();
  std::string bytes;
  {
    LiveMemory line(options(), compute_);
    learn_all(line, 0, 3);
    line.checkpoint(compute_);
    fs::copy_file(options().path, copy);
    learn_all(line, 3, 6);
    line.checkpoint(compute_);
    learn_all(line, 6, 8);
    fs::copy_file(copy, options().path, fs::copy_options::overwrite_existing);
    EXPECT_THROW(line.checkpoint(compute_), Error);
    EXPECT_THROW(learn(line, 1, 8), Error);  // nor is more promised
    EXPECT_EQ(line.unsaved(), 2u);
    EXPECT_EQ(Memory::open(options().path).tasks()[0].images, Memory::open(copy).tasks()[0].images);
  }
  // Nor is what was taught since lost in silence.
  EXPECT_THROW(LiveMemory(options(), compute_), Error);
  EXPECT_THROW(Detector::open(options().path), Error);
  const auto images_of = [](const Memory& memory) {
    std::size_t images = 0;
    for (const TaskRecord& task : memory.tasks()) images += task.images;
    return images;
  };
  // A person chooses: the copy without the journal, or what was served.
  fs::rename(options().path + ".journal", copy + ".journal");
  EXPECT_EQ(images_of(*LiveMemory(options(), compute_).memory()), 3u);
  fs::rename(copy + ".journal", options().path + ".journal");
  fs::rename(options().path + ".served", options().path);
  EXPECT_EQ(images_of(*LiveMemory(options(), compute_).memory()), 8u);
}

// Two journals may continue the same file: before a copy was put back, and after.
TEST_F(LiveMemoryTest, ACopyPutBackTwiceDropsNothing) {
  const std::string first = (folder_ / "first.ccm").string();
  const std::string second = (folder_ / "second.ccm").string();
  {
    LiveMemory line(options(), compute_);
    fs::copy_file(options().path, first);
    learn_all(line, 0, 3);
    line.checkpoint(compute_);
    fs::copy_file(options().path, second);
  }
  fs::copy_file(first, options().path, fs::copy_options::overwrite_existing);
  {
    LiveMemory line(options(), compute_);
    learn_all(line, 3, 6);  // acknowledged, as many as the other journal had
  }
  fs::copy_file(second, options().path, fs::copy_options::overwrite_existing);
  EXPECT_THROW(LiveMemory(options(), compute_), Error);
  EXPECT_THROW(Detector::open(options().path), Error);
  fs::copy_file(first, options().path, fs::copy_options::overwrite_existing);
  EXPECT_EQ(LiveMemory(options(), compute_).unsaved(), 3u);
}

TEST_F(LiveMemoryTest, ATouchedFileIsStillOurs) {
  LiveMemory line(options(), compute_);
  learn_all(line, 0, 1);
  fs::last_write_time(options().path, fs::file_time_type::clock::now() + std::chrono::hours(1));
  line.checkpoint(compute_);
  learn_all(line, 1, 2);
  fs::remove(options().path);  // there is nothing to spare
  line.checkpoint(compute_);
  expect_same(Memory::open(options().path), *line.memory());
}

TEST_F(LiveMemoryTest, ARemovedJournalIsNoticed) {
  LiveMemory line(options(), compute_);
  learn_all(line, 0, 2);
  fs::remove(options().path + ".journal");
  learn_all(line, 2, 3);  // saves, and begins another
  EXPECT_EQ(line.unsaved(), 1u);
  std::size_t images = 0;
  for (const TaskRecord& task : Memory::open(options().path).tasks()) images += task.images;
  EXPECT_EQ(images, 2u);
}

TEST_F(LiveMemoryTest, ThresholdsSetByHandAreInTheMemory) {
  {
    LiveMemory line(options(), compute_);
    learn_all(line, 0, 1);
    Lesson lesson;
    lesson.task = "product 0";
    lesson.threshold = SetThreshold{4.5F, {}};
    line.take(lesson, {}, compute_);
    EXPECT_EQ(line.memory()->threshold(0, 0.05)->score, 4.5F);
    lesson.task = "nobody";
    EXPECT_THROW(line.take(lesson, {}, compute_), Error);
    EXPECT_EQ(line.unsaved(), 2u);
  }
  EXPECT_EQ(Detector::open(options().path).memory().threshold(0, 0.05)->score, 4.5F);
  LiveMemory line(options(), compute_);
  EXPECT_TRUE(line.memory()->threshold(0, 0.05)->by_hand);
  line.checkpoint(compute_);
  EXPECT_EQ(Memory::open(options().path).threshold(0, 0.05)->score, 4.5F);
  Lesson none;
  none.task = "product 0";
  none.threshold = SetThreshold{};
  line.take(none, {}, compute_);
  EXPECT_FALSE(line.memory()->threshold(0, 0.05).has_value());
}

// What was called good was a false alarm: it is learned, and never a yardstick.
TEST_F(LiveMemoryTest, WhatWasCalledGoodIsLearnedEveryTime) {
  std::vector<std::int64_t> ids;
  {
    LiveMemory line(options(), compute_);
    for (std::size_t i = 0; i < 12; ++i) {
      const std::vector<std::uint8_t> bytes = encode_png(picture(1, i));
      const Patches patches = line.extractor().extract(picture(1, i), compute_);
      Lesson lesson;
      lesson.task = "one";
      lesson.image = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
      lesson.calibrates = false;
      lesson.inspection = static_cast<std::int64_t>(100 + i);
      ids.push_back(lesson.inspection);
      line.take(lesson, patches, compute_);
    }
    EXPECT_EQ(line.memory()->tasks()[0].images, 12u);
    EXPECT_EQ(line.memory()->states()[0].calibrated, 0u);
  }
  const LiveMemory line(options(), compute_);
  EXPECT_EQ(line.memory()->tasks()[0].images, 12u);
  std::vector<std::int64_t> replayed;
  for (const auto& [id, time] : line.good()) replayed.push_back(id);
  EXPECT_EQ(replayed, ids);
}

// Only a service has the store that follows from the journal: what an offline command took up, it
// is still told of.
TEST_F(LiveMemoryTest, WhatOthersTookUpIsStillTold) {
  {
    LiveMemory line(options(), compute_);
    const std::vector<std::uint8_t> bytes = encode_png(picture(1, 1));
    const Patches patches = line.extractor().extract(picture(1, 1), compute_);
    Lesson lesson;
    lesson.task = "one";
    lesson.image = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    lesson.inspection = 77;
    line.take(lesson, patches, compute_);
  }
  for (int i = 0; i < 2; ++i) Detector::open(options().path).save(options().path);
  {
    LiveMemory line(options(), compute_);
    EXPECT_EQ(line.unsaved(), 0u);
    ASSERT_EQ(line.good().size(), 1u);
    EXPECT_EQ(line.good()[0].first, 77);
    learn_all(line, 0, 1);
  }
  LiveMemory line(options(), compute_);  // and again, until the journal is begun anew
  EXPECT_EQ(line.unsaved(), 1u);
  EXPECT_EQ(line.good().size(), 1u);
  line.checkpoint(compute_);
  EXPECT_EQ(line.memory()->tasks()[0].images, 1u);
}

// Also when there is nothing to save.
TEST_F(LiveMemoryTest, AtTheEndTheFileIsThere) {
  LiveMemory line(options(), compute_);
  learn_all(line, 0, 2);
  line.checkpoint(compute_);
  fs::remove(options().path);
  line.checkpoint(compute_);
  expect_same(Memory::open(options().path), *line.memory());
  fs::remove(options().path);
  std::ofstream(options().path) << "another's";
  EXPECT_THROW(line.checkpoint(compute_), Error);
  expect_same(Memory::open(options().path + ".served"), *line.memory());
}

// Whatever becomes of an update, the two copies stay alike.
TEST_F(LiveMemoryTest, AFailedUpdateIsInNeitherCopy) {
  LiveMemory line(options(), compute_);
  learn_all(line, 0, 3);
  Patches strange;
  strange.vectors = Vectors(4, 3);  // of another dimension: found out when it is learned
  const std::vector<std::uint8_t> bytes = encode_png(picture(0, 0));
  Lesson lesson;
  lesson.task = "product 0";
  lesson.image = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  for (std::size_t i = 3; i < 7; ++i) {
    EXPECT_THROW(line.take(lesson, strange, compute_), Error);
    learn_all(line, i, i + 1);
    std::size_t images = 0;
    for (const TaskRecord& task : line.memory()->tasks()) images += task.images;
    EXPECT_EQ(images, i + 1);
  }
}

TEST_F(LiveMemoryTest, TheJournalStaysUntilWhatFollowsFromItIsWritten) {
  LiveMemory line(options(), compute_);
  learn_all(line, 0, 2);
  line.before_checkpoint([] { throw Error(Error::Kind::kInput, "the store is full"); });
  EXPECT_THROW(line.checkpoint(compute_), Error);
  EXPECT_EQ(line.unsaved(), 2u);
  line.before_checkpoint({});
  line.checkpoint(compute_);
  EXPECT_EQ(line.unsaved(), 0u);
}

// Serve, learn, crash, learn offline, serve again: everything that was acknowledged is there.
TEST_F(LiveMemoryTest, OtherCommandsTakeTheJournalUp) {
  {
    LiveMemory line(options(), compute_);
    learn_all(line, 0, 10);
  }
  const std::string more = (folder_ / "more.png").string();
  write_image(more, picture(4, 1));
  {
    std::size_t lessons = 0;
    Detector detector = Detector::open(options().path, "", &lessons);
    EXPECT_EQ(lessons, 10u);
    LearnOptions how;
    how.task = "offline";
    detector.learn({more}, how, compute_);
    detector.save(options().path);
  }
  {
    std::size_t lessons = 1;
    Detector::open(options().path, "", &lessons);
    EXPECT_EQ(lessons, 0u);  // they are in the file, which says so
  }
  const LiveMemory line(options(), compute_);
  EXPECT_EQ(line.unsaved(), 0u);
  std::size_t images = 0;
  for (std::size_t t = 0; t < line.memory()->tasks().size(); ++t) {
    images += line.memory()->tasks()[t].images;
  }
  EXPECT_EQ(images, 11u);
}

}  // namespace
}  // namespace contcore
