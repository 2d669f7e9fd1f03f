#include "base/lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
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

TEST(FileLock, IsOfTheFileNotOfItsName) {
  namespace fs = std::filesystem;
  const std::string path = place();
  const std::string link = path + ".link";
  const std::string twin = path + ".twin";
  for (const std::string& name : {path, link, twin}) fs::remove(name);
  std::ofstream(path) << "memory";
  fs::create_symlink(path, link);
  fs::create_hard_link(path, twin);
  {
    const FileLock lock(path);
    EXPECT_THROW(FileLock{link}, Error);
    EXPECT_THROW(FileLock{twin}, Error);
  }
  {
    const FileLock lock(twin);
    EXPECT_THROW(FileLock{path}, Error);
  }
  FileLock lock(link);
  EXPECT_THROW(FileLock{path}, Error);
  // When the file has been replaced, the new one is held.
  fs::remove(path);
  std::ofstream(path) << "new";
  lock.renew();
  fs::remove(twin);
  fs::create_hard_link(path, twin);
  EXPECT_THROW(FileLock{twin}, Error);
  for (const std::string& name : {path, link, twin}) fs::remove(name);
}

TEST(FileLock, SaysWhereItCannotBeMade) {
  EXPECT_THROW(FileLock("/nowhere/at/all/line.ccm"), Error);
}

}  // namespace
}  // namespace contcore
