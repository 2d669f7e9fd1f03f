// Which device a word means, and a compute context on it.
#include "contcore/device.h"

#include <fmt/format.h>

#include "contcore/compute.h"
#include "contcore/error.h"
#include "device/gpu.h"

namespace contcore {
namespace {

std::string what_there_is(const Gpus& gpus) {
  if (gpus.all.empty()) return gpus.why_none;
  std::string list = "there is ";
  for (std::size_t i = 0; i < gpus.all.size(); ++i) {
    const GpuInfo& gpu = gpus.all[i];
    list += fmt::format("{}{} ({})", i == 0 ? "" : ", ", gpu.device.text(), gpu.name);
  }
  return list;
}

}  // namespace

std::string Device::text() const { return is_cpu() ? "cpu" : fmt::format("cuda:{}", cuda); }

Device Device::parse(const std::string& text) {
  if (text == "cpu") return {};
  const std::string number = text.starts_with("cuda:") ? text.substr(5) : "";
  const bool numbered = !number.empty() && number.size() <= 3 &&
                        number.find_first_not_of("0123456789") == std::string::npos;
  if (text != "auto" && text != "cuda" && !numbered) {
    throw Error(
        Error::Kind::kUsage,
        fmt::format("'{}' is not a device; there are cpu, cuda, cuda:1 and so on, and auto", text));
  }
  const Gpus gpus = find_gpus();
  if (text == "auto") return gpus.all.empty() ? Device() : gpus.all.front().device;
  const int wanted = numbered ? std::stoi(number) : -1;
  for (const GpuInfo& gpu : gpus.all) {
    if (!numbered || gpu.device.cuda == wanted) return gpu.device;
  }
  throw Error(Error::Kind::kUsage,
              fmt::format("{} cannot be used: {}; --device cpu does without it", text,
                          what_there_is(gpus)));
}

Compute::Compute(std::size_t threads, Device device) : threads_(threads), device_(device) {}
Compute::~Compute() = default;

Gpu* Compute::gpu() {
  if (!device_.is_cpu() && gpu_ == nullptr) gpu_ = std::make_unique<Gpu>(device_.cuda);
  return gpu_.get();
}

}  // namespace contcore
