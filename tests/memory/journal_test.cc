#include "memory/journal.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <string>

#include "base/crc32c.h"
#include "base/file_system.h"
#include "contcore/error.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

using Records = std::vector<std::string>;

constexpr std::size_t kHeader = 40;
constexpr std::size_t kRecordHeader = 24;

JournalParent parent_of(std::uint8_t seed) {
  JournalParent parent;
  for (std::size_t i = 0; i < parent.size(); ++i)
    parent[i] = static_cast<std::uint8_t>(seed + 7 * i);
  return parent;
}
const JournalParent kParent = parent_of(1);
const JournalParent kOther = parent_of(2);

// A disk whose flushes cost nothing, and that can fail: after so many bytes, for good after so many
// operations, or in one kind of operation.
class TestDisk : public FileSystem {
 public:
  std::size_t room = SIZE_MAX;        // bytes until it is full
  std::size_t operations = SIZE_MAX;  // until the power goes
  int sync_error = 0;
  int truncate_error = 0;
  std::size_t done = 0;

  void reset() {
    room = operations = SIZE_MAX;
    sync_error = truncate_error = 0;
    done = 0;
  }
  ssize_t write(int fd, const void* data, std::size_t bytes, off_t at) override {
    if (!powered()) return fails(EIO);
    const std::size_t taken = std::min(bytes, room);
    if (taken == 0 && bytes > 0) return fails(ENOSPC);
    room -= taken;
    return FileSystem::write(fd, data, taken, at);
  }
  int sync(int fd) override {
    if (!powered()) return fails(EIO);
    if (sync_error != 0) return fails(sync_error);
    return fd >= 0 ? 0 : fails(EBADF);
  }
  int truncate(int fd, off_t bytes) override {
    if (!powered()) return fails(EIO);
    return truncate_error != 0 ? fails(truncate_error) : FileSystem::truncate(fd, bytes);
  }
  int rename(const char* from, const char* to) override {
    return powered() ? FileSystem::rename(from, to) : fails(EIO);
  }

 private:
  bool powered() { return done++ < operations; }
  static int fails(int error) {
    errno = error;
    return -1;
  }
};

class JournalTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "contcore_journal_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = (folder_ / "line.ccm.journal").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  Journal::Opened open(const JournalParent& parent = kParent, const JournalLimits& limits = {}) {
    return Journal::open(path_, parent, applied_, limits);
  }
  std::string content() const { return content(path_); }
  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& bytes) const {
    fs::remove(path_);  // some file systems flush a file that is cut to nothing and written again
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  // What opening says of these bytes; the file must be left alone if it is refused.
  std::string refusal(const std::string& bytes, Error::Kind kind,
                      const JournalParent& parent = kParent, const JournalLimits& limits = {}) {
    put(bytes);
    try {
      open(parent, limits);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << error.what();
      EXPECT_EQ(content(), bytes);
      return error.what();
    }
    return "taken";
  }

  fs::path folder_;
  std::string path_;
  std::optional<JournalMark> applied_;  // what the memory has in it already
  TestDisk disk_;
  UseFileSystem use_{disk_};
};

// Payloads of many lengths whose last byte is not zero, some alone and some in groups.
struct Sample {
  Records records;
  std::vector<std::size_t> ends;        // of each record, in the file
  std::vector<std::size_t> write_ends;  // of each write
  std::string bytes;
};

Records texts(const std::vector<std::span<const std::uint8_t>>& records) {
  Records texts;
  for (const auto& record : records) texts.emplace_back(record.begin(), record.end());
  return texts;
}

