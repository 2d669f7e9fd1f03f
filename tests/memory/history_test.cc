// The list of lessons beside a memory: what is kept, what is let go, what a damaged one does.
#include "memory/history.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "contcore/error.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

std::vector<std::uint8_t> image(std::size_t bytes, std::uint8_t value) {
  return std::vector<std::uint8_t>(bytes, value);
}

class HistoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "contcore_history_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    memory_ = (folder_ / "line.ccm").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A memory of so many vectors, each another.
  static Memory memory(std::size_t vectors) {
    Memory made(4, 1000);
    Vectors rows(vectors, 4);
    for (std::size_t i = 0; i < vectors; ++i) rows.data()[4 * i] = static_cast<float>(i + 1);
    LearnHow how;
    how.task = "a";
    how.p = 1;
    how.time = "2031-05-04T03:02:01Z";
    Compute compute(1);
    made.learn(rows.view(), how, compute);
    return made;
  }

  static LessonEntry lesson(std::uint64_t images = 1) {
    LessonEntry entry;
    entry.kind = "online";
    entry.task = "a";
    entry.time = "2031-05-04T03:02:01Z";
    entry.images = images;
    entry.head = "{}";
    return entry;
  }

  // Teaches one lesson of one image and saves; the memory has `n` vectors then.
  static void teach(History& history, MemoryFile& file, LessonSet& lessons, std::size_t n,
                    std::size_t bytes = 10) {
    auto images = history.new_images();
    images->append(image(bytes, 7));
    lessons.add(history.add(lesson(), std::move(images)));
    history.save(file, memory(n), std::nullopt, lessons);
  }

  std::size_t files(const std::string& ending) const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(memory_ + ".versions")) {
      count += entry.path().string().ends_with(ending) ? 1U : 0U;
    }
    return count;
  }

  fs::path folder_;
  std::string memory_;
};

TEST_F(HistoryTest, KnowsWhatTheFileHasWhenItIsOpenedAgain) {
  LessonSet lessons;
  {
    MemoryFile file(memory_);
    History history(memory_, {});
    for (std::size_t n = 1; n <= 3; ++n) teach(history, file, lessons, n);
  }
  Memory::Saved saved;
  const Memory now = Memory::open(memory_, &saved);
  History again(memory_, {});
  EXPECT_EQ(again.remark(), "");
  EXPECT_EQ(again.opened(saved.checksum, now).text(), "1-3");
  EXPECT_EQ(again.lessons().size(), 3U);
  EXPECT_EQ(again.next(), 4U);
  ASSERT_EQ(again.versions().size(), 2U);  // after one lesson, and after two
  EXPECT_EQ(again.versions()[0].lessons.text(), "1");
  EXPECT_EQ(Memory::open(again.file_of(again.versions()[1])).size(), 2U);
  LessonImagesReader reader(again.images_of(2));
  EXPECT_EQ(reader.next(), image(10, 7));
  EXPECT_FALSE(reader.next());
}

// The power goes when the list is written and the memory is not, or the other way round: the list
// knows both files.
TEST_F(HistoryTest, KnowsTheOldFileAndTheNewOne) {
  LessonSet lessons;
  MemoryFile file(memory_);
  History history(memory_, {});
  teach(history, file, lessons, 1);
  fs::copy_file(memory_, memory_ + ".old");
  teach(history, file, lessons, 2);
  for (const auto& [path, text] : {std::pair(memory_ + ".old", "1"), {memory_, "1-2"}}) {
    Memory::Saved saved;
    const Memory opened = Memory::open(path, &saved);
    EXPECT_EQ(History(memory_, {}).opened(saved.checksum, opened).text(), text);
  }
}

