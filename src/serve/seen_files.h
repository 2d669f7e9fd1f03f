// The files of a watched folder that were inspected, remembered over restarts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace contcore {

/// What tells one writing of a file from the next.
struct FileMark {
  std::uint64_t inode = 0;
  std::int64_t changed = 0;  ///< nanoseconds
  std::uint64_t bytes = 0;
  bool operator==(const FileMark&) const = default;
};

/// Nothing when there is no such regular file.
std::optional<FileMark> mark_of(const std::string& path);

/// By name, in a file that is only ever behind: what it does not know is inspected once more, and
/// nothing is passed over. It tells files by their marks and not by the time of day, which may be
/// set back.
class SeenFiles {
 public:
  /// Reads the file if there is one. What in it is not sound is passed over.
  explicit SeenFiles(std::string path);

  bool knows(const std::string& name, const FileMark& mark) const;
  void add(const std::string& name, const FileMark& mark);
  /// Forgets all other names.
  void retain(const std::unordered_set<std::string>& names);
  std::size_t size() const { return seen_.size(); }

  /// Whether there is anything to save.
  bool is_behind() const { return rewrite_ || !unsaved_.empty(); }
  /// Writes what has come since. Throws Error (kInput); it is all written the next time then.
  void save();

 private:
  void append();

  const std::string path_;
  std::unordered_map<std::string, FileMark> seen_;
  std::string unsaved_;      // records to be appended
  std::size_t records_ = 0;  // in the file
  bool rewrite_ = false;
};

}  // namespace contcore
