#include "serve/line.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "contcore/error.h"
#include "detector/in_order.h"
#include "serve/clock.h"

namespace contcore {
namespace {

using Json = nlohmann::json;

// A record is a line of JSON that says what is learned, and the image's bytes.
std::string record_of(const std::string& task, const std::string& time, std::string_view image) {
  std::string record =
      Json{{"task", task}, {"time", time}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  record += '\n';
  record += image;
  return record;
}

struct Recorded {
  std::string task;
  std::string time;
  std::string_view image;
};

Recorded read_record(std::string_view record, const std::string& path) {
  const std::size_t end = record.find('\n');
  const Json head = Json::parse(record.substr(0, end), nullptr, false);
  if (end == record.npos || !head.is_object() || !head.contains("task") ||
      !head["task"].is_string() || !head.contains("time") || !head["time"].is_string()) {
    throw Error(Error::Kind::kDamaged,
                fmt::format("{}: has a record that this version does not know; use the version "
                            "that wrote it",
                            path));
  }
  return {head["task"].get<std::string>(), head["time"].get<std::string>(), record.substr(end + 1)};
}

void prepare_to_search(const Memory& memory, Threads& threads) {
  if (memory.size() == 0) return;
  const Vectors one(1, memory.dimension());
  memory.distances(one.view(), threads);
}

LearnOptions online(const std::string& task) {
  LearnOptions options;
  options.task = task;
  return options;
}

}  // namespace

Line::Line(const LineOptions& options, Threads& threads) : path_(options.memory), lock_(path_) {
  std::string checksum;
  if (std::filesystem::exists(path_)) {
    parts_ = Detector::open(path_, options.backbone, &checksum).take_apart();
  } else {
    DetectorOptions settings = options.settings;
    if (!options.backbone.empty()) settings.backbone = options.backbone;
    parts_ = Detector(settings).take_apart();
    checksum = parts_->memory.save(path_);
    remark_ = "new memory, backbone " + backbone_text(parts_->memory);
  }
  current_ = std::make_shared<Side>(std::move(parts_->memory));
  Journal::Opened opened = Journal::open(path_ + ".journal", journal_parent(checksum));
  journal_ = std::move(opened.journal);
  const std::size_t unusable = replay(opened.records, threads);
  if (!opened.records.empty()) current_->memory.recalibrate(threads);
  prepare_to_search(current_->memory, threads);
  spare_ = std::make_shared<Side>(current_->memory.copy());
  unsaved_ = opened.records.size();
  const auto add = [&](const std::string& text) {
    remark_ += (remark_.empty() ? "" : "; ") + text;
  };
  if (unsaved_ > 0) add(fmt::format("{} images replayed from the journal", opened.records.size()));
  if (unusable > 0) add(fmt::format("{} of them could not be used", unusable));
  if (opened.torn) add("the journal's last write was cut short: an image never acknowledged");
  if (opened.stale) add("a journal of another memory was put aside");
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

// Returns how many could not be used: they could not be learned when they came either, and so were
// not acknowledged.
std::size_t Line::replay(const std::vector<std::string>& records, Threads& threads) {
  struct Replayed {
    Recorded record;
    std::optional<Patches> patches;
  };
  std::size_t unusable = 0;
  const std::string name = path_ + ".journal";
  run_in_order<Replayed>(
      threads, records.size(), threads.count(),
      [&](std::size_t i, std::size_t) {
        Replayed made{read_record(records[i], name), {}};
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(made.record.image.data());
        Threads alone(1);
        try {
          const Image image = decode_image({bytes, made.record.image.size()}, name);
          made.patches = parts_->extractor.extract(image, alone);
        } catch (const Error& error) {
          if (error.kind() != Error::Kind::kInput) throw;
        }
        return made;
      },
      [&](std::size_t, Replayed& made) {
        Threads alone(1);  // the crew is at work on the next ones
        try {
          if (!made.patches) throw Error(Error::Kind::kInput, name);
          learn_patches(current_->memory, made.patches->vectors.view(), online(made.record.task),
                        made.record.time, alone);
        } catch (const Error& error) {
          if (error.kind() != Error::Kind::kInput) throw;
          ++unusable;
        }
      });
  return unusable;
}

bool Line::learn_image(std::string_view bytes, VectorView patches, const std::string& task,
                       Threads& threads) {
  if (journal_->broken()) fold(threads);
  catch_up(threads);
  const std::string time = utc_now();
  journal_->append(record_of(task, time, bytes));
  ++unsaved_;
  auto copy = std::make_shared<Vectors>(patches.rows, patches.cols);
  std::copy_n(patches.row(0, nullptr), patches.rows * patches.cols, copy->data());
  return publish(
      [copy, task, time](Memory& memory, Threads& crew) {
        const bool held = learn_patches(memory, copy->view(), online(task), time, crew);
        memory.recalibrate(crew);  // the next verdict goes by what is known now
        return held;
      },
      threads);
}

void Line::learn_batch(const Batch& batch, const std::string& task, Threads& threads,
                       const Progress& progress) {
  catch_up(threads);
  LearnHow how;
  how.task = task;
  how.images = batch.images;
  how.progress = progress;
  // On a copy: if it fails half way, nothing has happened.
  Memory next = spare_->memory.copy();
  next.learn(batch.features, how, threads);
  if (!batch.held_ends.empty()) next.hold_out(batch.held, batch.held_ends, task, threads);
  next.recalibrate(threads);
  prepare_to_search(next, threads);
  const std::string checksum = next.save(path_);
  publish_whole(std::move(next));
  try {
    begin_journal(checksum);
  } catch (const Error&) {
    // It is learned and saved. Who learns the next image will begin the journal, or hear why not.
  }
}

void Line::fold(Threads& threads) {
  catch_up(threads);
  if (unsaved_ == 0 && !journal_->broken()) return;
  begin_journal(current_->memory.save(path_));
}

void Line::begin_journal(const std::string& checksum) {
  unsaved_ = 0;
  journal_->restart(journal_parent(checksum));
}

// The update goes to the spare, which changes places with the current one.
bool Line::publish(const Update& update, Threads& threads) {
  const bool result = update(spare_->memory, threads);
  prepare_to_search(spare_->memory, threads);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::swap(current_, spare_);
  behind_.push_back(update);
  return result;
}

void Line::publish_whole(Memory next) {
  auto twin = std::make_shared<Side>(next.copy());
  auto side = std::make_shared<Side>(std::move(next));
  const std::lock_guard<std::mutex> lock(mutex_);
  current_ = std::move(side);
  spare_ = std::move(twin);
}

// Waits until nobody reads the spare any more, then brings it up to date.
void Line::catch_up(Threads& threads) {
  if (behind_.empty()) return;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    left_.wait(lock, [&] { return spare_->readers == 0; });
  }
  for (const Update& update : behind_) update(spare_->memory, threads);
  behind_.clear();
}

}  // namespace contcore
