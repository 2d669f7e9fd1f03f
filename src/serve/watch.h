// A folder whose new files are told of.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace contcore {

/// Calls found(path, name) from a thread of its own for each file that is written, or moved, into
/// the folder and whose ending is an image's.
class Watch {
 public:
  using Found = std::function<void(const std::string& path, const std::string& name)>;

  /// Throws Error (kInput) when the folder cannot be watched.
  Watch(std::string folder, Found found);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void run();

  std::string folder_;
  Found found_;
  int events_ = -1;
  int stop_ = -1;
  std::thread thread_;
};

}  // namespace contcore
