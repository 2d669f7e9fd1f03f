// Files that a process began to write and never finished, and files that one still reads.
//
// A cache may lie on a file system that several machines see. A name being written is of one
// process of one machine, and made with O_EXCL, so that no two write the same file. Who writes it
// holds a lock (flock), as does who reads a finished one. Where the locks of other machines are not
// seen (NFS with local locks), the names tell whose a file is.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/file.h"

namespace contcore {

/// As the file system's other users may know it too.
std::string machine_name();

/// BASE.part-PID-NUMBER.MACHINE.
std::string half_written_name(const std::string& base, std::size_t number);

/// Whether a file's name is that of features being written: KEY.part-…. Whoever writes one holds a
/// lock on it (flock), which goes with the process, however that ends.
bool is_half_written(const std::string& name);

/// A new file of such a name, made with O_EXCL and locked for as long as it is open; gone again
/// unless it takes a name. Where no lock can be had, nobody else gets one either.
class HalfWritten {
 public:
  /// Not open: it could not be made, for the reason in errno.
  explicit HalfWritten(const std::string& base);
  ~HalfWritten();
  HalfWritten(const HalfWritten&) = delete;
  HalfWritten& operator=(const HalfWritten&) = delete;

  File& file() { return file_; }
  const std::string& path() const { return path_; }
  /// Whether the disk has taken what was written, as far as closing it tells. It stays open.
  bool finish() const;
  /// False with errno set. It stays open under the new name, and locked.
  bool link_to(const std::string& name);
  bool rename_to(const std::string& name);

 private:
  int create(const std::string& base);
  std::string path_;
  File file_;
};

/// Writes a file KEY… of a cache, whole or not at all, whoever else writes it meanwhile. Throws
/// Error (kInput).
void write_to_cache(const std::string& path, std::span<const std::byte> bytes);

/// Removes what was left behind in a folder: half-written files that nobody holds a lock on, those
/// of other machines after a day.
void remove_leftovers(const std::string& folder);

/// The file, locked so that nobody begins to read it; not open if somebody reads or writes it, or
/// it is not there.
File lock_unused(const std::string& path);

}  // namespace contcore
