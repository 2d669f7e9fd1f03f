#include "memory/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/file_system.h"
#include "base/refuse.h"
#include "contcore/error.h"
#include "memory/journal_format.h"

namespace contcore {
namespace {

using namespace journal_format;

// One call moves at most 2 GiB on Linux; stay below.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

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

std::string JournalMark::text() const {
  std::string digits;
  for (const unsigned byte : parent) digits += fmt::format("{:02x}", byte);
  return fmt::format("{}:{}:{}", digits, records, last);
}

JournalMark JournalMark::parse(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  JournalMark mark{journal_parent(text.substr(0, colon)), 0};
  const char* at = text.data() + colon;
  const char* const end = text.data() + text.size();
  const auto number = [&](auto& value) {
    if (at == end || *at != ':') return false;
    const auto [rest, error] = std::from_chars(at + 1, end, value);
    at = rest;
    return error == std::errc();
  };
  if (!number(mark.records) || !number(mark.last) || at != end) {
    throw Error(Error::Kind::kUsage, "a journal's mark is PARENT:RECORDS:LAST");
  }
  return mark;
}

std::string journal_of(const std::string& memory) { return real_path(memory) + ".journal"; }

namespace {

// Not open when there is no such file.
File open_journal(const std::string& path, int how) {
  File file(file_system().open(path.c_str(), how | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open() && errno != ENOENT) {
    refuse(path, errno == ELOOP ? "is a link; a journal must stand in its place itself"
                                : fmt::format("cannot be opened: {}", std::strerror(errno)));
  }
  return file;
}

std::vector<std::uint8_t> bytes_of(const File& file, const std::string& path,
                                   const JournalLimits& limits) {
  struct stat info {};
  if (::fstat(file.fd(), &info) != 0 || !S_ISREG(info.st_mode)) {
    refuse(path, "is not a regular file");
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size > limits.total_bytes) {
    refuse(path,
           fmt::format("has {} bytes, more than the limit of {} for a journal; raise the limit",
                       size, limits.total_bytes));
  }
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t at = 0; at < size;) {
    const ssize_t got = file_system().read(
        file.fd(), bytes.data() + at, std::min(size - at, kMostAtOnce), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (got == 0) refuse(path, "became shorter while it was read");
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

// How many of its records the memory has already.
std::size_t records_in_memory(const JournalContent& content,
                              const std::optional<JournalMark>& applied, const std::string& path) {
  if (!content.stale) return 0;
  const std::size_t records = content.records.size();
  if (records == 0 && !content.damaged) return 0;
  if (applied && applied->parent == content.parent && applied->records <= records &&
      !content.damaged) {
    const auto first = static_cast<std::size_t>(applied->records);
    if (first == 0 || content.checksums[first - 1] == applied->last) return first;
  }
  refuse(path, fmt::format("holds {} lesson{} learned into another version of this memory than the "
                           "one that is here; put that version back, or move the journal away to "
                           "go on without",
                           records, records == 1 ? "" : "s"));
}

std::uint32_t last_of(const JournalContent& content) {
  return content.checksums.empty() ? 0 : content.checksums.back();
}

JournalRecords records_of(const JournalContent& content, const std::optional<JournalMark>& applied,
                          const std::string& path) {
  JournalRecords found;
  for (std::size_t i = records_in_memory(content, applied, path); i < content.records.size(); ++i) {
    found.records.emplace_back(content.records[i].begin(), content.records[i].end());
  }
  found.torn = content.torn;
  found.mark = {content.parent, content.records.size(), last_of(content)};
  return found;
}

}  // namespace

JournalRecords read_journal(const std::string& path, const JournalParent& parent,
                            const std::optional<JournalMark>& applied,
                            const JournalLimits& limits) {
  const File file = open_journal(path, O_RDONLY);
  if (!file.is_open()) return {};
  const std::vector<std::uint8_t> bytes = bytes_of(file, path, limits);
  return records_of(parse_journal(bytes, parent, limits, path), applied, path);
}

Journal::Journal(const std::string& path, const JournalLimits& limits)
    : path_(path), limits_(limits), lock_(path), file_(-1) {
  limits_.record_bytes = std::min(limits_.record_bytes, std::size_t{0xFFFFFFFF});
}

Journal::~Journal() = default;

Journal::Opened Journal::open(const std::string& path, const JournalParent& parent,
                              const std::optional<JournalMark>& applied,
                              const JournalLimits& limits) {
  Opened opened;
  opened.journal.reset(new Journal(path, limits));
  Journal& journal = *opened.journal;
  journal.file_ = open_journal(path, O_RDWR);
  if (!journal.file_.is_open()) {
    journal.begin(parent);
    return opened;
  }
  const std::vector<std::uint8_t> bytes = bytes_of(journal.file_, path, limits);
  const JournalContent content = parse_journal(bytes, parent, limits, path);
  JournalRecords found = records_of(content, applied, path);
  opened.torn = found.torn;
  if (content.good_bytes < kHeaderBytes || (content.stale && content.records.empty())) {
    journal.begin(parent);
    return opened;
  }
  for (std::size_t i = 0; i + found.records.size() < content.records.size(); ++i) {
    opened.applied.emplace_back(content.records[i].begin(), content.records[i].end());
  }
  opened.records = std::move(found.records);
  journal.go_on(content, bytes.size() > content.good_bytes);
  return opened;
}

// Cuts a torn end off. Flushes in any case: what was read may be known to the system only, left by
// a service that was killed before its flush, and is about to be built on.
void Journal::go_on(const JournalContent& content, bool cut) {
  if (cut && file_system().truncate(file_.fd(), static_cast<off_t>(content.good_bytes)) != 0) {
    refuse(path_, fmt::format("a torn end cannot be cut off: {}", std::strerror(errno)));
  }
  if (file_system().sync(file_.fd()) != 0) {
    refuse(path_, fmt::format("cannot be flushed: {}", std::strerror(errno)));
  }
  parent_ = content.parent;
  bytes_ = content.good_bytes;
  records_ = content.records.size();
  last_ = last_of(content);
}

void Journal::write_all(std::span<const std::uint8_t> data, std::size_t at) {
  while (!data.empty()) {
    const std::size_t most = std::min(data.size(), kMostAtOnce);
    const ssize_t written =
        file_system().write(file_.fd(), data.data(), most, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      refuse(path_,
             fmt::format("cannot be written: {}", disk_reason(written < 0 ? errno : ENOSPC)));
    }
    data = data.subspan(static_cast<std::size_t>(written));
    at += static_cast<std::size_t>(written);
  }
}

// A whole new file in place of the old one. It holds images, so whoever may not read the memory may
// not read it either.
void Journal::begin(const JournalParent& parent) {
  broken_ = "it could not be begun anew";
  const std::vector<std::uint8_t> header = header_bytes(parent);
  const std::span<const std::byte> part = std::as_bytes(std::span(header));
  write_whole(path_, {&part, 1});
  File file = open_journal(path_, O_RDWR);
  if (!file.is_open()) refuse(path_, "was removed as soon as it was written");
  constexpr std::string_view kEnding = ".journal";
  if (path_.ends_with(kEnding)) {
    share_rights(file.fd(), path_.substr(0, path_.size() - kEnding.size()));
  }
  file_ = std::move(file);
  parent_ = parent;
  bytes_ = kHeaderBytes;
  records_ = 0;
  last_ = 0;
  broken_.clear();
}

void Journal::restart(const JournalParent& parent) { begin(parent); }

std::string Journal::why_broken() const {
  if (broken_.empty() && !is_still_at(file_.fd(), path_)) return "its file was removed or replaced";
  return broken_;
}

bool Journal::broken() const { return !why_broken().empty(); }

void Journal::check(std::span<const std::string_view> payloads) const {
  if (const std::string why = why_broken(); !why.empty()) {
    refuse(path_, fmt::format("takes no more records, because {}; put that right and save the "
                              "memory, which begins the journal anew",
                              why));
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
    write_all(data, bytes_);
  } catch (const Error&) {
    // Flushed as well: the first records of a group may be whole, and must not come back in the
    // place of the next ones when the power goes.
    if (file_system().truncate(file_.fd(), static_cast<off_t>(bytes_)) != 0 ||
        file_system().sync(file_.fd()) != 0) {
      broken_ = fmt::format("a record half written cannot be cut off: {}", std::strerror(errno));
    }
    throw;
  }
  if (file_system().sync(file_.fd()) != 0) {
    // After a failed flush the system may believe that all is on disk, and a second one would
    // succeed without a byte written. Nothing behind this place can be promised any more.
    broken_ = fmt::format("the disk did not flush a record: {}", std::strerror(errno));
    file_system().truncate(file_.fd(), static_cast<off_t>(bytes_));
    refuse(path_, fmt::format("{}; the record may be lost", broken_));
  }
  bytes_ += data.size();
  records_ += payloads.size();
  last_ =
      load_header(data.data() + data.size() - kRecordHeaderBytes - payloads.back().size()).checksum;
}

}  // namespace contcore
