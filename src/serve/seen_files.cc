#include "serve/seen_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/refuse.h"
#include "contcore/error.h"

namespace contcore {
namespace {

// Old records are left in the file up to so many more than there are files.
constexpr std::size_t kSpareRecords = 1000;

// "INODE CHANGED BYTES NAME" and a zero byte, which alone no name can hold.
std::string seen_record(const std::string& name, const FileMark& mark) {
  return fmt::format("{} {} {} {}", mark.inode, mark.changed, mark.bytes, name) + '\0';
}

template <typename Number>
bool take_number(std::string_view& text, Number* value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (error != std::errc() || rest == text.data() + text.size() || *rest != ' ') return false;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()) + 1);
  return true;
}

}  // namespace

std::optional<FileMark> mark_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  constexpr std::int64_t kSecond = 1'000'000'000;
  return FileMark{info.st_ino, std::int64_t{info.st_mtim.tv_sec} * kSecond + info.st_mtim.tv_nsec,
                  static_cast<std::uint64_t>(info.st_size)};
}

SeenFiles::SeenFiles(std::string path) : path_(std::move(path)) {
  std::error_code error;
  if (!std::filesystem::exists(path_, error) || std::filesystem::file_size(path_, error) == 0) {
    return;
  }
  const std::vector<std::uint8_t> bytes =
      read_whole(path_, "a list of inspected files", std::numeric_limits<std::size_t>::max());
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (std::size_t end = 0; (end = text.find('\0')) != text.npos; text.remove_prefix(end + 1)) {
    std::string_view record = text.substr(0, end);
    FileMark mark;
    if (take_number(record, &mark.inode) && take_number(record, &mark.changed) &&
        take_number(record, &mark.bytes)) {
      seen_[std::string(record)] = mark;
    }
    ++records_;
  }
  rewrite_ = !text.empty();  // cut short: what is appended to that would be lost with it
}

bool SeenFiles::knows(const std::string& name, const FileMark& mark) const {
  const auto found = seen_.find(name);
  return found != seen_.end() && found->second == mark;
}

void SeenFiles::add(const std::string& name, const FileMark& mark) {
  seen_[name] = mark;
  if (rewrite_) return;
  unsaved_ += seen_record(name, mark);
  ++records_;
}

void SeenFiles::retain(const std::unordered_set<std::string>& names) {
  std::erase_if(seen_, [&](const auto& file) { return !names.contains(file.first); });
  if (records_ > 2 * seen_.size() + kSpareRecords) rewrite_ = true;
}

void SeenFiles::save() {
  if (records_ > 2 * seen_.size() + kSpareRecords) rewrite_ = true;
  if (!rewrite_) {
    append();
    return;
  }
  unsaved_.clear();
  std::string text;
  for (const auto& [name, mark] : seen_) text += seen_record(name, mark);
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(text))};
  write_whole(path_, parts);
  records_ = seen_.size();
  rewrite_ = false;
}

void SeenFiles::append() {
  if (unsaved_.empty()) return;
  const std::string text = std::exchange(unsaved_, {});
  rewrite_ = true;  // unless all of it gets there
  File file(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.is_open()) refuse(path_, fmt::format("cannot be opened: {}", std::strerror(errno)));
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t put = ::write(file.fd(), text.data() + at, text.size() - at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) refuse(path_, fmt::format("cannot be written: {}", std::strerror(errno)));
    at += static_cast<std::size_t>(put);
  }
  if (!file.close()) refuse(path_, fmt::format("cannot be written: {}", std::strerror(errno)));
  rewrite_ = false;
}

}  // namespace contcore
