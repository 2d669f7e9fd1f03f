#include "detector/feature_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "contcore/error.h"

namespace contcore {
namespace {

constexpr std::size_t kPage = 4096;

std::string scratch_folder() {
  const char* named = std::getenv("TMPDIR");
  // Not /tmp: that is memory on many machines.
  return named != nullptr && *named != '\0' ? named : "/var/tmp";
}

int open_nameless(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  std::string name = folder + "/contcore-XXXXXX";
  const int made = ::mkostemp(name.data(), O_CLOEXEC);
  if (made >= 0) ::unlink(name.c_str());
  return made;
}

}  // namespace

FeatureStore::FeatureStore(std::size_t dimension, std::size_t memory)
    : dimension_(dimension), room_(std::max(memory, kPage) / kPage * kPage) {
  // Address space alone: pages come when they are written.
  void* place = ::mmap(nullptr, room_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) {
    room_ = 0;
    return;
  }
  memory_ = place;
  ::madvise(memory_, room_, MADV_HUGEPAGE);
}

FeatureStore::~FeatureStore() {
  if (memory_ != nullptr) ::munmap(memory_, room_);
  if (mapped_ != nullptr) ::munmap(mapped_, mapped_bytes_);
  if (fd_ >= 0) ::close(fd_);
}

void FeatureStore::append(const float* rows, std::size_t count) {
  const std::size_t at = rows_ * dimension_ * sizeof(float);
  const std::size_t bytes = count * dimension_ * sizeof(float);
  if (fd_ < 0 && at + bytes > room_) move_to_disk();
  if (fd_ >= 0) {
    write(rows, bytes, at);
  } else {
    std::memcpy(static_cast<char*>(memory_) + at, rows, bytes);
  }
  rows_ += count;
}

void FeatureStore::move_to_disk() {
  folder_ = scratch_folder();
  fd_ = open_nameless(folder_);
  if (fd_ < 0) {
    throw Error(
        Error::Kind::kInput,
        fmt::format("{}: no place for the features ({}); set TMPDIR to a folder that can be "
                    "written, or raise --memory-limit",
                    folder_, std::strerror(errno)));
  }
  write(memory_, rows_ * dimension_ * sizeof(float), 0);
  if (memory_ != nullptr) ::munmap(memory_, room_);
  memory_ = nullptr;
}

void FeatureStore::write(const void* data, std::size_t bytes, std::size_t at) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::pwrite(fd_, from, bytes, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw Error(
          Error::Kind::kInput,
          fmt::format("{}: the features cannot be written ({}); set TMPDIR to a folder with "
                      "more room, or raise --memory-limit",
                      folder_, std::strerror(written == 0 ? ENOSPC : errno)));
    }
    from += written;
    at += static_cast<std::size_t>(written);
    bytes -= static_cast<std::size_t>(written);
  }
}

VectorView FeatureStore::view() {
  if (fd_ < 0) return {static_cast<const float*>(memory_), rows_, dimension_};
  if (mapped_ != nullptr) ::munmap(mapped_, mapped_bytes_);
  mapped_bytes_ = rows_ * dimension_ * sizeof(float);
  mapped_ = ::mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, fd_, 0);
  if (mapped_ == MAP_FAILED) {
    mapped_ = nullptr;
    throw std::bad_alloc();
  }
  return {static_cast<const float*>(mapped_), rows_, dimension_};
}

}  // namespace contcore
