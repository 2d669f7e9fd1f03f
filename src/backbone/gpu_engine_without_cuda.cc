// A build that knows no GPU.
#include "backbone/engine.h"

namespace contcore {

std::unique_ptr<Engine> gpu_engine() { return nullptr; }

}  // namespace contcore
