// What a test wants to happen before a file is flushed to disk.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <utility>

#include "base/file_system.h"

namespace contcore {

/// While it lives, `before` is called with the file's name by whichever thread flushes it.
class FlushHook : public FileSystem {
 public:
  explicit FlushHook(std::function<void(const std::string&)> before) : before_(std::move(before)) {}

  int sync(int fd) override {
    std::error_code none;
    const auto link = std::filesystem::path("/proc/self/fd") / std::to_string(fd);
    before_(std::filesystem::read_symlink(link, none).string());
    return FileSystem::sync(fd);
  }

 private:
  std::function<void(const std::string&)> before_;
  UseFileSystem use_{*this};
};

}  // namespace contcore
