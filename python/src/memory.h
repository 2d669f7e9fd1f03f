// A memory as Python holds it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "contcore/error.h"
#include "contcore/memory.h"
#include "lock.h"

namespace contcore::python {

/// Where a memory lies: in an object of its own, or in a detector.
class MemoryPlace {
 public:
  virtual ~MemoryPlace() = default;
  ObjectLock& lock() { return lock_; }
  /// Under the lock. Throws Error (kUsage) if it is gone.
  virtual const Memory& get() = 0;
  /// The same, to be changed. Throws Error (kUsage) where only a detector may do that.
  virtual Memory& get_to_change() = 0;

 private:
  ObjectLock lock_;
};

class OwnMemory : public MemoryPlace {
 public:
  explicit OwnMemory(Memory memory) : memory_(std::move(memory)) {}
  const Memory& get() override { return memory_; }
  Memory& get_to_change() override { return memory_; }

 private:
  Memory memory_;
};

using MemoryRef = std::shared_ptr<MemoryPlace>;

inline MemoryRef own(Memory memory) { return std::make_shared<OwnMemory>(std::move(memory)); }

}  // namespace contcore::python
