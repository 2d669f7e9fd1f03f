// Lessons: what a service has been taught since its memory was last saved, one record of the
// journal each, and how a memory takes them up again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contcore/compute.h"
#include "contcore/defects.h"
#include "contcore/extractor.h"
#include "contcore/memory.h"
#include "memory/history.h"
#include "memory/lesson_set.h"

namespace contcore {

/// An image that is learned, a defect that is shown, a threshold that is set, a task that gets
/// another name; or many images at once, which are in no journal. There it is a line of JSON, the
/// head, and the image's bytes.
struct Lesson {
  LessonId id = 0;  ///< 0: of a version that did not number them
  std::string who;  ///< taught it; may be empty
  std::string task;
  std::string time;
  std::string_view image;                 ///< as it came
  bool calibrates = true;                 ///< what it scores before it is learned
  std::int64_t inspection = 0;            ///< that a person called good, or a defect; 0: none
  std::optional<SetThreshold> threshold;  ///< set; there is no image then
  std::optional<DefectMark> defect;       ///< that the image shows; without a mask
  bool has_masks = false;                 ///< behind each image; an empty one is none
  std::string rename_to;                  ///< the task's new name; the same
  bool batch = false;                     ///< all images at once
  double p = 0;                           ///< part that expansion takes; 0: as usual

  bool has_image() const { return !threshold && rename_to.empty(); }
  /// TaughtLesson::kind
  const char* kind() const;
};

/// How it stands in the list of lessons.
LessonEntry entry_of(const Lesson& lesson, std::uint64_t images);

std::string as_record(const Lesson& lesson);

/// Views into the record. Throws Error (kDamaged), naming `path`.
Lesson read_lesson(std::string_view record, const std::string& path);

/// Throws Error (kInput, kUsage) for a lesson that the memory would not take.
void check_lesson(const Memory& memory, const Lesson& lesson);

/// Makes a lesson part of the memory; `patches` are its image's, seen through its task's region.
/// The same lessons in the same order make the same memory.
void take_lesson(Memory& memory, const Lesson& lesson, const Patches& patches, Compute& compute);

/// Takes up records. One that could not be learned when it came either was not acknowledged, and is
/// left out and counted. Throws Error for one that this version cannot read.
struct Replayed {
  std::size_t unusable = 0;
  std::vector<bool> taken;  ///< each record
  /// Inspections that were called good, and when.
  std::vector<std::pair<std::int64_t, std::string>> good;
};
Replayed replay(Memory& memory, const Extractor& extractor, const std::vector<std::string>& records,
                const std::string& path, Compute& compute);

/// A file of the lesson's image, for the list; none where it has no image or none are kept.
std::unique_ptr<LessonImagesWriter> images_of_lesson(History& history, const Lesson& lesson);

/// Adds the records of a journal that were taken up to the list of lessons, with their images.
/// Throws Error (kInput) when these cannot be kept.
void write_down_records(History& history, LessonSet& lessons,
                        const std::vector<std::string>& records, const Replayed& replayed,
                        const std::string& path);

}  // namespace contcore
