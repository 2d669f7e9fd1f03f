// The continual memory M_t: at most m vectors that cover every normal feature ever learned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "contcore/compute.h"
#include "contcore/progress.h"
#include "contcore/ranks.h"
#include "contcore/region_of_interest.h"
#include "contcore/vectors.h"

namespace contcore {

class Calibration;

/// The rule that keeps a memory within m (docs/memory.md).
struct Consolidate {
  enum class Rule {
    kShare,  ///< every task keeps an equal share of m: the first of its own greedy order
    kPaper,  ///< greedy sampling again from all, whatever task they came from
  };
  Rule rule = Rule::kShare;
  double q = 0.75;  ///< of the paper's rule: the part that is chosen by nearest neighbours alone

  static Consolidate paper(double q = 0.75) { return {Rule::kPaper, q}; }
  /// "share" or "paper"; and back. Throws Error (kUsage) for another name.
  const char* name() const;
  /// The rule in words, for people.
  std::string text() const;
  static Rule parse(const std::string& name);
};

/// A limit that a person has set for a task: a score, or a rate of false alarms to calibrate for;
/// or neither.
struct SetThreshold {
  std::optional<float> score;
  std::optional<double> false_alarms;
};

/// What the memory remembers of a task. Learning into the same name again continues the task.
struct TaskRecord {
  std::string name;
  std::uint64_t images = 0;   ///< learned from
  std::uint64_t patches = 0;  ///< features seen
  std::uint64_t picked = 0;   ///< vectors that expansion took
  float epsilon = 0;      ///< covering radius of the expansion; the largest, if there were several
  float epsilon_hat = 0;  ///< covering radius of the consolidation; the same (paper)
  float covering = 0;     ///< features of its first learning are all this near to its vectors
                          ///< (share)
  std::string learned;    ///< when, in UTC: 2031-05-04T03:02:01Z
  SetThreshold set;       ///< by hand
  SharedRegion region;    ///< that all its images are seen through; none: they are seen whole
};

/// The verdict's limit: a good image scores above `score` with a probability of at most
/// `false_alarms`, as far as good images are like those it is calibrated with.
struct Threshold {
  float score = 0;
  double false_alarms = 0;  ///< what was asked, or 1 / (images + 1) where they are too few for that
  std::size_t images = 0;   ///< images it rests on
  bool by_hand = false;     ///< `score` was set by a person, whatever the images say
};

/// How one task fares now.
struct TaskState {
  std::size_t vectors = 0;     ///< it still holds in the memory
  std::size_t calibrated = 0;  ///< images it is calibrated with
  /// Every feature of the task ever learned is within this of the memory. With the paper's rule it
  /// is the memory's certificate for all.
  double certificate = 0;
  /// Median score of those images when they were scored, and now. Their ratio is the drift:
  /// forgetting, seen without a label. 0 when there are none.
  float first_score = 0;
  float score = 0;
  /// NaN when there are none.
  double drift() const;
  /// Why it has as many vectors as it has: "all it took", "equal share" (the memory is full),
  /// "cut earlier" (when it was smaller or had more tasks), "no room" (none), (paper) "resampled".
  const char* why = "";
};

struct LearnHow {
  std::string task;
  double p = 0.01;               ///< part of the features that expansion takes, at least one
  std::uint64_t images = 1;      ///< how many images the features are of
  std::string time;              ///< for the record; empty: now
  std::size_t memory_limit = 0;  ///< bytes for the sampling beside the features; 0: no limit
  Progress progress;
  /// That the features are seen through: of a task that is new it becomes its own; one that is
  /// known must have the same. None: whatever the task has.
  SharedRegion region = {};
  /// Online: called before the memory changes, with the distance of each feature to what expansion
  /// starts from; not for the first features of all.
  std::function<void(std::span<const float> distances)> before;
};

/// Places where a good image is strangest, the strangest first: what known defects would make of
/// its score is told by them.
struct Suspects {
  static constexpr std::size_t kMost = 4;

