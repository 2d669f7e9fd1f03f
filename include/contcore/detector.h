// Learn good images, inspect others: backbone, memory and threshold together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/defects.h"
#include "contcore/extractor.h"
#include "contcore/history.h"
#include "contcore/image.h"
#include "contcore/image_source.h"
#include "contcore/memory.h"
#include "contcore/progress.h"
#include "contcore/ranks.h"
#include "contcore/review.h"
#include "contcore/score.h"
#include "contcore/verdict.h"

namespace contcore {

/// Of a detector that has learned nothing yet. All of it is recorded in the memory.
struct DetectorOptions : ExtractorOptions {
  std::size_t memory = std::size_t{16} << 20;  ///< most bytes of its vectors
  std::size_t capacity = 0;                    ///< most vectors, m; 0: as many as have room there
  Consolidate consolidate;
  Score score = Score::kMap;

  /// As the paper has it: float, 1024 numbers, 256 cropped to 224, the largest patch, 20,000
  /// vectors, its rule.
  static DetectorOptions paper();
};

/// m. Throws Error (kUsage) when there is not room for one vector.
std::size_t capacity_of(const DetectorOptions& options);

/// An empty memory for what the extractor gives, with those options.
Memory new_memory(const DetectorOptions& options, const Extractor& extractor);

struct LearnOptions {
  std::string task;
  std::string who;  ///< for the list of lessons; may be empty
  double p = 0;     ///< part of the patches expansion takes; 0: 0.01, and 0.1 online
  /// What of the images is looked at, of a task that is new; one that is known keeps its own, and
  /// another is refused (kInput). None: that, or all of them.
  SharedRegion region = {};
  bool online = false;  ///< one image at a time, each seen once
  bool strict = false;  ///< stop at an image that cannot be read, instead of leaving it out, and
                        ///< where the review has remarks
  double false_alarms = 0.05;  ///< that the task is to be inspected with: what the review expects
  /// Told what is questionable, before anything is learned. What it throws goes on.
  std::function<void(const Review&)> reviewed;
  std::size_t memory_limit = 0;  ///< bytes for everything; 0: half of what the machine has
  Progress progress;
  /// Processes that learn together, each a part of the images, which all of them name: all call
  /// learn() with the same options, on the same memory, and have the same afterwards, which is what
  /// one alone would have. One of them writes it. Not online. None: this process alone.
  Ranks* ranks = nullptr;
};

struct LearnReport {
  Review review;  ///< numbers are those of the images
  std::size_t learned = 0;
  std::size_t different = 0;  ///< of these, by their features
  std::vector<SkippedImage> skipped;
  std::size_t patches = 0;
  double extract_seconds = 0;  ///< images to features
  double sample_seconds = 0;   ///< expansion, consolidation, calibration
  bool on_disk = false;        ///< the features did not fit into the memory limit
};

/// An Extractor, a Memory and the file they came from. Whoever wants the parts apart composes them:
/// Extractor::extract, Memory::learn, inspect(memory, patches).
class Detector {
 public:
  /// Throws Error as Backbone does.
  explicit Detector(const DetectorOptions& options);

  /// Of a memory that was made elsewhere (merged, copied), with the extractor that its source
  /// names: as open() has it, without a file.
  explicit Detector(Memory memory, const std::string& backbone = "");

  /// A memory from its file, to inspect with, and the backbone it was learned with: the one it
  /// names, or the file `backbone` if given. Throws Error (kInput) if that is another one. What a
  /// service was taught since it last saved (MEMORY.journal) is taken up as well; `lessons` says
  /// how many that were; that is done on the device.
  static Detector open(const std::string& memory, const std::string& backbone = "",
                       std::size_t* lessons = nullptr, const Device& device = {});

  /// The same, to learn; or a new one where there is no such file: then `of_new` is asked for its
  /// options. Nobody else can write the file as long as this detector is there: throws Error
  /// (kInput) if somebody does.
  /// Lessons are written down beside the file (MEMORY.versions), so that they can be taken back, as
  /// far as `kept` allows.
  static Detector open_to_learn(const std::string& memory,
                                const std::function<DetectorOptions()>& of_new,
                                const std::string& backbone = "", std::size_t* lessons = nullptr,
                                const HistoryLimits& kept = {}, const Device& device = {});
  ~Detector();
  Detector(Detector&&) noexcept;
  Detector& operator=(Detector&&) noexcept;

