// How much memory there is, and how much of its own the process took.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <string>
#include <thread>

namespace contcore {

/// Bytes of memory that the machine has.
inline std::size_t machine_memory() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Bytes of memory that the process takes now, pages of mapped files not counted: those are the
/// kernel's to take back.
inline std::size_t own_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) * 1024;
  }
  return 0;
}

/// Watches that, and knows the most of it.
class PeakMemory {
 public:
  std::size_t bytes() const { return most_; }

 private:
  std::atomic<std::size_t> most_ = 0;
  std::jthread watch_{[this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      most_ = std::max(most_.load(), own_memory());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }};
};

}  // namespace contcore
