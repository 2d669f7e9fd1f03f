// One object that several Python threads use: many read, one changes.
#pragma once

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "contcore/error.h"

namespace contcore::python {

/// Taken without the GIL, since whoever holds it may need the GIL for a callback. A callback that
/// uses the object it is called by would wait for itself: that is an error instead, unless both
/// only read.
class ObjectLock {
 public:
  template <typename Work>
  auto read(const Work& work) {
    const Held held(this, false);
    const std::shared_lock lock(mutex_);
    return work();
  }

  template <typename Work>
  auto change(const Work& work) {
    const Held held(this, true);
    const std::lock_guard lock(mutex_);
    return work();
  }

 private:
  struct Entry {
    const ObjectLock* lock;
    bool changes;
  };
  // What this thread holds.
  static std::vector<Entry>& entries() {
    thread_local std::vector<Entry> all;
    return all;
  }
  class Held {
   public:
    Held(const ObjectLock* lock, bool changes) {
      for (const Entry& entry : entries()) {
        if (entry.lock != lock || !(entry.changes || changes)) continue;
        throw Error(Error::Kind::kUsage,
                    "a callback used the object that called it; use a copy, or wait until the call "
                    "has returned");
      }
      entries().push_back({lock, changes});
    }
    ~Held() { entries().pop_back(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
  };

  std::shared_mutex mutex_;
};

}  // namespace contcore::python
