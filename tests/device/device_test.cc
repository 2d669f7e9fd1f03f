#include "contcore/device.h"

#include <gtest/gtest.h>

#include "contcore/compute.h"
#include "contcore/error.h"
#include "device/gpu.h"
#include "device/one_each.h"
#include "device/or_processor.h"

namespace contcore {
namespace {

std::string refusal(const std::string& text) {
  try {
    Device::parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    return error.what();
  }
  return "";
}

TEST(DeviceTest, TheProcessorIsADevice) {
  EXPECT_EQ(Device::parse("cpu"), Device());
  EXPECT_EQ(Device::parse("cpu").text(), "cpu");
  EXPECT_EQ(Device{1}.text(), "cuda:1");
  Compute compute(1);
  EXPECT_EQ(compute.gpu(), nullptr);
}

TEST(DeviceTest, AutoIsWhatIsThere) {
  const Gpus gpus = find_gpus();
  EXPECT_EQ(Device::parse("auto"), gpus.all.empty() ? Device() : gpus.all.front().device);
  EXPECT_EQ(gpus.all.empty(), !gpus.why_none.empty());
}

TEST(DeviceTest, WordsThatAreNoDeviceAreRefused) {
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "CPU"}) {
    EXPECT_NE(refusal(text).find("is not a device"), std::string::npos) << text;
  }
}

TEST(DeviceTest, AGpuThatIsNotThereIsRefusedWithTheReasonAndTheRemedy) {
  const std::string text = refusal("cuda:99");
  EXPECT_NE(text.find("cuda:99 cannot be used: "), std::string::npos) << text;
  EXPECT_NE(text.find("device cpu does without it"), std::string::npos) << text;
  Compute compute(1, Device{99});
  EXPECT_THROW(compute.gpu(), Error);
}

TEST(DeviceTest, WhatAGpuCannotDoTheProcessorDoes) {
  Compute compute(2, Device{99});
  const std::size_t before = gpu_fallbacks();
  const auto work = [](Compute& with) {
    if (!with.device().is_cpu()) throw GpuMemoryError("it is full");
    return with.threads().count();
  };
  EXPECT_EQ(or_processor(compute, work), 2u);
  EXPECT_EQ(gpu_fallbacks(), before + 1);
  EXPECT_THROW(or_processor(compute, [](Compute&) { throw Error(Error::Kind::kInput, "bad"); }),
               Error);
  EXPECT_EQ(gpu_fallbacks(), before + 1);
  EXPECT_EQ(gpu_failure(), "");
}

TEST(DeviceTest, EachWorkerHasAComputeOfTheCrewsDevice) {
  Compute crew(3, Device{99});
  OneEach each(crew);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(each[i].threads().count(), 1u);
    EXPECT_EQ(each[i].device(), Device{99});
  }
}

}  // namespace
}  // namespace contcore
