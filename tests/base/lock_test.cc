#include "base/lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "contcore/error.h"

namespace contcore {
namespace {

std::string place() {
  return (std::filesystem::temp_directory_path() /
          ("contcore_lock_" + std::to_string(::getpid()) + ".ccm"))
      .string();
}

TEST(FileLock, KeepsASecondWriterOut) {
  const std::string path = place();
  {
    const FileLock first(path);
    try {
      const FileLock second(path);
      ADD_FAILURE() << "two hold the same lock";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kInput);
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path + ".lock"));
  const FileLock again(path);
}

TEST(FileLock, GoesWithTheProcess) {
  const std::string path = place();
  const pid_t child = ::fork();
  if (child == 0) {
    const FileLock lock(path);
    ::_exit(0);  // as if killed: nothing is cleaned up
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(std::filesystem::exists(path + ".lock"));
  const FileLock lock(path);
}

TEST(FileLock, SaysWhereItCannotBeMade) {
  EXPECT_THROW(FileLock("/nowhere/at/all/line.ccm"), Error);
}

}  // namespace
}  // namespace contcore