TEST_F(HistoryTest, AFileItDoesNotKnowIsALessonItself) {
  LessonSet lessons;
  {
    MemoryFile file(memory_);
    History history(memory_, {});
    teach(history, file, lessons, 1);
  }
  const std::string checksum = memory(5).save(memory_);  // by somebody else
  History history(memory_, {});
  const LessonSet found = history.opened(checksum, memory(5));
  EXPECT_EQ(found.text(), "2");
  ASSERT_NE(history.find(2), nullptr);
  EXPECT_TRUE(history.find(2)->is_found());
  EXPECT_FALSE(history.find(2)->can_be_repeated());
  EXPECT_FALSE(history.has(found, 1));
}

TEST_F(HistoryTest, KeepsAsManyVersionsAsItMayTheOldestAmongThem) {
  LessonSet lessons;
  MemoryFile file(memory_);
  History history(memory_, {4, std::size_t{1} << 20});
  for (std::size_t n = 1; n <= 30; ++n) teach(history, file, lessons, n);
  ASSERT_EQ(history.versions().size(), 4U);
  EXPECT_EQ(history.versions().front().lessons.text(), "1");
  EXPECT_EQ(history.versions().back().lessons.text(), "1-29");
  EXPECT_EQ(files(".ccm"), 4U);
  EXPECT_EQ(files(".images"), 30U);
}

TEST_F(HistoryTest, LetsGoOfTheOldestImagesWhereTheyAreTooMany) {
  LessonSet lessons;
  MemoryFile file(memory_);
  History history(memory_, {1, 20000});
  for (std::size_t n = 1; n <= 10; ++n) teach(history, file, lessons, n, 4000);
  std::size_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(memory_ + ".versions")) {
    const std::string name = entry.path().filename().string();
    if (name != "lessons.json") bytes += fs::file_size(entry.path());
  }
  EXPECT_LE(bytes, 20000U);
  EXPECT_FALSE(history.find(1)->can_be_repeated());
  EXPECT_TRUE(history.find(10)->can_be_repeated());
  // One that is too large alone is not kept, nor is it in anybody's way.
  teach(history, file, lessons, 11, 30000);
  EXPECT_FALSE(history.find(11)->can_be_repeated());
  EXPECT_TRUE(history.find(10)->can_be_repeated());
}

TEST_F(HistoryTest, WithoutVersionsNothingIsWritten) {
  MemoryFile file(memory_);
  History history(memory_, {0, 1000});
  EXPECT_EQ(history.new_images(), nullptr);
  history.save(file, memory(1), std::nullopt, {});
  EXPECT_FALSE(fs::exists(memory_ + ".versions"));
}

TEST_F(HistoryTest, ADamagedListBeginsAnewAndNothingElseIsLost) {
  LessonSet lessons;
  {
    MemoryFile file(memory_);
    History history(memory_, {});
    for (std::size_t n = 1; n <= 3; ++n) teach(history, file, lessons, n);
  }
  const std::string path = memory_ + ".versions/lessons.json";
  std::ifstream in(path);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  std::size_t anew = 0;
  for (std::size_t at = 0; at < whole.size(); at += 3) {
    for (const std::string& text :
         {whole.substr(0, at), whole.substr(0, at) + '\xff' + whole.substr(at + 1)}) {
      std::ofstream(path) << text;
      const History history(memory_, {});  // must not throw
      anew += history.remark().empty() ? 0U : 1U;
    }
  }
  EXPECT_GT(anew, whole.size() / 4);
  for (
      const char* hostile :
      {"[]", "{}", R"({"format":"contcore lessons 1"})",
       R"({"format":"contcore lessons 1","next":1,"next_version":1,"memory":[],"lessons":[1],"versions":[]})",
       R"({"format":"contcore lessons 1","next":-1,"next_version":1,"memory":[],"lessons":[],"versions":[]})",
       R"({"format":"contcore lessons 1","next":1,"next_version":1,"memory":[{"id":0,"sha256":"x","time":"","tasks":1,"vectors":1,"bytes":1,"lessons":"1-99999999999999999"}],"lessons":[],"versions":[]})"}) {
    std::ofstream(path) << hostile;
    EXPECT_NE(History(memory_, {}).remark(), "") << hostile;
  }
  // The memory goes on being taught, and what was kept is not thrown away.
  std::ofstream(path) << "{";
  MemoryFile file(memory_);
  History history(memory_, {});
  const Memory now = file.open();
  LessonSet again = history.opened(file.checksum(), now);
  teach(history, file, again, 4);
  EXPECT_EQ(History(memory_, {}).remark(), "");
  EXPECT_TRUE(fs::exists(memory_ + ".versions.damaged/1.ccm"));
  EXPECT_TRUE(fs::exists(memory_ + ".versions.damaged/lessons.json"));
  std::ofstream(path) << "{";
  History once_more(memory_, {});
  again = once_more.opened(file.checksum(), now);
  teach(once_more, file, again, 5);
  EXPECT_TRUE(fs::exists(memory_ + ".versions.damaged-2/1.ccm"));
}

