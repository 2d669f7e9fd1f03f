#include "base/lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "contcore/error.h"

namespace contcore {
namespace {

// Whoever held the lock before may have removed the file between our opening and locking it.
bool still_there(int fd, const std::string& path) {
  struct stat ours {};
  struct stat now {};
  return ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &now) == 0 && ours.st_dev == now.st_dev &&
         ours.st_ino == now.st_ino;
}

}  // namespace

FileLock::FileLock(const std::string& path) : lock_path_(path + ".lock") {
  for (;;) {
    fd_ = ::open(lock_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0) {
      throw Error(Error::Kind::kInput,
                  fmt::format("{}: cannot be made: {}", lock_path_, std::strerror(errno)));
    }
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      ::close(fd_);
      fd_ = -1;
      throw Error(Error::Kind::kInput,
                  reason == EWOULDBLOCK
                      ? fmt::format("{}: another process is learning into it or serves it; "
                                    "wait until it is done",
                                    path)
                      : fmt::format("{}: cannot be locked: {}", lock_path_, std::strerror(reason)));
    }
    if (still_there(fd_, lock_path_)) return;
    ::close(fd_);
  }
}

FileLock::~FileLock() {
  if (fd_ < 0) return;
  ::unlink(lock_path_.c_str());
  ::close(fd_);
}

}  // namespace contcore
