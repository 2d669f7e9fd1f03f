// Which lessons a memory has, by their numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace contcore {

using LessonId = std::uint64_t;

/// Increasing numbers from 1 on; kept as runs, so that a service may learn for years.
class LessonSet {
 public:
  /// From one number to another, both in it.
  struct Run {
    LessonId first = 0;
    LessonId last = 0;
    bool operator==(const Run&) const = default;
  };
  static constexpr LessonId kLargest = LessonId{1} << 53U;

  LessonSet() = default;
  explicit LessonSet(std::vector<LessonId> ids);

  /// "1-7,9"; and back. Throws Error (kUsage) for anything else, and for numbers above kLargest.
  std::string text() const;
  static LessonSet parse(std::string_view text);

  const std::vector<Run>& runs() const { return runs_; }
  /// Each number; for sets that are known to be small.
  std::vector<LessonId> ids() const;
  bool empty() const { return runs_.empty(); }
  std::size_t size() const;
  /// The largest; 0 of none.
  LessonId last() const { return runs_.empty() ? 0 : runs_.back().last; }
  bool contains(LessonId id) const;

  void add(LessonId id) { add({id, id}); }
  void add(const LessonSet& others);
  LessonSet without(const LessonSet& others) const;
  /// Those up to a number.
  LessonSet up_to(LessonId last) const;
  /// Those behind it.
  LessonSet after(LessonId last) const;

  bool operator==(const LessonSet&) const = default;

 private:
  void add(Run run);

  std::vector<Run> runs_;  // increasing, with numbers between them that are not in the set
};

}  // namespace contcore
