// Every single call that a save, a lesson, a checkpoint, an opening, an offline learn and a merge
// make to the file system is failed once, in several ways. What was acknowledged before is there
// afterwards, and no half file is ever opened.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/lock.h"
#include "contcore/error.h"
#include "contcore/image.h"
#include "detector/lessons.h"
#include "serve/live_memory.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

struct Fault {
  std::size_t at = SIZE_MAX;  // which call
  int error = EIO;
  bool for_good = false;  // and all that follow, as when the power goes
};

/// Counts calls and fails as it is told. A write that fails has written half of what it was given.
class FaultyFileSystem : public FileSystem {
 public:
  Fault fault;
  std::size_t calls = 0;

  int open(const char* path, int flags, mode_t mode) override {
    return fails() ? -1 : FileSystem::open(path, flags, mode);
  }
  ssize_t read(int fd, void* data, std::size_t bytes, off_t at) override {
    return fails() ? -1 : FileSystem::read(fd, data, bytes, at);
  }
  ssize_t write(int fd, const void* data, std::size_t bytes, off_t at) override {
    if (!fails()) return FileSystem::write(fd, data, bytes, at);
    static_cast<void>(FileSystem::write(fd, data, bytes / 2, at));
    errno = fault.error;
    return -1;
  }
  int sync(int fd) override { return fails() ? -1 : static_cast<int>(fd < 0); }
  int truncate(int fd, off_t bytes) override {
    return fails() ? -1 : FileSystem::truncate(fd, bytes);
  }
  int rename(const char* from, const char* to) override {
    return fails() ? -1 : FileSystem::rename(from, to);
  }
  int unlink(const char* path) override { return fails() ? -1 : FileSystem::unlink(path); }
  int link(const char* from, const char* to) override {
    return fails() ? -1 : FileSystem::link(from, to);
  }
  void* map(int fd, std::size_t bytes) override {
    return fails() ? MAP_FAILED : FileSystem::map(fd, bytes);
  }

 private:
  bool fails() {
    const std::size_t call = calls++;
    const bool now = call == fault.at || (fault.for_good && call > fault.at);
    if (now) errno = fault.error;
    return now;
  }
};

Image striped(std::size_t index) {
  Image image;
  image.width = image.height = 32;
  image.rgb.resize(32 * 32 * 3);
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    image.rgb[i] =
        static_cast<std::uint8_t>(120 + 60 * std::sin(0.1 * static_cast<double>(i * (index + 1))));
  }
  return image;
}

class FaultTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/dev/shm/contcore_fault_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      name = (fs::temp_directory_path() / "contcore_fault_XXXXXX").string();
      ASSERT_NE(::mkdtemp(name.data()), nullptr);
    }
    folder_ = name;
    memory_ = (folder_ / "line.ccm").string();
    for (std::size_t i = 0; i < 12; ++i) {
      images_.push_back(encode_png(striped(i)));
      files_.push_back((folder_ / (std::to_string(i) + ".png")).string());
      write_image(files_.back(), striped(i));
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  LiveMemoryOptions options() const {
    LiveMemoryOptions options;
    options.path = memory_;
    options.backbone = "builtin";
    options.settings.geometry = Geometry::parse("32", "none");
    options.settings.capacity = 30;
    options.settings.precision = precision_;
    return options;
  }

  void teach(LiveMemory& line, std::size_t image) {
    ++tried_;
    const Patches patches = line.extractor().extract(striped(image), compute_);
    Lesson lesson;
    lesson.task = "task " + std::to_string(image % 3);
    lesson.image = {reinterpret_cast<const char*>(images_[image].data()), images_[image].size()};
    line.take(lesson, patches, compute_);
  }

  static std::size_t images_in(const Memory& memory) {
    std::size_t images = 0;
    for (const TaskRecord& task : memory.tasks()) images += task.images;
    return images;
  }

  // A memory with seven images, some of them in its journal.
  void make_line(std::size_t in_journal) {
    const fs::path made = folder_ / ("made" + std::to_string(in_journal));
    const std::vector<std::string> names = {"line.ccm", "line.ccm.journal", "line.ccm.versions"};
    if (!fs::exists(made)) {
      for (const std::string& name : names) fs::remove_all(folder_ / name);
      {
        LiveMemory line(options(), compute_);
        for (std::size_t i = 0; i < 7 - in_journal; ++i) teach(line, i);
        line.checkpoint(compute_);
        for (std::size_t i = 7 - in_journal; i < 7; ++i) teach(line, i);
      }
      fs::create_directory(made);
      for (const std::string& name : names) {
        fs::copy(folder_ / name, made / name, fs::copy_options::recursive);
      }
    }
    for (const std::string& name : names) {
      fs::remove_all(folder_ / name);
      fs::copy(made / name, folder_ / name, fs::copy_options::recursive);
    }
  }

  // `act` counts up `acknowledged` whenever something has been promised. It begins with seven
  // images learned, and is run with each of its calls failed, until none is left to fail.
  void fail_everywhere(const char* what, const std::function<void(std::size_t&)>& act) {
    std::size_t places = 0;
    std::size_t refused = 0;
    for (const std::size_t in_journal : {3UL, 0UL})
      fail_all(what, in_journal, act, places, refused);
    std::cout << what << ": " << places << " faults placed, " << refused << " refused\n";
    EXPECT_GT(refused, 0u);
  }

  void fail_all(const char* what, std::size_t in_journal,
                const std::function<void(std::size_t&)>& act, std::size_t& places,
                std::size_t& refused) {
    for (const Fault kind : {Fault{0, EIO, false}, Fault{0, ENOSPC, false}, Fault{0, EIO, true},
                             Fault{0, ENOSPC, true}}) {
      for (std::size_t at = 0;; ++at) {
        ASSERT_LT(at, 2000u);
        make_line(in_journal);
        std::size_t acknowledged = 7;
        tried_ = 7;
        forgotten_ = 0;
        FaultyFileSystem faulty;
        faulty.fault = kind;
        faulty.fault.at = at;
        {
          const UseFileSystem use(faulty);
          try {
            act(acknowledged);
          } catch (const Error& error) {
            ASSERT_NE(error.kind(), Error::Kind::kDamaged) << error.what();
            ++refused;
          }
        }
        if (faulty.calls <= at) break;
        ++places;
        // No half file, and all that was promised.
        ASSERT_NO_THROW(Memory::open(memory_)) << what << ", call " << at;
        const std::size_t seen = images_in(Detector::open(memory_).memory());
        ASSERT_GE(seen + forgotten_, acknowledged)
            << what << ", call " << at << ", error " << kind.error;
        ASSERT_LE(seen, tried_) << what << ", call " << at << ": counted twice";
        ASSERT_EQ(images_in(*LiveMemory(options(), compute_).memory()), seen)
            << what << ", call " << at;
      }
    }
  }

  fs::path folder_;
  std::string memory_;
  std::vector<std::vector<std::uint8_t>> images_;
  std::vector<std::string> files_;
  std::size_t tried_ = 0;      // images learned if all that was tried went well
  std::size_t forgotten_ = 0;  // images that may have been taken back, without a promise
  Precision precision_ = Precision::kFloat;  // which needs no file of the cache
  Compute compute_{1};
};

TEST_F(FaultTest, Save) {
  fail_everywhere("save", [&](std::size_t&) {
    const FileLock lock(memory_);
    Detector::open(memory_).save(memory_);
  });
}

TEST_F(FaultTest, Lessons) {
  fail_everywhere("lessons", [&](std::size_t& acknowledged) {
    LiveMemory line(options(), compute_);
    for (std::size_t i = 7; i < 11; ++i) {
      try {
        teach(line, i);
        ++acknowledged;
      } catch (const Error&) {
        // The next may be taken again.
      }
    }
    if (acknowledged < 11) throw Error(Error::Kind::kInput, "some were refused");
  });
}

