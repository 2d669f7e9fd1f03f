// A build that knows no GPU.
#include "contcore/device.h"
#include "device/gpu.h"

namespace contcore {

Gpus find_gpus() { return {{}, "this build is without CUDA (cmake -DCONTCORE_CUDA=ON adds it)"}; }

std::size_t free_memory(const Device& /*device*/) { return 0; }

Gpu::Gpu(int number) : number_(number) {
  throw Error(Error::Kind::kUsage,
              Device{number}.text() + " cannot be used: " + find_gpus().why_none);
}

Gpu::~Gpu() = default;

std::jthread warm_up(Device) { return {}; }
PinnedBuffer::~PinnedBuffer() = default;

}  // namespace contcore
