// Nearest neighbours on a GPU: contcore_cuda_nearest [cuda:0]
//
// Queries are patches of an image, as they come from the host and as results are wanted there. The
// median of many searches; bench/cuda_nearest.py has the same with torch.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "contcore/compute.h"
#include "contcore/nearest.h"
#include "coreset/synthetic.h"
#include "device/gpu.h"

namespace {

using namespace contcore;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Bytes as a memory of them has: what is common is 0 to 255.
Vectors to_bytes(const Vectors& floats) {
  Vectors bytes(floats.rows(), floats.cols(), Scalar::kUint8);
  const std::size_t all = floats.rows() * floats.cols();
  const auto [low, high] = std::minmax_element(floats.data(), floats.data() + all);
  for (std::size_t i = 0; i < all; ++i) {
    const float part = (floats.data()[i] - *low) / (*high - *low);
    bytes.byte_data()[i] = static_cast<std::uint8_t>(part * 255.0f + 0.5f);
  }
  return bytes;
}

void run(const Vectors& all, std::size_t queries, std::size_t k, Compute& gpu, Compute& cpu) {
  const VectorView vectors = all.view().part(0, all.rows() - queries);
  const VectorView asked = all.view().part(vectors.rows, queries);
  const PinnedBuffer pinned(*gpu.gpu(), asked.bytes());
  std::memcpy(pinned.as<char>(), asked.data, asked.bytes());
  const VectorView fast(pinned.as<void>(), asked.rows, asked.cols, asked.scalar);
  const NearestIndex index(vectors, cpu);
  double start = seconds();
  const NearestResult first = index.search(asked, k, gpu);
  const double copied = seconds() - start;
  start = seconds();
  const NearestResult truth = index.search(asked, k, cpu);
  const double of_cpu = seconds() - start;
  const auto median = [&](const VectorView& view) {
    std::vector<double> times;
    for (int i = 0; i < 60; ++i) {
      const double begin = seconds();
      index.search(view, k, gpu);
      times.push_back(seconds() - begin);
    }
    std::nth_element(times.begin(), times.begin() + 30, times.end());
    return times[30] * 1e3;
  };
  const bool same = first.ids == truth.ids && first.distances == truth.distances;
  fmt::print(
      "{:>5} x {:>7} x {:>4} {:<7} k {}: {:7.3f} ms, pinned {:7.3f} ms; the first {:7.1f} ms; "
      "{} threads {:8.1f} ms; {:.2f} measured each; {}\n",
      queries, vectors.rows, all.cols(), all.scalar() == Scalar::kUint8 ? "bytes" : "floats", k,
      median(asked), median(fast), copied * 1e3, cpu.threads().count(), of_cpu * 1e3,
      static_cast<double>(first.exact) / static_cast<double>(queries),
      same ? "the same" : "DIFFERENT");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Compute cpu;
  Compute gpu(0, Device::parse(argc > 1 ? argv[1] : "cuda"));
  {
    const Vectors features = SyntheticFeatures(512, 1).make(65536 + 2304, cpu);
    const Vectors bytes = to_bytes(features);
    run(bytes, 2304, 1, gpu, cpu);
    run(bytes, 2304, 5, gpu, cpu);
    run(features, 2304, 1, gpu, cpu);
  }
  const Vectors features = SyntheticFeatures(1024, 2).make(20000 + 784, cpu);
  run(features, 784, 1, gpu, cpu);
  run(features, 784, 5, gpu, cpu);
  run(to_bytes(features), 784, 1, gpu, cpu);
  return 0;
}
