// A GPU as the layers above use it: work in order on a stream, and memory. Built without CUDA there
// is none: a Gpu cannot be made then.
//
// Files whose names end in _cuda.cc or .cu are compiled with CUDA alone, those in _without_cuda.cc
// without it alone.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "contcore/device.h"
#include "contcore/error.h"

struct CUstream_st;

namespace contcore {

class PinnedBuffer;

/// A GPU did not do what was asked: the processor can do it instead.
class GpuError : public Error {
 public:
  using Error::Error;
};

/// It cannot do this, though it does other things.
class GpuCannot : public GpuError {
 public:
  explicit GpuCannot(const std::string& what) : GpuError(Kind::kInput, what) {}
};

/// There is not enough memory on it.
class GpuMemoryError : public GpuError {
 public:
  explicit GpuMemoryError(const std::string& what) : GpuError(Kind::kInput, what) {}
};

/// From now on no Compute has a GPU (gpu_failure()). The first reason given stays.
void give_up_gpus(const std::string& why);
/// For gpu_fallbacks().
void count_gpu_fallback();

/// One GPU and a stream of its own, on which everything runs in order. For one thread at a time;
/// several may work on the same GPU, each with its own.
class Gpu {
 public:
  /// Throws Error (kUsage) if it cannot be used.
  explicit Gpu(int number);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int number() const { return number_; }
  CUstream_st* stream() const { return stream_; }
  std::size_t processors() const { return processors_; }        ///< multiprocessors
  std::size_t shared_memory() const { return shared_memory_; }  ///< most bytes for one block
  std::size_t l2_cache() const { return l2_cache_; }            ///< bytes

  /// Makes it the calling thread's GPU. Whatever calls CUDA itself calls this first; what follows
  /// does so by itself.
  void use() const;

  /// Bytes that can be had now.
  std::size_t free_memory() const;

  /// Copies, in order with everything else. Those from and to the host are done when they return.
  void upload(void* to, const void* from, std::size_t bytes);
  void download(void* to, const void* from, std::size_t bytes);
  /// Sets every byte.
  void fill(void* data, int byte, std::size_t bytes);
  /// Pinned memory for copies to pass through: of at least so many bytes, kept for the next copy.
  /// (To pin memory takes as long as to copy a hundred times as much.)
  std::byte* staging(std::size_t bytes);
  /// Waits until all is done. Throws Error (kInternal) for what went wrong meanwhile.
  void wait();

 private:
  int number_;
  std::size_t processors_ = 0;
  std::size_t shared_memory_ = 0;
  std::size_t l2_cache_ = 0;
  CUstream_st* stream_ = nullptr;
  std::unique_ptr<PinnedBuffer> staging_;
};

/// Memory of a GPU, taken and given back in order with the work on its stream. Must not outlive the
/// Gpu. Not set to anything.
class GpuBuffer {
 public:
  GpuBuffer() = default;
  /// Throws GpuMemoryError where there is not enough.
  GpuBuffer(Gpu& gpu, std::size_t bytes);
  ~GpuBuffer();
  GpuBuffer(GpuBuffer&& other) noexcept { swap(other); }
  GpuBuffer& operator=(GpuBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  std::size_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void swap(GpuBuffer& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  Gpu* gpu_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Memory of the host that a GPU copies from and to by itself, at full speed and while others work.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  /// Throws GpuMemoryError where the host has not enough of it.
  PinnedBuffer(Gpu& gpu, std::size_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept { swap(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  std::size_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void swap(PinnedBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Gets a GPU ready in the background, so that its first user need not wait. What fails is told to
/// that one.
std::jthread warm_up(Device device);

/// Throws unless a CUDA call (what it returned: a cudaError_t) succeeded: GpuMemoryError, or
/// GpuError (kInternal) that names `what`; after that no GPU is used any more, since nothing that
/// this process asks of it would succeed.
void check_cuda(int status, const char* what);

}  // namespace contcore
