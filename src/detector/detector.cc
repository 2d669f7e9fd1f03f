// In: images and options. Out: a memory that has learned them, or inspections of them. Fails
// as contcore/detector.h says; the memory is then as before.
#include "contcore/detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/file.h"
#include "base/peak_memory.h"
#include "base/rows.h"
#include "contcore/embedding.h"
#include "contcore/error.h"
#include "coreset/greedy_budget.h"
#include "coreset/points.h"
#include "detector/calibration_scores.h"
#include "detector/extract_images.h"
#include "detector/in_order.h"
#include "detector/learning.h"
#include "detector/lessons.h"
#include "detector/relearn.h"
#include "detector/reviewing.h"
#include "device/one_each.h"
#include "device/packing.h"
#include "memory/calibration.h"
#include "memory/contents.h"
#include "memory/history.h"
#include "memory/memory_file.h"

namespace contcore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kExtractShare = 0.85;         // of the time that learning takes, about
constexpr double kScoredShare = 0.93;          // with the folds
constexpr std::size_t kReviewedOnline = 1000;  // images of a stream that are kept until then
constexpr std::size_t kImagesAtATime = 8;      // for each thread

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// As long as it lives the memory may change; it is as before where an exception ends that. The copy
// is put back, not learned into: the memory keeps what makes learning online fast.
class Rollback {
 public:
  explicit Rollback(Memory& memory)
      : memory_(memory), before_(memory.copy()), exceptions_(std::uncaught_exceptions()) {}
  ~Rollback() {
    if (std::uncaught_exceptions() > exceptions_) memory_ = std::move(before_);
  }
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;

 private:
  Memory& memory_;
  Memory before_;
  int exceptions_;
};

// Behind each image of a lesson of defects; nothing where there is none.
std::vector<std::uint8_t> mask_bytes(const DefectMark& mark) {
  return mark.mask != nullptr ? encode_png(*mark.mask) : std::vector<std::uint8_t>();
}

constexpr std::size_t kLeastPart = 8;  // of the memory limit is for sampling, whatever is taken
constexpr std::size_t kFoldPart = 8;   // of it is for the patches of a fold

// Before sampling finds out, which knows neither the user's limit nor what would do.
void check_limit(const Memory& memory, const Points& features, const LearnHow& how,
                 std::size_t limit) {
  const auto task = memory.find_task(how.task);
  const std::size_t own = task ? memory.states()[*task].vectors : 0;
  const bool on_own = memory.consolidation().rule == Consolidate::Rule::kShare;
  const std::size_t needed = greedy_least_memory(features.here, on_own ? own : memory.size(),
                                                 picks_of(how.p, features.rows));
  if (how.memory_limit >= needed) return;
  throw Error(Error::Kind::kInput,
              fmt::format("task '{}': a memory limit of {:.4g} MiB is too small for {} patches; "
                          "{} MiB suffice, as may fewer images at a time",
                          how.task, static_cast<double>(limit) / (1 << 20), features.here.rows,
                          (kLeastPart * needed >> 20) + 1));
}

// What is known of an image that was extracted, by its number.
struct SeenImage {
  std::size_t number;
  std::size_t patches;
  std::uint64_t hash;
  ImageLook look;
};

// How many of them are different.
std::size_t different(const std::vector<SeenImage>& images) {
  std::unordered_set<std::uint64_t> hashes;
  for (const SeenImage& image : images) hashes.insert(image.hash);
  return hashes.size();
}

std::vector<SkippedImage> skipped_by_all(Ranks* ranks, std::vector<SkippedImage> mine) {
  if (ranks == nullptr) return mine;
  Packer packer;
  packer.put(mine.size());
  for (const SkippedImage& image : mine) {
    packer.put_text(image.file);
    packer.put_text(image.reason);
  }
  std::vector<SkippedImage> all;
  for (const Ranks::Bytes& said : ranks->all_gather(packer.bytes())) {
    Unpacker from(said);
    for (auto n = from.get<std::size_t>(); n > 0; --n) {
      std::string file = from.get_text();
      all.push_back({std::move(file), from.get_text()});
    }
  }
  return all;
}

// The images that other ranks extracted, behind those of this one. Nothing is kept where one of
// them cannot be read here.
void keep_others(std::unique_ptr<LessonImagesWriter>& kept, const ImageList& images,
                 const std::vector<SeenImage>& seen, const Ranks::Part& mine) {
  try {
    for (const SeenImage& image : seen) {
      if (image.number < mine.end) continue;
      if (!kept || kept->is_too_large()) return;
      kept->append(images.bytes(image.number));
    }
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    kept.reset();
  }
}