  Vectors patches;
  std::vector<float> distances;  ///< of each patch, when the image was scored
  std::vector<float> values;     ///< of the place: what the score would be, were it the only one
};

/// What a good image scores that the memory has not learned: with as many vectors as its task had
/// then, with 2^-½ of them, 2^-1, and so on, as far as known.
struct ImageScores {
  std::size_t vectors = 0;
  std::vector<float> scores;
  std::uint64_t image = 0;  ///< tells it from others: a hash of its features; 0: not known
  std::shared_ptr<const Suspects> suspects =
      {};  ///< none: known defects cannot be calibrated by it
  /// Its mean patch (mean_of_patches()): strangers are told by it. Empty: not known.
  std::vector<float> mean = {};
};

/// What a memory knows of a task's defects.
struct KnownDefects {
  static constexpr std::size_t kLeast = 10;  ///< images that must be shown before they count

  std::size_t images = 0;   ///< that were shown
  std::size_t patches = 0;  ///< of them that are kept
  bool used = false;        ///< whether scores are raised by them
};

/// How unlike a task an image is as a whole: the distance of its mean patch to the nearest of those
/// that are kept of the task's images (docs/method.md).
struct Strangeness {
  float distance = 0;
  float limit = 0;         ///< a good image is farther with a probability of at most `rate`
  double rate = 0;         ///< what was asked, or 1 / (images + 1) where they are too few for that
  std::size_t images = 0;  ///< images the limit rests on
};

/// The mean of an image's patches.
std::vector<float> mean_of_patches(VectorView patches);

class Memory {
 public:
  /// An empty memory for at most `capacity` vectors (m), of float32 or of bytes. Throws Error
  /// (kUsage) on a capacity or dimension of 0 and on a q outside [0, 1].
  Memory(std::size_t dimension, std::size_t capacity, const Consolidate& how = {},
         Scalar scalar = Scalar::kFloat32);
  ~Memory();
  Memory(Memory&&) noexcept;
  Memory& operator=(Memory&&) noexcept;

  std::size_t dimension() const;
  Scalar scalar() const;
  std::size_t capacity() const;
  std::size_t size() const;
  const Consolidate& consolidation() const;
  const std::vector<TaskRecord>& tasks() const;
  /// The task's place in tasks(), if it is known.
  std::optional<std::size_t> find_task(const std::string& name) const;

  /// The vectors in the memory's order, and for each the task it came from (an index into tasks()),
  /// and its distance to base and earlier picks when expansion took it (infinite for the first on
  /// an empty base).
  Vectors vectors() const;
  std::vector<std::int32_t> origins() const;
  std::vector<float> radii() const;

  /// No feature ever learned is farther than this from the memory. Proven, not measured
  /// (docs/method.md).
  double certificate() const;

  /// Throws Error (kInput) unless the task is known or can be added: a name is UTF-8 in the form
  /// NFC, 1 to 200 bytes of characters that can be seen, and there are at most 10,000.
  void check_task(const std::string& task) const;

  /// The region of a task; none where it has none or is not known.
  SharedRegion region_of(const std::string& task) const;
  /// Throws Error (kInput) where the task is known and has another region, or none has and the
  /// other does.
  void check_region(const std::string& task, const SharedRegion& region) const;

  /// Throws what learning these would, as far as that is known before it begins.
  void check_learn(VectorView features, const LearnHow& how) const;

  /// Learns a task: expand, then consolidate to capacity,
  ///   S = G_n(Z; B), n = ⌊p·|Z|⌋;   M ← the consolidation of [M; S].
  /// B is what the task has in the memory (share), or the whole memory (paper).
  /// The memory is as before if this throws: kInput on features that are not finite, too large to
  /// be told from others (norms above 1e18) or of another dimension or kind, and as check_task();
  /// kCancelled; std::bad_alloc.
  void learn(VectorView features, const LearnHow& how, Compute& compute);

  /// The same, to the last bit, of features that several ranks have, one after the other in order
  /// of rank: these are this rank's, perhaps none. Of all ranks, on which the memory is the same
  /// before and afterwards.
  void learn(VectorView features, const LearnHow& how, Compute& compute, Ranks& ranks);

