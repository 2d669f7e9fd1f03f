// The memory of a service: inspected by many, changed by one, and never lost.
//
// Two copies are kept. One is published and nobody changes it; an update is made to the other,
// which is then published in its place, and made to the first as soon as its last reader has left
// it. So an inspection sees the memory as it was before an update or as it is after, never between,
// and waits for neither.
//
// A single image that is learned is first written to the journal beside the memory's file, as it
// came; learning is deterministic, so replaying the journal gives the same memory. From time to
// time the memory is saved whole and the journal begun anew. The journal is the truth: what other
// files say of its lessons follows from it, and is written before it is begun anew.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contcore/detector.h"
#include "contcore/extractor.h"
#include "contcore/progress.h"
#include "detector/learning.h"
#include "detector/lessons.h"
#include "detector/relearn.h"
#include "memory/history.h"
#include "memory/journal.h"
#include "memory/memory_file.h"

namespace contcore {

struct LiveMemoryOptions {
  std::string path;          ///< the file; made if it is not there
  std::string backbone;      ///< where the backbone is, if not where the memory says
  DetectorOptions settings;  ///< of a new memory
  HistoryLimits kept;        ///< of its lessons and versions
};

/// Learning calls are for one thread at a time, the others for any.
class LiveMemory {
 public:
  /// Opens the memory and replays its journal. Throws Error as Detector::open and Journal::open.
  LiveMemory(const LiveMemoryOptions& options, Compute& compute);
  ~LiveMemory();

  /// The memory's file, links followed.
  const std::string& path() const { return file_.path(); }
  /// Inspections that the journal says were called good and learned, and when.
  const std::vector<std::pair<std::int64_t, std::string>>& good() const { return good_; }
  /// The last inspection that a lesson ever came from, as far as known; 0: none.
  std::int64_t last_inspection() const { return last_inspection_; }
  /// Tasks that were renamed by lessons of the journal.
  const std::vector<std::pair<std::string, std::string>>& renames() const { return renames_; }
  /// Is called before the journal is begun anew, to write down what follows from it elsewhere. If
  /// it throws, the journal stays, and nothing is saved.
  void before_checkpoint(std::function<void()> action) { before_checkpoint_ = std::move(action); }

  const Extractor& extractor() const { return *extractor_; }
  /// The memory as it is now; it stays that way as long as it is held, so hold it briefly.
  std::shared_ptr<const Memory> memory() const;

  /// What was found at the start, for the log; empty when there is nothing to say.
  const std::string& remark() const { return remark_; }

  /// Takes a lesson; its time is now, and `patches` are its image's. On disk and published when it
  /// returns its number. The memory is as before if this throws: kInput when
  /// the disk does not take it or the memory has no room for another task, kUsage as
  /// Memory::set_threshold.
  LessonId take(Lesson lesson, const Patches& patches, Compute& compute);

  /// Learns a batch. Saved and published when it returns. Throws
  /// as Memory::learn, and Error (kInput) when it cannot be saved (also because another file has
  /// taken the memory's place, which is not overwritten): the memory is as before.
  /// For the list of lessons: who teaches it, and the images of the set as they came, if they are
  /// kept. And what the set was seen through.
  struct Batch {
    std::string who;
    std::unique_ptr<LessonImagesWriter> images;
    SharedRegion region;
  };
  void learn_batch(const TrainingSet& set, const std::string& task, Compute& compute,
                   const Progress& progress, Batch batch = {});
  /// For the images of a batch that comes; none where lessons are not kept. For any thread.
  std::unique_ptr<LessonImagesWriter> new_images();

  /// Takes lessons back. Saved and published when it returns. Throws as plan_forget() and
  /// carry_out(), and as learn_batch(): the memory is as before.
  Forgotten forget(const Forget& what, Compute& compute, const Progress& progress = {});
  /// Goes back to a version; the same.
  void restore(std::uint64_t version, Compute& compute);
  /// Throw what these would, as far as that is known before they begin.
  Forgetting plan(const Forget& what) const;
  void check_restore(std::uint64_t version) const;

  // For any thread.
  std::vector<TaughtLesson> lessons() const;
  std::vector<MemoryVersion> versions() const;
  /// The lesson that an inspection is learned by; 0: none.
  LessonId lesson_of(std::int64_t inspection) const;
  /// Inspections that were learned, and are not any more.
  std::vector<std::int64_t> taken_back() const;

  /// Images learned since the memory was last saved.
  std::size_t unsaved() const { return unsaved_; }
  /// Saves the memory, and begins the journal anew.
  void checkpoint(Compute& compute);

 private:
  // One of the two copies, and how many read it.
  struct Buffer {
    explicit Buffer(Memory m) : memory(std::move(m)) {}
    Memory memory;
    std::size_t readers = 0;
  };
  using Update = std::function<void(Memory&, Compute&)>;
  void open_journal(Compute& compute);
  void add_remark(const std::string& text);
  LessonId write_down(const Lesson& lesson);
  void publish(const Update& update, Compute& compute);
  void publish_whole(std::shared_ptr<Buffer> buffer, std::shared_ptr<Buffer> twin);
  void catch_up(Compute& compute);
  void save(const Memory& memory, const LessonSet& lessons);
  void replace(Taught next, LessonId added, Compute& compute);
  void keep_images_of_journal();
  void begin_journal();

  MemoryFile file_;
  std::optional<Extractor> extractor_;
  mutable std::mutex mutex_;              // of which is which, and of the readers
  mutable std::condition_variable left_;  // a reader has
  std::shared_ptr<Buffer> front_;
  std::shared_ptr<Buffer> back_;  // none after an update failed: it is copied anew
  std::vector<Update> behind_;    // updates that the back has not seen
  std::unique_ptr<Journal> journal_;
  std::vector<LessonId> in_journal_;  // the lessons of its records; 0: not to be kept
  mutable std::mutex history_mutex_;  // of what follows, which the learning thread alone changes
  History history_;
  LessonSet lessons_;  // that the front has
  std::function<void()> before_checkpoint_;
  std::vector<std::pair<std::int64_t, std::string>> good_;
  std::int64_t last_inspection_ = 0;
  std::vector<std::pair<std::string, std::string>> renames_;
  std::string remark_;
  std::atomic<std::size_t> unsaved_ = 0;
};

}  // namespace contcore