void refuse_remarks(const std::string& task, const Review& review) {
  if (review.remarks.empty()) return;
  std::string text;
  for (const Remark& remark : review.remarks) text += (text.empty() ? "" : "; ") + remark.text;
  throw Error(
      Error::Kind::kInput,
      fmt::format("task '{}': nothing is learned, being strict about remarks of the review: {}",
                  task, text));
}

}  // namespace

struct Detector::State {
  State(Extractor e, Memory m) : extractor(std::move(e)), memory(std::move(m)) {}
  Extractor extractor;
  Memory memory;
  std::string path;                    // it was opened from; empty: none
  std::optional<JournalMark> applied;  // what of the journal beside that is in the memory
  std::unique_ptr<MemoryFile> file;    // held to be written; none: it is only read
  std::unique_ptr<History> history;    // the same
  LessonSet lessons;                   // that the memory has
  bool is_new = false;

  void write_down(const Lesson& lesson, std::uint64_t images,
                  std::unique_ptr<LessonImagesWriter> kept) {
    if (!history || !history->is_kept()) return;
    try {
      lessons.add(history->add(entry_of(lesson, images), std::move(kept)));
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kInput) throw;
      lessons.add(history->add(entry_of(lesson, images), nullptr));  // it is learned all the same
    }
  }
};

Detector::Detector(std::unique_ptr<State> state) : state_(std::move(state)) {}
Detector::~Detector() = default;
Detector::Detector(Detector&&) noexcept = default;
Detector& Detector::operator=(Detector&&) noexcept = default;

namespace {

Scalar scalar_of(Precision precision) {
  return precision == Precision::k8Bit ? Scalar::kUint8 : Scalar::kFloat32;
}

}  // namespace

DetectorOptions DetectorOptions::paper() {
  DetectorOptions options;
  options.precision = Precision::kFloat;
  options.dimension = 1024;
  options.geometry = {Geometry::Resize::kSquare, 256, 224};
  options.score = Score::kPatch;
  options.capacity = 20000;
  options.consolidate = Consolidate::paper();
  return options;
}

std::size_t capacity_of(const DetectorOptions& options) {
  if (options.dimension == 0 || options.dimension > kLargestDimension) {
    throw Error(Error::Kind::kUsage,
                fmt::format("a patch vector of dimension {} cannot be; it has 1 to {} numbers",
                            options.dimension, kLargestDimension));
  }
  if (options.capacity != 0) return options.capacity;
  const std::size_t each = options.dimension * bytes_of(scalar_of(options.precision));
  if (options.memory < each) {
    throw Error(Error::Kind::kUsage,
                fmt::format("a memory of {} byte{} has no room for a vector, which takes {}; give "
                            "it more, or vectors of a smaller dimension",
                            options.memory, options.memory == 1 ? "" : "s", each));
  }
  return options.memory / each;
}

Memory new_memory(const DetectorOptions& options, const Extractor& extractor) {
  Memory memory(options.dimension, capacity_of(options), options.consolidate,
                scalar_of(options.precision));
  memory.source = extractor.source();
  if (options.score == Score::kMap) memory.source["score"] = score_name(options.score);
  return memory;
}

Detector::Detector(const DetectorOptions& options) {
  Extractor extractor(options);
  Memory memory = new_memory(options, extractor);
  state_ = std::make_unique<State>(std::move(extractor), std::move(memory));
}

Detector::Detector(Memory memory, const std::string& backbone) {
  Extractor extractor =
      Extractor::of_source(memory.source, memory.dimension(), "the memory", backbone);
  state_ = std::make_unique<State>(std::move(extractor), std::move(memory));
}

Detector Detector::open(const std::string& path, const std::string& backbone, std::size_t* lessons,
                        const Device& device) {
  return open_with_history(path, backbone, lessons, nullptr, device);
}

