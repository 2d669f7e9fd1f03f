#include "memory/lesson_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "contcore/error.h"

namespace contcore {
namespace {

[[noreturn]] void refuse_set() {
  throw Error(Error::Kind::kUsage, "a set of lessons is written as 1-7,9");
}

LessonId read_id(std::string_view text) {
  LessonId id = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || rest != text.data() + text.size() || id == 0) refuse_set();
  return id;
}

}  // namespace

LessonSet::LessonSet(std::vector<LessonId> ids) : ids_(std::move(ids)) {
  std::sort(ids_.begin(), ids_.end());
  ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
}

std::string LessonSet::text() const {
  std::string text;
  for (std::size_t i = 0; i < ids_.size();) {
    std::size_t end = i + 1;
    while (end < ids_.size() && ids_[end] == ids_[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += fmt::format("{}", ids_[i]);
    if (end - i > 1) text += fmt::format("-{}", ids_[end - 1]);
    i = end;
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
    const bool in_order = first > set.last() && last >= first;
    if (!in_order || last - first >= kMost - set.size()) refuse_set();
    for (LessonId id = first; id <= last; ++id) set.ids_.push_back(id);
    if (comma + 1 == text.size()) refuse_set();
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return set;
}

bool LessonSet::contains(LessonId id) const {
  return std::binary_search(ids_.begin(), ids_.end(), id);
}

void LessonSet::add(LessonId id) {
  const auto at = std::lower_bound(ids_.begin(), ids_.end(), id);
  if (at == ids_.end() || *at != id) ids_.insert(at, id);
}

LessonSet LessonSet::without(const LessonSet& others) const {
  LessonSet rest;
  std::set_difference(ids_.begin(), ids_.end(), others.ids_.begin(), others.ids_.end(),
                      std::back_inserter(rest.ids_));
  return rest;
}

LessonSet LessonSet::up_to(LessonId last) const {
  LessonSet some;
  some.ids_.assign(ids_.begin(), std::upper_bound(ids_.begin(), ids_.end(), last));
  return some;
}

std::vector<LessonId> LessonSet::after(LessonId last) const {
  return {std::upper_bound(ids_.begin(), ids_.end(), last), ids_.end()};
}

}  // namespace contcore
