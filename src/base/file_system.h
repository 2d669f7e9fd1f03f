// The system calls that files are read and written by, in one place so that a test can let any one
// of them fail.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace contcore {

/// Each returns as the system call of its name, with errno.
class FileSystem {
 public:
  FileSystem() = default;
  virtual ~FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  virtual int open(const char* path, int flags, mode_t mode = 0);
  virtual ssize_t read(int fd, void* data, std::size_t bytes, off_t at);         ///< pread
  virtual ssize_t write(int fd, const void* data, std::size_t bytes, off_t at);  ///< pwrite
  virtual int sync(int fd);
  virtual int truncate(int fd, off_t bytes);
  virtual int close(int fd);
  virtual int rename(const char* from, const char* to);
  virtual int unlink(const char* path);
  virtual int link(const char* from, const char* to);
  /// All of a file, to be read. MAP_FAILED on failure.
  virtual void* map(int fd, std::size_t bytes);
};

/// The system's own, unless a test has put another in its place. Handing it through every layer
/// down to the one call that writes would say nothing that a reader does not know.
FileSystem& file_system();

/// For tests: `other` is used while this lives.
class UseFileSystem {
 public:
  explicit UseFileSystem(FileSystem& other);
  ~UseFileSystem();
  UseFileSystem(const UseFileSystem&) = delete;
  UseFileSystem& operator=(const UseFileSystem&) = delete;

 private:
  FileSystem* before_;
};

}  // namespace contcore
