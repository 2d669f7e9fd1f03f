// A build that knows no GPU.
#include "coreset/greedy_gpu.h"

namespace contcore {

bool greedy_pays_on_gpu(VectorView, VectorView, const GreedyOptions&) { return false; }

GreedyResult greedy_sample_on_gpu(Gpu&, VectorView, VectorView, const GreedyOptions&, Compute&,
                                  const GpuGreedyLimits&, const std::vector<float>*) {
  throw GpuMemoryError("this build is without CUDA");
}

}  // namespace contcore
