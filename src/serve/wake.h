// Wakes a thread that waits, also one that waits for a socket at the same time.
#pragma once

#include <chrono>

#include "base/file.h"

namespace contcore {

class Wake {
 public:
  Wake();

  /// From any thread. One that does not wait yet will not.
  void call() const;
  /// Until called, at most that long; calls before it count, and are spent.
  void wait(std::chrono::milliseconds longest) const;
  /// To wait for with poll(): readable once called. Then spend() it.
  int fd() const { return file_.fd(); }
  void spend() const;

 private:
  File file_;
};

}  // namespace contcore
