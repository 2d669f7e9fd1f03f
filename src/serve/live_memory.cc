// In: lessons and batches from one thread. Out: the memory, for any thread, before or after each of
// them. Fails when the disk does not take a lesson: the memory is then as before.
#include "serve/live_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/refuse.h"
#include "contcore/error.h"
#include "serve/clock.h"

namespace contcore {
namespace {

void prepare_to_search(const Memory& memory, Compute& compute) {
  if (memory.size() == 0) return;
  const Vectors one(1, memory.dimension(), memory.scalar());
  memory.distances(one.view(), compute);
}

}  // namespace

LiveMemory::LiveMemory(const LiveMemoryOptions& options, Compute& compute)
    : file_(options.path), history_(file_.path(), options.kept) {
  if (file_.exists()) {
    Memory memory = file_.open();
    extractor_.emplace(
        Extractor::of_source(memory.source, memory.dimension(), file_.path(), options.backbone));
    lessons_ = history_.opened(file_.checksum(), memory);
    front_ = std::make_shared<Buffer>(std::move(memory));
  } else {
    DetectorOptions settings = options.settings;
    if (!options.backbone.empty()) settings.backbone = options.backbone;
    extractor_.emplace(settings);
    Memory memory = new_memory(settings, *extractor_);
    history_.save(file_, memory, std::nullopt, {});
    remark_ = "new memory, backbone " + backbone_text(memory.source);
    front_ = std::make_shared<Buffer>(std::move(memory));
  }
  if (!history_.remark().empty()) add_remark(history_.remark());
  open_journal(compute);
  prepare_to_search(front_->memory, compute);
  back_ = std::make_shared<Buffer>(front_->memory.copy());
}

void LiveMemory::add_remark(const std::string& text) {
  remark_ += (remark_.empty() ? "" : "; ") + text;
}

void LiveMemory::open_journal(Compute& compute) {
  const std::string journal = journal_of(file_.path());
  Journal::Opened opened = Journal::open(journal, file_.parent(), file_.applied());
  journal_ = std::move(opened.journal);
  Replayed replayed = replay(front_->memory, *extractor_, opened.records, journal, compute);
  for (const std::string& record : opened.applied) {
    const Lesson lesson = read_lesson(record, journal);
    const bool is_taken = history_.find(lesson.id) == nullptr || history_.has(lessons_, lesson.id);
    if (lesson.inspection != 0 && !lesson.defect && is_taken) {
      good_.emplace_back(lesson.inspection, lesson.time);
    }
    if (!lesson.rename_to.empty() && is_taken) renames_.emplace_back(lesson.task, lesson.rename_to);
    last_inspection_ = std::max(last_inspection_, lesson.inspection);
    in_journal_.push_back(0);  // with the memory it was written down
    history_.pass_over(lesson.id);
  }
  for (std::size_t i = 0; i < opened.records.size(); ++i) {
    const Lesson lesson = read_lesson(opened.records[i], journal);
    if (!lesson.rename_to.empty() && replayed.taken[i]) {
      renames_.emplace_back(lesson.task, lesson.rename_to);
    }
    last_inspection_ = std::max(last_inspection_, lesson.inspection);
    in_journal_.push_back(replayed.taken[i] ? write_down(lesson) : 0);
  }
  for (const LessonEntry& lesson : history_.lessons()) {
    last_inspection_ = std::max(last_inspection_, lesson.inspection);
    if (lesson.kind != "feedback" || !history_.has(lessons_, lesson.id)) continue;
    const bool is_known =
        std::any_of(replayed.good.begin(), replayed.good.end(),
                    [&](const auto& good) { return good.first == lesson.inspection; });
    if (!is_known) replayed.good.emplace_back(lesson.inspection, lesson.time);
  }
  good_.insert(good_.end(), replayed.good.begin(), replayed.good.end());
  unsaved_ = opened.records.size();
  if (unsaved_ > 0) {
    add_remark(fmt::format("{} lesson{} replayed from the journal", unsaved_.load(),
                           unsaved_ == 1 ? "" : "s"));
  }
  if (replayed.unusable > 0) {
    add_remark(fmt::format("{} of them could not be used", replayed.unusable));
  }
  if (opened.torn) add_remark("the journal's last write was cut short, and is left out");
}

// A lesson that is in the journal, into the list; its images follow when the memory is saved.
LessonId LiveMemory::write_down(const Lesson& lesson) {
  if (!history_.is_kept()) return 0;
  const std::lock_guard<std::mutex> lock(history_mutex_);
  const LessonId id = history_.find(lesson.id) != nullptr
                          ? lesson.id
                          : history_.add(entry_of(lesson, lesson.has_image() ? 1 : 0), nullptr);
  lessons_.add(id);
  return id;
}

LiveMemory::~LiveMemory() = default;

std::shared_ptr<const Memory> LiveMemory::memory() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++front_->readers;
  return {&front_->memory, [this, buffer = front_](const Memory*) {
            const std::lock_guard<std::mutex> leaving(mutex_);
            if (--buffer->readers == 0) left_.notify_all();
          }};
}

