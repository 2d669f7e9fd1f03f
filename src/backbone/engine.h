// What runs a network: a plan in, a program that runs it out.
#pragma once

#include <memory>
#include <vector>

#include "backbone/plan.h"
#include "contcore/backbone.h"
#include "contcore/compute.h"

namespace contcore {

/// A plan made ready to run at its one image size, with working memory of its own. For one thread
/// at a time.
class Program {
 public:
  virtual ~Program() = default;

  /// Runs on 3 × height × width numbers in the host's memory, channel after channel. The maps, one
  /// for each output in the order asked for, lie there too and are valid until the next run. Throws
  /// Error (kInternal) if the machine fails.
  virtual std::vector<FeatureMap> run(const float* image) = 0;

  /// The same for several images at once: the maps of each. One after the other, where a program
  /// knows no better.
  virtual std::vector<std::vector<FeatureMap>> run_batch(const std::vector<const float*>& images);

 private:
  std::vector<std::vector<float>> kept_;  // maps of a batch
};

/// Compiles the plans of one backbone. What they share, the weights in the layouts it wants, it
/// keeps for as long as it lives; a program must not outlive its engine.
class Engine {
 public:
  virtual ~Engine() = default;

  /// A fused plan for the threads and the device of `compute`, which is not kept. Several threads
  /// may compile at once. Throws Error: kInput, naming the node, for what the engine cannot run or
  /// has no memory for.
  virtual std::unique_ptr<Program> compile(const Plan& plan, const std::vector<PlanOutput>& outputs,
                                           Compute& compute) = 0;
};

/// The engine of a backbone for which none is handed in: it compiles for the device of the compute
/// context. Where a GPU has not enough memory, the processor does it.
std::unique_ptr<Engine> default_engine();

/// oneDNN on the processor, whatever the device.
std::unique_ptr<Engine> processor_engine();
/// Kernels of our own on the GPU of the compute context; nullptr in a build that knows none.
std::unique_ptr<Engine> gpu_engine();

}  // namespace contcore
