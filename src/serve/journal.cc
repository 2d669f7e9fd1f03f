#include "serve/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/refuse.h"
#include "contcore/error.h"
#include "serve/journal_format.h"

namespace contcore {
namespace {

using namespace journal_format;

// One call moves at most 2 GiB on Linux; stay below.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

std::string disk_reason(int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return full ? "the disk is full; make room on it and try again" : std::strerror(error);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::vector<std::uint8_t> header_bytes(const JournalParent& parent) {
  std::vector<std::uint8_t> bytes(kMagic.begin(), kMagic.end());
  bytes.insert(bytes.end(), parent.begin(), parent.end());
  return bytes;
}

// The records as they will stand in the file, with sequence numbers from `first` on.
std::vector<std::uint8_t> record_bytes(std::span<const std::string_view> payloads,
                                       const JournalParent& parent, std::uint64_t first) {
  std::size_t total = 0;
  for (const std::string_view payload : payloads) total += kRecordHeaderBytes + payload.size();
  std::vector<std::uint8_t> bytes(total);
  const std::uint32_t parent_crc = crc32c(0, parent);
  std::uint8_t* at = bytes.data();
  std::uint64_t sequence = first;
  for (const std::string_view payload : payloads) {
    std::uint8_t* const body = at + kRecordHeaderBytes;
    std::copy(payload.begin(), payload.end(), body);
    RecordHeader header{static_cast<std::uint32_t>(payload.size()), 0, sequence++, first};
    store_header(at, header);
    header.checksum = checksum(parent_crc, at, {body, payload.size()});
    store_header(at, header);
    at = body + payload.size();
  }
  return bytes;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

ssize_t JournalDisk::write(int fd, const void* data, std::size_t bytes, off_t at) {
  return ::pwrite(fd, data, bytes, at);
}
int JournalDisk::sync(int fd) { return ::fdatasync(fd); }
int JournalDisk::truncate(int fd, off_t bytes) { return ::ftruncate(fd, bytes); }
int JournalDisk::rename(const char* from, const char* to) { return std::rename(from, to); }

JournalParent journal_parent(std::string_view hexadecimal) {
  JournalParent parent{};
  bool good = hexadecimal.size() == 2 * parent.size();
  for (std::size_t i = 0; good && i < parent.size(); ++i) {
    const int high = digit(hexadecimal[2 * i]);
    const int low = digit(hexadecimal[2 * i + 1]);
    good = high >= 0 && low >= 0;
    if (good) parent[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  if (!good) {
    throw Error(Error::Kind::kUsage, "a memory's SHA-256 must be 64 hexadecimal digits");
  }
  return parent;
}

Journal::Journal(const std::string& path, const JournalLimits& limits, JournalDisk* disk)
    : path_(path), limits_(limits), disk_(disk != nullptr ? *disk : real_disk_), lock_(path) {
  limits_.record_bytes = std::min(limits_.record_bytes, std::size_t{0xFFFFFFFF});
}

Journal::~Journal() {
  if (fd_ >= 0) ::close(fd_);
}

Journal::Opened Journal::open(const std::string& path, const JournalParent& parent,
                              const JournalLimits& limits, JournalDisk* disk) {
  Opened opened;
  opened.journal.reset(new Journal(path, limits, disk));
  Journal& journal = *opened.journal;
  const std::vector<std::uint8_t> bytes = journal.read();
  if (journal.fd_ < 0) {
    journal.begin(parent);
    return opened;
  }
  const JournalContent content = parse_journal(bytes, parent, limits, path);
  opened.stale = content.stale;
  opened.torn = content.torn && !content.stale;
  if (content.stale && !content.records.empty()) journal.keep_aside();
  if (content.stale || content.good_bytes < kHeaderBytes) {
    journal.begin(parent);
    return opened;
  }
  for (const auto& record : content.records)
    opened.records.emplace_back(record.begin(), record.end());
  journal.go_on(parent, content, bytes.size() > content.good_bytes);
  return opened;
}

// All bytes, and fd_ open; fd_ stays -1 when there is no such file.
std::vector<std::uint8_t> Journal::read() {
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  fd_ = ::open(path_.c_str(), flags);
  if (fd_ < 0 && errno == ENOENT) return {};
  if (fd_ < 0) {
    refuse(path_, errno == ELOOP ? "is a link; a journal must stand in its place itself"
                                 : fmt::format("cannot be opened: {}", std::strerror(errno)));
  }
  struct stat info {};
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) refuse(path_, "is not a regular file");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size > limits_.total_bytes) {
    refuse(path_,
           fmt::format("has {} bytes, more than the limit of {} for a journal; raise the limit",
                       size, limits_.total_bytes));
  }
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t at = 0; at < size;) {
    const std::size_t most = std::min(size - at, kMostAtOnce);
    const ssize_t got = ::pread(fd_, bytes.data() + at, most, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path_, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (got == 0) refuse(path_, "became shorter while it was read");
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

// Cuts a torn end off. Flushes in any case: what was read may be known to the system only, left by
// a service that was killed before its flush, and is about to be built on.
void Journal::go_on(const JournalParent& parent, const JournalContent& content, bool cut) {
  if (cut && disk_.truncate(fd_, static_cast<off_t>(content.good_bytes)) != 0) {
    refuse(path_, fmt::format("a torn end cannot be cut off: {}", std::strerror(errno)));
  }
  if (disk_.sync(fd_) != 0) {
    refuse(path_, fmt::format("cannot be flushed: {}", std::strerror(errno)));
  }
  parent_ = parent;
  bytes_ = content.good_bytes;
  records_ = content.records.size();
}

void Journal::keep_aside() {
  const std::string aside = path_ + ".stale";
  if (disk_.rename(path_.c_str(), aside.c_str()) != 0) {
    refuse(path_, fmt::format("is of another memory and cannot be renamed to {}: {}", aside,
                              std::strerror(errno)));
  }
}

void Journal::write_all(int fd, std::span<const std::uint8_t> data, std::size_t at) {
  while (!data.empty()) {
    const std::size_t most = std::min(data.size(), kMostAtOnce);
    const ssize_t written = disk_.write(fd, data.data(), most, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      refuse(path_,
             fmt::format("cannot be written: {}", disk_reason(written < 0 ? errno : ENOSPC)));
    }
    data = data.subspan(static_cast<std::size_t>(written));
    at += static_cast<std::size_t>(written);
  }
}

// Without this a power cut could bring the old journal back after records went to the new one.
void Journal::sync_folder() {
  const File folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool flushed = folder.is_open() && disk_.sync(folder.fd()) == 0;
  // Some file systems know no such thing.
  if (!flushed && (!folder.is_open() || (errno != EINVAL && errno != ENOTSUP))) {
    refuse(path_, fmt::format("its folder cannot be flushed: {}", std::strerror(errno)));
  }
}

// A whole new file, renamed into place when it is on disk.
void Journal::begin(const JournalParent& parent) {
  broken_ = "it could not be begun anew";
  const std::string fresh = path_ + ".new";
  // What an earlier attempt may have left is ours to remove: we hold the lock.
  ::unlink(fresh.c_str());
  File file(::open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.is_open()) refuse(fresh, fmt::format("cannot be made: {}", disk_reason(errno)));
  try {
    write_all(file.fd(), header_bytes(parent), 0);
    if (disk_.sync(file.fd()) != 0)
      refuse(fresh, fmt::format("cannot be flushed: {}", disk_reason(errno)));
    if (disk_.rename(fresh.c_str(), path_.c_str()) != 0) {
      refuse(path_, fmt::format("cannot be replaced: {}", std::strerror(errno)));
    }
  } catch (...) {
    ::unlink(fresh.c_str());
    throw;
  }
  sync_folder();
  const int fd = ::fcntl(file.fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) refuse(path_, fmt::format("cannot be kept open: {}", std::strerror(errno)));
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
  parent_ = parent;
  bytes_ = kHeaderBytes;
  records_ = 0;
  broken_.clear();
}

void Journal::restart(const JournalParent& parent) { begin(parent); }

void Journal::check(std::span<const std::string_view> payloads) const {
  if (broken()) {
    refuse(path_, fmt::format("takes no more records, because {}; put that right and save the "
                              "memory, which begins the journal anew",
                              broken_));
  }
  std::size_t room = limits_.total_bytes - std::min(bytes_, limits_.total_bytes);
  for (const std::string_view payload : payloads) {
    if (payload.size() > limits_.record_bytes) {
      refuse(path_, fmt::format("a record of {} bytes is more than the limit of {}", payload.size(),
                                limits_.record_bytes));
    }
    if (kRecordHeaderBytes + payload.size() > room) {
      refuse(path_,
             fmt::format(
                 "is full at its limit of {} bytes; save the memory, which begins the journal anew",
                 limits_.total_bytes));
    }
    room -= kRecordHeaderBytes + payload.size();
  }
}

void Journal::append(std::string_view payload) { append_many({&payload, 1}); }

void Journal::append_many(std::span<const std::string_view> payloads) {
  check(payloads);
  if (payloads.empty()) return;
  const std::vector<std::uint8_t> data = record_bytes(payloads, parent_, records_ + 1);
  try {
    write_all(fd_, data, bytes_);
  } catch (const Error&) {
    // Flushed as well: the first records of a group may be whole, and must not come back in the
    // place of the next ones when the power goes.
    if (disk_.truncate(fd_, static_cast<off_t>(bytes_)) != 0 || disk_.sync(fd_) != 0) {
      broken_ = fmt::format("a record half written cannot be cut off: {}", std::strerror(errno));
    }
    throw;
  }
  if (disk_.sync(fd_) != 0) {
    // After a failed flush the system may believe that all is on disk, and a second one would
    // succeed without a byte written. Nothing behind this place can be promised any more.
    broken_ = fmt::format("the disk did not flush a record: {}", std::strerror(errno));
    disk_.truncate(fd_, static_cast<off_t>(bytes_));
    refuse(path_, fmt::format("{}; the record may be lost", broken_));
  }
  bytes_ += data.size();
  records_ += payloads.size();
}

}  // namespace contcore
