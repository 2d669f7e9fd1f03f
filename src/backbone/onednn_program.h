// A plan as a list of oneDNN primitives over one block of memory.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backbone/engine.h"
#include "backbone/onednn_calls.h"
#include "backbone/plan.h"
#include "contcore/vectors.h"

namespace contcore {

/// Weights in the layouts that primitives ask for, made once and shared by all programs of a
/// backbone.
class PackedWeights {
 public:
  /// The block for `key`, filled by `fill` when it is asked for the first time. Safe from any
  /// thread.
  std::shared_ptr<const Vectors> get(const std::string& key, std::size_t bytes,
                                     const std::function<void(float*)>& fill);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Vectors>> blocks_;
};

/// Sets how many threads OpenMP, and so oneDNN, uses from this thread; puts it back at the end.
class OpenMpThreads {
 public:
  explicit OpenMpThreads(std::size_t count);
  ~OpenMpThreads();
  OpenMpThreads(const OpenMpThreads&) = delete;
  OpenMpThreads& operator=(const OpenMpThreads&) = delete;

 private:
  int count_;
  int before_;
};

/// Calls work(begin, end) for parts of [0, count), one on each of OpenMP's threads. It must not
/// throw.
void over_openmp(std::size_t count, const std::function<void(std::size_t, std::size_t)>& work);

class OneDnnProgram : public Program {
 public:
  /// Compiles a fused plan for `threads` threads. `weights` holds those of the graph itself, by
  /// `Step::shared`; others belong to the program. Throws Error: kInput naming the node that fails
  /// or the memory that is too much, kInternal where oneDNN fails otherwise.
  OneDnnProgram(const Plan& plan, const std::vector<PlanOutput>& outputs, std::size_t threads,
                const dnnl::engine& engine, PackedWeights& weights);

  std::vector<FeatureMap> run(const float* image) override;

  /// Bytes of activations.
  std::size_t arena_bytes() const;

  /// Milliseconds of each primitive, the best of `repeats` runs of all in turn, and what it is.
  struct Timing {
    std::string what;
    double milliseconds = 0;
  };
  std::vector<Timing> profile(const float* image, int repeats);

 private:
  std::size_t threads_;
  CallSequence sequence_;
};

}  // namespace contcore
