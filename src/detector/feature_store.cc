#include "detector/feature_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

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

bool FeatureRoom::take_memory(std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (bytes > memory_ - memory_taken_) return false;
  memory_taken_ += bytes;
  return true;
}

bool FeatureRoom::take_disk(std::size_t bytes, const std::string& folder) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (bytes > disk_ - disk_taken_) return false;
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) == 0) {
    const std::size_t free = std::size_t{disk.f_bavail} * disk.f_frsize;
    if (disk_taken_ + bytes > (free + disk_taken_) / 2) return false;
  }
  disk_taken_ += bytes;
  return true;
}

void FeatureRoom::give_back(std::size_t memory, std::size_t disk) {
  const std::lock_guard<std::mutex> lock(mutex_);
  memory_taken_ -= memory;
  disk_taken_ -= disk;
}

std::size_t FeatureRoom::memory_taken() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return memory_taken_;
}

std::size_t FeatureRoom::disk_taken() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return disk_taken_;
}

FeatureStore::FeatureStore(std::size_t dimension, std::size_t memory,
                           std::shared_ptr<FeatureRoom> shared)
    : dimension_(dimension),
      room_(std::max(memory, kPage) / kPage * kPage),
      shared_(std::move(shared)) {
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
  if (shared_) shared_->give_back(memory_taken_, disk_taken_);
}

bool FeatureStore::fits(std::size_t bytes) {
  if (this->bytes() + bytes > room_) return false;
  if (!shared_) return true;
  if (!shared_->take_memory(bytes)) return false;
  memory_taken_ += bytes;
  return true;
}

void FeatureStore::append(VectorView rows) {
  if (rows.rows == 0) return;
  if (rows_ == 0) scalar_ = rows.scalar;
  if (rows.scalar != scalar_ || rows.cols != dimension_) {
    throw Error(Error::Kind::kInternal, "features of two kinds in one store");
  }
  const std::size_t at = bytes();
  const std::size_t more = rows.bytes();
  if (fd_ < 0 && !fits(more)) move_to_disk();
  if (fd_ >= 0) {
    take_disk(more);
    write(rows.data, more, at);
  } else {
    std::memcpy(static_cast<char*>(memory_) + at, rows.data, more);
  }
  rows_ += rows.rows;
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
  try {
    take_disk(bytes());
    write(memory_, bytes(), 0);
  } catch (...) {
    ::close(std::exchange(fd_, -1));  // the rows are where they were
    throw;
  }
  if (memory_ != nullptr) ::munmap(memory_, room_);
  memory_ = nullptr;
  if (shared_) shared_->give_back(std::exchange(memory_taken_, 0), 0);
}

void FeatureStore::take_disk(std::size_t bytes) {
  if (!shared_) return;
  if (!shared_->take_disk(bytes, folder_)) {
    throw Error(Error::Kind::kInput,
                fmt::format("{}: no more room for features, of which {} MiB are there; learn fewer "
                            "images at a time, or set TMPDIR to a folder with more room",
                            folder_, shared_->disk_taken() >> 20));
  }
  disk_taken_ += bytes;
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
  if (fd_ < 0) return {memory_, rows_, dimension_, scalar_};
  if (mapped_ != nullptr) ::munmap(mapped_, mapped_bytes_);
  mapped_bytes_ = bytes();
  mapped_ = ::mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, fd_, 0);
  if (mapped_ == MAP_FAILED) {
    mapped_ = nullptr;
    throw std::bad_alloc();
  }
  return {mapped_, rows_, dimension_, scalar_};
}

}  // namespace contcore