Detector Detector::open_with_history(const std::string& path, const std::string& backbone,
                                     std::size_t* lessons, std::unique_ptr<History> history,
                                     const Device& device) {
  SavedMemory saved = open_saved(path);
  Memory& memory = saved.memory;
  Extractor extractor = Extractor::of_source(memory.source, memory.dimension(), path, backbone);
  auto state = std::make_unique<State>(std::move(extractor), std::move(memory));
  state->path = path;
  state->applied = saved.applied;
  if (history) {
    state->lessons = history->opened(saved.checksum, state->memory);
    state->history = std::move(history);
  }
  if (!saved.records.empty()) {
    Compute compute(0, device);
    const Replayed replayed =
        replay(state->memory, state->extractor, saved.records, journal_of(path), compute);
    if (state->history) {
      write_down_records(*state->history, state->lessons, saved.records, replayed, path);
    }
  }
  if (lessons != nullptr) *lessons = saved.records.size();
  return Detector(std::move(state));
}

Detector Detector::open_to_learn(const std::string& path,
                                 const std::function<DetectorOptions()>& of_new,
                                 const std::string& backbone, std::size_t* lessons,
                                 const HistoryLimits& kept, const Device& device) {
  auto file = std::make_unique<MemoryFile>(path);
  const bool exists = file->exists();
  auto history = std::make_unique<History>(path, kept);
  Detector detector = exists
                          ? open_with_history(path, backbone, lessons, std::move(history), device)
                          : Detector(of_new());
  if (!exists) detector.state_->history = std::move(history);
  detector.state_->path = path;
  detector.state_->file = std::move(file);
  detector.state_->is_new = !exists;
  return detector;
}

const std::string& Detector::remark() const {
  static const std::string none;
  return state_->history ? state_->history->remark() : none;
}

bool Detector::is_new() const { return state_->is_new; }
const Extractor& Detector::extractor() const { return state_->extractor; }
const Memory& Detector::memory() const { return state_->memory; }

void Detector::save(const std::string& path) const {
  const bool same = !state_->path.empty() && real_path(state_->path) == real_path(path);
  const auto applied = same ? state_->applied : std::nullopt;
  if (same && state_->file) {
    state_->history->save(*state_->file, state_->memory, applied, state_->lessons);
  } else {
    MemoryFile(path).save(state_->memory, applied);
  }
}

std::vector<TaughtLesson> Detector::lessons() const {
  if (!state_->history) return {};
  return taught_lessons(*state_->history, state_->memory, state_->lessons);
}

std::vector<MemoryVersion> Detector::versions() const {
  if (!state_->history) return {};
  return versions_of(*state_->history, state_->lessons);
}

namespace {

History& kept_history(const std::unique_ptr<History>& history) {
  if (history && history->is_kept()) return *history;
  throw Error(Error::Kind::kUsage,
              "this memory's lessons are not written down; open it to learn, with versions kept");
}

Forgotten take_out(Memory& memory, const Forget& what) {
  Forgotten result;
  result.exact = memory.tasks_are_apart();
  if (!result.exact) {
    if (what.exact) {
      throw Error(Error::Kind::kInput,
                  "this cannot be taken back exactly: no lessons are written down");
    }
    result.note = kNotExact;
  }
  Memory rest = memory.copy();
  for (const std::string& task : what.tasks) rest = rest.without_task(task);
  memory = std::move(rest);
  return result;
}

}  // namespace

// Without a list of its lessons whole tasks can be taken out, and no more.
Forgotten Detector::forget(const Forget& what, Compute& compute, const Progress& progress) {
  if (state_->file && !state_->history->is_kept() && what.lessons.empty() && !what.tasks.empty()) {
    return take_out(state_->memory, what);
  }
  History& history = kept_history(state_->history);
  const Forgetting plan = plan_forget(history, state_->memory, state_->lessons, what);
  Taught rest = carry_out(plan, history, state_->memory, state_->extractor, compute, progress);
  const Forgotten result = report_of(plan, rest.lessons);
  if (plan.is_new_beginning) {
    rest.lessons = LessonSet({history.add_found(rest.lessons, rest.memory)});
  }
  state_->memory = std::move(rest.memory);
  state_->lessons = std::move(rest.lessons);
  return result;
}

void Detector::restore(std::uint64_t version) {
  Taught before = open_version(kept_history(state_->history), version, state_->memory);
  state_->memory = std::move(before.memory);
  state_->lessons = std::move(before.lessons);
}

void Detector::rename_task(const std::string& from, const std::string& to, const std::string& who) {
  if (from == to && state_->memory.find_task(from)) return;
  state_->memory.rename_task(from, to);
  Lesson lesson;
  lesson.task = from;
  lesson.rename_to = to;
  lesson.who = who;
  lesson.time = utc_time();
  state_->write_down(lesson, 0, nullptr);
}

