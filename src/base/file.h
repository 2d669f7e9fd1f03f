// Files that are read from disk as they stand, and written whole or not at all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace contcore {

/// Closes its descriptor.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File();
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  /// The descriptor, no longer closed by this.
  int release() { return std::exchange(fd_, -1); }
  /// False with errno set on failure: some file systems report a failed write only here.
  bool close();

 private:
  int fd_;
};

/// A regular file, open for reading, and its size, which is not 0. `kind` is what the caller needs,
/// such as "an .npy file". Throws Error (kInput) for a folder, a pipe, a device, an empty or
/// missing file, without ever waiting for one.
struct OpenFile {
  File file;
  std::size_t bytes;
};
OpenFile open_regular(const std::string& path, const std::string& kind);

/// All bytes of a regular file. Throws Error (kInput) as above, and when it has more than `most`
/// bytes, before any is read.
std::vector<std::uint8_t> read_whole(const std::string& path, const std::string& kind,
                                     std::size_t most);

/// Writes the parts one after the other to a new file beside `path`, flushes it to disk and renames
/// it to `path`: after a failure or a power cut the old file is still there, whole. The new file
/// has the old one's mode, and its owner where that may be given. A link stays a link; a device or
/// pipe is written to as it is. `check` is called with the new file's own name before it takes the
/// old one's place, to read it back; if it throws, the old file stays. Throws Error (kInput) naming
/// the path and the reason; nothing is left behind then. What a killed writer leaves (.NAME.tmp) is
/// used again by the next.
void write_whole(const std::string& path, std::span<const std::span<const std::byte>> parts,
                 const std::function<void(const std::string&)>& check = {});

/// The same for what is not at hand as a whole: `fill` writes the new file through its descriptor,
/// and what it throws goes on. Throws Error (kInput) for a device or pipe, before that.
void write_streamed(const std::string& path, const std::function<void(int)>& fill);

/// Throws Error (kInput): the path cannot be written, with the reason of that errno.
[[noreturn]] void fail_to_write(const std::string& path, int error);

/// Writes them through the descriptor from byte `at` on. False with errno set on failure.
bool write_at(int fd, std::span<const std::byte> bytes, std::size_t at);

/// Removes what a killed writer of `path` left, unless one is at work.
void remove_unfinished(const std::string& path);

/// The file that `path` is in the end, its links followed; it need not be there.
std::string real_path(const std::string& path);

/// The folder that `path` is in.
std::string folder_of(const std::string& path);

/// Whether the open file is still the one of that name.
bool is_still_at(int fd, const std::string& path);

/// What tells the file of a name from one that took its place.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  off_t bytes = 0;
  std::int64_t changed = 0;  ///< in nanoseconds

  explicit FileIdentity(const std::string& path);  ///< all zeros when there is none
  bool operator==(const FileIdentity&) const = default;
};

/// What stays with a file while it is written to and renamed, and no copy of it has: its inode,
/// when it was made, and the machine's id, for the disk may be a copy. Empty where there is no
/// file.
std::string birth_of_file(const std::string& path);

/// Gives an open file the mode of the file at `path`, and its owner where that may be given.
/// Nothing if there is none.
void share_rights(int fd, const std::string& path);

/// Why the disk did not take something, for people.
std::string disk_reason(int error);

/// Makes what happened to the names in the folder of `path` last through a power cut. False with
/// errno set on failure; a file system that knows no such thing is no failure.
bool flush_folder_of(const std::string& path);

}  // namespace contcore