class JournalSampleTest : public JournalTest {
 protected:
  void SetUp() override {
    JournalTest::SetUp();
    std::mt19937 random(5);
    Journal::Opened opened = open();
    std::size_t end = kHeader;
    for (const std::size_t group : {1u, 1u, 3u, 1u, 4u, 1u}) {
      Records payloads;
      for (std::size_t i = 0; i < group; ++i) {
        std::string payload(random() % 40, '\0');
        for (char& c : payload) c = static_cast<char>(random());
        payloads.push_back(payload + "!");
        end += kRecordHeader + payloads.back().size();
        sample_.ends.push_back(end);
      }
      const std::vector<std::string_view> views(payloads.begin(), payloads.end());
      opened.journal->append_many(views);
      sample_.write_ends.push_back(end);
      sample_.records.insert(sample_.records.end(), payloads.begin(), payloads.end());
      EXPECT_EQ(opened.journal->bytes(), end);
    }
    EXPECT_EQ(opened.journal->records(), sample_.records.size());
    opened.journal.reset();
    sample_.bytes = content();
    ASSERT_EQ(sample_.bytes.size(), end);
  }

  // Of a memory that has it all.
  JournalMark whole_mark() const { return read_journal(path_, kParent, {}).mark; }

  Records first(std::size_t n) const {
    return {sample_.records.begin(), sample_.records.begin() + static_cast<std::ptrdiff_t>(n)};
  }
  std::size_t ends_up_to(std::size_t bytes) const {
    return static_cast<std::size_t>(
        std::upper_bound(sample_.ends.begin(), sample_.ends.end(), bytes) - sample_.ends.begin());
  }

  Sample sample_;
};

TEST(Crc32c, IsTheOneOfTheStandard) {
  const std::string digits = "123456789";
  const std::vector<std::uint8_t> bytes(digits.begin(), digits.end());
  EXPECT_EQ(crc32c(0, bytes), 0xE3069283u);
  EXPECT_EQ(crc32c(0, std::vector<std::uint8_t>(32, 0)), 0x8A9136AAu);
  // In two parts, at every place and so at every alignment.
  std::vector<std::uint8_t> longer(61);
  std::iota(longer.begin(), longer.end(), std::uint8_t{200});
  const std::span<const std::uint8_t> all(longer);
  for (std::size_t i = 0; i <= all.size(); ++i) {
    EXPECT_EQ(crc32c(crc32c(0, all.first(i)), all.subspan(i)), crc32c(0, all));
  }
}

TEST(JournalParent, IsReadFromHexadecimal) {
  EXPECT_EQ(journal_parent(std::string(62, '0') + "fA")[31], 0xFA);
  for (const std::string& wrong : {std::string(), std::string(63, '0'), std::string(65, '0'),
                                   std::string(63, '0') + "g", std::string(64, '\0')}) {
    EXPECT_THROW(journal_parent(wrong), Error);
  }
}

TEST_F(JournalTest, GivesBackWhatItWasGiven) {
  const Records records = {"", "a", std::string("\0\0", 2), std::string(100000, 'x')};
  {
    const auto opened = open();
    EXPECT_TRUE(opened.records.empty());
    EXPECT_FALSE(opened.torn);
    for (const std::string& record : records) opened.journal->append(record);
  }
  const auto again = open();
  EXPECT_EQ(again.records, records);
  EXPECT_FALSE(again.torn);
  EXPECT_EQ(again.journal->records(), records.size());
  EXPECT_EQ(again.journal->bytes(), fs::file_size(path_));
}

TEST_F(JournalTest, WorksOnARealDisk) {
  Journal::open(path_, kParent).journal->append("kept");
  auto opened = Journal::open(path_, kParent);
  EXPECT_EQ(opened.records, Records{"kept"});
  opened.journal->restart(kOther);
  opened.journal->append("new");
  opened.journal.reset();
  EXPECT_EQ(Journal::open(path_, kOther).records, Records{"new"});
}

// The power goes: the file ends anywhere, and what had ended before must be there.
TEST_F(JournalSampleTest, CutAnywhereItKeepsWhatIsWhole) {
  const std::vector<std::uint8_t> original(sample_.bytes.begin(), sample_.bytes.end());
  for (std::size_t k = 0; k <= original.size(); ++k) {
    const std::size_t whole = ends_up_to(k);
    const std::size_t good = whole == 0 ? kHeader : sample_.ends[whole - 1];
    const JournalContent found = parse_journal(std::span(original).first(k), kParent, {}, "x");
    ASSERT_EQ(texts(found.records), first(whole)) << k;
    ASSERT_EQ(found.torn, k != good) << k;
    ASSERT_EQ(found.good_bytes, k < kHeader ? 0 : good) << k;
  }
}

