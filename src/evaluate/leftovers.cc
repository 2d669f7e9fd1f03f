#include "evaluate/leftovers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

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

// Our lock keeps away a writer that has made the file but not locked it yet: it will find the file
// gone, and make another.
void remove_unlocked(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.is_open() && ::flock(file.fd(), LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
}

}  // namespace

bool is_half_written(const std::string& name) {
  const std::string_view key = std::string_view(name).substr(0, kKeyDigits);
  return key.size() == kKeyDigits &&
         key.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         std::string_view(name).substr(kKeyDigits).starts_with(".part-");
}

void remove_leftovers(const std::string& folder) {
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (is_half_written(name)) remove_unlocked(at->path().string());
    if (!name.starts_with(".contcore-") || !name.ends_with(".tmp")) continue;
    std::error_code gone;
    const auto written = at->last_write_time(gone);
    if (!gone && now - written > kLongAgo) fs::remove(at->path(), gone);
  }
}

}  // namespace contcore
