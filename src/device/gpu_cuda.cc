// CUDA's runtime behind gpu.h. It loads the driver when it is first called, so that a program with
// it starts where there is none.
#include "device/gpu.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <limits>

#include "contcore/device.h"

namespace contcore {
namespace {

constexpr int kLeastMajor = 8;  // compute capability that the kernels are compiled for

std::size_t size_of(int value) { return value > 0 ? static_cast<std::size_t>(value) : 0; }

std::size_t attribute(cudaDeviceAttr which, int number) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, number), "asking for the GPU's properties");
  return size_of(value);
}

// Of the calling thread's GPU.
cudaError_t ask_free_memory(int number, std::size_t& bytes) {
  std::size_t free = 0, all = 0;
  cudaMemPool_t pool = nullptr;
  std::uint64_t reserved = 0, used = 0;  // what the pool keeps is free as well
  cudaError_t status = cudaMemGetInfo(&free, &all);
  if (status == cudaSuccess) status = cudaDeviceGetDefaultMemPool(&pool, number);
  if (status == cudaSuccess) {
    status = cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved);
  }
  if (status == cudaSuccess) {
    status = cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used);
  }
  bytes = free + static_cast<std::size_t>(reserved - used);
  return status;
}

std::string driver_text(cudaError_t status) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (driver == 0) return "no NVIDIA driver is there";
  if (status == cudaErrorInsufficientDriver) {
    return fmt::format("the NVIDIA driver is for CUDA {}.{}, and {}.{} is needed", driver / 1000,
                       driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  }
  return fmt::format("no GPU is there ({})", cudaGetErrorString(status));
}

}  // namespace

void check_cuda(int status, const char* what) {
  const auto error = static_cast<cudaError_t>(status);
  if (error == cudaSuccess) return;
  cudaGetLastError();  // not to be met again by the next call
  if (error == cudaErrorMemoryAllocation) {
    throw GpuMemoryError(fmt::format(
        "{}: the GPU has not enough memory; end what else uses it, or take device cpu", what));
  }
  const std::string text = fmt::format("{}: {} ({}); device cpu does without the GPU", what,
                                       cudaGetErrorString(error), cudaGetErrorName(error));
  give_up_gpus(text);
  throw GpuError(Error::Kind::kInternal, text);
}

Gpus find_gpus() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) cudaGetLastError();
  if (status != cudaSuccess || count == 0) return {{}, driver_text(status)};
  Gpus gpus;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    const cudaError_t asked = cudaGetDeviceProperties(&properties, i);
    if (asked != cudaSuccess) {
      cudaGetLastError();
      gpus.why_none = fmt::format("cuda:{} does not answer ({})", i, cudaGetErrorString(asked));
      continue;
    }
    if (properties.major < kLeastMajor) {
      gpus.why_none =
          fmt::format("cuda:{} ({}) has compute capability {}.{}, and {}.0 is needed", i,
                      properties.name, properties.major, properties.minor, kLeastMajor);
      continue;
    }
    gpus.all.push_back({Device{i}, properties.name, properties.major, properties.minor,
                        properties.totalGlobalMem});
  }
  return gpus;
}

std::size_t free_memory(const Device& device) {
  std::size_t bytes = 0;
  if (device.is_cpu() || cudaSetDevice(device.cuda) != cudaSuccess ||
      ask_free_memory(device.cuda, bytes) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return bytes;
}

// ---- a GPU -------------------------------------------------------------------------------------

Gpu::Gpu(int number) : number_(number) {
  if (cudaSetDevice(number) != cudaSuccess || cudaFree(nullptr) != cudaSuccess) {
    const cudaError_t status = cudaGetLastError();
    if (status == cudaErrorDevicesUnavailable) {
      throw GpuError(Error::Kind::kUsage,
                     fmt::format("{} cannot be used: another process has it for itself; device cpu "
                                 "does without it",
                                 Device{number}.text()));
    }
    if (status == cudaErrorNoDevice || status == cudaErrorInvalidDevice ||
        status == cudaErrorInsufficientDriver || status == cudaErrorInitializationError) {
      throw Error(Error::Kind::kUsage,
                  fmt::format("{} cannot be used: {}; device cpu does without it",
                              Device{number}.text(), driver_text(status)));
    }
    check_cuda(status == cudaSuccess ? cudaErrorUnknown : status, "preparing the GPU");
  }
  processors_ = attribute(cudaDevAttrMultiProcessorCount, number);
  shared_memory_ = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, number);
  l2_cache_ = attribute(cudaDevAttrL2CacheSize, number);
  // What is given back stays with the process, to be taken again at once.
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, number), "preparing the GPU's memory");
  auto all = std::numeric_limits<std::uint64_t>::max();
  check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all),
             "preparing the GPU's memory");
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "preparing the GPU");
}

std::jthread warm_up(Device device) {
  if (device.is_cpu()) return {};
  return std::jthread([device] {
    if (cudaSetDevice(device.cuda) != cudaSuccess || cudaFree(nullptr) != cudaSuccess) {
      cudaGetLastError();
    }
  });
}

Gpu::~Gpu() {
  if (stream_ == nullptr) return;
  cudaSetDevice(number_);
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

void Gpu::use() const { check_cuda(cudaSetDevice(number_), "using the GPU"); }

std::size_t Gpu::free_memory() const {
  use();
  std::size_t free = 0;
  check_cuda(ask_free_memory(number_, free), "asking for the GPU's memory");
  return free;
}

void Gpu::upload(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  use();
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_),
             "copying to the GPU");
  wait();
}

void Gpu::download(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  use();
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_),
             "copying from the GPU");
  wait();
}

void Gpu::fill(void* data, int byte, std::size_t bytes) {
  if (bytes == 0) return;
  use();
  check_cuda(cudaMemsetAsync(data, byte, bytes, stream_), "setting the GPU's memory");
}

std::byte* Gpu::staging(std::size_t bytes) {
  if (staging_ == nullptr || staging_->bytes() < bytes) {
    staging_.reset();
    staging_ = std::make_unique<PinnedBuffer>(*this, bytes);
  }
  return staging_->as<std::byte>();
}

void Gpu::wait() { check_cuda(cudaStreamSynchronize(stream_), "computing on the GPU"); }

// ---- memory ------------------------------------------------------------------------------------

GpuBuffer::GpuBuffer(Gpu& gpu, std::size_t bytes) : gpu_(&gpu), bytes_(bytes) {
  if (bytes == 0) return;
  gpu.use();
  check_cuda(cudaMallocAsync(&data_, bytes, gpu.stream()), "taking memory of the GPU");
}

GpuBuffer::~GpuBuffer() {
  if (data_ == nullptr) return;
  cudaSetDevice(gpu_->number());
  cudaFreeAsync(data_, gpu_->stream());
}

PinnedBuffer::PinnedBuffer(Gpu& gpu, std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  gpu.use();
  const cudaError_t status = cudaHostAlloc(&data_, bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw GpuMemoryError("the system gives no more memory that a GPU can copy from by itself");
  }
  check_cuda(status, "pinning memory for the GPU");
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) cudaFreeHost(data_);
}

}  // namespace contcore
