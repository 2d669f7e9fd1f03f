// In: a memory, or the name of its file. Out: the other. Fails when somebody else writes the file,
// when it or its journal is damaged, and when the disk does not take it: the file is then as
// before.
#include "memory/memory_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/refuse.h"
#include "contcore/error.h"

namespace contcore {
namespace {

// The mark that a memory's file bears.
std::optional<JournalMark> applied_mark(const Memory::Saved& saved, const std::string& path) {
  if (saved.journal.empty()) return std::nullopt;
  try {
    return JournalMark::parse(saved.journal);
  } catch (const Error& error) {
    throw Error(Error::Kind::kDamaged, fmt::format("{}: {}", path, error.what()));
  }
}

std::string checksum_of(const std::string& path) {
  Memory::Saved saved;
  try {
    Memory::open(path, &saved);
  } catch (const Error&) {
    return "";  // none of ours
  }
  return saved.checksum;
}

}  // namespace

SavedMemory open_saved(const std::string& path) {
  constexpr int kMostTries = 20;  // a service saves every few seconds at most
  for (int tries = 1;; ++tries) {
    const FileIdentity before(path);
    Memory::Saved saved;
    SavedMemory opened{Memory::open(path, &saved), {}, applied_mark(saved, path), saved.checksum};
    JournalRecords found;
    try {
      found = read_journal(journal_of(path), journal_parent(saved.checksum), opened.applied);
    } catch (const Error&) {
      if (tries == kMostTries || FileIdentity(path) == before) throw;
      continue;
    }
    // A journal that was begun anew in between belongs to the next file.
    if (tries < kMostTries && !(FileIdentity(path) == before)) continue;
    if (!found.records.empty()) opened.applied = found.mark;
    opened.records = std::move(found.records);
    return opened;
  }
}

MemoryFile::MemoryFile(const std::string& path) : path_(real_path(path)), lock_(path_) {
  // A journal whose memory is gone is not to be taken for that of a new one.
  if (!exists()) read_journal(journal_of(path_), {}, {});
}

bool MemoryFile::exists() const {
  std::error_code ignored;
  return std::filesystem::exists(path_, ignored);
}

Memory MemoryFile::open() {
  Memory::Saved saved;
  Memory memory = Memory::open(path_, &saved);
  applied_ = applied_mark(saved, path_);
  checksum_ = saved.checksum;
  identity_ = FileIdentity(path_);
  return memory;
}

void MemoryFile::save(const Memory& memory, const std::optional<JournalMark>& applied,
                      const std::function<void(const std::string&)>& before) {
  const FileIdentity old(path_);
  const bool is_known = identity_ != FileIdentity("");
  bool replaced = false;
  FileIdentity fresh("");
  // Writing takes a while, in which somebody may put a file of theirs in its place.
  const auto before_rename = [&](const std::string& written, const std::string& checksum) {
    if (before) before(checksum);
    replaced = is_known ? is_replaced() : FileIdentity(path_) != old;
    if (replaced) {
      refuse(path_,
             "was replaced by another file while it was being saved, which is not overwritten");
    }
    fresh = FileIdentity(written);
  };
  try {
    checksum_ = memory.save(path_, applied ? applied->text() : "", before_rename);
  } catch (...) {
    if (replaced) throw;
    // It may have failed after the new file took its place.
    is_ahead_ = is_ahead_ || FileIdentity(path_) != old;
    if (is_ahead_) checksum_ = checksum_of(path_);
    identity_ = FileIdentity(path_);
    throw;
  }
  is_ahead_ = false;
  identity_ = fresh == FileIdentity("") ? FileIdentity(path_) : fresh;
  lock_.renew();
}

bool MemoryFile::is_replaced() const {
  const FileIdentity there(path_);
  return there != identity_ && there != FileIdentity("") && checksum_of(path_) != checksum_;
}

}  // namespace contcore
