#include "serve/output_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "contcore/error.h"
#include "serve/api_common.h"
#include "serve/clock.h"

namespace contcore {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostUnkept = 1000;
constexpr std::chrono::minutes kBetweenNotes{1};
constexpr std::chrono::hours kDropsShown{1};
constexpr std::int64_t kAllRows = std::numeric_limits<std::int64_t>::max();
constexpr char kUnkept[] = "they waited in memory, for the disk had not taken the inspections";
constexpr char kTooMany[] = "more waited than --output-queue allows, or --keep-inspections keeps";

}  // namespace

OutputQueue::OutputQueue(Store& store, std::string name, Note note)
    : store_(store), name_(std::move(name)), series_(store.series()), note_(std::move(note)) {}

Delivery OutputQueue::as_delivery(const StoredInspection& row, std::string key) {
  Delivery delivery;
  delivery.id = row.id;
  delivery.station = row.station;
  delivery.key = std::move(key);
  Json body = as_json(row);
  body["delivery"] = delivery.key;
  delivery.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return delivery;
}

void OutputQueue::unkept(const StoredInspection& row, const std::string& key) {
  const std::int64_t after = store_.last_id();
  {
    const std::lock_guard lock(mutex_);
    if (unkept_.size() >= kMostUnkept) {
      unkept_.pop_front();
      ++report_.dropped;
      why_dropped_ = kUnkept;
    }
    unkept_.push_back({after, as_delivery(row, key)});
  }
  wake_.call();
}

std::vector<Delivery> OutputQueue::take(std::size_t n) {
  look_for_drops(counts().dropped);
  std::int64_t up_to = kAllRows;
  {
    const std::lock_guard lock(mutex_);
    if (!unkept_.empty()) up_to = unkept_.front().after;
  }
  std::vector<Delivery> taken;
  for (const StoredInspection& row : store_.take(name_, n, up_to)) {
    // The time stands in it because a database that is put back from a copy gives its ids again.
    taken.push_back(as_delivery(row, fmt::format("{}-{}-{}", series_, row.id, row.time)));
  }
  if (!taken.empty()) return taken;
  const std::lock_guard lock(mutex_);
  // Where others came or went meanwhile, rows may come before those that are left.
  if (!unkept_.empty() && unkept_.front().after > up_to) {
    wake_.call();
  } else if (!unkept_.empty() && up_to != kAllRows) {
    taken.push_back(std::move(unkept_.front().delivery));
    unkept_.pop_front();
    ++unkept_taken_;
  }
  return taken;
}

void OutputQueue::dropped(const Delivery& delivery, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    why_dropped_ = why;
  }
  settle(delivery, false);
}

// What the store does not take now it is told with the next.
void OutputQueue::settle(const Delivery& delivery, bool arrived) {
  const std::lock_guard counting(counting_);
  {
    const std::lock_guard lock(mutex_);
    report_.last = std::max(report_.last, delivery.id);
    if (delivery.id != 0) {
      ++report_.rows;
    } else {
      --unkept_taken_;
    }
    ++(arrived ? report_.delivered : report_.dropped);
  }
  tell_store();
}

// With counting_ held.
bool OutputQueue::tell_store() {
  OutputReport report;
  {
    const std::lock_guard lock(mutex_);
    report = report_;
  }
  try {
    store_.settle(name_, report);
  } catch (const Error&) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  report_.rows -= report.rows;
  report_.delivered -= report.delivered;
  report_.dropped -= report.dropped;
  return true;
}

void OutputQueue::close() {
  const std::lock_guard counting(counting_);
  std::size_t gone = 0;
  {
    const std::lock_guard lock(mutex_);
    gone = unkept_.size() + unkept_taken_;
    report_.dropped += gone;
    unkept_.clear();
    unkept_taken_ = 0;
    if (report_.rows + report_.delivered + report_.dropped == 0) return;
  }
  const bool counted = tell_store();
  if (gone == 0 || !note_) return;
  note_(fmt::format("{}: {} verdict{} dropped{}: {}", name_, gone, gone == 1 ? " was" : "s were",
                    counted ? "" : " and not counted", kUnkept));
}

StoredOutput OutputQueue::counts() {
  const std::lock_guard counting(counting_);
  StoredOutput counts;
  for (const StoredOutput& output : store_.outputs()) {
    if (output.name == name_) counts = output;
  }
  const std::lock_guard lock(mutex_);
  counts.waiting -= std::min(counts.waiting, report_.rows);
  counts.waiting += unkept_.size() + unkept_taken_;
  counts.delivered += report_.delivered;
  counts.dropped += report_.dropped;
  return counts;
}

// The first is noted at once, what follows once a minute.
void OutputQueue::look_for_drops(std::size_t dropped) {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    if (!std::exchange(counted_, true)) drops_seen_ = drops_told_ = dropped;
    if (dropped > drops_seen_) {
      drops_seen_ = dropped;
      dropped_at_ = now;
      drops_ = fmt::format("{} verdict{} dropped, the last at {}: {}", dropped,
                           dropped == 1 ? " was" : "s were", utc_now(),
                           why_dropped_.empty() ? kTooMany : std::exchange(why_dropped_, ""));
    } else if (!drops_.empty() && now - dropped_at_ >= kDropsShown) {
      drops_.clear();
    }
    const bool just_told = drops_noted_ && now - *drops_noted_ < kBetweenNotes;
    if (drops_seen_ > drops_told_ && !just_told) {
      drops_told_ = drops_seen_;
      drops_noted_ = now;
      text = fmt::format("{}: {}", name_, drops_);
    }
  }
  if (!text.empty() && note_) note_(text);
}

void OutputQueue::failed(const std::string& why) {
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    ++failures_;
    is_new = up_ || error_ != why;
    up_ = false;
    error_ = why;
  }
  if (is_new && note_) note_(fmt::format("{}: {}; it is tried again", name_, why));
}

void OutputQueue::works() {
  {
    const std::lock_guard lock(mutex_);
    if (up_) return;
    up_ = true;
    error_.clear();
  }
  if (note_) note_(fmt::format("{}: takes verdicts again", name_));
}

OutputState OutputQueue::state() {
  const StoredOutput now = counts();
  look_for_drops(now.dropped);
  const std::lock_guard lock(mutex_);
  return {name_, up_, now.waiting, now.delivered, now.dropped, failures_, error_, drops_};
}

void OutputQueue::stop(Clock::time_point end) {
  {
    const std::lock_guard lock(mutex_);
    end_ = end;
  }
  stopping_ = true;
  wake_.call();
}

bool OutputQueue::is_over() const {
  if (!stopping_) return false;
  const std::lock_guard lock(mutex_);
  return Clock::now() >= end_;
}

void OutputQueue::pause(std::chrono::milliseconds time) {
  const Clock::time_point end = Clock::now() + time;
  while (!stopping_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left <= 0ms) return;
    wait(left);
  }
}

}  // namespace contcore
