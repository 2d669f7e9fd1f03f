// One writer at a time.
#pragma once

#include <string>

#include "base/file.h"

namespace contcore {

/// Holds the right to change the file at `path`, through a lock on a file beside it (PATH.lock)
/// and one on the file itself, which go with this object, or with the process. Links are followed,
/// and a second name of the same file is the same file. Throws Error (kInput) when somebody else
/// has it. What a killed writer left is removed.
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// The file was replaced by a new one of ours: that is what is held from now on, beside the lock
  /// on its name. To be called after saving, which it cannot undo, so it does not fail.
  void renew();

 private:
  std::string path_;
  File beside_;
  File itself_;  // not open while there is no such file
};

}  // namespace contcore