// The same through the file, and it goes on from there.
TEST_F(JournalSampleTest, ATornEndIsCutOff) {
  for (std::size_t k = 0; k <= sample_.bytes.size(); k += 7) {
    put(sample_.bytes.substr(0, k));
    const std::size_t whole = ends_up_to(k);
    const std::size_t good = whole == 0 ? kHeader : sample_.ends[whole - 1];
    {
      const auto opened = open();
      ASSERT_EQ(opened.records, first(whole)) << k;
      ASSERT_EQ(opened.torn, k != good) << k;
      ASSERT_EQ(fs::file_size(path_), good) << k;
      opened.journal->append("after");
    }
    Records expected = first(whole);
    expected.emplace_back("after");
    const auto again = open();
    ASSERT_EQ(again.records, expected) << k;
    ASSERT_FALSE(again.torn) << k;
  }
}

// The file had grown, but the data did not reach the disk.
TEST_F(JournalSampleTest, ATailOfZerosIsTorn) {
  for (std::size_t k = kHeader; k < sample_.bytes.size(); ++k) {
    const auto end = sample_.bytes.begin() + static_cast<std::ptrdiff_t>(k);
    std::vector<std::uint8_t> bytes(sample_.bytes.begin(), end);
    bytes.resize(sample_.bytes.size() + 5000);
    const JournalContent found = parse_journal(bytes, kParent, {}, "x");
    ASSERT_EQ(texts(found.records), first(ends_up_to(k))) << k;
    ASSERT_TRUE(found.torn) << k;
  }
}

// Damage is told from a torn end: whatever byte changes, no wrong record comes back, and if it was
// not in the last write, nothing is silently left out either.
TEST_F(JournalSampleTest, AnyChangedByteIsFound) {
  const std::size_t last_write = sample_.write_ends[sample_.write_ends.size() - 2];
  const std::vector<std::uint8_t> original(sample_.bytes.begin(), sample_.bytes.end());
  for (std::size_t at = 0; at < original.size(); ++at) {
    for (const unsigned change : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 255u}) {
      std::vector<std::uint8_t> bytes = original;
      bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ change);
      try {
        const JournalContent found = parse_journal(bytes, kParent, {}, "x");
        ASSERT_GE(at, last_write);
        ASSERT_TRUE(found.torn);
        ASSERT_FALSE(found.stale);
        ASSERT_EQ(texts(found.records), first(ends_up_to(at)));
      } catch (const Error& error) {
        ASSERT_EQ(error.kind(), Error::Kind::kDamaged) << error.what();
        ASSERT_LT(at, last_write) << error.what();
      }
    }
  }
}

// The pages of one write reach the disk in any order. The first three records of the group of four
// may each be missing while the ones behind are there.
TEST_F(JournalSampleTest, AGroupTornInItsMiddleIsNoDamage) {
  const std::size_t group_end = sample_.write_ends[4];
  for (std::size_t missing = 6; missing < 10; ++missing) {
    std::string bytes = sample_.bytes.substr(0, group_end);
    const std::size_t begin = sample_.ends[missing - 1];
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
              bytes.begin() + static_cast<std::ptrdiff_t>(sample_.ends[missing]), '\0');
    put(bytes);
    const auto opened = open();
    EXPECT_EQ(opened.records, first(missing));
    EXPECT_TRUE(opened.torn);
  }
}

