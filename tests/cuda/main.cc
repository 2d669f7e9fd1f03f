// The GPU's answers against the processor's. Without a GPU nothing is tested, and that is said.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "contcore/device.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const contcore::Gpus gpus = contcore::find_gpus();
  if (gpus.all.empty()) {
    std::printf("NOT TESTED: %s\n", gpus.why_none.c_str());
    return 77;
  }
  std::printf("on %s\n", gpus.all.front().name.c_str());
  const int failed = RUN_ALL_TESTS();
  // What the processor took over would agree with itself.
  const std::string failure = contcore::gpu_failure();
  if (failure.empty()) return failed;
  std::printf("the GPU failed: %s\n", failure.c_str());
  return 1;
}
