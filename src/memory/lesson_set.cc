#include "memory/lesson_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "contcore/error.h"

namespace contcore {
namespace {

[[noreturn]] void refuse_set() {
  throw Error(Error::Kind::kUsage, "a set of lessons is written as 1-7,9");
}

LessonId read_id(std::string_view text) {
  LessonId id = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || rest != text.data() + text.size()) refuse_set();
  if (id == 0 || id > LessonSet::kLargest) refuse_set();
  return id;
}

}  // namespace

LessonSet::LessonSet(std::vector<LessonId> ids) {
  std::sort(ids.begin(), ids.end());
  for (const LessonId id : ids) add(id);
}

std::string LessonSet::text() const {
  std::string text;
  for (const Run& run : runs_) {
    if (!text.empty()) text += ',';
    text += fmt::format("{}", run.first);
    if (run.last > run.first) text += fmt::format("-{}", run.last);
  }
  return text;
}

LessonSet LessonSet::parse(std::string_view text) {
  LessonSet set;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    const std::size_t dash = part.find('-');
    const LessonId first = read_id(part.substr(0, dash));
    const LessonId last = dash == part.npos ? first : read_id(part.substr(dash + 1));
    if (first <= set.last() || last < first) refuse_set();
    set.add({first, last});
    if (comma + 1 == text.size()) refuse_set();
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return set;
}

std::vector<LessonId> LessonSet::ids() const {
  std::vector<LessonId> ids;
  for (const Run& run : runs_) {
    for (LessonId id = run.first; id <= run.last; ++id) ids.push_back(id);
  }
  return ids;
}

std::size_t LessonSet::size() const {
  std::size_t size = 0;
  for (const Run& run : runs_) size += run.last - run.first + 1;
  return size;
}

bool LessonSet::contains(LessonId id) const {
  const auto at = std::lower_bound(runs_.begin(), runs_.end(), id,
                                   [](const Run& run, LessonId one) { return run.last < one; });
  return at != runs_.end() && at->first <= id;
}

// Runs that it meets or touches become one with it.
void LessonSet::add(Run run) {
  const auto begin =
      std::lower_bound(runs_.begin(), runs_.end(), run,
                       [](const Run& a, const Run& b) { return a.last + 1 < b.first; });
  auto end = begin;
  for (; end != runs_.end() && end->first <= run.last + 1; ++end) {
    run.first = std::min(run.first, end->first);
    run.last = std::max(run.last, end->last);
  }
  runs_.insert(runs_.erase(begin, end), run);
}

void LessonSet::add(const LessonSet& others) {
  for (const Run& run : others.runs_) add(run);
}

LessonSet LessonSet::without(const LessonSet& others) const {
  LessonSet rest;
  auto other = others.runs_.begin();
  for (const Run& run : runs_) {
    LessonId first = run.first;
    while (other != others.runs_.end() && other->last < first) ++other;
    for (auto hole = other; hole != others.runs_.end() && hole->first <= run.last; ++hole) {
      if (hole->first > first) rest.runs_.push_back({first, hole->first - 1});
      first = hole->last + 1;
    }
    if (first <= run.last) rest.runs_.push_back({first, run.last});
  }
  return rest;
}

LessonSet LessonSet::up_to(LessonId last) const { return without(after(last)); }

LessonSet LessonSet::after(LessonId last) const {
  LessonSet some;
  for (const Run& run : runs_) {
    if (run.last > last) some.runs_.push_back({std::max(run.first, last + 1), run.last});
  }
  return some;
}

}  // namespace contcore
