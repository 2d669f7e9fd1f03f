// A fixed crew of threads that is handed in, never found.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace contcore {

/// Cores that this process may run on.
std::size_t cores_allowed();

class Threads {
 public:
  /// A crew of `count` threads, the caller included. 0 means one for each core this process may
  /// run on.
  explicit Threads(std::size_t count = 0);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  std::size_t count() const;

  /// Calls work(i, worker) once for each i in [0, items), worker in [0, count()), and returns when
  /// all are done. Items are handed out in increasing order; which worker gets which is not
  /// fixed. The first exception thrown by `work` is rethrown here, the other items may then be
  /// skipped. Not to be called from inside `work`, nor from two threads at once.
  void run(std::size_t items, const std::function<void(std::size_t, std::size_t)>& work);

 private:
  struct Crew;
  std::unique_ptr<Crew> crew_;
};

}  // namespace contcore