TEST_F(JournalSampleTest, AHoleBeforeALaterWriteIsDamageAndNothingIsDeleted) {
  for (std::size_t missing = 0; missing + 1 < sample_.records.size(); ++missing) {
    const std::size_t begin = missing == 0 ? kHeader : sample_.ends[missing - 1];
    std::string bytes = sample_.bytes;
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
              bytes.begin() + static_cast<std::ptrdiff_t>(sample_.ends[missing]), '\0');
    const std::string said = refusal(bytes, Error::Kind::kDamaged);
    EXPECT_NE(said.find("byte " + std::to_string(begin)), std::string::npos) << said;
  }
  // A part that is gone, so that what is behind it has moved.
  std::string shorter = sample_.bytes;
  shorter.erase(kHeader + 3, 5);
  EXPECT_NE(refusal(shorter, Error::Kind::kDamaged), "taken");
}

// Old blocks of the disk may come back in a torn tail: records that were right in another journal.
TEST_F(JournalSampleTest, RecordsOfAnotherJournalAreNotTaken) {
  const std::string strange = sample_.bytes.substr(kHeader);
  fs::remove(path_);
  open(kOther).journal.reset();
  put(content() + strange);
  const auto opened = open(kOther);
  EXPECT_TRUE(opened.records.empty());
  EXPECT_TRUE(opened.torn);
}

// What was acknowledged is never dropped in silence: only a person can say what is to become of it.
TEST_F(JournalSampleTest, AnotherMemorysJournalIsRefused) {
  EXPECT_NE(refusal(sample_.bytes, Error::Kind::kInput, kOther).find("another version"),
            std::string::npos);
  EXPECT_THROW(read_journal(path_, kOther, {}), Error);
  applied_ = whole_mark();
  applied_->parent = parent_of(3);
  EXPECT_NE(refusal(sample_.bytes, Error::Kind::kInput, kOther), "taken");
  // Another journal that continued the same file, with as many records or fewer.
  applied_ = whole_mark();
  ++applied_->last;
  EXPECT_NE(refusal(sample_.bytes, Error::Kind::kInput, kOther), "taken");
  applied_ = whole_mark();
  ++applied_->records;
  EXPECT_NE(refusal(sample_.bytes, Error::Kind::kInput, kOther), "taken");
  // Also when its first record cannot be read any more.
  applied_ = whole_mark();
  std::string bytes = sample_.bytes;
  bytes[kHeader + kRecordHeader] = static_cast<char>(~bytes[kHeader + kRecordHeader]);
  EXPECT_NE(refusal(bytes, Error::Kind::kInput, kOther), "taken");
}

TEST_F(JournalSampleTest, WhatTheMemoryHasIsNotTakenAgain) {
  applied_ = whole_mark();
  EXPECT_TRUE(read_journal(path_, kOther, applied_).records.empty());
  EXPECT_EQ(content(), sample_.bytes);
  {
    const auto opened = open(kOther);
    EXPECT_FALSE(opened.torn);
    EXPECT_EQ(opened.applied, sample_.records);  // whoever keeps what follows from them sees them
    EXPECT_TRUE(opened.records.empty());
    opened.journal->append("new");
  }
  EXPECT_EQ(open(kOther).records, Records{"new"});
  EXPECT_EQ(read_journal(path_, kOther, applied_).records, Records{"new"});
}

// The memory was saved, but the journal could not be begun anew and went on.
TEST_F(JournalSampleTest, WhatCameAfterIsTaken) {
  put(sample_.bytes.substr(0, sample_.ends[sample_.ends.size() - 3]));
  applied_ = read_journal(path_, kParent, {}).mark;
  put(sample_.bytes);
  const Records last(sample_.records.end() - 2, sample_.records.end());
  EXPECT_EQ(read_journal(path_, kOther, applied_).records, last);
  EXPECT_EQ(read_journal(path_, kOther, applied_).mark.records, sample_.records.size());
  {
    const auto opened = open(kOther);
    EXPECT_EQ(opened.applied.size(), sample_.records.size() - 2);
    EXPECT_EQ(opened.records, last);
    opened.journal->append("new");
    EXPECT_EQ(opened.journal->mark().records, sample_.records.size() + 1);
    EXPECT_EQ(opened.journal->mark().text(), read_journal(path_, kParent, {}).mark.text());
  }
  EXPECT_EQ(open(kOther).records, (Records{last[0], last[1], "new"}));
}