// What cannot be read now may be readable tomorrow, or by another version: it is not begun anew.
TEST_F(HistoryTest, AListThatCannotBeReadIsLeftAlone) {
  LessonSet lessons;
  {
    MemoryFile file(memory_);
    History history(memory_, {});
    teach(history, file, lessons, 1);
  }
  const std::string path = memory_ + ".versions/lessons.json";
  std::ofstream(path) << R"({"format":"contcore lessons 9"})";
  EXPECT_THROW(History(memory_, {}), Error);
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_THROW(History(memory_, {}), Error);
  HistoryLimits without;
  without.versions = 0;
  EXPECT_NO_THROW(History(memory_, without));
}

// A command that was told nothing keeps what the one before was told to.
TEST_F(HistoryTest, KeepsAsMuchAsItWasToldLast) {
  LessonSet lessons;
  HistoryLimits said{5, std::size_t{1} << 20};
  HistoryLimits nothing;
  nothing.by_default = true;
  nothing.versions = 2;
  for (std::size_t n = 1; n <= 8; ++n) {
    MemoryFile file(memory_);
    History history(memory_, n == 1 ? said : nothing);
    if (n > 1) {
      const Memory now = file.open();
      lessons = history.opened(file.checksum(), now);
    }
    teach(history, file, lessons, n);
  }
  EXPECT_EQ(History(memory_, {}).versions().size(), 5U);
}

TEST_F(HistoryTest, SomeImagesCanBeLeftOutAgain) {
  MemoryFile file(memory_);
  History history(memory_, {});
  auto images = history.new_images();
  for (std::uint8_t i = 0; i < 5; ++i) images->append(image(20U * i, i));
  images->leave_out({true, false, false, true, false});
  images->append(image(3, 9));
  history.add(lesson(4), std::move(images));
  LessonImagesReader reader(history.images_of(1));
  for (const int i : {1, 2, 4}) {
    const auto value = static_cast<std::uint8_t>(i);
    EXPECT_EQ(reader.next(), image(std::size_t{20} * value, value));
  }
  EXPECT_EQ(reader.next(), image(3, 9));
  EXPECT_FALSE(reader.next());
}

TEST_F(HistoryTest, ImagesThatWereAlteredAreNotRead) {
  LessonSet lessons;
  MemoryFile file(memory_);
  History history(memory_, {});
  auto images = history.new_images();
  for (std::uint8_t i = 0; i < 3; ++i) images->append(image(20, i));
  history.add(lesson(3), std::move(images));
  const std::string path = history.images_of(1);
  std::ifstream in(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const auto read_all = [&] {
    std::size_t count = 0;
    LessonImagesReader reader(path);
    while (reader.next()) ++count;
    return count;
  };
  EXPECT_EQ(read_all(), 3U);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string other = whole;
    other[at] = static_cast<char>(other[at] ^ 0x41);
    std::ofstream(path, std::ios::binary) << other;
    EXPECT_THROW(read_all(), Error) << at;
    std::ofstream(path, std::ios::binary) << whole.substr(0, at);
    const bool at_an_end = at == 8 || at == 36 || at == 64;  // fewer images, all of them whole
    if (at_an_end) continue;
    EXPECT_THROW(read_all(), Error) << at;
  }
}

}  // namespace
}  // namespace contcore
