#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "contcore/error.h"

// What happens when a write fails half way is tested with what writes .npy files.
namespace contcore {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "contcore_file_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static std::string refusal(const std::string& file, std::size_t most = 100) {
    try {
      read_whole(file, "a picture", most);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
      EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
      return error.what();
    }
    return "taken";
  }

  fs::path folder_;
};

void write(const std::string& path, const std::vector<std::string>& parts) {
  std::vector<std::span<const std::byte>> spans;
  for (const std::string& part : parts) spans.push_back(std::as_bytes(std::span(part)));
  write_whole(path, spans);
}

std::string text_of(const std::string& path) {
  const std::vector<std::uint8_t> bytes = read_whole(path, "a text", 1000);
  return {bytes.begin(), bytes.end()};
}

TEST_F(FileTest, PutsThePartsOneAfterTheOther) {
  write(path("x"), {"ab", "", "c", std::string(1, '\0')});
  EXPECT_EQ(text_of(path("x")), std::string("abc\0", 4));
  write(path("x"), {"shorter"});
  EXPECT_EQ(text_of(path("x")), "shorter");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(FileTest, AnEmptyFileIsWrittenButNotRead) {
  write(path("x"), {});
  EXPECT_EQ(fs::file_size(path("x")), 0u);
  EXPECT_NE(refusal(path("x")).find("is empty; give a picture"), std::string::npos);
}

TEST_F(FileTest, RefusesByItsSizeBeforeReading) {
  write(path("x"), {std::string(101, 'x')});
  EXPECT_NE(refusal(path("x")).find("101 bytes, more than the limit of 100"), std::string::npos);
  EXPECT_EQ(refusal(path("x"), 101), "taken");
  // A terabyte that is not there must cost nothing.
  fs::resize_file(path("x"), std::uintmax_t{1} << 40);
  EXPECT_NE(refusal(path("x")).find("more than the limit"), std::string::npos);
}

TEST_F(FileTest, NeverWaits) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_NE(refusal(path("pipe")).find("regular file"), std::string::npos);
  EXPECT_NE(refusal("/dev/zero").find("regular file"), std::string::npos);
  EXPECT_NE(refusal(folder_.string()).find("is a folder, not a picture"), std::string::npos);
  EXPECT_NE(refusal(path("missing")).find("No such file"), std::string::npos);
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_mode & 07777;
}

TEST_F(FileTest, KeepsTheModeOfWhatItReplaces) {
  write(path("x"), {"old"});
  for (const mode_t mode : {0600u, 0640u, 0666u}) {
    ASSERT_EQ(::chmod(path("x").c_str(), mode), 0);
    write(path("x"), {"new"});
    EXPECT_EQ(mode_of(path("x")), mode);
  }
}

// Files are never left in a number that grows with the kills.
TEST_F(FileTest, WhatAKilledWriterLeftIsUsedAgain) {
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string half = "half";
    const std::span<const std::byte> part = std::as_bytes(std::span(half));
    write_whole(path("x"), {&part, 1}, [](const std::string&) { ::_exit(0); });
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(fs::exists(path(".x.tmp")));
  EXPECT_FALSE(fs::exists(path("x")));
  write(path("x"), {"whole"});
  EXPECT_EQ(text_of(path("x")), "whole");
  EXPECT_FALSE(fs::exists(path(".x.tmp")));
  // Two at a time do not meet.
  const std::string outer = "outer";
  const std::span<const std::byte> part = std::as_bytes(std::span(outer));
  write_whole(path("x"), {&part, 1}, [&](const std::string&) { write(path("x"), {"inner"}); });
  EXPECT_EQ(text_of(path("x")), "outer");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(FileTest, WhatIsNotRightDoesNotTakeThePlaceOfWhatIs) {
  write(path("x"), {"good"});
  const std::string bad = "bad";
  const std::span<const std::byte> part = std::as_bytes(std::span(bad));
  EXPECT_THROW(write_whole(path("x"), {&part, 1},
                           [&](const std::string& written) {
                             EXPECT_EQ(text_of(written), "bad");
                             throw Error(Error::Kind::kInput, "no");
                           }),
               Error);
  EXPECT_EQ(text_of(path("x")), "good");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(FileTest, DoesNotWriteThroughALinkThatStandsWhereItWouldWork) {
  write(path("victim"), {"victim"});
  fs::create_symlink("victim", path(".x.tmp"));
  EXPECT_THROW(write(path("x"), {"new"}), Error);
  EXPECT_EQ(text_of(path("victim")), "victim");
}

TEST_F(FileTest, DoesNotWriteIntoASecondNameOfAnotherFile) {
  write(path("victim"), {"victim"});
  fs::create_hard_link(path("victim"), path(".x.tmp"));
  write(path("x"), {"new"});
  EXPECT_EQ(text_of(path("victim")), "victim");
  EXPECT_EQ(text_of(path("x")), "new");
}

TEST_F(FileTest, ALinkStaysALink) {
  fs::create_symlink("target", path("link"));
  write(path("link"), {"made"});  // though there was nothing behind it
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(text_of(path("target")), "made");
  write(path("link"), {"again"});
  EXPECT_EQ(text_of(path("target")), "again");
  EXPECT_EQ(real_path(path("link")), real_path(path("target")));
}

}  // namespace
}  // namespace contcore