TEST_F(JournalSampleTest, IsLookedAtWithoutAChange) {
  const std::string torn = sample_.bytes + "torn";
  put(torn);
  const JournalRecords found = read_journal(path_, kParent, {});
  EXPECT_EQ(found.records, sample_.records);
  EXPECT_TRUE(found.torn);
  EXPECT_EQ(content(), torn);
  fs::remove(path_);
  EXPECT_TRUE(read_journal(path_, kParent, {}).records.empty());
}

TEST_F(JournalTest, AnotherMemorysEmptyJournalLeavesNothingBehind) {
  open(kParent).journal.reset();
  EXPECT_TRUE(open(kOther).records.empty());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(JournalTest, MarksAreWrittenAndRead) {
  const auto opened = open();
  opened.journal->append("one");
  const JournalMark mark = JournalMark::parse(opened.journal->mark().text());
  EXPECT_EQ(mark.parent, kParent);
  EXPECT_EQ(mark.records, 1u);
  EXPECT_EQ(mark.last, opened.journal->mark().last);
  EXPECT_NE(mark.last, 0u);
  const std::string digits(64, '0');
  for (const std::string& wrong :
       {std::string(), digits, digits + ":", digits + ":-1", digits + ":1 ", std::string("0:1:1"),
        digits + "0:1:1", digits + ":1", digits + ":1:", digits + ":1:4294967296",
        digits + ":1:1:"}) {
    EXPECT_THROW(JournalMark::parse(wrong), Error) << wrong;
  }
}

// Who removes the file has taken what was in it; what comes next must not follow it.
TEST_F(JournalTest, ARemovedOrReplacedFileTakesNoMore) {
  const auto opened = open();
  opened.journal->append("one");
  const std::string bytes = content();
  fs::remove(path_);
  EXPECT_TRUE(opened.journal->broken());
  EXPECT_THROW(opened.journal->append("into nothing"), Error);
  put(bytes);
  EXPECT_THROW(opened.journal->append("into nothing"), Error);
  opened.journal->restart(kOther);
  opened.journal->append("two");
  EXPECT_EQ(read_journal(path_, kOther, {}).records, Records{"two"});
}

TEST_F(JournalTest, IsReadByNobodyWhoMayNotReadTheMemory) {
  const std::string memory = (folder_ / "line.ccm").string();
  std::ofstream(memory) << "memory";
  ASSERT_EQ(::chmod(memory.c_str(), 0600), 0);
  open();
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(JournalTest, AFullDiskCostsOneRecordOnly) {
  const std::string payload(10, 'p');
  for (std::size_t room = 0; room <= 3 * (kRecordHeader + payload.size()); ++room) {
    fs::remove(path_);
    disk_.room = SIZE_MAX;
    Records kept;
    {
      const auto opened = open();
      disk_.room = room;
      for (int i = 0; i < 3; ++i) {
        const std::size_t before = opened.journal->bytes();
        try {
          opened.journal->append(payload);
          kept.push_back(payload);
        } catch (const Error& error) {
          ASSERT_EQ(error.kind(), Error::Kind::kInput);
          ASSERT_NE(std::string(error.what()).find("disk is full"), std::string::npos);
          ASSERT_EQ(fs::file_size(path_), before);
        }
      }
      disk_.room = SIZE_MAX;
      opened.journal->append("room again");
      kept.emplace_back("room again");
    }
    const auto again = open();
    ASSERT_EQ(again.records, kept) << room;
    ASSERT_FALSE(again.torn) << room;
  }
}

// Bytes run out and then nothing works any more, as when the power goes in the middle of a write.
TEST_F(JournalTest, WhatWasAcknowledgedSurvivesAPowerCutAtAnyByte) {
  const std::vector<std::string_view> group = {"one of three", "two of three", "three of three"};
  for (std::size_t room = 0; room <= 125; ++room) {
    fs::remove(path_);
    disk_.reset();
    std::size_t acknowledged = 0;
    Records all;
    {
      const auto opened = open();
      disk_.room = room;
      disk_.truncate_error = EIO;
      try {
        for (int i = 0; i < 2; ++i) {
          all.insert(all.end(), group.begin(), group.end());
          opened.journal->append_many(group);
          acknowledged += group.size();
        }
      } catch (const Error&) {
        ASSERT_TRUE(opened.journal->broken());
        disk_.room = SIZE_MAX;
        disk_.truncate_error = 0;
        ASSERT_THROW(opened.journal->append("late"), Error);
      }
    }
    disk_.reset();
    const auto again = open();
    ASSERT_GE(again.records.size(), acknowledged) << room;
    ASSERT_LE(again.records.size(), all.size()) << room;
    all.resize(again.records.size());
    ASSERT_EQ(again.records, all) << room;
  }
}

TEST_F(JournalTest, AfterAFailedFlushNothingIsPromised) {
  const auto opened = open();
  opened.journal->append("good");
  disk_.sync_error = EIO;
  EXPECT_THROW(opened.journal->append("bad"), Error);
  disk_.sync_error = 0;
  EXPECT_TRUE(opened.journal->broken());
  EXPECT_THROW(opened.journal->append("refused"), Error);
  opened.journal->restart(kOther);
  EXPECT_FALSE(opened.journal->broken());
  opened.journal->append("after");
}

// The memory has been saved; the power goes at any operation of restart().
TEST_F(JournalTest, RestartIsAtomic) {
  bool finished = false;
  for (std::size_t operations = 0; !finished; ++operations) {
    ASSERT_LT(operations, 20u);
    fs::remove(path_);
    disk_.reset();
    {
      const auto opened = open(kParent);
      opened.journal->append("folded in");
      applied_ = opened.journal->mark();
      disk_.done = 0;
      disk_.operations = operations;
      try {
        opened.journal->restart(kOther);
        finished = true;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), Error::Kind::kInput);
        // What is taken now would be thought stale.
        disk_.operations = SIZE_MAX;
        EXPECT_THROW(opened.journal->append("lost"), Error);
      }
    }
    disk_.reset();
    const auto again = open(kOther);
    EXPECT_TRUE(again.records.empty());
    again.journal->restart(kOther);
    again.journal->append("next");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2);
  }
  EXPECT_EQ(open(kOther).records, Records{"next"});
}

