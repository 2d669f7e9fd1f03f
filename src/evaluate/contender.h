// What a run judges, whether it is a method of the library or one from outside: the seam between
// what learns and answers, and what measures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "contcore/compute.h"
#include "contcore/image.h"
#include "contcore/method.h"
#include "contcore/progress.h"
#include "contcore/score.h"
#include "evaluate/evaluation.h"
#include "evaluate/feature_cache.h"

namespace contcore {

/// What an image of a class is answered with.
struct Answer {
  float score = 0;
  Map map;  ///< in the pixels the backbone saw; empty: none, or not wanted
};

class Contender {
 public:
  virtual ~Contender() = default;

  /// Whether it learns the features of a task's classes as one set.
  virtual bool learns_joined() const = 0;
  virtual void learn(const Evaluation::State::Task& task, Compute& compute,
                     const Progress& progress) = 0;
  /// Called after learning, before anything is asked.
  virtual void prepare(Compute& compute) = 0;

  /// How many images can be asked for at once.
  virtual std::size_t most_images() const = 0;
  /// Test images `begin` to `end` of a class are asked for next. Called from the thread of run().
  virtual void ask(std::size_t product, const std::shared_ptr<const ImageFeatures>& features,
                   std::size_t begin, std::size_t end) = 0;
  /// One of those that were asked for. Called from several threads at once, each with a crew of its
  /// own.
  virtual Answer answer(std::size_t product, const ImageFeatures& features, std::size_t image,
                        bool with_map, Compute& compute) const = 0;

  /// What its image scores are in the units of: its maps, or patches.
  virtual Score score() const = 0;
  virtual std::size_t vectors() const = 0;
  virtual std::uint64_t numbers() const = 0;
};

/// A method of the library. Throws Error (kUsage) as State::method does.
std::unique_ptr<Contender> make_inside(const Evaluation::State& parts, const Setting& setting);

/// A method from outside, whose answers are checked: Error (kUsage) names the method, the class and
/// the image of one that cannot be used. Throws the same for a name that it cannot have, and for
/// p and q that no result can have. `parts` and `method` must outlive it.
std::unique_ptr<Contender> make_outside(const Evaluation::State& parts, const Setting& setting,
                                        OutsideMethod& method);

}  // namespace contcore
