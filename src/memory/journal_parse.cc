// Reading a journal, and telling a torn end from damage.
//
// A record is acknowledged when a flush has ended, and the next write begins only after that. So
// when the power goes, only what belongs to the last write can be incomplete: its pages reach the
// disk in any order, some never, and what never did reads as zeros or as old blocks. Everything in
// front of the last write is whole, and losing any of it is damage.
//
// A record that does not check is therefore part of a torn end unless something behind it was
// written *later*: a sound record of another write. Every record says with which sequence number
// its write began. If that is above the number expected at the bad place, the bad record had been
// acknowledged: damage. If not, the two were written together and the power went in between: torn.
// That is why the number is there; without it, a group of records torn in its middle would look
// like damage.
//
// The length of a bad record cannot be trusted, so the search behind it tries every byte. The
// sequence number keeps that cheap: j records fill at least 24 j bytes.
//
// What cannot be told: when the very last record was acknowledged and went bad on the disk
// afterwards, it looks like a torn one, and is left out and reported.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "contcore/error.h"
#include "memory/journal_format.h"

namespace contcore {
namespace {

using namespace journal_format;
using Bytes = std::span<const std::uint8_t>;

[[noreturn]] void damaged(const std::string& name, std::size_t at, const std::string& what) {
  throw Error(Error::Kind::kDamaged,
              fmt::format("{}: {} at byte {}; restore the journal from a copy, or move it away to "
                          "go on without what was learned since the memory was last saved",
                          name, what, at));
}

std::uint32_t crc_of_parent(Bytes parent) { return crc32c(0, parent); }

struct Record {
  RecordHeader header;
  Bytes payload;
};

// The record at `at` if it is whole and its checksum is right, whatever its numbers.
std::optional<Record> sound_record(Bytes bytes, std::size_t at, std::uint32_t parent) {
  if (bytes.size() - at < kRecordHeaderBytes) return {};
  const RecordHeader header = load_header(bytes.data() + at);
  const Bytes behind = bytes.subspan(at + kRecordHeaderBytes);
  if (header.length > behind.size()) return {};
  const Bytes payload = behind.first(header.length);
  if (checksum(parent, bytes.data() + at, payload) != header.checksum) return {};
  return Record{header, payload};
}

// Whether a write that came after the one of record `expected`, which should stand at `from`, left
// a sound record.
bool written_to_later(Bytes bytes, std::size_t from, std::uint64_t expected, std::uint32_t parent) {
  // Bytes made to look like headers everywhere could ask for a checksum of the rest at each of
  // them. Such a file is damaged, not torn.
  std::size_t patience = 4 * bytes.size();
  for (std::size_t at = from + 1; at + kRecordHeaderBytes <= bytes.size(); ++at) {
    const RecordHeader header = load_header(bytes.data() + at);
    const bool possible = header.sequence > expected &&
                          header.sequence - expected <= (at - from) / kRecordHeaderBytes &&
                          header.first > expected && header.first <= header.sequence &&
                          header.length <= bytes.size() - at - kRecordHeaderBytes;
    if (!possible) continue;
    if (header.length > patience) return true;
    patience -= header.length;
    if (sound_record(bytes, at, parent)) return true;
  }
  return false;
}

// A record is in its place if it goes on counting, and begins a write or goes on with the last one.
bool in_place(const RecordHeader& header, std::uint64_t expected, std::uint64_t last_first) {
  return header.sequence == expected && (header.first == expected || header.first == last_first);
}

struct Walk {
  JournalContent content;
  std::size_t longest = 0;
};

// The sound records from the start on.
Walk walk(Bytes bytes, std::uint32_t parent) {
  Walk walk;
  std::size_t at = kHeaderBytes;
  std::uint64_t last_first = 0;
  while (at < bytes.size()) {
    const auto record = sound_record(bytes, at, parent);
    if (!record || !in_place(record->header, walk.content.records.size() + 1, last_first)) break;
    last_first = record->header.first;
    walk.content.records.push_back(record->payload);
    walk.content.checksums.push_back(record->header.checksum);
    walk.longest = std::max(walk.longest, record->payload.size());
    at += kRecordHeaderBytes + record->payload.size();
  }
  walk.content.good_bytes = at;
  walk.content.torn = at < bytes.size();
  return walk;
}

// A header is written and flushed before the file gets its name, so a short one is rare; but no
// record can be lost with it.
JournalContent short_header(Bytes bytes, const std::string& name) {
  const std::size_t compared = std::min(bytes.size(), kMagic.size());
  // Not memcmp, which may not be given a pointer to nothing.
  if (!std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(compared),
                  kMagic.begin(),
                  [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); })) {
    damaged(name, 0, "this is not a journal");
  }
  JournalContent content;
  content.torn = true;
  return content;
}

}  // namespace

JournalContent parse_journal(Bytes bytes, const JournalParent& parent, const JournalLimits& limits,
                             const std::string& name) {
  if (bytes.size() < kHeaderBytes) return short_header(bytes, name);
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    damaged(name, 0, "this is not a journal, or its first bytes were changed");
  }
  const Bytes said = bytes.subspan(kParentAt, parent.size());
  const std::uint32_t ours = crc_of_parent(parent);
  if (!std::equal(said.begin(), said.end(), parent.begin())) {
    Walk old = walk(bytes, crc_of_parent(said));
    // Records that are right for our memory under a header that names another.
    if (old.content.records.empty() && sound_record(bytes, kHeaderBytes, ours)) {
      damaged(name, kParentAt, "the name of the memory it belongs to was changed");
    }
    old.content.stale = true;
    std::copy(said.begin(), said.end(), old.content.parent.begin());
    old.content.damaged =
        old.content.torn && written_to_later(bytes, old.content.good_bytes,
                                             old.content.records.size() + 1, crc_of_parent(said));
    return std::move(old.content);
  }
  Walk found = walk(bytes, ours);
  found.content.parent = parent;
  const std::size_t end = found.content.good_bytes;
  const std::size_t count = found.content.records.size();
  if (found.content.torn && written_to_later(bytes, end, count + 1, ours)) {
    damaged(name, end, fmt::format("record {} is damaged", count + 1));
  }
  if (found.longest > limits.record_bytes) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: holds a record of {} bytes, more than the limit of {}; raise the "
                            "limit to what it was when the record was written",
                            name, found.longest, limits.record_bytes));
  }
  return std::move(found.content);
}

}  // namespace contcore