TEST_F(JournalTest, WithoutASaveTheRecordsAreStillThereAfterACutInRestart) {
  for (std::size_t operations = 0; operations < 4;
       ++operations) {  // truncate, write, flush, rename
    fs::remove(path_);
    disk_.reset();
    {
      const auto opened = open(kParent);
      opened.journal->append("needed");
      disk_.done = 0;
      disk_.operations = operations;
      EXPECT_THROW(opened.journal->restart(kOther), Error);
    }
    disk_.reset();
    EXPECT_EQ(open(kParent).records, Records{"needed"});
  }
}

TEST_F(JournalTest, ASecondWriterIsKeptOutAndToldWhoHasIt) {
  auto opened = open();
  opened.journal->restart(kOther);  // another file has the name now
  try {
    open(kOther);
    ADD_FAILURE() << "two write the same journal";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput);
    EXPECT_NE(std::string(error.what()).find("another process"), std::string::npos);
  }
  opened.journal.reset();
  EXPECT_FALSE(fs::exists(path_ + ".lock"));
  open(kOther);
}

TEST_F(JournalTest, KeepsToItsLimits) {
  const JournalLimits limits{100, kHeader + 2 * (kRecordHeader + 100)};
  {
    const auto opened = open(kParent, limits);
    EXPECT_THROW(opened.journal->append(std::string(101, 'x')), Error);
    const std::string most(100, 'x');
    const std::vector<std::string_view> three(3, most);
    EXPECT_THROW(opened.journal->append_many(three), Error);
    EXPECT_EQ(opened.journal->records(), 0u);
    opened.journal->append(most);
    opened.journal->append(most);
    EXPECT_THROW(opened.journal->append(""), Error);
    EXPECT_FALSE(opened.journal->broken());
  }
  const std::string bytes = content();
  // Tighter limits than when it was written are no reason to lose anything.
  EXPECT_NE(refusal(bytes, Error::Kind::kInput, kParent, {99, 1000}).find("raise the limit"),
            std::string::npos);
  EXPECT_NE(refusal(bytes, Error::Kind::kInput, kParent, {100, 200}).find("raise the limit"),
            std::string::npos);
  fs::resize_file(path_, std::uintmax_t{1} << 40);  // must cost nothing
  EXPECT_THROW(open(kParent, limits), Error);
}

