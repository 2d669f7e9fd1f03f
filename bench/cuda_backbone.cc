// A backbone on a GPU: its maps against the processor's, and times.
//
//   cuda_backbone MODEL.onnx SIDE [--layers] [BATCH...]
//
// Times are of images that lie on the GPU already (its time alone), and of images and maps in the
// host's memory.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "backbone/engine.h"
#include "backbone/gpu_program.h"
#include "base/random.h"
#include "contcore/backbone.h"
#include "contcore/error.h"

namespace {

using contcore::Backbone;
using contcore::Compute;
using contcore::Device;
using contcore::FeatureMap;
using contcore::GpuBuffer;
using contcore::GpuProgram;

class Watched : public contcore::Engine {
 public:
  explicit Watched(GpuProgram*& program) : program_(program) {}
  std::unique_ptr<contcore::Program> compile(const contcore::Plan& plan,
                                             const std::vector<contcore::PlanOutput>& outputs,
                                             Compute& compute) override {
    auto made = engine_->compile(plan, outputs, compute);
    program_ = dynamic_cast<GpuProgram*>(made.get());
    return made;
  }

 private:
  std::unique_ptr<contcore::Engine> engine_ = contcore::gpu_engine();
  GpuProgram*& program_;
};

template <typename Work>
double median_milliseconds(int repeats, const Work& work) {
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    times.push_back(taken.count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void compare(const std::vector<FeatureMap>& ours, const std::vector<FeatureMap>& theirs) {
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const std::size_t count = ours[i].channels * ours[i].height * ours[i].width;
    std::size_t off = 0;
    double difference = 0, norm = 0;
    for (std::size_t k = 0; k < count; ++k) {
      const double a = static_cast<double>(ours[i].data[k]);
      const double b = static_cast<double>(theirs[i].data[k]);
      off += a != b ? 1u : 0u;
      difference += (a - b) * (a - b);
      norm += b * b;
    }
    fmt::print("map {} of {} x {} x {}: {} numbers differ, by {:.3g} of the norm\n", i,
               ours[i].channels, ours[i].height, ours[i].width, off, std::sqrt(difference / norm));
  }
}

void measure(GpuProgram& program, Backbone::Runner& runner, const std::vector<float>& image,
             std::size_t side, std::size_t batch, double gflops, Compute& compute) {
  std::vector<float> images;
  std::vector<std::span<const float>> spans(batch, image);
  for (std::size_t i = 0; i < batch; ++i) images.insert(images.end(), image.begin(), image.end());
  GpuBuffer there(program.gpu(), images.size() * sizeof(float));
  program.gpu().upload(there.as<float>(), images.data(), there.bytes());
  const int in_a_row = batch == 1 ? 20 : 4;
  const auto alone = [&] {
    for (int i = 0; i < in_a_row; ++i) program.run_there(there.as<float>(), batch);
    program.gpu().wait();
  };
  for (int i = 0; i < 3; ++i) alone();
  const double device = median_milliseconds(9, alone) / in_a_row / static_cast<double>(batch);
  const auto with_copies = [&] { runner.run_batch(spans, side, side, compute); };
  with_copies();
  const double both = median_milliseconds(9, with_copies) / static_cast<double>(batch);
  fmt::print(
      "batch {}: {:.4f} ms an image on the GPU ({:.0f} GOP/ms = TOPS), {:.4f} ms with copies; {} "
      "MB\n",
      batch, device, gflops / device, both, program.arena_bytes() >> 20);
}

void run(const std::string& model, std::size_t side, bool layers,
         const std::vector<std::size_t>& batches) {
  GpuProgram* program = nullptr;
  const Backbone there(model, {}, std::make_unique<Watched>(program));
  const Backbone here(model);
  contcore::Random random(3);
  std::vector<float> image(3 * side * side);
  for (float& x : image) x = random.gaussian();
  Compute gpu(1, Device{0}), processor;
  auto runner = there.runner(), usual = here.runner();
  const auto start = std::chrono::steady_clock::now();
  const auto maps = runner.run(image, side, side, gpu);
  const std::chrono::duration<double, std::milli> first = std::chrono::steady_clock::now() - start;
  compare(maps, usual.run(image, side, side, processor));
  const double gflops = here.info(side, side).gflops;
  fmt::print("{} at {}: {:.1f} GOP; compiled and run in {:.0f} ms; processor {:.2f} ms\n", model,
             side, gflops, first.count(),
             median_milliseconds(3, [&] { usual.run(image, side, side, processor); }));
  for (const std::size_t batch : batches) {
    measure(*program, runner, image, side, batch, gflops, gpu);
    if (!layers) continue;
    double sum = 0;
    for (const auto& timing : program->profile(batch, 3)) {
      sum += timing.milliseconds;
      fmt::print("  {:8.2f} us  {}\n", timing.milliseconds * 1000 / static_cast<double>(batch),
                 timing.what);
    }
    fmt::print("  {:8.2f} us  in all\n", sum * 1000 / static_cast<double>(batch));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::size_t> batches;
    bool layers = false;
    for (int i = 3; i < argc; ++i) {
      if (std::strcmp(argv[i], "--layers") == 0) {
        layers = true;
      } else {
        batches.push_back(std::stoul(argv[i]));
      }
    }
    if (argc < 3)
      throw contcore::Error(contcore::Error::Kind::kUsage,
                            "cuda_backbone MODEL SIDE [--layers] [BATCH...]");
    run(argv[1], std::stoul(argv[2]), layers, batches);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
