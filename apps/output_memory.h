// The memory that a command makes out of others, and their files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contcore/memory.h"
#include "memory/memory_file.h"

namespace contcore::app {

/// Memories from their files, with the lessons of their journals. Throws Error as open_detector.
std::vector<Memory> open_memories(const std::vector<std::string>& paths,
                                  const std::string& backbone, const Device& device);

/// Holds the right to write the new memory's file, and the memories it is made of, with the lessons
/// of their journals.
class OutputMemory {
 public:
  /// Throws Error (kInput) for a file that is there, unless `force`; for one that a service has
  /// taught what is in its journal alone, unless it is among the inputs; and as MemoryFile and
  /// open_detector. Leaves nothing behind then.
  OutputMemory(const std::string& path, bool force, const std::vector<std::string>& inputs,
               const std::string& backbone, const Device& device);

  std::vector<Memory> memories;  ///< the inputs, in their order

  /// Whole or not at all. Throws Error as Memory::save.
  void save(const Memory& memory) { file_->save(memory, applied_); }

 private:
  std::optional<MemoryFile> file_;
  std::optional<JournalMark> applied_;  // of the journal beside the new memory
};

}  // namespace contcore::app
