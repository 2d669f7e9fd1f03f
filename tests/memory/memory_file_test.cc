#include "memory/memory_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "contcore/error.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

class MemoryFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("contcore_memory_file_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    path_ = (folder_ / "line.ccm").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Memory of(float value) {
    Memory memory(2, 4);
    const std::vector<float> rows = {value, 0, 0, value};
    LearnHow how;
    how.task = "t";
    how.p = 1;
    Compute compute(1);
    memory.learn({rows.data(), 2, 2}, how, compute);
    return memory;
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(MemoryFileTest, IsHeldFromOpeningToTheEnd) {
  {
    MemoryFile file(path_);
    EXPECT_FALSE(file.exists());
    EXPECT_THROW(MemoryFile{path_}, Error);  // also while there is no file yet
    file.save(of(1), std::nullopt);
    EXPECT_TRUE(file.exists());
    EXPECT_THROW(MemoryFile{path_}, Error);
    file.save(of(2), std::nullopt);  // saving does not let go of it
    EXPECT_THROW(MemoryFile{path_}, Error);
    EXPECT_EQ(open_saved(path_).memory.size(), 2u);  // reading needs no lock
  }
  MemoryFile file(path_);
  EXPECT_EQ(file.open().vectors().row(0)[0], 2);
}

TEST_F(MemoryFileTest, NoticesAFileThatSomebodyPutInItsPlace) {
  MemoryFile file(path_);
  file.save(of(1), std::nullopt);
  EXPECT_FALSE(file.is_replaced());
  const std::string copy = (folder_ / "copy").string();
  fs::copy_file(path_, copy);
  fs::rename(copy, path_);
  EXPECT_FALSE(file.is_replaced());  // the same bytes under another inode
  of(3).save(path_);
  EXPECT_TRUE(file.is_replaced());
  fs::remove(path_);
  EXPECT_FALSE(file.is_replaced());
  EXPECT_FALSE(file.exists());
}

// Writing takes a while; whoever moves a file there meanwhile finds it there afterwards.
TEST_F(MemoryFileTest, DoesNotOverwriteWhatCameWhileItWasBeingWritten) {
  const std::string other = (folder_ / "other").string();
  for (const bool is_new : {true, false}) {
    fs::remove(path_);
    MemoryFile file(path_);
    if (!is_new) file.save(of(1), std::nullopt);
    const auto put_another = [&](const std::string&) {
      of(3).save(other);
      fs::rename(other, path_);
    };
    EXPECT_THROW(file.save(of(2), std::nullopt, put_another), Error);
    EXPECT_EQ(open_saved(path_).memory.vectors().row(0)[0], 3);
    EXPECT_TRUE(file.is_replaced());  // it is not taken for ours
    EXPECT_FALSE(file.is_ahead());
  }
}

TEST_F(MemoryFileTest, ANewMemoryIsNotGivenTheJournalOfOneThatIsGone) {
  {
    MemoryFile file(path_);
    file.save(of(1), std::nullopt);
    Journal::Opened opened = Journal::open(journal_of(path_), file.parent());
    opened.journal->append("a lesson");
  }
  fs::remove(path_);
  EXPECT_THROW(MemoryFile{path_}, Error);
  EXPECT_TRUE(fs::exists(journal_of(path_)));
}

TEST_F(MemoryFileTest, TheMarkGoesIntoTheFile) {
  JournalMark mark;
  {
    MemoryFile file(path_);
    file.save(of(1), std::nullopt);
    Journal::Opened opened = Journal::open(journal_of(path_), file.parent());
    opened.journal->append("a lesson");
    mark = opened.journal->mark();
    file.save(of(2), mark);
  }
  MemoryFile file(path_);
  file.open();
  ASSERT_TRUE(file.applied().has_value());
  EXPECT_EQ(file.applied()->text(), mark.text());
  EXPECT_TRUE(open_saved(path_).records.empty());
}

}  // namespace
}  // namespace contcore
