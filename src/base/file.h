// Files that are read from disk as they stand, and written whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
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
  File& operator=(File&&) = delete;

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
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
/// it to `path`: after a failure or a power cut the old file is still there, whole. A link stays a
/// link; a device or pipe is written to as it is. Throws Error (kInput) naming the path and the
/// reason; nothing is left behind then.
void write_whole(const std::string& path, std::span<const std::span<const std::byte>> parts);

}  // namespace contcore
