// What a memory was taught, lesson by lesson, and how lessons are taken back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace contcore {

/// How much is kept beside a memory's file, in MEMORY.versions.
struct HistoryLimits {
  std::size_t versions = 20;                 ///< of the memory's file; 0: nothing is kept at all
  std::size_t bytes = std::size_t{1} << 30;  ///< of versions and of the lessons' images
  /// Nobody asked for these: where the list says what was kept before, that is kept.
  bool by_default = false;
};

struct TaughtLesson {
  std::uint64_t id = 0;
  /// "batch", "online", "feedback" (an inspection that a person called good), "threshold",
  /// "rename", …; "found": the memory as it was when its lessons were first written down.
  std::string kind;
  std::string task;  ///< as it is called now
  std::string from;  ///< of a rename: the name before
  std::string to;    ///< the same: the name after
  std::uint64_t images = 0;
  std::string time;
  std::string who;              ///< a user's or a token's name; may be empty
  std::int64_t inspection = 0;  ///< that it came from; 0: none
  bool taken = false;           ///< the memory has it; false: it was taken back, or see `why`
  bool exact = false;           ///< it can be taken back exactly
  std::string why;              ///< why not
};

/// The memory's file as it was.
struct MemoryVersion {
  std::uint64_t id = 0;
  std::string time;
  std::size_t lessons = 0;
  std::size_t tasks = 0;
  std::size_t vectors = 0;
  std::size_t bytes = 0;
  bool current = false;  ///< the memory has the same lessons now
};

/// What is to be taken back: lessons, or all lessons of some tasks.
struct Forget {
  std::vector<std::uint64_t> lessons;
  std::vector<std::string> tasks;
  /// Throw where it is not exact any more, instead of coming as near as possible (tasks alone).
  bool exact = true;
};

struct Forgotten {
  std::vector<std::uint64_t> lessons;
  /// The memory is what it would be had these never been taught.
  bool exact = true;
  std::string note;  ///< what else there is to say; may be empty
};

}  // namespace contcore
