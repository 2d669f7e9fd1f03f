// The engine on oneDNN: float32 on the processor.

#include "backbone/engine.h"
#include "backbone/onednn_program.h"

namespace contcore {

std::shared_ptr<const Vectors> PackedWeights::get(const std::string& key, std::size_t bytes,
                                                  const std::function<void(float*)>& fill) {
  const std::lock_guard lock(mutex_);
  auto& block = blocks_[key];
  if (block == nullptr) {
    Vectors fresh(1, (bytes + sizeof(float) - 1) / sizeof(float));
    fill(fresh.data());
    block = std::make_shared<const Vectors>(std::move(fresh));
  }
  return block;
}

namespace {

class OneDnnEngine : public Engine {
 public:
  std::unique_ptr<Program> compile(const Plan& plan, const std::vector<PlanOutput>& outputs,
                                   Compute& compute) override {
    return std::make_unique<OneDnnProgram>(plan, outputs, compute.threads().count(), engine_,
                                           weights_);
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  PackedWeights weights_;
};

}  // namespace

std::unique_ptr<Engine> processor_engine() { return std::make_unique<OneDnnEngine>(); }

}  // namespace contcore