  /// The same, to the last bit, for a few features at a time (an image) and fast: the work that the
  /// last update left is kept and only brought up to date. One search for each feature (share), or
  /// O(n·m·D) for n picks instead of O(m²·D) (paper; with q < 0.5 it is learn()). Not to be
  /// stopped: progress is not called. The memory is as before if this throws, as with learn().
  void learn_online(VectorView features, const LearnHow& how, Compute& compute);

  /// Distance of each patch to its nearest vector. The first call after a change builds an index.
  /// Safe to call from several threads, each with a Compute of its own, while nobody learns. Throws
  /// Error (kInput) when the memory is empty, kCancelled.
  std::vector<float> distances(VectorView patches, Compute& compute,
                               const Progress& progress = {}) const;

  /// Calibrates a task that was learned with the scores of good images, each scored before it was
  /// learned or by a part of the task that did not have it (one that the task is calibrated with
  /// already keeps its score); and keeps the mean patch of some
  /// images, to recognise the task by. At most 100 images and 32 means of a task are kept: a
  /// part of old and new that does not hang on their order, or the latest; and fewer when all tasks
  /// would take more than a tenth of the memory's bytes, or 1 MiB. `learned` tells all images that
  /// were learned, scored or not (ImageScores::image). The memory is as before if this throws:
  /// Error kUsage for a task that is not there and scores that are none, kInput for patches that
  /// cannot be.
  enum class Keep { kSpread, kLatest };
  void calibrate(const std::string& task, std::span<const ImageScores> scores,
                 std::span<const VectorView> images, Keep keep,
                 std::span<const std::uint64_t> learned = {});

  /// Throws what calibrating with this image would.
  void check_image(const std::string& task, VectorView patches) const;

  // For whoever scores images to calibrate with (detector/calibration_scores.h).
  /// Whether it is certain that a task has not learned the image (ImageScores::image): others would
  /// score too little.
  bool is_new(const std::string& task, std::uint64_t image) const;
  /// Whether it is certain that a task has learned it. Of a task of many images neither is of most.
  bool was_learned(std::size_t task, std::uint64_t image) const;
  /// Vectors that a task has when it has taken so many picks.
  std::size_t vectors_after(const std::string& task, std::size_t picks) const;
  /// What the expansion of a task starts from, in the order that smaller shares leave it the first
  /// of: largest radius first.
  struct Base {
    Vectors vectors;
    std::vector<float> radii;
    std::vector<bool> own;  ///< whether it is the task's
  };
  Base base_of(const std::string& task) const;
  /// Distances of a few patches to that, with ever smaller parts of the task's own: 2^-½, 2^-1, …
  struct Thinned {
    std::size_t vectors = 0;  ///< the task's own
    std::vector<std::vector<float>> distances;
  };
  Thinned thinned(VectorView patches, const std::string& task, Compute& compute) const;

  /// Shows a defect of a task that was learned: the patches of an image that it covers, and what
  /// tells the image from others (its hash). One that was shown before adds nothing. Of all patches
  /// at most 256 are kept, and fewer when all tasks' would take more than a tenth of the memory's
  /// bytes, or 1 MiB: those that are farthest from what is normal and from each other. From the
  /// tenth image on they count: distances are raised, and the threshold with them
  /// (docs/method.md). The vectors stay as they are. The memory is as before if this throws: Error
  /// kUsage for a task that is not there, kInput for patches that cannot be, or for none.
  void learn_defect(const std::string& task, VectorView patches, std::uint64_t image,
                    Compute& compute);
  KnownDefects known_defects(std::size_t task) const;
  /// Whether it is certain that the image (its hash) was shown as a defect of the task.
  bool was_shown_as_defect(std::size_t task, std::uint64_t image) const;
  /// Raises the distances of an image's patches to the memory where they are nearer to a known
  /// defect of the task than to anything normal: d + 2 max(0, d − the distance to that). Leaves
  /// them as they are while the defects are not used.
  void raise(std::size_t task, VectorView patches, std::span<float> distances,
             Compute& compute) const;

  /// Sets the threshold of a task by hand, or (neither given) leaves it to the calibration
  /// again. Throws Error (kUsage) for a task that is not there and for numbers that are none: a
  /// score is above 0, a rate between 0 and 1.
  void set_threshold(const std::string& task, const SetThreshold& set);

