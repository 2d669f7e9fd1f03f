// The engine that looks at where the work is to be done.
#include "backbone/engine.h"
#include "device/gpu.h"

namespace contcore {
namespace {

class DefaultEngine : public Engine {
 public:
  std::unique_ptr<Program> compile(const Plan& plan, const std::vector<PlanOutput>& outputs,
                                   Compute& compute) override {
    if (compute.gpu() != nullptr && gpu_ != nullptr) {
      try {
        return gpu_->compile(plan, outputs, compute);
      } catch (const GpuError&) {  // then on the processor, for as long as the program lives
        count_gpu_fallback();
      }
    }
    return processor_->compile(plan, outputs, compute);
  }

 private:
  std::unique_ptr<Engine> processor_ = processor_engine();
  std::unique_ptr<Engine> gpu_ = gpu_engine();
};

}  // namespace

std::unique_ptr<Engine> default_engine() { return std::make_unique<DefaultEngine>(); }

std::vector<std::vector<FeatureMap>> Program::run_batch(const std::vector<const float*>& images) {
  kept_.clear();
  std::vector<std::vector<FeatureMap>> all;
  for (const float* image : images) {
    all.push_back(run(image));
    for (FeatureMap& map : all.back()) {
      kept_.emplace_back(map.data, map.data + map.channels * map.height * map.width);
      map.data = kept_.back().data();
    }
  }
  return all;
}

}  // namespace contcore
