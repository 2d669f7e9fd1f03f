// The engine on GPUs: what its programs share, one for each GPU.
#include <map>
#include <mutex>

#include "backbone/engine.h"
#include "backbone/gpu_program.h"

namespace contcore {
namespace {

class GpuEngine : public Engine {
 public:
  std::unique_ptr<Program> compile(const Plan& plan, const std::vector<PlanOutput>& outputs,
                                   Compute& compute) override {
    const Gpu* gpu = compute.gpu();
    if (gpu == nullptr) throw GpuCannot("there is no GPU any more");
    const int number = gpu->number();
    return std::make_unique<GpuProgram>(plan, outputs, number, shared(number));
  }

 private:
  GpuShared& shared(int number) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<GpuShared>& one = shared_[number];
    if (one == nullptr) one = std::make_unique<GpuShared>(number);
    return *one;
  }

  std::mutex mutex_;
  std::map<int, std::unique_ptr<GpuShared>> shared_;
};

}  // namespace

std::unique_ptr<Engine> gpu_engine() { return std::make_unique<GpuEngine>(); }

}  // namespace contcore
