#include "serve/line.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/refuse.h"
#include "contcore/error.h"
#include "serve/clock.h"

namespace contcore {
namespace {

void prepare_to_search(const Memory& memory, Compute& compute) {
  if (memory.size() == 0) return;
  const Vectors one(1, memory.dimension());
  memory.distances(one.view(), compute);
}

std::string checksum_of(const std::string& path) {
  Memory::Saved saved;
  try {
    Memory::open(path, &saved);
  } catch (const Error&) {
    return "";  // none of ours
  }
  return saved.checksum;
}

}  // namespace

Line::Line(const LineOptions& options, Compute& compute)
    : path_(real_path(options.memory)), lock_(path_) {
  std::optional<JournalMark> folded;
  const std::string journal = journal_of(path_);
  std::error_code ignored;
  if (std::filesystem::exists(path_, ignored)) {
    Memory::Saved saved;
    Memory memory = Memory::open(path_, &saved);
    folded = folded_mark(saved, path_);
    checksum_ = saved.checksum;
    parts_ = Detector::Parts::with_backbone(std::move(memory), path_, options.backbone);
  } else {
    read_journal(journal, {}, {});  // whose memory is gone: not to be taken for ours
    DetectorOptions settings = options.settings;
    if (!options.backbone.empty()) settings.backbone = options.backbone;
    parts_ = Detector(settings).take_apart();
    checksum_ = parts_->memory.save(path_);
    lock_.renew();
    remark_ = "new memory, backbone " + backbone_text(parts_->memory);
  }
  saved_as_ = FileIdentity(path_);
  current_ = std::make_shared<Side>(std::move(parts_->memory));
  Journal::Opened opened = Journal::open(journal, journal_parent(checksum_), folded);
  journal_ = std::move(opened.journal);
  Replayed replayed = replay(current_->memory, parts_->extractor, opened.records, journal, compute);
  for (const std::string& record : opened.folded) {
    const Lesson lesson = read_lesson(record, journal);
    if (lesson.inspection != 0) good_.emplace_back(lesson.inspection, lesson.time);
  }
  good_.insert(good_.end(), replayed.good.begin(), replayed.good.end());
  prepare_to_search(current_->memory, compute);
  spare_ = std::make_shared<Side>(current_->memory.copy());
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

Line::~Line() = default;

std::shared_ptr<const Memory> Line::memory() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++current_->readers;
  return {&current_->memory, [this, side = current_](const Memory*) {
            const std::lock_guard<std::mutex> leaving(mutex_);
            if (--side->readers == 0) left_.notify_all();
          }};
}

bool Line::take(Lesson lesson, VectorView patches, Compute& compute) {
  if (journal_->broken()) fold(compute);
  catch_up(compute);
  if (is_replaced()) fold(compute);  // which says so
  lesson.time = utc_now();
  // What cannot be learned must not be in the journal.
  check_lesson(spare_->memory, lesson);
  journal_->append(as_record(lesson));
  ++unsaved_;
  auto copy = std::make_shared<Vectors>(patches.rows, patches.cols);
  if (patches.rows > 0) {
    std::copy_n(patches.row(0, nullptr), patches.rows * patches.cols, copy->data());
  }
  lesson.image = {};
  return publish(
      [copy, lesson](Memory& memory, Compute& with) {
        const bool held = take_lesson(memory, lesson, copy->view(), with);
        memory.recalibrate(with);  // the next verdict goes by what is known now
        return held;
      },
      compute);
}

void Line::learn_batch(const Batch& batch, const std::string& task, Compute& compute,
                       const Progress& progress) {
  catch_up(compute);
  LearnHow how;
  how.task = task;
  how.images = batch.images;
  how.progress = progress;
  // On a copy: if it fails half way, nothing has happened.
  Memory next = spare_->memory.copy();
  next.learn(batch.features, how, compute);
  if (!batch.held_ends.empty()) next.hold_out(batch.held, batch.held_ends, task, compute);
  next.recalibrate(compute);
  prepare_to_search(next, compute);
  auto twin = std::make_shared<Side>(next.copy());
  auto side = std::make_shared<Side>(std::move(next));
  const std::string checksum = save(side->memory);  // from here on all of it has happened
  publish_whole(std::move(side), std::move(twin));
  try {
    begin_journal(checksum);
  } catch (const Error&) {
    // It is learned and saved. Who learns the next image will begin the journal, or hear why not.
  }
}

void Line::fold(Compute& compute) {
  catch_up(compute);
  const bool in_place = FileIdentity(path_) != FileIdentity("") && !is_replaced();
  if (unsaved_ == 0 && !journal_->broken() && !is_ahead_ && in_place) return;
  begin_journal(save(current_->memory));
}

// Somebody may have put a copy back. That is theirs, not ours to overwrite.
bool Line::is_replaced() const {
  const FileIdentity there(path_);
  return there != saved_as_ && there != FileIdentity("") && checksum_of(path_) != checksum_;
}

// Saves what has all lessons of the journal in it.
std::string Line::save(const Memory& memory) {
  if (before_fold_) before_fold_();
  const std::string mark = journal_->mark().text();
  if (is_replaced()) {
    const std::string beside = path_ + ".served";
    memory.save(beside, mark);
    refuse(path_,
           fmt::format("was replaced by another file while it is served, which is not "
                       "overwritten; what is served is in {}: stop the service, and move the "
                       "one you want to {}",
                       beside, path_));
  }
  const FileIdentity before(path_);
  try {
    checksum_ = memory.save(path_, mark);
  } catch (...) {
    // It may have failed after the new file took its place, with what is not published.
    is_ahead_ = is_ahead_ || FileIdentity(path_) != before;
    if (is_ahead_) checksum_ = checksum_of(path_);
    saved_as_ = FileIdentity(path_);
    throw;
  }
  is_ahead_ = false;
  saved_as_ = FileIdentity(path_);
  lock_.renew();
  return checksum_;
}

void Line::begin_journal(const std::string& checksum) {
  unsaved_ = 0;
  journal_->restart(journal_parent(checksum));
}

// The update goes to the spare, which changes places with the current one.
bool Line::publish(const Update& update, Compute& compute) {
  bool result = false;
  try {
    result = update(spare_->memory, compute);
    prepare_to_search(spare_->memory, compute);
    behind_.push_back(update);
  } catch (...) {
    spare_.reset();  // it may have the lesson or a part of it
    throw;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  std::swap(current_, spare_);
  return result;
}

void Line::publish_whole(std::shared_ptr<Side> side, std::shared_ptr<Side> twin) {
  const std::lock_guard<std::mutex> lock(mutex_);
  current_ = std::move(side);
  spare_ = std::move(twin);
}

// Waits until nobody reads the spare any more, then brings it up to date.
void Line::catch_up(Compute& compute) {
  if (!spare_) {
    spare_ = std::make_shared<Side>(current_->memory.copy());
    behind_.clear();
  }
  if (behind_.empty()) return;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    left_.wait(lock, [&] { return spare_->readers == 0; });
  }
  try {
    for (const Update& update : behind_) update(spare_->memory, compute);
  } catch (...) {
    spare_.reset();
    throw;
  }
  behind_.clear();
}

}  // namespace contcore
