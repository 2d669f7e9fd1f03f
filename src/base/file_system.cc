#include "base/file_system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace contcore {
namespace {

FileSystem& systems_own() {
  static FileSystem own;
  return own;
}

std::atomic<FileSystem*> in_use = nullptr;

}  // namespace

int FileSystem::open(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }
ssize_t FileSystem::read(int fd, void* data, std::size_t bytes, off_t at) {
  return ::pread(fd, data, bytes, at);
}
ssize_t FileSystem::write(int fd, const void* data, std::size_t bytes, off_t at) {
  return ::pwrite(fd, data, bytes, at);
}
int FileSystem::sync(int fd) { return ::fsync(fd); }
int FileSystem::truncate(int fd, off_t bytes) { return ::ftruncate(fd, bytes); }
int FileSystem::close(int fd) { return ::close(fd); }
int FileSystem::rename(const char* from, const char* to) { return std::rename(from, to); }
int FileSystem::unlink(const char* path) { return ::unlink(path); }
int FileSystem::link(const char* from, const char* to) { return ::link(from, to); }
void* FileSystem::map(int fd, std::size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
}

FileSystem& file_system() {
  FileSystem* other = in_use.load(std::memory_order_acquire);
  return other != nullptr ? *other : systems_own();
}

UseFileSystem::UseFileSystem(FileSystem& other) : before_(in_use.exchange(&other)) {}
UseFileSystem::~UseFileSystem() { in_use = before_; }

}  // namespace contcore