void Detector::shrink(std::size_t count, Compute& compute) {
  state_->memory = state_->memory.shrink(count, compute);
}

LearnReport Detector::learn(const std::vector<std::string>& files, const LearnOptions& options,
                            Compute& compute) {
  return learn_images(ImageFiles(files), options, compute);
}

LearnReport Detector::learn(const ImageSource& images, const LearnOptions& options,
                            Compute& compute) {
  return learn_images(ImagesInMemory(images), options, compute);
}

LearnReport Detector::learn_images(const ImageList& images, const LearnOptions& options,
                                   Compute& compute) {
  Memory& memory = state_->memory;
  Ranks* const ranks = options.ranks;
  std::unique_ptr<LessonImagesWriter> kept;
  do_on_all(ranks, [&] {
    if (options.task.empty()) {
      throw Error(Error::Kind::kUsage, "a task needs a name; give it one, such as bottle");
    }
    memory.check_task(options.task);  // before the images are looked at, which may take long
    if (options.region) memory.check_region(options.task, options.region);
    if (ranks != nullptr && options.online) {
      throw Error(Error::Kind::kUsage,
                  "online, one image is learned after the other, which several processes cannot "
                  "share; learn online with one, or all images at once");
    }
    if (state_->history) kept = state_->history->new_images();
  });
  // What one process would take is shared by the ranks of a machine, unless each is told its own.
  const std::size_t whole = options.memory_limit != 0 ? options.memory_limit : machine_memory() / 2;
  const bool shared = options.memory_limit == 0 && ranks != nullptr;
  const std::size_t limit = shared ? whole / ranks->on_this_machine() : whole;
  LearnReport report;
  LearnHow how;
  how.task = options.task;
  how.p = options.p != 0 ? options.p : options.online ? kOnlineRatio : kBatchRatio;
  how.time = utc_time();
  how.region = options.region ? options.region : memory.region_of(options.task);

  TrainingSetBuilder set(memory.dimension(), limit / 2);
  Clock::time_point start = Clock::now();
  Progress extracting = part_of(options.progress, 0.0, options.online ? 1.0 : kExtractShare);
  const Ranks::Part mine =
      ranks != nullptr ? ranks->part_of(images.count()) : Ranks::Part{0, images.count()};
  if (ranks != nullptr && extracting) {
    extracting = [whole = extracting, all = static_cast<double>(images.count()),
                  mine](double done) {
      return whole((done * all - static_cast<double>(mine.first)) /
                   static_cast<double>(std::max<std::size_t>(1, mine.count())));
    };
  }
  std::vector<SeenImage> seen;
  std::vector<Patches> waiting;  // online, for the memory to learn with all threads
  const std::size_t reviewed =
      options.online ? std::min(kReviewedOnline, images.count()) : images.count();
  const auto take = [&](std::size_t i, Extracted& image) {
    if (!image.patches) {
      if (options.strict) throw Error(Error::Kind::kInput, image.error);
      report.skipped.push_back({images.name(i), image.error});
      return;
    }
    const VectorView patches = image.patches->vectors.view();
    seen.push_back({i, patches.rows, hash_of(patches), image.look});
    if (kept) kept->append(image.bytes);
    if (i >= reviewed) {
      waiting.push_back(std::move(*image.patches));
      return;
    }
    set.add(*image.patches);
  };
  const auto extract = [&](std::size_t first, std::size_t count) {
    start = Clock::now();
    extract_images(state_->extractor, images, first, count, kept != nullptr, compute, extracting,
                   take, how.region);
    report.extract_seconds += seconds_since(start);
    start = Clock::now();
  };
  const auto sampled = [&] { report.sample_seconds += seconds_since(start); };
  const Rollback rollback(memory);
  do_on_all(ranks, [&] { extract(mine.first, ranks != nullptr ? mine.count() : reviewed); });
  state_->extractor.release();
  seen = all_of(ranks, std::move(seen));
  report.skipped = skipped_by_all(ranks, std::move(report.skipped));
  const std::vector<char> on_disk = all_of<char>(ranks, {set.on_disk() ? char{1} : char{0}});
  report.on_disk = std::count(on_disk.begin(), on_disk.end(), 1) > 0;
  TrainingSet all = set.view(ranks);
  all.fold_room = whole / kFoldPart;
  if (all.count > 0) {
    const std::size_t taken =
        own_memory() + 3 * memory.capacity() * memory.dimension() * bytes_of(memory.scalar());
    const std::size_t least = limit / kLeastPart;
    how.memory_limit = limit > taken + least ? limit - taken : least;
    if (!options.online) {
      do_on_all(ranks, [&] { check_limit(memory, all.features, how, limit); });
    }
    LearnHow scoring = how;
    if (options.online) scoring.p = kBatchRatio;
    if (!options.online) scoring.progress = part_of(options.progress, kExtractShare, kScoredShare);
    const FoldScores folds = score_task(memory, all, scoring, compute);
    scoring.progress = {};
    std::vector<ImageLook> looks;
    std::vector<std::size_t> numbers;  // of the set's images among all
    for (const SeenImage& image : seen) {
      looks.push_back(image.look);
      numbers.push_back(image.number);
    }
    report.review =
        review_images(memory, all, looks, folds, scoring, options.false_alarms, compute);
    renumber(report.review, numbers);
    do_on_all(ranks, [&] {
      if (options.reviewed) options.reviewed(report.review);
      if (options.strict) refuse_remarks(options.task, report.review);
    });
    if (options.online) {
      how.memory_limit = 0;
      for (std::size_t i = 0; i < set.images(); ++i) {
        learn_next(memory, set.patches(i), how, true, compute);
      }
    } else {
      how.progress = part_of(options.progress, kScoredShare, 1.0);
      learn_scored_task(memory, all, folds, how, compute);
    }
    sampled();
  }
  const std::size_t at_a_time = kImagesAtATime * compute.threads().count();
  for (std::size_t first = ranks != nullptr ? images.count() : reviewed; first < images.count();
       first += at_a_time) {
    extract(first, std::min(at_a_time, images.count() - first));
    for (const Patches& patches : waiting) learn_next(memory, patches, how, true, compute);
    waiting.clear();
    sampled();
  }
  state_->extractor.release();
  report.learned = seen.size();
  report.different = different(seen);
  for (const SeenImage& image : seen) report.patches += image.patches;
  do_on_all(ranks, [&] {
    if (report.learned > 0) return;
    throw Error(
        Error::Kind::kInput,
        fmt::format("task '{}': none of {} images can be used: {}", options.task, images.count(),
                    report.skipped.empty() ? "there are none" : report.skipped[0].reason));
  });
  if (ranks != nullptr) do_on_all(ranks, [&] { keep_others(kept, images, seen, mine); });
  Lesson lesson;
  lesson.task = options.task;
  lesson.who = options.who;
  lesson.time = how.time;
  lesson.batch = !options.online;
  lesson.p = options.p;
  state_->write_down(lesson, report.learned, std::move(kept));
  return report;
}

