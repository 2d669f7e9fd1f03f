#include "evaluate/leftovers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/file.h"

namespace contcore {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeyDigits = 32;
constexpr std::chrono::hours kLongAgo{24};
constexpr char kHalfWritten[] = ".part-";

// Open to be locked: NFS gives nobody a lock to write who may only read. Elsewhere another user's
// file can be locked all the same.
File open_to_lock(const std::string& path) {
  constexpr int kHow = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const int fd = ::open(path.c_str(), O_RDWR | kHow);
  const bool foreign = fd < 0 && (errno == EACCES || errno == EROFS);
  return File(foreign ? ::open(path.c_str(), O_RDONLY | kHow) : fd);
}

// Our lock keeps away a writer that has made the file but not locked it yet: it will find the file
// gone, and make another.
void remove_unlocked(const std::string& path) {
  const File file = lock_unused(path);
  if (file.is_open()) ::unlink(path.c_str());
}

bool is_old(const fs::directory_entry& entry) {
  std::error_code gone;
  const auto written = entry.last_write_time(gone);
  return !gone && fs::file_time_type::clock::now() - written > kLongAgo;
}

// Whether the process that writes it is of this machine; a name without a machine is of an older
// version.
bool is_of_this_machine(const std::string& name) {
  const std::size_t dot = name.find('.', kKeyDigits + std::string_view(kHalfWritten).size());
  return dot == name.npos || name.substr(dot + 1) == machine_name();
}

}  // namespace

std::string machine_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string half_written_name(const std::string& base, std::size_t number) {
  return fmt::format("{}{}{}-{}.{}", base, kHalfWritten, ::getpid(), number, machine_name());
}

HalfWritten::HalfWritten(const std::string& base) : file_(create(base)) {}

HalfWritten::~HalfWritten() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

int HalfWritten::create(const std::string& base) {
  for (std::size_t i = 0;; ++i) {
    path_ = half_written_name(base, i);
    const int fd = ::open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
    if (fd < 0 && errno == EEXIST) continue;  // of another run, perhaps in another container
    if (fd < 0) return fd;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
      struct stat status {};
      if (::fstat(fd, &status) == 0 && status.st_nlink > 0) return fd;
    }
    ::close(fd);  // taken for a leftover before it was locked
  }
}

bool HalfWritten::finish() const {
  File same(::dup(file_.fd()));
  return same.is_open() && same.close();
}

bool HalfWritten::link_to(const std::string& name) {
  if (::link(path_.c_str(), name.c_str()) != 0) return false;
  ::unlink(path_.c_str());
  path_.clear();
  return true;
}

bool HalfWritten::rename_to(const std::string& name) {
  if (::rename(path_.c_str(), name.c_str()) != 0) return false;
  path_.clear();
  return true;
}

void write_to_cache(const std::string& path, std::span<const std::byte> bytes) {
  const fs::path whole(path);
  const std::string key = whole.filename().string().substr(0, kKeyDigits);
  HalfWritten half((whole.parent_path() / key).string());
  if (!half.file().is_open() || !write_at(half.file().fd(), bytes, 0) || !half.finish() ||
      !half.rename_to(path)) {
    fail_to_write(path, errno);
  }
}

bool is_half_written(const std::string& name) {
  const std::string_view key = std::string_view(name).substr(0, kKeyDigits);
  return key.size() == kKeyDigits &&
         key.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         std::string_view(name).substr(kKeyDigits).starts_with(kHalfWritten);
}

void remove_leftovers(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!is_half_written(name)) continue;
    if (is_of_this_machine(name) || is_old(*at)) remove_unlocked(at->path().string());
  }
}

// What cannot be locked because there are no locks is nobody's; what NFS does not lock because it
// is open to be read alone may be somebody's.
File lock_unused(const std::string& path) {
  File file = open_to_lock(path);
  const bool taken = file.is_open() && ::flock(file.fd(), LOCK_EX | LOCK_NB) != 0 &&
                     (errno == EWOULDBLOCK || errno == EBADF);
  if (taken || !file.is_open() || !is_still_at(file.fd(), path)) return File(-1);
  return file;
}

}  // namespace contcore
