// What the fuzz targets share. A target feeds bytes to a reader that must take them or refuse them
// with Error: any other exception, sanitizer report or broken promise is a finding.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "contcore/error.h"

namespace contcore::fuzz {

using Bytes = std::span<const std::uint8_t>;

/// Ends the process, which the fuzzer reports, if a promise is broken.
inline void expect(bool kept) {
  if (!kept) std::abort();
}

/// Whether the work was done; false if it was refused in the way it should be.
template <typename Work>
bool taken(const Work& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    expect(error.kind() != Error::Kind::kInternal && *error.what() != '\0');
    return false;
  }
}

inline std::string_view text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Takes a byte off the front, 0 at the end.
inline std::uint8_t take(Bytes& bytes) {
  if (bytes.empty()) return 0;
  const std::uint8_t first = bytes.front();
  bytes = bytes.subspan(1);
  return first;
}

/// A file that never touches a disk.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", 0)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    expect(fd_ >= 0);
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& holding(Bytes bytes) {
    expect(::ftruncate(fd_, 0) == 0);
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), 0);
    expect(written == static_cast<ssize_t>(bytes.size()));
    return path_;
  }

 private:
  int fd_;
  std::string path_;
};

}  // namespace contcore::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