void Detector::learn_online(const Image& image, const LearnOptions& options, Compute& compute) {
  if (options.region) state_->memory.check_region(options.task, options.region);
  const Patches patches = state_->extractor.extract(
      image, compute, options.region ? options.region : state_->memory.region_of(options.task));
  LearnHow how;
  how.task = options.task;
  how.p = options.p != 0 ? options.p : kOnlineRatio;
  how.time = utc_time();
  std::unique_ptr<LessonImagesWriter> kept;
  if (state_->history) kept = state_->history->new_images();
  if (kept) kept->append(encode_png(image));
  learn_next(state_->memory, patches, how, true, compute);
  Lesson lesson;
  lesson.task = options.task;
  lesson.who = options.who;
  lesson.time = how.time;
  lesson.p = options.p;
  state_->write_down(lesson, 1, std::move(kept));
}

void Detector::learn_defect(const Image& image, const DefectMark& mark, const std::string& task,
                            Compute& compute) {
  std::unique_ptr<LessonImagesWriter> kept;
  if (state_->history) kept = state_->history->new_images();
  if (kept) {
    kept->append(encode_png(image));
    kept->append(mask_bytes(mark));
  }
  const SharedRegion region = state_->memory.region_of(task);
  contcore::learn_defect(state_->memory, task, state_->extractor.extract(image, compute, region),
                         mark, compute);
  Lesson lesson;
  lesson.task = task;
  lesson.time = utc_time();
  lesson.defect = mark;
  lesson.has_masks = true;
  state_->write_down(lesson, 1, std::move(kept));
}

