// Which device a word means, and a compute context on it.
#include "contcore/device.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>

#include "contcore/compute.h"
#include "contcore/error.h"
#include "device/gpu.h"

namespace contcore {
namespace {

std::atomic<bool> gpus_failed = false;
std::mutex failure_mutex;
std::string failure;  // the first
std::atomic<std::size_t> fallbacks = 0;

std::string what_there_is(const Gpus& gpus) {
  if (gpus.all.empty()) return gpus.why_none;
  std::string list = "there is ";
  for (std::size_t i = 0; i < gpus.all.size(); ++i) {
    list += (i == 0 ? "" : ", ") + gpus.all[i].text();
  }
  return list;
}

}  // namespace

std::string Device::text() const { return is_cpu() ? "cpu" : fmt::format("cuda:{}", cuda); }

std::string GpuInfo::text() const {
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  return fmt::format("{} ({}, {:.0f} GiB)", device.text(), name,
                     static_cast<double>(memory) / kGib);
}

std::string gpu_failure() {
  const std::lock_guard<std::mutex> lock(failure_mutex);
  return failure;
}

void give_up_gpus(const std::string& why) {
  const std::lock_guard<std::mutex> lock(failure_mutex);
  if (failure.empty()) failure = why;
  gpus_failed = true;
}

std::size_t gpu_fallbacks() { return fallbacks; }
void count_gpu_fallback() { ++fallbacks; }

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
  throw Error(Error::Kind::kUsage, fmt::format("{} cannot be used: {}; device cpu does without it",
                                               text, what_there_is(gpus)));
}

Compute::Compute(std::size_t threads, Device device) : threads_(threads), device_(device) {}
Compute::~Compute() = default;

Device Compute::device() const { return gpus_failed ? Device() : device_; }

Gpu* Compute::gpu() {
  if (device().is_cpu()) return nullptr;
  if (gpu_ == nullptr) gpu_ = std::make_unique<Gpu>(device_.cuda);
  return gpu_.get();
}

}  // namespace contcore
