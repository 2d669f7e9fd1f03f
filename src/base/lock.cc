#include "base/lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/refuse.h"

namespace contcore {
namespace {

std::string name_of_lock(const std::string& path) { return path + ".lock"; }

bool lock(const File& file, const std::string& path) {
  if (::flock(file.fd(), LOCK_EX | LOCK_NB) == 0) return true;
  if (errno != EWOULDBLOCK) return false;
  refuse(path, "another process is learning into it or serves it; wait until it is done");
}

File lock_beside(const std::string& path) {
  const std::string name = name_of_lock(path);
  for (;;) {
    File file(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file.is_open()) refuse(name, fmt::format("cannot be made: {}", std::strerror(errno)));
    if (!lock(file, path)) {
      refuse(name, fmt::format("cannot be locked: {}", std::strerror(errno)));
    }
    // Whoever held it before may have removed it between our opening and locking it.
    if (is_still_at(file.fd(), name)) return file;
  }
}

File lock_itself(const std::string& path) {
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  // Who may not read it will hear of it soon. Some network file systems lock no file that is open
  // for reading alone; the lock beside it must do there.
  if (file.is_open()) lock(file, path);
  return file;
}

}  // namespace

FileLock::FileLock(const std::string& path)
    : path_(real_path(path)), beside_(lock_beside(path_)), itself_(-1) {
  try {
    itself_ = lock_itself(path_);
  } catch (...) {
    ::unlink(name_of_lock(path_).c_str());
    throw;
  }
  remove_unfinished(path_);
}

FileLock::~FileLock() { ::unlink(name_of_lock(path_).c_str()); }

void FileLock::renew() {
  if (itself_.is_open() && is_still_at(itself_.fd(), path_)) return;
  try {
    itself_ = lock_itself(path_);
  } catch (const Error&) {
    // Somebody holds it who has no business to.
  }
}

}  // namespace contcore
