// Which lessons a memory has, by their numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace contcore {

using LessonId = std::uint64_t;

/// Increasing numbers from 1 on.
class LessonSet {
 public:
  LessonSet() = default;
  explicit LessonSet(std::vector<LessonId> ids);

  /// "1-7,9"; and back. Throws Error (kUsage) for anything else, and for more than kMost.
  static constexpr std::size_t kMost = 1000000;
  std::string text() const;
  static LessonSet parse(std::string_view text);

  const std::vector<LessonId>& ids() const { return ids_; }
  bool empty() const { return ids_.empty(); }
  std::size_t size() const { return ids_.size(); }
  /// The largest; 0 of none.
  LessonId last() const { return ids_.empty() ? 0 : ids_.back(); }
  bool contains(LessonId id) const;

  void add(LessonId id);
  LessonSet without(const LessonSet& others) const;
  /// Those up to a number.
  LessonSet up_to(LessonId last) const;
  /// Those behind it.
  std::vector<LessonId> after(LessonId last) const;

  bool operator==(const LessonSet&) const = default;

 private:
  std::vector<LessonId> ids_;
};

}  // namespace contcore
