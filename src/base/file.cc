#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/file_system.h"
#include "base/refuse.h"

namespace contcore {
namespace {

using Parts = std::span<const std::span<const std::byte>>;

// One call moves at most 2 GiB on Linux; stay below.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

// In place of a pipe or device, which know no places.
bool write_on(int fd, Parts parts) {
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      const ssize_t written = ::write(fd, part.data(), std::min(part.size(), kMostAtOnce));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      part = part.subspan(static_cast<std::size_t>(written));
    }
  }
  return true;
}

bool write_all(int fd, Parts parts) {
  std::size_t at = 0;
  for (const std::span<const std::byte> part : parts) {
    if (!write_at(fd, part, at)) return false;
    at += part.size();
  }
  return true;
}

// Under which a file is written before it gets its name; a second writer of it takes the next.
std::string unfinished_name(const std::string& target, unsigned number) {
  constexpr std::size_t kLongest = 200;
  const std::string folder = folder_of(target);
  const std::string name = target.substr(target.rfind('/') + 1).substr(0, kLongest);
  return number == 0 ? fmt::format("{}/.{}.tmp", folder, name)
                     : fmt::format("{}/.{}.{}.tmp", folder, name, number);
}

// Not somebody else's, nor a second name of another file.
bool is_ours(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1 &&
         info.st_uid == ::geteuid();
}

// A file beside `target`, ours by a lock while it is written; removed unless it is renamed.
class Unfinished {
 public:
  Unfinished(const std::string& target, mode_t mode) : file_(create(target, mode)) {}
  ~Unfinished() {
    if (!name_.empty()) file_system().unlink(name_.c_str());
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  File& file() { return file_; }
  const std::string& name() const { return name_; }

  bool rename_to(const std::string& target) {
    if (file_system().rename(name_.c_str(), target.c_str()) != 0) return false;
    name_.clear();
    return true;
  }

 private:
  int create(const std::string& target, mode_t mode) {
    constexpr unsigned kMostWriters = 1000;
    for (unsigned number = 0; number < kMostWriters;) {
      const std::string name = unfinished_name(target, number);
      File file(file_system().open(name.c_str(),
                                   O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode));
      if (!file.is_open() && errno == EACCES && ::access(name.c_str(), F_OK) == 0) {
        ++number;  // left by another user
        continue;
      }
      if (!file.is_open()) return -1;
      if (::flock(file.fd(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return -1;
        ++number;
      } else if (!is_still_at(file.fd(), name)) {
        continue;  // it was renamed or removed before we had the lock
      } else if (!is_ours(file.fd())) {
        ++number;
      } else {
        name_ = name;
        if (file_system().truncate(file.fd(), 0) != 0) return -1;
        return file.release();
      }
    }
    errno = EBUSY;
    return -1;
  }

  std::string name_;
  File file_;
};

// Nobody else is to read the new file than could read the old one.
void take_over_rights(int fd, const struct stat& old) {
  struct stat fresh {};
  if (::fstat(fd, &fresh) != 0) return;
  mode_t mode = old.st_mode & 07777;
  const bool same = fresh.st_uid == old.st_uid && fresh.st_gid == old.st_gid;
  if (!same && ::fchown(fd, old.st_uid, old.st_gid) != 0 &&
      ::fchown(fd, static_cast<uid_t>(-1), old.st_gid) != 0) {
    mode &= ~static_cast<mode_t>(S_IRWXG);  // the group is another
  }
  [[maybe_unused]] const int result = ::fchmod(fd, mode);  // it is 0600 where that fails
}

void write_in_place(const std::string& path, Parts parts) {
  File file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.is_open()) fail_to_write(path, errno);
  if (!write_on(file.fd(), parts) || !file.close()) fail_to_write(path, errno);
}

void write_and_rename(const std::string& path, const struct stat* old,
                      const std::function<void(int)>& fill,
                      const std::function<void(const std::string&)>& check) {
  const std::string target = real_path(path);
  Unfinished unfinished(target, old != nullptr ? 0600 : 0666);
  File& file = unfinished.file();
  if (!file.is_open()) fail_to_write(path, errno);
  if (old != nullptr) take_over_rights(file.fd(), *old);
  fill(file.fd());
  if (file_system().sync(file.fd()) != 0) fail_to_write(path, errno);
  if (check) check(unfinished.name());
  if (!unfinished.rename_to(target)) fail_to_write(path, errno);  // the lock is ours until then
  if (!flush_folder_of(target)) fail_to_write(path, errno);
}

}  // namespace

void fail_to_write(const std::string& path, int error) {
  refuse(path, fmt::format("cannot be written: {}", disk_reason(error)));
}

bool write_at(int fd, std::span<const std::byte> bytes, std::size_t at) {
  while (!bytes.empty()) {
    const ssize_t written = file_system().write(
        fd, bytes.data(), std::min(bytes.size(), kMostAtOnce), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    at += static_cast<std::size_t>(written);
  }
  return true;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

bool File::close() { return file_system().close(std::exchange(fd_, -1)) == 0; }

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string real_path(const std::string& path) {
  std::string at = path;
  // A link may point to a file that is yet to be made.
  for (int links = 0; links < 40; ++links) {
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(at, error);
    if (error) break;
    at = target.is_absolute() ? target.string() : folder_of(at) + "/" + target.string();
  }
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(at, error);
  return error ? at : whole.string();
}

std::string disk_reason(int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return full ? "the disk is full; make room on it and try again" : std::strerror(error);
}

void share_rights(int fd, const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) take_over_rights(fd, info);
}

FileIdentity::FileIdentity(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return;
  device = info.st_dev;
  inode = info.st_ino;
  bytes = info.st_size;
  changed = std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// A file system that does not know when has 0 for it.
std::string birth_of_file(const std::string& path) {
  struct statx info {};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_INO | STATX_BTIME, &info) != 0) return "";
  std::ifstream of_machine("/etc/machine-id");
  std::string machine;
  of_machine >> machine;
  return fmt::format("{}-{}.{}-{}", info.stx_ino, info.stx_btime.tv_sec, info.stx_btime.tv_nsec,
                     machine.substr(0, 64));
}

bool is_still_at(int fd, const std::string& path) {
  struct stat ours {};
  struct stat now {};
  return ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &now) == 0 && ours.st_dev == now.st_dev &&
         ours.st_ino == now.st_ino;
}

