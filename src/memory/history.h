// The lessons of a memory and versions of its file, in a folder beside it:
//
//   MEMORY.versions/lessons.json   the list; replaced whole
//   MEMORY.versions/N.images       the images of lesson N, as they came (memory/lesson_images.h)
//   MEMORY.versions/N.ccm          version N: the memory's file as it was
//
// A memory is a function of its settings and of the lessons it has, in the order of their numbers.
// Which lessons a memory's file has the list tells by the file's checksum; it is written before the
// file takes the old one's place, with both checksums in it, so that the two agree wherever the
// power goes. A file that the list does not know (made by another program, a copy that was put
// back) becomes a lesson itself, "found", which cannot be taken back.
//
// In: lessons, and the memory when it is saved. Out: what it was taught, and what it was. Fails
// when the disk does not take it: nothing is saved then. A list that is damaged is begun anew; the
// folder is moved aside first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contcore/history.h"
#include "contcore/memory.h"
#include "memory/lesson_images.h"
#include "memory/lesson_set.h"
#include "memory/memory_file.h"

namespace contcore {

/// A lesson in the list.
struct LessonEntry {
  LessonId id = 0;
  std::string kind;
  std::string task;  ///< as it was called then
  std::string to;    ///< of a rename: the new name
  std::string time;
  std::string who;
  std::uint64_t images = 0;
  std::int64_t inspection = 0;
  std::string head;       ///< how it is taken again: a record's first line (detector/lessons.h)
  std::size_t bytes = 0;  ///< of its images that are kept; 0: they are not
  LessonSet stands_for;   ///< of one that was found: the lessons that are in it

  bool is_found() const { return kind == "found"; }
  /// Whether what it takes to take it again is there.
  bool can_be_repeated() const { return !is_found() && (images == 0 || bytes > 0); }
};

/// A memory's file that the list knows.
struct KnownFile {
  std::uint64_t id = 0;  ///< of a version; 0: the memory's own file
  std::string checksum;
  std::string time;
  LessonSet lessons;
  std::size_t tasks = 0;
  std::size_t vectors = 0;
  std::size_t bytes = 0;
};

class History {
 public:
  /// Reads the list of the memory at this place, its links followed; it need not be there. Throws
  /// Error (kInput) when it cannot be read, or a later version wrote it.
  History(const std::string& memory, const HistoryLimits& limits);
  /// A folder that nothing was kept in goes.
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  bool is_kept() const { return limits_.versions > 0; }
  /// Why the list was begun anew; empty: it was not.
  const std::string& remark() const { return remark_; }

  /// What the file has that was opened, and is the one to be replaced by the next save.
  LessonSet opened(const std::string& checksum, const Memory& memory);

  const std::vector<LessonEntry>& lessons() const { return lessons_; }
  const LessonEntry* find(LessonId id) const;
  /// Whether a memory with these lessons has that one, perhaps inside one that was found.
  bool has(const LessonSet& lessons, LessonId id) const;
  /// The name that a lesson's task has now, after the renames among these.
  std::string name_now(const LessonEntry& lesson, const LessonSet& lessons) const;

  /// The next lesson's number.
  LessonId next() const { return next_; }
  /// Numbers up to this one are taken, elsewhere.
  void pass_over(LessonId id);

  /// For the images of a lesson that comes; none where nothing is kept. Throws Error (kInput).
  std::unique_ptr<LessonImagesWriter> new_images();
  /// Adds a lesson; in the list on disk with the next save. Its number is the next one unless it
  /// has one; `images` may be none. Throws Error (kInput) when the images cannot be kept.
  LessonId add(LessonEntry lesson, std::unique_ptr<LessonImagesWriter> images);
  /// The images of a lesson that was added without, or that there are none.
  void attach(LessonId id, std::unique_ptr<LessonImagesWriter> images);
  /// As if it had never been added. Nothing for 0.
  void remove(LessonId id);
  /// The memory as it is stands for all lessons it had, from now on.
  LessonId add_found(const LessonSet& had, const Memory& memory);

  std::string images_of(LessonId id) const;
  const std::vector<KnownFile>& versions() const { return versions_; }
  /// The memory's own file, as it was opened or saved last; it has the number 0, and is none where
  /// there is no file.
  const std::optional<KnownFile>& own_file() const { return current_; }
  const KnownFile* version(std::uint64_t id) const;
  std::string file_of(const KnownFile& version) const;

  /// Replaces the memory's file, which becomes a version, and the list. Throws Error as
  /// MemoryFile::save and when the folder cannot be written: file and list are then as before.
  void save(MemoryFile& file, const Memory& memory, const std::optional<JournalMark>& applied,
            const LessonSet& lessons);

 private:
  template <typename Json>
  void read_list(const Json& list);
  void write_list(const KnownFile& next) const;
  void insert(LessonEntry lesson);
  void make_folder();
  std::size_t keep_images(LessonId id, LessonImagesWriter& images) const;
  std::string list_file() const;
  std::optional<KnownFile> keep_version();
  void let_go();
  void let_go_of_versions();
  void let_go_of_bytes();
  void tidy() const;

  std::string memory_;
  std::string folder_;
  HistoryLimits limits_;
  std::string remark_;
  bool made_folder_ = false;
  bool is_damaged_ = false;  // and the folder not yet moved aside
  LessonId next_ = 1;
  std::uint64_t next_version_ = 1;
  std::uint64_t next_spool_ = 1;
  std::vector<LessonEntry> lessons_;  // by number
  std::vector<LessonId> renames_;     // among them
  std::vector<LessonId> founds_;      // the same
  std::vector<KnownFile> versions_;   // by number
  std::vector<KnownFile> files_;      // what the list says of the memory's own file
  std::optional<KnownFile> current_;  // the memory's own file, as it was opened or saved last
};

/// Where the history of a memory stands.
std::string history_of(const std::string& memory);

}  // namespace contcore