LearnReport Detector::learn_defects(const std::vector<std::string>& files,
                                    const std::function<std::string(const std::string&)>& mask_of,
                                    const LearnOptions& options, Compute& compute) {
  Memory& memory = state_->memory;
  if (!memory.find_task(options.task)) {
    throw Error(Error::Kind::kUsage,
                fmt::format("task '{}': was not learned, so its defects cannot be told from what "
                            "is normal; learn good images of it first",
                            options.task));
  }
  LearnReport report;
  const Clock::time_point start = Clock::now();
  const Rollback rollback(memory);
  std::unique_ptr<LessonImagesWriter> kept;
  if (state_->history) kept = state_->history->new_images();
  Compute alone(1, compute.device());  // the crew is at work on the next ones
  const auto take = [&](std::size_t i, Extracted& image) {
    std::string reason = image.error;
    Image mask;
    DefectMark mark;
    try {
      if (image.patches) {
        const std::string path = mask_of(files[i]);
        if (!path.empty()) {
          mask = read_image(path);
          mark.mask = &mask;
        }
        contcore::learn_defect(memory, options.task, *image.patches, mark, alone);
      }
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kInput) throw;
      reason = fmt::format("{}: {}", files[i], error.what());
    }
    if (reason.empty()) {
      if (kept) {
        kept->append(image.bytes);
        kept->append(mask_bytes(mark));
      }
      report.patches += image.patches->vectors.rows();
      ++report.learned;
      return;
    }
    if (options.strict) throw Error(Error::Kind::kInput, reason);
    report.skipped.push_back({files[i], reason});
  };
  extract_images(state_->extractor, ImageFiles(files), 0, files.size(), kept != nullptr, compute,
                 options.progress, take, memory.region_of(options.task));
  state_->extractor.release();
  report.extract_seconds = seconds_since(start);
  if (report.learned == 0) {
    throw Error(Error::Kind::kInput,
                fmt::format("task '{}': none of {} images shows a defect that can be learned: {}",
                            options.task, files.size(),
                            report.skipped.empty() ? "there are none" : report.skipped[0].reason));
  }
  Lesson lesson;
  lesson.task = options.task;
  lesson.who = options.who;
  lesson.time = utc_time();
  lesson.defect = DefectMark{};
  lesson.has_masks = true;
  state_->write_down(lesson, report.learned, std::move(kept));
  return report;
}

Inspection Detector::inspect(const Image& image, const InspectOptions& options,
                             Compute& compute) const {
  const Memory& memory = state_->memory;
  const auto regions = regions_to_see(memory, options.task);
  const auto resemblance_of = [&](const Patches& view) { return resemblance(memory, view); };
  const Patches patches = best_view(state_->extractor, image, regions, resemblance_of, compute);
  return contcore::inspect(memory, patches, options, compute);
}

void Detector::inspect(const std::vector<std::string>& files, const InspectOptions& options,
                       Compute& compute, const std::function<bool(Inspected&)>& each) const {
  inspect_images(ImageFiles(files), options, compute, each);
}

void Detector::inspect(const ImageSource& images, const InspectOptions& options, Compute& compute,
                       const std::function<bool(Inspected&)>& each) const {
  inspect_images(ImagesInMemory(images), options, compute, each);
}

void Detector::inspect_images(const ImageList& images, const InspectOptions& options,
                              Compute& compute, const std::function<bool(Inspected&)>& each) const {
  const auto look = [&](std::size_t i, Compute& with) {
    Inspected result;
    result.file = images.name(i);
    const Clock::time_point start = Clock::now();
    try {
      result.image = images.load(i);
      result.seen = about_image(result.file, [&] { return inspect(result.image, options, with); });
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kInput) throw;
      result.error = error.what();
    }
    result.seconds = seconds_since(start);
    return result;
  };
  if (state_->memory.size() == 0) {
    throw Error(Error::Kind::kInput, "the memory is empty; learn good images first");
  }
  if (images.count() == 1 || state_->extractor.geometry().tile != 0) {
    for (std::size_t i = 0; i < images.count(); ++i) {  // by all threads: one takes much memory
      Inspected result = look(i, compute);
      if (!each(result)) return;
    }
    return;
  }
  std::atomic<bool> stop = false;
  OneEach alone(compute);
  run_in_order<Inspected>(
      compute, images.count(), kMostImagesAhead,
      [&](std::size_t i, std::size_t worker) {
        return stop ? Inspected{} : look(i, alone[worker]);
      },
      [&](std::size_t, Inspected& result) {
        if (!stop && !each(result)) stop = true;
      });
}

}  // namespace contcore