  /// What was set by hand; else what the calibration says at this rate of false alarms, for as many
  /// vectors as the task has now. Nothing when it is not calibrated, or not for so few.
  std::optional<Threshold> threshold(std::size_t task, double false_alarms) const;
  /// The same, whatever was set by hand.
  std::optional<Threshold> calibrated_threshold(std::size_t task, double false_alarms) const;
  std::vector<TaskState> states() const;
  /// Scores of the images a task is calibrated with, for as many vectors as it has now, raised
  /// where known defects are used.
  std::vector<float> calibration_scores(std::size_t task) const;

  /// The task whose images the patches resemble most, by their mean, among those with the region
  /// that the patches are seen through; nothing when no mean of these is known.
  std::optional<std::size_t> recognise(VectorView patches, const SharedRegion& region = {}) const;
  /// The same, and how far their mean is from the nearest of the task's.
  struct Recognised {
    std::size_t task = 0;
    float distance = 0;
  };
  std::optional<Recognised> resemblance(VectorView patches, const SharedRegion& region) const;

  /// Whether the patches can be of the task at all, at this rate of good images that are taken for
  /// strangers. Nothing when it cannot be told: the task was learned by an earlier version, from a
  /// single image, or there is no room for its means. `limit` alone is set where there are no
  /// patches. Throws Error: kUsage for a rate outside [0, 1], kInput for patches of another
  /// dimension.
  std::optional<Strangeness> strangeness(std::size_t task, VectorView patches, double rate) const;

  /// Calls a task by another name. Throws Error: kUsage when there is none of the old name, kInput
  /// when there is one of the new name or it cannot be a name.
  void rename_task(const std::string& from, const std::string& to);

  /// An empty memory with the same settings.
  Memory fresh() const;
  /// Without a task: its vectors, its record, its calibration; the others stay as they are. Throws
  /// Error: kUsage when there is no such task, kInput by the paper's rule, where the vectors of one
  /// task stand for features of another.
  Memory without_task(const std::string& task) const;
  /// Whether it is certain that every task is as it would be without the others: none has ever
  /// given up a vector or a score for them.
  bool tasks_are_apart() const;

  /// A smaller memory: smaller shares; or (paper) the first `count` vectors where the memory's
  /// order is a greedy one (one task alone, or q = 0 and consolidated), the greedy coreset of that
  /// size otherwise. The certificate follows.
  Memory shrink(std::size_t count, Compute& compute) const;

  /// Both memories' tasks in one of m: equal shares, tasks of the same name joined; or G_m(A ∪ B)
  /// (paper). The source is a's. Throws Error (kInput) when dimension, kind, source, rule or the
  /// region of a task differ, or one is empty.
  static Memory merge(const Memory& a, const Memory& b, std::size_t capacity, Compute& compute);

  /// What the features come from (backbone, preprocessing), for whoever makes them: kept in the
  /// file, never looked at here except that merged memories must agree. An entry KEY is then told
  /// by KEY.sha256 alone where both have that: a file is the same wherever it lies.
  std::map<std::string, std::string> source;

  /// Safetensors; the layout is in src/memory/file.cc and docs/formats.md. Saving replaces the file
  /// whole or not at all; opening throws Error: kInput on what is not a memory, kDamaged on one
  /// that is cut short or altered.
  /// The new file is read back before it takes the old one's place. Its checksum, in hexadecimal,
  /// is what tells one saved memory from another. `journal` is kept with it, for whoever keeps a
  /// journal of lessons beside the file: which of them are in it.
  /// `before` is called with the name under which the new file was written and read back, and its
  /// checksum, before it takes the old one's place; if it throws, the old one stays.
  using Before = std::function<void(const std::string& written, const std::string& checksum)>;
  std::string save(const std::string& path, const std::string& journal = "",
                   const Before& before = {}) const;
  struct Saved {
    std::string checksum;
    std::string journal;
  };
  static Memory open(const std::string& path, Saved* saved = nullptr);

  /// The same memory again, to be changed apart from this one.
  Memory copy() const;

 private:
  struct State;
  explicit Memory(std::unique_ptr<State> state);
  Calibration scored_calibration(Compute& compute) const;
  std::unique_ptr<State> state_;
};

}  // namespace contcore
