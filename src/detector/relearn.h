// Lessons taken back: a memory made again without them.
//
// In: the history of a memory, and which lessons it is to have. Out: the memory that has just
// these. A memory is a function of its lessons in their order, so one is made by going back to a
// version that has the first of them and taking the others again. Fails where the images of one
// that came later are not kept any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contcore/compute.h"
#include "contcore/extractor.h"
#include "contcore/history.h"
#include "contcore/memory.h"
#include "contcore/progress.h"
#include "memory/history.h"

namespace contcore {

/// A memory and the lessons it has.
struct Taught {
  Memory memory;
  LessonSet lessons;
};

/// How a memory without some lessons is made; nothing has happened yet.
struct Forgetting {
  LessonSet lessons;              ///< that are taken back
  LessonSet wanted;               ///< those that stay
  std::vector<std::string> gone;  ///< tasks that there will not be any more
  std::vector<std::string> drop;  ///< tasks whose vectors are taken out, and nothing else is done
  std::optional<KnownFile> from;  ///< else: the file to begin with; none: with nothing
  bool exact = true;
  /// What is left is no function of the lessons that stay: it is to be added as found.
  bool is_new_beginning = false;
};

/// Throws Error: kUsage for lessons and tasks that are not there (any more), kInput where it cannot
/// be done (exactly, if that is asked for).
Forgetting plan_forget(const History& history, const Memory& memory, const LessonSet& lessons,
                       const Forget& what);

/// The memory that was planned. Lessons among those that stay that cannot be taken any more (a
/// threshold of a task that is not there) are left out. Throws Error as learning does, kDamaged for
/// files that are altered, kCancelled.
Taught carry_out(const Forgetting& plan, const History& history, const Memory& memory,
                 const Extractor& extractor, Compute& compute, const Progress& progress);

inline constexpr char kNotExact[] =
    "not exact: the other tasks stay as they are, with the vectors they had left; the memory is "
    "not what it would have been without this task";

/// What there is to say of it.
Forgotten report_of(const Forgetting& plan, const LessonSet& left);

/// A version as it was. Throws Error: kUsage when it is not there, kInput when it was made with
/// another backbone or of another kind than the memory.
Taught open_version(const History& history, std::uint64_t version, const Memory& memory);

/// All lessons of the list, the newest last.
std::vector<TaughtLesson> taught_lessons(const History& history, const Memory& memory,
                                         const LessonSet& lessons);
std::vector<MemoryVersion> versions_of(const History& history, const LessonSet& lessons);

}  // namespace contcore