TEST_F(JournalTest, LeavesFilesAloneThatAreNotJournals) {
  EXPECT_NE(refusal("{}", Error::Kind::kDamaged), "taken");
  EXPECT_NE(refusal(std::string(30, '\0'), Error::Kind::kDamaged), "taken");
  EXPECT_NE(refusal(std::string(5000, '\0'), Error::Kind::kDamaged), "taken");
  fs::remove(path_);
  fs::create_directory(path_);
  EXPECT_THROW(open(), Error);
  fs::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THROW(open(), Error);
  fs::remove(path_);
  fs::create_symlink("elsewhere", path_);
  EXPECT_THROW(open(), Error);
  EXPECT_THROW(Journal::open("/nowhere/at/all/journal", kParent), Error);
}

// A file made up of what look like headers of long records asks for a checksum at every one.
TEST_F(JournalSampleTest, BytesThatLookLikeHeadersEndTheSearch) {
  std::vector<std::uint8_t> bytes(sample_.bytes.begin(), sample_.bytes.begin() + kHeader);
  bytes.resize(std::size_t{1} << 20);
  std::uint64_t sequence = 0;
  for (std::size_t at = kHeader; at + kRecordHeader < bytes.size(); at += kRecordHeader) {
    const auto length = static_cast<std::uint32_t>(bytes.size() - at - kRecordHeader);
    ++sequence;
    for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::uint8_t>(length >> 8 * i);
    for (std::size_t i = 0; i < 8; ++i) {
      bytes[at + 8 + i] = bytes[at + 16 + i] = static_cast<std::uint8_t>(sequence >> 8 * i);
    }
  }
  EXPECT_THROW(parse_journal(bytes, kParent, {}, "x"), Error);
}

TEST_F(JournalSampleTest, AnyBytesGiveAnAnswer) {
  std::mt19937 random(11);
  const std::vector<std::uint8_t> original(sample_.bytes.begin(), sample_.bytes.end());
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::uint8_t> bytes = original;
    for (unsigned change = random() % 4; change-- > 0;) {
      const std::size_t from = random() % bytes.size();
      const std::size_t count = std::min<std::size_t>(random() % 64, bytes.size() - from);
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(from);
      const auto end = begin + static_cast<std::ptrdiff_t>(count);
      switch (random() % 4) {
        case 0:
          bytes.erase(begin, end);
          break;
        case 1:
          std::generate(begin, end, [&] { return static_cast<std::uint8_t>(random()); });
          break;
        case 2:
          bytes.insert(begin, count, static_cast<std::uint8_t>(random()));
          break;
        default:
          std::fill(begin, end, std::uint8_t{0});
          break;
      }
      if (bytes.empty()) bytes.push_back(0);
    }
    try {
      const JournalContent found = parse_journal(bytes, kParent, {}, "x");
      ASSERT_LE(found.records.size(), sample_.records.size());
      if (!found.stale) {
        ASSERT_EQ(texts(found.records), first(found.records.size()));
      }
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), Error::Kind::kDamaged);
    }
  }
}

}  // namespace
}  // namespace contcore
