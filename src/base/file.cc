#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/refuse.h"

namespace contcore {
namespace {

using Parts = std::span<const std::span<const std::byte>>;

// One call moves at most 2 GiB on Linux; stay below.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

[[noreturn]] void fail_to_write(const std::string& path, int error) {
  refuse(path, fmt::format("cannot be written: {}", std::strerror(error)));
}

bool write_all(int fd, Parts parts) {
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

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A link stays a link: what it points to is replaced.
std::string behind_links(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  std::string target(resolved);
  std::free(resolved);
  return target;
}

// A new file in the folder, under a name of its own until it is renamed; removed if it never is.
class Temporary {
 public:
  Temporary(const std::string& folder, const std::string& target) : file_(create(folder)) {
    if (!file_.is_open()) fail_to_write(target, errno);
  }
  ~Temporary() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  File& file() { return file_; }

  bool rename_to(const std::string& target) {
    if (::rename(name_.c_str(), target.c_str()) != 0) return false;
    name_.clear();
    return true;
  }

 private:
  int create(const std::string& folder) {
    static std::atomic<unsigned> made{0};
    for (;;) {
      name_ = fmt::format("{}/.contcore-{}-{}.tmp", folder, ::getpid(), made++);
      const int fd = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
      if (fd >= 0 || errno != EEXIST) {
        if (fd < 0) name_.clear();
        return fd;
      }
    }
  }

  std::string name_;
  File file_;
};

// Makes the rename last through a power cut. A folder that may be written but not read, or a file
// system that knows no such thing, is no reason to complain.
void flush_folder(const std::string& folder, const std::string& target) {
  File file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.is_open()) return;
  if (::fsync(file.fd()) != 0 && errno != EINVAL && errno != ENOTSUP) fail_to_write(target, errno);
}

void write_in_place(const std::string& path, Parts parts) {
  File file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.is_open()) fail_to_write(path, errno);
  if (!write_all(file.fd(), parts) || !file.close()) fail_to_write(path, errno);
}

void write_and_rename(const std::string& path, Parts parts) {
  const std::string target = behind_links(path);
  const std::string folder = folder_of(target);
  Temporary temporary(folder, path);
  File& file = temporary.file();
  if (!write_all(file.fd(), parts) || ::fsync(file.fd()) != 0 || !file.close() ||
      !temporary.rename_to(target)) {
    fail_to_write(path, errno);
  }
  flush_folder(folder, path);
}

}  // namespace

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

bool File::close() { return ::close(std::exchange(fd_, -1)) == 0; }

OpenFile open_regular(const std::string& path, const std::string& kind) {
  // Not to wait for a writer if it is a pipe.
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
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
        ::read(open.file.fd(), bytes.data() + at, std::min(bytes.size() - at, kMostAtOnce));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (got == 0) refuse(path, "became shorter while it was read; try again when it is complete");
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

void write_whole(const std::string& path, Parts parts) {
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) fail_to_write(path, EISDIR);
  if (exists && !S_ISREG(info.st_mode)) {
    write_in_place(path, parts);
  } else {
    write_and_rename(path, parts);
  }
}

}  // namespace contcore