TEST_F(FaultTest, Checkpoint) {
  fail_everywhere("checkpoint", [&](std::size_t& acknowledged) {
    LiveMemory line(options(), compute_);
    try {
      line.checkpoint(compute_);
    } catch (const Error&) {
      // It goes on from what is in memory.
    }
    teach(line, 8);
    ++acknowledged;
    line.checkpoint(compute_);
  });
}

TEST_F(FaultTest, Batch) {
  fail_everywhere("batch", [&](std::size_t& acknowledged) {
    LiveMemory line(options(), compute_);
    const Patches patches = line.extractor().extract(striped(9), compute_);
    const TrainingImage image{patches.vectors.rows(), patches.grid()};
    const TrainingSet batch{patches.vectors.view(), std::span(&image, 1)};
    ++tried_;
    try {
      line.learn_batch(batch, "batch", compute_, {});
      ++acknowledged;
    } catch (const Error&) {
      line.checkpoint(compute_);  // as the service does before it goes on
    }
    teach(line, 10);
    ++acknowledged;
    if (acknowledged < 9) throw Error(Error::Kind::kInput, "the batch was refused");
  });
}

// Taken back, or refused; never half, and never another lesson than the one that was meant.
TEST_F(FaultTest, Forgetting) {
  fail_everywhere("forgetting", [&](std::size_t& acknowledged) {
    bool refused = false;
    {
      LiveMemory line(options(), compute_);
      forgotten_ = 1;
      try {
        line.forget({{2}, {}}, compute_);
        --acknowledged;
        --tried_;
        forgotten_ = 0;
      } catch (const Error&) {
        refused = true;
      }
    }
    if (!refused) {
      // What was acknowledged holds, whatever happens next.
      const LiveMemory again(options(), compute_);
      for (const TaughtLesson& lesson : again.lessons()) {
        EXPECT_EQ(lesson.taken, lesson.id != 2) << lesson.id;
      }
    }
    LiveMemory line(options(), compute_);
    teach(line, 8);
    ++acknowledged;
    if (refused) throw Error(Error::Kind::kInput, "it was refused");
  });
}

TEST_F(FaultTest, Restoring) {
  fail_everywhere("restoring", [&](std::size_t& acknowledged) {
    LiveMemory line(options(), compute_);
    line.checkpoint(compute_);  // so that there is a version
    teach(line, 8);
    ++acknowledged;
    const std::vector<MemoryVersion> versions = line.versions();
    if (versions.empty()) return;
    forgotten_ = acknowledged;  // at most all
    line.restore(versions.back().id, compute_);
  });
}

TEST_F(FaultTest, Opening) {
  precision_ = Precision::k8Bit;  // with the files of the cache
  fail_everywhere("opening", [&](std::size_t&) { const LiveMemory line(options(), compute_); });
}

TEST_F(FaultTest, LearningOffline) {
  fail_everywhere("learning offline", [&](std::size_t& acknowledged) {
    Detector detector = Detector::open_to_learn(memory_, [] { return DetectorOptions(); });
    LearnOptions how;
    how.task = "offline";
    how.strict = true;
    tried_ += 2;
    detector.learn({files_[10], files_[11]}, how, compute_);
    detector.save(memory_);
    acknowledged += 2;
  });
}

// Into one of the memories that are merged, as `contcore merge line.ccm line.ccm other.ccm` does.
TEST_F(FaultTest, Merge) {
  const std::string other = (folder_ / "other.ccm").string();
  {
    DetectorOptions settings = options().settings;
    settings.backbone = "builtin";
    Detector detector(settings);
    LearnOptions how;
    how.task = "other";
    detector.learn({files_[10]}, how, compute_);
    detector.save(other);
  }
  fail_everywhere("merge", [&](std::size_t& acknowledged) {
    const FileLock lock(memory_);
    const SavedMemory saved = open_saved(memory_);
    const Detector ours = Detector::open(memory_);
    const Memory merged = Memory::merge(ours.memory(), open_saved(other).memory, 30, compute_);
    ++tried_;
    merged.save(memory_, saved.applied->text());
    ++acknowledged;
  });
}

}  // namespace
}  // namespace contcore
