// Launches that begin while the work before them ends: on GPUs that can (since Hopper), a kernel's
// blocks take their places early, and wait before they touch what others made.
#pragma once

#include <cuda_runtime.h>

#include "device/gpu.h"

namespace contcore::gpu_kernels {

/// Before the first use of anything another kernel writes, and before the first write.
__device__ inline void wait_for_the_last() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

/// The next kernel's blocks may take what room there is.
__device__ inline void let_the_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n");
#endif
}

/// For kernels that call wait_for_the_last().
template <typename... Expected, typename... Given>
void launch_early(void (*kernel)(Expected...), dim3 blocks, unsigned threads, std::size_t shared,
                  CUstream_st* stream, const char* what, const Given&... given) {
  int number = 0, major = 0;
  check_cuda(cudaGetDevice(&number), what);
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number), what);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = major >= 9 ? 1 : 0;
  check_cuda(cudaLaunchKernelEx(&config, kernel, given...), what);
}

}  // namespace contcore::gpu_kernels
