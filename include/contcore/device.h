// Where the work can be done: the processor, or a GPU.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace contcore {

struct Device {
  int cuda = -1;  ///< the GPU's number; −1: the processor

  bool is_cpu() const { return cuda < 0; }
  std::string text() const;  ///< "cpu", "cuda:0"
  bool operator==(const Device&) const = default;

  /// "cpu"; "cuda" or "cuda:1", a GPU; "auto", the first GPU if one can be used, else the
  /// processor. Throws Error (kUsage) on another text, and on a GPU that is not there: it says why
  /// and what there is.
  static Device parse(const std::string& text);
};

/// A GPU that can be used.
struct GpuInfo {
  Device device;
  std::string name;
  int major = 0, minor = 0;  ///< compute capability
  std::size_t memory = 0;    ///< bytes in all

  std::string text() const;  ///< "cuda:0 (NVIDIA H200, 140 GiB)"
};

/// The GPUs there are, and why there is none, if that is so: built without CUDA, no driver, …
struct Gpus {
  std::vector<GpuInfo> all;
  std::string why_none;
};
Gpus find_gpus();

/// Bytes of a GPU that can be had now; 0 for the processor, and where it cannot be told.
std::size_t free_memory(const Device& device);

/// What went wrong with a GPU, if something did: this process uses none any more, and the processor
/// does the rest. Empty: nothing did. Too little memory is no such failure.
std::string gpu_failure();

/// How often the processor did what a GPU could not.
std::size_t gpu_fallbacks();

}  // namespace contcore
