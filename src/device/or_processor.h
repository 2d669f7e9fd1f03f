// What a GPU cannot do, the processor does: the answer is the same.
#pragma once

#include "contcore/compute.h"
#include "device/gpu.h"

namespace contcore {

/// work(compute); where a GPU fails in it or has not the memory, once more with the processor
/// alone. For work that leaves all as it was where it throws; its progress begins anew.
template <typename Work>
auto or_processor(Compute& compute, const Work& work) {
  try {
    return work(compute);
  } catch (const GpuError&) {
    count_gpu_fallback();
  }
  Compute processor(compute.threads().count());
  return work(processor);
}

}  // namespace contcore
