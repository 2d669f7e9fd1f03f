#include "evaluate/leftovers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
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

// Open to be locked: NFS gives nobody a lock to write who may only read.
File open_to_lock(const std::string& path) {
  return File(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

// Our lock keeps away a writer that has made the file but not locked it yet: it will find the file
// gone, and make another.
void remove_unlocked(const std::string& path) {
  const File file = open_to_lock(path);
  if (file.is_open() && ::flock(file.fd(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
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
    if (is_half_written(name)) {
      if (is_of_this_machine(name) || is_old(*at)) remove_unlocked(at->path().string());
    } else if (name.starts_with(".contcore-") && name.ends_with(".tmp") && is_old(*at)) {
      std::error_code gone;
      fs::remove(at->path(), gone);
    }
  }
}

bool is_in_use(const std::string& path) {
  const File file = open_to_lock(path);
  return file.is_open() && ::flock(file.fd(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace contcore