LessonId LiveMemory::take(Lesson lesson, const Patches& patches, Compute& compute) {
  if (journal_->broken()) checkpoint(compute);
  catch_up(compute);
  if (file_.is_replaced()) checkpoint(compute);  // which says so
  lesson.time = utc_now();
  lesson.id = history_.is_kept() ? history_.next() : 0;
  // What cannot be learned must not be in the journal.
  check_lesson(back_->memory, lesson);
  journal_->append(as_record(lesson));
  history_.pass_over(lesson.id);
  ++unsaved_;
  in_journal_.push_back(0);
  auto copy = std::make_shared<Patches>(patches.copy());
  auto without_image = lesson;
  without_image.image = {};
  publish([copy, without_image](Memory& memory,
                                Compute& with) { take_lesson(memory, without_image, *copy, with); },
          compute);
  in_journal_.back() = write_down(lesson);
  return lesson.id;
}

void LiveMemory::learn_batch(const TrainingSet& set, const std::string& task, Compute& compute,
                             const Progress& progress, Batch batch) {
  catch_up(compute);
  Lesson lesson;
  lesson.task = task;
  lesson.who = std::move(batch.who);
  lesson.time = utc_now();
  lesson.batch = true;
  LearnHow how;
  how.task = task;
  how.p = kBatchRatio;
  how.time = lesson.time;
  how.region = batch.region;
  how.progress = progress;
  // On a copy: if it fails half way, nothing has happened.
  Taught next{back_->memory.copy(), lessons_};
  learn_task(next.memory, set, how, compute);
  LessonId id = 0;
  if (history_.is_kept()) {
    const std::lock_guard<std::mutex> lock(history_mutex_);
    id = history_.add(entry_of(lesson, set.images.size()), std::move(batch.images));
    next.lessons.add(id);
  }
  replace(std::move(next), id, compute);
}

std::unique_ptr<LessonImagesWriter> LiveMemory::new_images() {
  const std::lock_guard<std::mutex> lock(history_mutex_);
  return history_.new_images();
}

Forgotten LiveMemory::forget(const Forget& what, Compute& compute, const Progress& progress) {
  checkpoint(compute);  // so that all lessons are in the list, with their images
  Forgetting plan = plan_forget(history_, front_->memory, lessons_, what);
  Taught rest = carry_out(plan, history_, front_->memory, *extractor_, compute, progress);
  const Forgotten result = report_of(plan, rest.lessons);
  LessonId id = 0;
  if (plan.is_new_beginning) {
    const std::lock_guard<std::mutex> lock(history_mutex_);
    id = history_.add_found(rest.lessons, rest.memory);
    rest.lessons = LessonSet({id});
  }
  replace(std::move(rest), id, compute);
  return result;
}

void LiveMemory::restore(std::uint64_t version, Compute& compute) {
  // First of all: what the checkpoint adds may take its place among those that are kept.
  Taught before = open_version(history_, version, front_->memory);
  checkpoint(compute);
  replace(std::move(before), 0, compute);
}

Forgetting LiveMemory::plan(const Forget& what) const {
  return plan_forget(history_, front_->memory, lessons_, what);
}

void LiveMemory::check_restore(std::uint64_t version) const {
  open_version(history_, version, front_->memory);
}

LessonId LiveMemory::lesson_of(std::int64_t inspection) const {
  const std::lock_guard<std::mutex> lock(history_mutex_);
  const auto& all = history_.lessons();
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const LessonEntry& lesson) {
    return lesson.inspection == inspection && history_.has(lessons_, lesson.id);
  });
  return found == all.rend() ? 0 : found->id;
}

std::vector<TaughtLesson> LiveMemory::lessons() const {
  const auto now = memory();
  const std::lock_guard<std::mutex> lock(history_mutex_);
  return taught_lessons(history_, *now, lessons_);
}

std::vector<std::int64_t> LiveMemory::taken_back() const {
  const std::lock_guard<std::mutex> lock(history_mutex_);
  std::vector<std::int64_t> inspections;
  std::set<std::int64_t> taken;
  for (const LessonEntry& lesson : history_.lessons()) {
    if (lesson.kind != "feedback") continue;
    if (history_.has(lessons_, lesson.id)) {
      taken.insert(lesson.inspection);
    } else {
      inspections.push_back(lesson.inspection);
    }
  }
  std::erase_if(inspections, [&](std::int64_t id) { return taken.contains(id); });
  return inspections;
}