// A folder that may be written but not read is no reason to complain either.
bool flush_folder_of(const std::string& path) {
  const File folder(
      file_system().open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) return errno == EACCES;
  return file_system().sync(folder.fd()) == 0 || errno == EINVAL || errno == ENOTSUP;
}

void remove_unfinished(const std::string& path) {
  const std::string name = unfinished_name(real_path(path), 0);
  const File file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.is_open() && ::flock(file.fd(), LOCK_EX | LOCK_NB) == 0 &&
      is_still_at(file.fd(), name)) {
    ::unlink(name.c_str());
  }
}

OpenFile open_regular(const std::string& path, const std::string& kind) {
  // Not to wait for a writer if it is a pipe.
  File file(file_system().open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) refuse(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat info {};
  if (::fstat(file.fd(), &info) != 0) {
    refuse(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  if (S_ISDIR(info.st_mode)) refuse(path, fmt::format("is a folder, not {}", kind));
  if (!S_ISREG(info.st_mode)) {
    refuse(path, fmt::format("is not a regular file; give {} on disk", kind));
  }
  if (info.st_size <= 0) refuse(path, fmt::format("is empty; give {}", kind));
  return {std::move(file), static_cast<std::size_t>(info.st_size)};
}

std::vector<std::uint8_t> read_whole(const std::string& path, const std::string& kind,
                                     std::size_t most) {
  const OpenFile open = open_regular(path, kind);
  if (open.bytes > most) {
    refuse(path,
           fmt::format("has {} bytes, more than the limit of {} for {}", open.bytes, most, kind));
  }
  std::vector<std::uint8_t> bytes(open.bytes);
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t got =
        file_system().read(open.file.fd(), bytes.data() + at,
                           std::min(bytes.size() - at, kMostAtOnce), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (got == 0) refuse(path, "became shorter while it was read; try again when it is complete");
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

void write_whole(const std::string& path, Parts parts,
                 const std::function<void(const std::string&)>& check) {
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) fail_to_write(path, EISDIR);
  if (exists && !S_ISREG(info.st_mode)) {
    write_in_place(path, parts);
  } else {
    const auto fill = [&](int fd) {
      if (!write_all(fd, parts)) fail_to_write(path, errno);
    };
    write_and_rename(path, exists ? &info : nullptr, fill, check);
  }
}

void write_streamed(const std::string& path, const std::function<void(int)>& fill) {
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) fail_to_write(path, EISDIR);
  if (exists && !S_ISREG(info.st_mode)) {
    refuse(path, "is a device or a pipe, and this is not written from front to back; give a file");
  }
  write_and_rename(path, exists ? &info : nullptr, fill, {});
}

}  // namespace contcore
