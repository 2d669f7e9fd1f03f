// One writer at a time.
#pragma once

#include <string>

namespace contcore {

/// Holds the right to change the file at `path`, through a lock on a file beside it (PATH.lock)
/// that goes with this object, or with the process. Throws Error (kInput) when somebody else has
/// it.
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  std::string lock_path_;
  int fd_ = -1;
};

}  // namespace contcore