  /// Whether there was no such file.
  bool is_new() const;
  /// What there is to say of the lessons written down beside it: that their list was damaged, and
  /// is begun anew. Empty: nothing.
  const std::string& remark() const;

  /// Learns a task from image files, after a review of them (online: of the first thousand). The
  /// memory is as before if this throws: kInput when none of the files can be used, or (strict) one
  /// cannot or the review has remarks; kCancelled.
  LearnReport learn(const std::vector<std::string>& files, const LearnOptions& options,
                    Compute& compute);
  /// The same from images that are not files. What is learned is what PNG files of the same pixels
  /// would teach, and a lesson keeps such.
  LearnReport learn(const ImageSource& images, const LearnOptions& options, Compute& compute);

  /// Learns one image online. What it scores before that calibrates its task.
  void learn_online(const Image& image, const LearnOptions& options, Compute& compute);

  /// Shows a defect of a task that was learned. The memory is as before if this throws, as
  /// learn_defect() of contcore/defects.h.
  void learn_defect(const Image& image, const DefectMark& mark, const std::string& task,
                    Compute& compute);

  /// The same for image files, several at a time. `mask_of` tells the mask of a file; empty: what
  /// is outlined. An image that teaches nothing is left out and reported, or (strict) stops it all.
  LearnReport learn_defects(const std::vector<std::string>& files,
                            const std::function<std::string(const std::string&)>& mask_of,
                            const LearnOptions& options, Compute& compute);

  /// Safe to call from several threads, each with a Compute of its own, while nobody learns.
  Inspection inspect(const Image& image, const InspectOptions& options, Compute& compute) const;

  /// Inspects many images, several at a time. `each` is called in their order, never
  /// twice at once but perhaps from another thread, with the image and what was seen, or with the
  /// error that reading it gave. It returns false to stop.
  struct Inspected {
    std::string file;  ///< or the name of an image that is not one
    Image image;
    Inspection seen;
    std::string error;  ///< empty when all went well
    double seconds = 0;
  };
  void inspect(const std::vector<std::string>& files, const InspectOptions& options,
               Compute& compute, const std::function<bool(Inspected&)>& each) const;
  void inspect(const ImageSource& images, const InspectOptions& options, Compute& compute,
               const std::function<bool(Inspected&)>& each) const;

  const Extractor& extractor() const;
  const Memory& memory() const;

  /// Writes the memory, whole or not at all. What it took up of a journal is in the file then,
  /// which says so; the journal is the service's to begin anew. Throws Error (kInput) if somebody
  /// else holds the file. What others saved since open() is overwritten: open_to_learn() keeps them
  /// out.
  void save(const std::string& path) const;

  // Of a detector that was opened to learn; saved with the memory, like all it learns.

  /// What it was taught, the newest last.
  std::vector<TaughtLesson> lessons() const;
  std::vector<MemoryVersion> versions() const;
  /// Takes lessons back: the memory is then what it would be without them. The memory is as before
  /// if this throws: kUsage for what is not there (any more), kInput where it is not exact any more
  /// and that is asked for, kCancelled.
  Forgotten forget(const Forget& what, Compute& compute, const Progress& progress = {});
  /// Goes back to a version. Throws Error: kUsage when it is not there, kInput when it was made
  /// with another backbone.
  void restore(std::uint64_t version);
  /// Gives a task another name. Throws Error as Memory::rename_task.
  void rename_task(const std::string& from, const std::string& to, const std::string& who = "");

  /// A detector with a smaller memory (Memory::shrink) in place of this one's.
  void shrink(std::size_t count, Compute& compute);

 private:
  struct State;
  explicit Detector(std::unique_ptr<State> state);
  LearnReport learn_images(const class ImageList& images, const LearnOptions& options,
                           Compute& compute);
  void inspect_images(const class ImageList& images, const InspectOptions& options,
                      Compute& compute, const std::function<bool(Inspected&)>& each) const;
  static Detector open_with_history(const std::string& memory, const std::string& backbone,
                                    std::size_t* lessons, std::unique_ptr<class History> history,
                                    const Device& device);
  std::unique_ptr<State> state_;
};

/// The images in files and folders (searched to the bottom, names sorted, by their endings). Throws
/// Error (kInput) naming what is missing or empty. Pictures in folders that are of a format that is
/// not read, such as HEIC, go to `unread`, if it is given.
std::vector<std::string> find_images(const std::vector<std::string>& paths,
                                     std::vector<std::string>* unread = nullptr);
/// What is to be said of those.
std::string remark_on_unread(std::vector<std::string> unread);

}  // namespace contcore
