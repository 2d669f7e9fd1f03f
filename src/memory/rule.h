// A rule: how a memory takes in the features of a task and stays within m. Adding one is a file
// beside share_rule.cc and paper_rule.cc, and a line in rule.cc.
//
// In: what the memory holds, and new features. Out: what it holds then. The contents handed in are
// as before where something throws: Error (kInput) on features too large to be told apart,
// kCancelled, std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "contcore/compute.h"
#include "contcore/memory.h"
#include "contcore/vectors.h"
#include "coreset/points.h"
#include "memory/contents.h"

namespace contcore {

class Rule {
 public:
  virtual ~Rule() = default;

  /// Expands, then consolidates to capacity. Of all ranks where the features have any; each has
  /// the same contents before and afterwards.
  virtual std::unique_ptr<Contents> learn(const Contents& now, const Points& features,
                                          const LearnHow& how, Compute& compute) const = 0;

  /// The same, to the last bit, in place, for a few features of float32.
  virtual void learn_online(Contents& contents, VectorView features, const LearnHow& how,
                            Compute& compute) const = 0;
  /// Whether that is worth it for so many picks.
  virtual bool worth_online(const Contents& now, std::size_t picks) const = 0;

  /// Into one with room for fewer, which has the tasks and no vectors yet.
  virtual void shrink(const Contents& from, Contents& to, Compute& compute) const = 0;

  /// The vectors of two memories into one that has the tasks of both and no vectors yet. Origins
  /// are tasks of `to`; `their_tasks` are as the second memory has them.
  virtual void merge(Entries ours, Entries theirs, const std::vector<TaskRecord>& their_tasks,
                     Contents& to, Compute& compute) const = 0;

  /// Whether a task expands on its own vectors alone, or on all.
  virtual bool expands_on_own() const = 0;
  /// Vectors that a task (its number, or that of the next one) has when it has taken so many picks.
  virtual std::size_t vectors_after(const Contents& now, std::int32_t task,
                                    std::size_t picks) const = 0;

  /// Every feature ever learned, or every one of a task, is within this of the memory.
  virtual double certificate(const Contents& contents) const = 0;
  virtual double certificate(const Contents& contents, std::int32_t task) const = 0;

  /// Why a task has so many vectors, fewer than it took: TaskState::why.
  virtual const char* why_fewer(const Contents& contents, std::size_t vectors) const = 0;
};

std::unique_ptr<const Rule> make_rule(const Consolidate& how);

std::unique_ptr<const Rule> make_share_rule(const Consolidate& how);
std::unique_ptr<const Rule> make_paper_rule(const Consolidate& how);

}  // namespace contcore
