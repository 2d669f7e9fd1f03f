// A plan as a list of oneDNN primitives over one block of memory.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <dnnl.hpp>
#pragma GCC diagnostic pop

#include "backbone/plan.h"
#include "contcore/backbone.h"
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
  int before_;
};

/// What is to be handed out of a plan: a map for each value.
struct Wanted {
  std::size_t value = 0;
  bool channels_last =
      false;               ///< of four dimensions: (N, height, width, C), not (N, C, height, width)
  std::size_t height = 0;  ///< of a value (N, tokens, C): the last height · width tokens
  std::size_t width = 0;
};

class Program {
 public:
  /// Compiles a fused plan for `threads` threads. `shared` holds weights of the graph itself, by
  /// `is_shared`; others belong to the program. Throws Error (kInput) naming the node that fails.
  Program(const Plan& plan, const std::vector<Wanted>& wanted, std::size_t threads,
          const dnnl::engine& engine, PackedWeights& shared);
  ~Program();

  /// Runs on 3 × height × width numbers. The maps are valid until the next run.
  std::vector<FeatureMap> run(const float* image);

  /// Bytes of activations.
  std::size_t arena_bytes() const;

  /// Milliseconds of each primitive, the best of `repeats` runs of all in turn, and what it is.
  struct Timing {
    std::string what;
    double milliseconds = 0;
  };
  std::vector<Timing> profile(const float* image, int repeats);

 private:
  class Builder;
  struct Work;
  std::unique_ptr<Work> work_;
};

}  // namespace contcore
