// In: lessons and batches from one thread. Out: the memory, for any thread, before or after each of
// them. Fails when the disk does not take a lesson: the memory is then as before.
#include "serve/live_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
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

LiveMemory::LiveMemory(const LiveMemoryOptions& options, Compute& compute) : file_(options.path) {
  if (file_.exists()) {
    Memory memory = file_.open();
    extractor_.emplace(
        Extractor::of_source(memory.source, memory.dimension(), file_.path(), options.backbone));
    front_ = std::make_shared<Buffer>(std::move(memory));
  } else {
    DetectorOptions settings = options.settings;
    if (!options.backbone.empty()) settings.backbone = options.backbone;
    extractor_.emplace(settings);
    Memory memory = new_memory(settings, *extractor_);
    file_.save(memory, std::nullopt);
    remark_ = "new memory, backbone " + backbone_text(memory.source);
    front_ = std::make_shared<Buffer>(std::move(memory));
  }
  const std::string journal = journal_of(file_.path());
  Journal::Opened opened = Journal::open(journal, file_.parent(), file_.applied());
  journal_ = std::move(opened.journal);
  Replayed replayed = replay(front_->memory, *extractor_, opened.records, journal, compute);
  for (const std::string& record : opened.applied) {
    const Lesson lesson = read_lesson(record, journal);
    if (lesson.inspection != 0 && !lesson.defect)
      good_.emplace_back(lesson.inspection, lesson.time);
  }
  good_.insert(good_.end(), replayed.good.begin(), replayed.good.end());
  prepare_to_search(front_->memory, compute);
  back_ = std::make_shared<Buffer>(front_->memory.copy());
  unsaved_ = opened.records.size();
  const auto add = [&](const std::string& text) {
    remark_ += (remark_.empty() ? "" : "; ") + text;
  };
  if (unsaved_ > 0) {
    add(fmt::format("{} lesson{} replayed from the journal", unsaved_.load(),
                    unsaved_ == 1 ? "" : "s"));
  }
  if (replayed.unusable > 0) add(fmt::format("{} of them could not be used", replayed.unusable));
  if (opened.torn) add("the journal's last write was cut short, and is left out");
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

void LiveMemory::take(Lesson lesson, const Patches& patches, Compute& compute) {
  if (journal_->broken()) checkpoint(compute);
  catch_up(compute);
  if (file_.is_replaced()) checkpoint(compute);  // which says so
  lesson.time = utc_now();
  // What cannot be learned must not be in the journal.
  check_lesson(back_->memory, lesson);
  journal_->append(as_record(lesson));
  ++unsaved_;
  auto copy = std::make_shared<Patches>(patches.copy());
  lesson.image = {};
  publish(
      [copy, lesson](Memory& memory, Compute& with) { take_lesson(memory, lesson, *copy, with); },
      compute);
}

void LiveMemory::learn_batch(const TrainingSet& set, const std::string& task, Compute& compute,
                             const Progress& progress) {
  catch_up(compute);
  LearnHow how;
  how.task = task;
  how.p = kBatchRatio;
  how.progress = progress;
  // On a copy: if it fails half way, nothing has happened.
  Memory next = back_->memory.copy();
  learn_task(next, set, how, compute);
  prepare_to_search(next, compute);
  auto twin = std::make_shared<Buffer>(next.copy());
  auto buffer = std::make_shared<Buffer>(std::move(next));
  save(buffer->memory);  // from here on all of it has happened
  publish_whole(std::move(buffer), std::move(twin));
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
  save(front_->memory);
  begin_journal();
}

// Saves what has all lessons of the journal in it. Where somebody has put another file in the
// memory's place, that is theirs, not ours to overwrite.
void LiveMemory::save(const Memory& memory) {
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
  file_.save(memory, mark);
}

void LiveMemory::begin_journal() {
  unsaved_ = 0;
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
