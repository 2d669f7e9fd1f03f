// A memory's file together with its write-ahead log (memory/journal.h), for those who read both and
// for the one who writes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/lock.h"
#include "contcore/memory.h"
#include "memory/journal.h"

namespace contcore {

/// A memory's file, and the records of its journal that are not in it.
struct SavedMemory {
  Memory memory;
  std::vector<std::string> records;
  /// What of the journal will be in the memory when it has taken the records up.
  std::optional<JournalMark> applied;
  std::string checksum;  ///< of the file
};

/// Also while a service goes on writing both. Throws Error as Memory::open and read_journal.
SavedMemory open_saved(const std::string& path);

/// The right to write a memory's file: held from here to the end of this object. Links are
/// followed.
class MemoryFile {
 public:
  /// Throws Error (kInput) when somebody else holds it, or a journal is there whose memory is gone.
  explicit MemoryFile(const std::string& path);

  const std::string& path() const { return path_; }
  bool exists() const;

  /// The memory, without its journal's records. Throws Error as Memory::open.
  Memory open();
  /// What the file says it has of the journal, as it was opened.
  const std::optional<JournalMark>& applied() const { return applied_; }
  const std::string& checksum() const { return checksum_; }
  /// What a journal of this file, as it was opened or saved last, is begun with.
  JournalParent parent() const { return journal_parent(checksum_); }

  /// Replaces the file whole or not at all; `applied` is what of the journal is in the memory.
  /// Throws Error as Memory::save, and kInput when somebody has put a file of theirs in its place
  /// meanwhile. `before` is called before the new file takes the old one's place.
  void save(const Memory& memory, const std::optional<JournalMark>& applied,
            const std::function<void(const std::string& checksum)>& before = {});

  /// Whether somebody has put another file in its place meanwhile, in spite of the lock.
  bool is_replaced() const;
  /// Whether a save that failed had put the new file in place all the same.
  bool is_ahead() const { return is_ahead_; }

 private:
  std::string path_;
  FileLock lock_;
  std::optional<JournalMark> applied_;
  std::string checksum_;  // of the file, as it was opened or saved last
  FileIdentity identity_{""};
  bool is_ahead_ = false;
};

}  // namespace contcore