std::vector<MemoryVersion> LiveMemory::versions() const {
  const std::lock_guard<std::mutex> lock(history_mutex_);
  return versions_of(history_, lessons_);
}

// Another memory in place of the one that is served: saved, then published. `added` is the lesson
// that made it, if one did, which is as if it had never been when that fails.
void LiveMemory::replace(Taught next, LessonId added, Compute& compute) {
  std::shared_ptr<Buffer> twin;
  std::shared_ptr<Buffer> buffer;
  try {
    prepare_to_search(next.memory, compute);
    twin = std::make_shared<Buffer>(next.memory.copy());
    buffer = std::make_shared<Buffer>(std::move(next.memory));
    save(buffer->memory, next.lessons);  // from here on all of it has happened
  } catch (...) {
    const std::lock_guard<std::mutex> lock(history_mutex_);
    history_.remove(added);
    throw;
  }
  publish_whole(std::move(buffer), std::move(twin));
  {
    const std::lock_guard<std::mutex> lock(history_mutex_);
    lessons_ = std::move(next.lessons);
  }
  try {
    begin_journal();
  } catch (const Error&) {
    // It is learned and saved. Who learns the next image will begin the journal, or hear why not.
  }
}

void LiveMemory::checkpoint(Compute& compute) {
  catch_up(compute);
  const bool in_place = file_.exists() && !file_.is_replaced();
  if (unsaved_ == 0 && !journal_->broken() && !file_.is_ahead() && in_place) return;
  save(front_->memory, lessons_);
  begin_journal();
}

// Saves what has all lessons of the journal in it. Where somebody has put another file in the
// memory's place, that is theirs, not ours to overwrite.
void LiveMemory::save(const Memory& memory, const LessonSet& lessons) {
  if (before_checkpoint_) before_checkpoint_();
  const JournalMark mark = journal_->mark();
  if (file_.is_replaced()) {
    const std::string beside = file_.path() + ".served";
    memory.save(beside, mark.text());
    refuse(file_.path(),
           fmt::format("was replaced by another file while it is served, which is not "
                       "overwritten; what is served is in {}: stop the service, and move the "
                       "one you want to {}",
                       beside, file_.path()));
  }
  const std::lock_guard<std::mutex> lock(history_mutex_);
  keep_images_of_journal();
  history_.save(file_, memory, mark, lessons);
}

// Before the journal is begun anew the images in it go to files of their own.
void LiveMemory::keep_images_of_journal() {
  const auto is_kept = [&](LessonId id) { return id != 0; };
  if (std::none_of(in_journal_.begin(), in_journal_.end(), is_kept)) return;
  JournalRecords all;
  try {
    all = read_journal(journal_of(file_.path()), journal_->mark().parent, {});
  } catch (const Error&) {
    // It is gone or damaged; the lessons are in the memory all the same.
  }
  for (std::size_t i = 0; i < in_journal_.size(); ++i) {
    if (in_journal_[i] == 0) continue;
    std::unique_ptr<LessonImagesWriter> images;
    if (i < all.records.size()) {
      const Lesson lesson = read_lesson(all.records[i], file_.path());
      images = images_of_lesson(history_, lesson);
    }
    history_.attach(in_journal_[i], std::move(images));
    in_journal_[i] = 0;
  }
}

void LiveMemory::begin_journal() {
  unsaved_ = 0;
  in_journal_.clear();
  journal_->restart(file_.parent());
}

// The update goes to the back, which changes places with the front.
void LiveMemory::publish(const Update& update, Compute& compute) {
  try {
    update(back_->memory, compute);
    prepare_to_search(back_->memory, compute);
    behind_.push_back(update);
  } catch (...) {
    back_.reset();  // it may have the lesson or a part of it
    throw;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  std::swap(front_, back_);
}

void LiveMemory::publish_whole(std::shared_ptr<Buffer> buffer, std::shared_ptr<Buffer> twin) {
  const std::lock_guard<std::mutex> lock(mutex_);
  front_ = std::move(buffer);
  back_ = std::move(twin);
}

// Waits until nobody reads the back any more, then brings it up to date.
void LiveMemory::catch_up(Compute& compute) {
  if (!back_) {
    back_ = std::make_shared<Buffer>(front_->memory.copy());
    behind_.clear();
  }
  if (behind_.empty()) return;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    left_.wait(lock, [&] { return back_->readers == 0; });
  }
  try {
    for (const Update& update : behind_) update(back_->memory, compute);
  } catch (...) {
    back_.reset();
    throw;
  }
  behind_.clear();
}

}  // namespace contcore
