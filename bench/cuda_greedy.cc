// Greedy sampling on a GPU, timed on vectors like real ones.
//
//   contcore_cuda_greedy [float|bytes] [ROWS] [DIMENSION] [COUNT] [REPEATS] [RESIDENT]
//   [check|dense]
//
// Prints the best time of a whole call, from memory of the host, and that of copying the points to
// the GPU alone. RESIDENT: bytes of points on the GPU at a time; 0: what its memory allows; `check`
// compares with the processor's answer, and prints its time; `dense` does without codes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "contcore/greedy.h"
#include "coreset/greedy_gpu.h"
#include "coreset/synthetic.h"
#include "device/upload.h"

namespace contcore {
namespace {

double best_of(int repeats, const std::function<void()>& work) {
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

// Points of one kind, made block by block: floats of all of them need not fit.
struct Points {
  std::vector<unsigned char> data;
  VectorView view;

  Points(Scalar scalar, std::size_t n, std::size_t d, Compute& compute)
      : data(n * d * bytes_of(scalar)), view(data.data(), n, d, scalar) {
    const SyntheticFeatures features(d, 1);
    constexpr std::size_t kBlock = SyntheticFeatures::kBlock;
    compute.threads().run((n + kBlock - 1) / kBlock, [&](std::size_t block, std::size_t) {
      std::vector<float> made(kBlock * d);
      const std::size_t rows = std::min(kBlock, n - block * kBlock);
      features.make_block(block, rows, made.data());
      unsigned char* to = data.data() + block * kBlock * d * bytes_of(scalar);
      for (std::size_t i = 0; i < rows * d; ++i) {
        if (scalar == Scalar::kFloat32) {
          reinterpret_cast<float*>(to)[i] = made[i];
        } else {
          to[i] = static_cast<unsigned char>(std::clamp(128 + 20 * made[i], 0.0f, 255.0f));
        }
      }
    });
  }
};

int run(const std::vector<std::string>& words) {
  const auto number = [&](std::size_t i, std::size_t otherwise) {
    return words.size() > i ? std::strtoull(words[i].c_str(), nullptr, 10) : otherwise;
  };
  const bool bytes = !words.empty() && words[0] == "bytes";
  Compute compute(0, Device{0});
  Gpu& gpu = *compute.gpu();
  const Points points(bytes ? Scalar::kUint8 : Scalar::kFloat32, number(1, 226576),
                      number(2, bytes ? 512 : 1024), compute);
  GreedyOptions options;
  options.count = number(3, points.view.rows / 100);
  const int repeats = static_cast<int>(number(4, 5));

  GpuGreedyLimits limits;
  limits.resident = number(5, 0);
  limits.codes = words.empty() || words.back() != "dense";
  GreedyResult result;
  const double whole = best_of(repeats, [&] {
    result = greedy_sample_on_gpu(gpu, points.view, {}, options, compute, limits);
  });
  const double copied = best_of(repeats, [&] {
    const GpuBuffer buffer(gpu, points.view.bytes());
    upload_with_threads(gpu, compute, buffer.as<void>(), points.view.data, points.view.bytes());
  });
  fmt::print("{} {} x {} -> {}: {:.2f} ms in all, {:.2f} ms of it copying ({:.1f} GB/s); ",
             bytes ? "bytes" : "float", points.view.rows, points.view.cols, result.picks.size(),
             whole * 1e3, copied * 1e3, static_cast<double>(points.view.bytes()) / copied / 1e9);
  for (const GreedyStage& stage : result.stages) {
    fmt::print("{} {:.3g}, ", stage.name, static_cast<double>(stage.settled));
  }
  fmt::print("{:.3g} measured\n", static_cast<double>(result.full_distances));
  if (words.empty() || words.back() != "check") return 0;
  Compute processor(0);
  GreedyResult expected;
  const double took =
      best_of(3, [&] { expected = greedy_sample(points.view, {}, options, processor); });
  const bool same = result.picks == expected.picks && result.radii == expected.radii &&
                    result.covering_radius == expected.covering_radius;
  fmt::print("  the processor: {:.1f} ms with {} threads, {}\n", took * 1e3,
             processor.threads().count(), same ? "the same" : "DIFFERENT");
  return same ? 0 : 1;
}

}  // namespace
}  // namespace contcore

int main(int argc, char** argv) { return contcore::run({argv + 1, argv + argc}); }
