// Records that survive a power cut, kept beside a memory file until that is saved whole.
//
//   8 bytes    "CCJRNL1\n"
//   32 bytes   SHA-256 of the memory file that the records continue: the parent
//   records    u32  length of the payload
//              u32  CRC-32C of parent, sequence, first, length and payload
//              u64  sequence: 1, 2, 3 …
//              u64  first: the sequence number of the first record of the same
//              write payload
//
// All numbers are little endian. Why a CRC and no cryptographic hash: it is to find what disks do,
// not what people do (whoever can write this file can write the memory as well), and in 32 bits a
// CRC is the better of the two, as it finds every damage that is confined to 32 bits in a row. Why
// the parent is in it: old blocks of the disk that come back after a power cut may hold records of
// an earlier journal, with the right sequence numbers, and a changed bit in the header must not
// make good records look like another memory's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/lock.h"

namespace contcore {

using JournalParent = std::array<std::uint8_t, 32>;

/// From 64 hexadecimal digits, as sha256() gives them. Throws Error (kUsage) for anything else.
JournalParent journal_parent(std::string_view hexadecimal);

struct JournalLimits {
  std::size_t record_bytes = std::size_t{64} << 20;  ///< of one payload; at most 4 GiB - 1
  std::size_t total_bytes = std::size_t{1} << 30;    ///< of the file
};

/// Which records a saved memory has in it: the first so many of the journal with this parent, the
/// last of which has this checksum (two journals may continue the same file, one after a copy was
/// put back). So that they are not taken again when the power went before the journal was begun
/// anew.
struct JournalMark {
  JournalParent parent{};
  std::uint64_t records = 0;
  std::uint32_t last = 0;

  /// "PARENT:RECORDS:LAST", and back. Throws Error (kUsage) for anything else.
  std::string text() const;
  static JournalMark parse(std::string_view text);
};

/// What the bytes of a journal say.
struct JournalContent {
  std::vector<std::span<const std::uint8_t>> records;  ///< payloads, inside the bytes given
  std::vector<std::uint32_t> checksums;                ///< of each
  std::size_t good_bytes = 0;  ///< up to the end of the last good record; 0: not even a header
  bool torn = false;           ///< behind them something stands that was never completely written
  bool stale = false;          ///< of another memory: `records` are not for this one
  JournalParent parent{};      ///< that it names
  bool damaged = false;        ///< stale, and not all records could be read
};

/// Reads a journal; any bytes will do. Throws Error, naming `name`: kDamaged when records are lost
/// that had been acknowledged (where a torn end and such damage part is told in journal_parse.cc),
/// kInput when a record is sound but longer than the limits allow.
JournalContent parse_journal(std::span<const std::uint8_t> bytes, const JournalParent& parent,
                             const JournalLimits& limits, const std::string& name);

/// Where the journal of a memory stands.
std::string journal_of(const std::string& memory);

/// What is to be learned again after a memory was opened.
struct JournalRecords {
  std::vector<std::string> records;
  bool torn = false;  ///< a last write that a power cut had interrupted is left out
  JournalMark mark;   ///< of the memory when it has them
};

/// The records for the memory whose file has the checksum `parent`, and has those of `applied` in
/// it already; none when there is no journal. They are all of a journal with that parent, and those
/// behind `applied` of the one that names. Any other journal that holds records is Error (kInput):
/// they were acknowledged, and only a person can say what is to become of them. Changes nothing.
/// Otherwise throws as parse_journal.
JournalRecords read_journal(const std::string& path, const JournalParent& parent,
                            const std::optional<JournalMark>& applied,
                            const JournalLimits& limits = {});

/// One writer, made sure of by a lock; its calls must not overlap.
class Journal {
 public:
  struct Opened {
    std::unique_ptr<Journal> journal;
    std::vector<std::string> applied;  ///< that the memory has already
    std::vector<std::string> records;  ///< to be replayed, in order
    bool torn = false;  ///< a last write that a power cut had interrupted was cut off
  };

  /// Opens the journal at `path` or begins it; its records are as read_journal() gives them. One
  /// that holds records is gone on with until restart(), also when the memory has them all. Throws
  /// Error as that, and kInput when another service has it or it cannot be written; nothing is
  /// deleted then.
  static Opened open(const std::string& path, const JournalParent& parent,
                     const std::optional<JournalMark>& applied = {},
                     const JournalLimits& limits = {});
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Returns when the record is on disk. Throws Error (kInput) when it could not be written, for
  /// instance on a full disk: it is then as if it had never been tried. When not even that could be
  /// achieved, or the disk refused to flush, the record may or may not be there after a restart,
  /// and the journal takes no more until restart() succeeds.
  void append(std::string_view payload);
  /// The same for several with one flush. Not one unit: after a power cut during the call the first
  /// few may be there.
  void append_many(std::span<const std::string_view> payloads);

  /// Begins anew after the memory has been saved whole, as a file with this SHA-256. Atomic: after
  /// a power cut either journal is there, and the old one is stale. Throws Error (kInput) when it
  /// fails; the journal then takes nothing more, as what it took would be thought stale, until
  /// restart() succeeds. That also mends a journal broken before.
  void restart(const JournalParent& parent);

  std::size_t bytes() const { return bytes_; }      ///< of the file
  std::size_t records() const { return records_; }  ///< since it was begun
  /// Whether it takes no more; also when its file was removed or replaced under it.
  bool broken() const;
  /// All that was ever put into it since it was begun.
  JournalMark mark() const { return {parent_, records_, last_}; }

 private:
  Journal(const std::string& path, const JournalLimits& limits);
  void begin(const JournalParent& parent);
  void go_on(const JournalContent& content, bool cut);
  void write_all(std::span<const std::uint8_t> data, std::size_t at);
  void check(std::span<const std::string_view> payloads) const;
  std::string why_broken() const;

  std::string path_;
  JournalLimits limits_;
  FileLock lock_;
  File file_;
  JournalParent parent_{};
  std::size_t bytes_ = 0;
  std::size_t records_ = 0;
  std::uint32_t last_ = 0;  // the last record's checksum
  std::string broken_;      // why no more is taken; empty: all is well
};

}  // namespace contcore
