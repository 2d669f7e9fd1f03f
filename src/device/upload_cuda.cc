// Each thread has two pieces of pinned memory by turns: it fills one while the GPU copies from the
// other.
#include "device/upload.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace contcore {
namespace {

constexpr std::size_t kPiece = std::size_t{512} << 10;
constexpr std::size_t kMostThreads = 16;
constexpr std::size_t kLeast = 8 * kPiece;  // less is copied as quickly by one

// Says when what was copied from a piece has arrived.
class Arrival {
 public:
  Arrival() {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "copying to the GPU");
  }
  ~Arrival() { cudaEventDestroy(event_); }
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  void wait() { check_cuda(cudaEventSynchronize(event_), "copying to the GPU"); }
  void record(const Gpu& gpu) {
    check_cuda(cudaEventRecord(event_, gpu.stream()), "copying to the GPU");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

void upload_with_threads(Gpu& gpu, Compute& compute, void* to, const void* from,
                         std::size_t bytes) {
  const std::size_t threads = compute.threads().count();
  if (bytes < kLeast || threads == 1) return gpu.upload(to, from, bytes);
  gpu.use();
  const std::size_t parts = (bytes + kPiece - 1) / kPiece;
  const std::size_t pieces = 2 * std::min({threads, kMostThreads, parts / 4});
  std::byte* pinned = gpu.staging(pieces * kPiece);
  std::vector<Arrival> arrivals(pieces);
  // Thread p / 2 of the copying ones copies the parts p, p + pieces, …
  compute.threads().run(pieces / 2, [&](std::size_t item, std::size_t) {
    gpu.use();
    for (std::size_t part = 2 * item; part < parts; part += part % 2 == 0 ? 1 : pieces - 1) {
      const std::size_t piece = part % pieces;
      const std::size_t first = part * kPiece;
      const std::size_t n = std::min(kPiece, bytes - first);
      std::byte* at = pinned + piece * kPiece;
      arrivals[piece].wait();  // at once, the first time
      std::memcpy(at, static_cast<const std::byte*>(from) + first, n);
      check_cuda(cudaMemcpyAsync(static_cast<std::byte*>(to) + first, at, n, cudaMemcpyHostToDevice,
                                 gpu.stream()),
                 "copying to the GPU");
      arrivals[piece].record(gpu);
    }
  });
  gpu.wait();
}

}  // namespace contcore
