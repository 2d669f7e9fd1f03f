// Pinned memory through which vectors go to a GPU: all threads fill it, and the GPU fetches it by
// itself, which is several times as fast as copying what is not pinned.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "contcore/compute.h"
#include "device/gpu.h"

namespace contcore::nearest_gpu {

/// Keeps what was used for the next search: pinning takes longer than a search.
class StagingPool {
 public:
  static constexpr std::size_t kBytes = std::size_t{8} << 20;  // of each

  /// Staging memory for as long as it lives.
  class Lease {
   public:
    Lease() = default;
    Lease(StagingPool& pool, Gpu& gpu) : pool_(&pool), buffer_(pool.take(gpu)) {}
    ~Lease() {
      if (pool_ != nullptr) pool_->give(std::move(buffer_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    char* data() const { return buffer_.as<char>(); }

   private:
    StagingPool* pool_ = nullptr;
    PinnedBuffer buffer_;
  };

 private:
  PinnedBuffer take(Gpu& gpu) {
    const std::lock_guard lock(mutex_);
    idle_.reserve(idle_.size() + lent_ + 1);  // so that all can be given back
    PinnedBuffer buffer;
    if (idle_.empty()) {
      buffer = PinnedBuffer(gpu, kBytes);
    } else {
      buffer = std::move(idle_.back());
      idle_.pop_back();
    }
    ++lent_;
    return buffer;
  }
  void give(PinnedBuffer buffer) noexcept {
    const std::lock_guard lock(mutex_);
    --lent_;
    idle_.push_back(std::move(buffer));
  }

  std::mutex mutex_;
  std::vector<PinnedBuffer> idle_;
  std::size_t lent_ = 0;
};

/// In order with the work on the GPU, but does not wait: what is copied from must stay.
inline void start_upload(Gpu& gpu, void* to, const void* from, std::size_t bytes) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, gpu.stream()),
             "copying to the GPU");
}

/// Both ends of it.
inline bool is_pinned(const void* data, std::size_t bytes) {
  const auto pinned = [](const void* at) {
    cudaPointerAttributes attributes{};
    check_cuda(cudaPointerGetAttributes(&attributes, at), "copying to the GPU");
    return attributes.type == cudaMemoryTypeHost;
  };
  return bytes > 0 && pinned(data) && pinned(static_cast<const char*>(data) + bytes - 1);
}

/// By all threads.
inline void copy_shared(char* to, const void* from, std::size_t bytes, Compute& compute) {
  constexpr std::size_t kPiece = std::size_t{128} << 10;
  compute.threads().run((bytes + kPiece - 1) / kPiece, [&](std::size_t i, std::size_t) {
    const std::size_t at = i * kPiece;
    std::memcpy(to + at, static_cast<const char*>(from) + at, std::min(kPiece, bytes - at));
  });
}

}  // namespace contcore::nearest_gpu
